//! What saving and loading is for every index: rows with their ids, piece by piece. The files are those of [`index_file`](crate::index::file).

use std::path::Path;

use half::f16;

use crate::engine::Screen;
use crate::error::{Error, Result};
use crate::files::mismatch;
use crate::index::file::{self, Dtype, Pieces, Reader, Writer};
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::metric::Metric;
use crate::store::{ID_LIMIT, MAX_DIM, RowStore};

/// Bytes of rows on the host at a time: enough that the device and the disk are busy.
const PIECE_BYTES: usize = 16 << 20;
/// Ids that are written at a time.
const PIECE_IDS: usize = 1 << 16;

/// What a saved index is, as its file says: see [`Flat::save`](crate::Flat::save) and [`Ivf::save`](crate::Ivf::save).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SavedIndex {
    /// The lists of an [`Ivf`](crate::Ivf); none for a [`Flat`](crate::Flat).
    pub lists: Option<usize>,
    /// The metric.
    pub metric: Metric,
    /// Elements a row.
    pub dim: usize,
    /// How rows are stored.
    pub elements: ElementKind,
    /// How many rows there are.
    pub rows: usize,
    /// The screen that was asked for.
    pub screen: Screen,
}

impl SavedIndex {
    /// Reads what a file says of itself, which needs no device. What is in it is checked when it is loaded.
    ///
    /// # Errors
    /// [`Error::File`] when it is no index of nearfield, or one of another version, or damaged; [`Error::Io`] when it cannot be read.
    ///
    /// ```no_run
    /// let saved = nearfield::SavedIndex::read("index.nf")?;
    /// println!("{} rows of {} elements", saved.rows, saved.dim);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Loading::any(path.as_ref())?.about)
    }
}

/// The word of an index with or without lists in its file.
fn word(has_lists: bool) -> &'static str {
    if has_lists { "ivf" } else { "flat" }
}

/// The lists of an index.
pub(crate) struct Lists {
    /// Of rows in their order, `[lists + 1]`.
    pub(crate) offsets: Vec<u64>,
    /// `[lists, dim]`
    pub(crate) centroids: Vec<f32>,
}

/// An index to save.
pub(crate) struct Saving<'a> {
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) elements: ElementKind,
    pub(crate) screen: Screen,
    pub(crate) store: &'a RowStore,
    /// The slots of all rows, in the order in which they will be in the file.
    pub(crate) slots: Vec<u32>,
    pub(crate) lists: Option<Lists>,
}

impl Saving<'_> {
    /// Writes the file, which takes its place when all of it is on the disk.
    pub(crate) async fn save(&self, path: &Path) -> Result<()> {
        let metadata = [
            ("index", word(self.lists.is_some()).to_owned()),
            ("metric", self.metric.name().to_owned()),
            ("dim", self.dim.to_string()),
            ("screen", self.screen.name().to_owned()),
            ("next", self.store.next_number().to_string()),
        ];
        let rows = self.slots.len();
        let lists = self.lists.as_ref().map_or(0, |lists| lists.offsets.len() - 1);
        let (offsets_shape, centroids_shape) = ([lists + 1], [lists, self.dim]);
        let (ids_shape, rows_shape) = ([rows], [rows, self.dim]);
        let mut tensors: Vec<(&str, Dtype, &[usize])> = vec![("ids", Dtype::U64, &ids_shape)];
        if self.lists.is_some() {
            tensors.push(("list_offsets", Dtype::U64, &offsets_shape));
            tensors.push(("centroids", Dtype::F32, &centroids_shape));
        }
        tensors.push(("rows", file::dtype(self.elements), &rows_shape));
        let mut writer = Writer::create(path, &metadata, &tensors)?;
        for slots in self.slots.chunks(PIECE_IDS) {
            let ids = slots.iter().filter_map(|&slot| self.store.id_of(slot));
            writer.write("ids", &ids.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())?;
        }
        if let Some(lists) = &self.lists {
            let offsets = lists.offsets.iter().flat_map(|offset| offset.to_le_bytes());
            writer.write("list_offsets", &offsets.collect::<Vec<u8>>())?;
            let values = lists.centroids.iter().flat_map(|value| value.to_le_bytes());
            writer.write("centroids", &values.collect::<Vec<u8>>())?;
        }
        let piece = (PIECE_BYTES / (self.dim * self.elements.size())).max(1);
        for slots in self.slots.chunks(piece) {
            writer.write("rows", &self.store.fetch_bytes(slots).await?)?;
        }
        writer.finish()
    }
}

/// A file whose index is loaded.
pub(crate) struct Loading {
    reader: Reader,
    pub(crate) about: SavedIndex,
    /// The next insertion number.
    next: u64,
}

impl Loading {
    /// Opens the file of an index with lists, or of one without. What it says of itself fits together then.
    pub(crate) fn open(path: &Path, with_lists: bool) -> Result<Self> {
        let loading = Self::any(path)?;
        let found = loading.about.lists.is_some();
        if found != with_lists {
            let needed = format!("an index of kind {}", word(with_lists));
            return Err(mismatch(path, needed, format!("one of kind {}", word(found))));
        }
        Ok(loading)
    }

    fn any(path: &Path) -> Result<Self> {
        let reader = Reader::open(path)?;
        let kind: String = reader.get("index", "flat or ivf")?;
        let metric = reader.get("metric", "l2sq, l2, cosine or ip")?;
        let needed = format!("1 to {MAX_DIM}");
        let dim: usize = reader.get("dim", &needed)?;
        if dim == 0 || dim > MAX_DIM {
            return Err(mismatch(path, format!("metadata `dim`, {needed}"), format!("{dim}")));
        }
        let screen = reader.get("screen", "auto, none or i8")?;
        let next: u64 = reader.get("next", "a whole number")?;
        let (elements, rows) = reader.rows("rows", dim)?;
        // Every row that was added has counted.
        if next < rows as u64 || next > ID_LIMIT {
            let needed = format!("metadata `next`, from {rows}, the number of rows, to {ID_LIMIT}");
            return Err(mismatch(path, needed, next.to_string()));
        }
        // The centroids' type is checked where they are read.
        let lists = match kind.as_str() {
            "flat" => None,
            "ivf" => Some(reader.rows("centroids", dim)?.1),
            other => return Err(mismatch(path, "metadata `index`, flat or ivf", format!("{other:?}"))),
        };
        let about = SavedIndex { lists, metric, dim, elements, rows, screen };
        Ok(Self { reader, about, next })
    }

    /// The lists. Their offsets ascend from 0 to the number of rows.
    pub(crate) fn lists(&self) -> Result<Lists> {
        let (dim, rows, path) = (self.about.dim, self.about.rows as u64, self.reader.path());
        let lists = self.about.lists.unwrap_or(0);
        if lists == 0 || u32::try_from(lists).is_err() {
            return Err(mismatch(path, format!("1 to {} lists", u32::MAX), lists.to_string()));
        }
        let offsets = self.reader.u64s("list_offsets", &[lists + 1])?;
        if offsets[0] != 0 || offsets[lists] != rows || !offsets.is_sorted() {
            let needed = format!("tensor list_offsets that ascends from 0 to {rows}, the number of rows");
            return Err(mismatch(path, needed, "another"));
        }
        let mut pieces = self.reader.tensor("centroids", Dtype::F32, &[lists, dim], PIECE_BYTES)?;
        let mut centroids = vec![];
        while let Some(piece) = pieces.next_piece()? {
            centroids.extend(piece.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)));
        }
        if !centroids.iter().all(|value| value.is_finite()) {
            return Err(mismatch(path, "centroids of finite values", "a NaN or an infinity"));
        }
        // Rows are no longer than 2^50, and their means hardly.
        let is_mean = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() <= 2f64.powi(102);
        if let Some(list) = centroids.chunks_exact(dim).position(|row| !is_mean(row)) {
            return Err(mismatch(
                path,
                "centroids no longer than 2^51",
                format!("a longer one of list {list}"),
            ));
        }
        Ok(Lists { offsets, centroids })
    }

    /// Puts the rows into these slots, one a row, of a store that has none.
    pub(crate) async fn fill(&self, store: &mut RowStore, slots: &[u32]) -> Result<()> {
        let SavedIndex { dim, elements, rows, .. } = self.about;
        let ids = self.reader.u64s("ids", &[rows])?;
        let row_bytes = dim * elements.size();
        let piece_bytes = (PIECE_BYTES / row_bytes).max(1) * row_bytes;
        let dtype = file::dtype(elements);
        let pieces = self.reader.tensor("rows", dtype, &[rows, dim], piece_bytes)?;
        match elements {
            ElementKind::F32 => self.pour(store, pieces, &ids, slots, f32::from_le_bytes).await?,
            ElementKind::F16 => self.pour(store, pieces, &ids, slots, f16::from_le_bytes).await?,
        }
        store.go_on_with(self.next);
        Ok(())
    }

    async fn pour<T: Element, const BYTES: usize>(
        &self,
        store: &mut RowStore,
        mut pieces: Pieces<'_>,
        ids: &[u64],
        slots: &[u32],
        element: impl Fn([u8; BYTES]) -> T,
    ) -> Result<()> {
        let dim = self.about.dim;
        let mut done = 0;
        let mut values: Vec<T> = vec![];
        while let Some(piece) = pieces.next_piece()? {
            values.clear();
            values.extend(piece.as_chunks().0.iter().map(|bytes| element(*bytes)));
            let rows = MatrixView::new(&values, dim)?;
            let range = done..done + rows.rows();
            let (ids, slots) = (&ids[range.clone()], &slots[range.clone()]);
            let added = store.add_at(rows.into(), Some(ids), slots, &mut |_| ()).await;
            added.map_err(|error| self.blame(error, done as u64))?;
            done = range.end;
        }
        Ok(())
    }

    /// Rows and ids that no index has are the file's fault. `first` is the number of the first row of the piece.
    fn blame(&self, error: Error, first: u64) -> Error {
        let error = match error {
            Error::NotFinite { argument, row } => Error::NotFinite { argument, row: first + row },
            Error::NormOutOfRange { argument, row } => Error::NormOutOfRange { argument, row: first + row },
            other => other,
        };
        match error {
            Error::DuplicateId { .. }
            | Error::IdTooLarge { .. }
            | Error::NotFinite { .. }
            | Error::NormOutOfRange { .. } => {
                mismatch(self.reader.path(), "rows and ids of an index", error.to_string())
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
