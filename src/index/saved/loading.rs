//! Reads an index: its metadata, then ids, lists and rows, in the order of the file.

use std::fmt;
use std::path::Path;

use crate::elements::{ElementKind, Elements, HostVectors, Matrix};
use crate::engine::{Edit, Placing, Vectors, change};
use crate::error::{Error, Result};
use crate::files::mismatch;
use crate::index::common::{Resources, Settings};
use crate::index::file::{Dtype, Reader};
use crate::index::quantizing;
use crate::index::saved::contents::{PIECE_BYTES, SavedDocuments, SavedIndex, SavedKind, SavedLists};
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Tag;
use crate::store::{ID_LIMIT, MAX_DIM, RowStore};

/// An index that is being loaded. Its description fits together.
pub struct Loading<'a> {
    reader: Reader<'a>,
    pub(crate) about: SavedIndex,
}

impl fmt::Debug for Loading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading").field("about", &self.about).finish_non_exhaustive()
    }
}

impl SavedIndex {
    /// Reads the metadata of a file. It needs no device; the rows are checked when the index is loaded.
    ///
    /// # Errors
    /// [`Error::File`] when the file is no index of nearfield, or one of another version, or damaged; [`Error::Io`] when it cannot be
    /// read.
    ///
    /// ```no_run
    /// let saved = nearfield::SavedIndex::read("index.nf")?;
    /// println!("{} rows of {} elements", saved.rows, saved.dim);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Loading::new(Reader::open(path.as_ref())?, &SavedKind::ALL)?.about)
    }

    /// Reads how many rows each list of a file has; none for the file of another index than an [`Ivf`](crate::Ivf).
    ///
    /// # Errors
    /// As [`SavedIndex::read`].
    pub fn list_sizes(path: impl AsRef<Path>) -> Result<Option<Vec<u64>>> {
        let loading = Loading::new(Reader::open(path.as_ref())?, &SavedKind::ALL)?;
        let lists = loading.about.lists.filter(|_| loading.about.documents.is_none());
        let offsets = lists.map(|lists| loading.offsets(lists)).transpose()?;
        Ok(offsets.map(|offsets| offsets.windows(2).map(|ends| ends[1] - ends[0]).collect()))
    }
}

impl<'a> Loading<'a> {
    /// Starts to read an index of one of these kinds.
    pub(crate) fn new(reader: Reader<'a>, kinds: &[SavedKind]) -> Result<Self> {
        let names = "flat, ivf or multivector";
        let word: String = reader.get("index", names)?;
        let Some(kind) = SavedKind::ALL.into_iter().find(|kind| kind.word() == word) else {
            let needed = format!("metadata `index`, {names}");
            return Err(mismatch(reader.path(), needed, format!("{word:?}")));
        };
        let metric: Metric = reader.get("metric", Metric::NAMES)?;
        let needed = format!("1 to {MAX_DIM}");
        let dim: usize = reader.get("dim", &needed)?;
        if dim == 0 || dim > MAX_DIM {
            return Err(mismatch(reader.path(), format!("metadata `dim`, {needed}"), format!("{dim}")));
        }
        let Tag(quantization) = reader.get("screen", "auto, none or i8")?;
        let quantizes = reader.has("quantises") && reader.get::<String>("quantises", "yes")? == "yes";
        let next: u64 = reader.get("next", "a whole number")?;
        let (elements, rows) = reader.rows("rows", dim)?;
        let elements = of_metric(reader.path(), metric, elements)?;
        let documents = match kind {
            SavedKind::MultiVector => Some(reader.length("ids")?),
            _ => None,
        };
        // Every row, or document, that was added counts.
        let count = documents.unwrap_or(rows);
        if next < count as u64 || next > ID_LIMIT {
            let needed = format!("metadata `next`, from {count}, the number of ids, to {ID_LIMIT}");
            return Err(mismatch(reader.path(), needed, next.to_string()));
        }
        if kind == SavedKind::MultiVector && metric != Metric::OF_TOKENS {
            let needed = format!("metadata `metric`, {}, for documents", Metric::OF_TOKENS.name());
            return Err(mismatch(reader.path(), needed, metric.name()));
        }
        if kind == SavedKind::Ivf && metric.dim_of_centroids(dim) > MAX_DIM {
            let needed = format!("metadata `dim`, 1 to {} for lists of bits", MAX_DIM / 8);
            return Err(mismatch(reader.path(), needed, dim.to_string()));
        }
        // The centroids' type is checked where they are read.
        let has_lists = match kind {
            SavedKind::Flat => false,
            SavedKind::Ivf => true,
            SavedKind::MultiVector => reader.has_tensor("centroids"),
        };
        let lists = match has_lists {
            true => Some(reader.rows("centroids", metric.dim_of_centroids(dim))?.1),
            false => None,
        };
        let parts = reader.parts();
        let about = SavedIndex {
            lists,
            documents,
            metric,
            dim,
            elements,
            quantizes,
            rows,
            quantization,
            next,
            parts,
        };
        if quantizes && !quantizing::can_store(metric, elements) {
            let needed = "rows of a type that others are quantised to under its metric";
            return Err(mismatch(reader.path(), needed, format!("{elements} under the metric {metric}")));
        }
        if !kinds.contains(&kind) {
            let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
            let needed = format!("an index of kind {}", words.join(" or "));
            return Err(mismatch(reader.path(), needed, format!("one of kind {}", kind.word())));
        }
        Ok(Self { reader, about })
    }

    /// The settings of the index. Memory for the expected rows is taken at once where all of them are known to be there.
    pub(crate) fn settings(&self, resources: Resources, expected: usize) -> Settings {
        let SavedIndex { metric, dim, elements, quantizes, quantization, .. } = self.about;
        let expected = if self.reader.has_length() { expected } else { 0 };
        let capacity = resources.capacity.max(expected);
        let resources = Resources { capacity, ..resources };
        Settings { resources, metric, dim, elements, quantizes, quantization }
    }

    /// Bytes of the whole index.
    pub(crate) fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    /// The path of the file, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.reader.path()
    }

    /// The ids of the rows, or of the documents.
    pub(crate) fn ids(&self) -> Result<Vec<u64>> {
        self.reader.u64s("ids", &[self.about.documents.unwrap_or(self.about.rows)])
    }

    /// The documents, each of one token or more.
    pub(crate) fn documents(&self) -> Result<SavedDocuments> {
        let (ids, rows) = (self.ids()?, self.about.rows as u64);
        let offsets = self.reader.u64s("document_offsets", &[ids.len() + 1])?;
        let ascends = offsets.windows(2).all(|ends| ends[0] < ends[1]);
        if offsets[0] != 0 || offsets[ids.len()] != rows || !ascends {
            let needed =
                format!("tensor document_offsets that ascends from 0 to {rows}, the number of tokens");
            return Err(mismatch(self.reader.path(), needed, "another"));
        }
        let centroids = self.about.lists.map(|lists| self.centroids(lists)).transpose()?;
        Ok(SavedDocuments { ids, offsets, next: self.about.next, centroids })
    }

    /// The lists, whose offsets ascend from 0 to the number of rows.
    pub(crate) fn lists(&self) -> Result<SavedLists> {
        let lists = self.about.lists.unwrap_or(0);
        Ok(SavedLists { offsets: self.offsets(lists)?, centroids: self.centroids(lists)? })
    }

    /// The centroids of lists, `[lists, dim]`.
    fn centroids(&self, lists: usize) -> Result<Vec<f32>> {
        let (dim, path) = (self.about.metric.dim_of_centroids(self.about.dim), self.reader.path());
        let mut pieces = self.reader.tensor("centroids", Dtype::F32, &[lists, dim], PIECE_BYTES)?;
        let mut centroids = vec![];
        while let Some(piece) = pieces.next_piece()? {
            let len = centroids.len() + piece.len() / size_of::<f32>();
            memory::reserve(&mut centroids, len)?;
            centroids.extend(piece.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)));
        }
        if !centroids.iter().all(|value| value.is_finite()) {
            return Err(mismatch(path, "centroids of finite values", "a NaN or an infinity"));
        }
        // Rows are at most 2^50 long, and their means hardly longer.
        let is_mean = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() <= 2f64.powi(102);
        if let Some(list) = centroids.chunks_exact(dim).position(|row| !is_mean(row)) {
            let found = format!("a longer one of list {list}");
            return Err(mismatch(path, "centroids no longer than 2^51", found));
        }
        Ok(centroids)
    }

    /// Where each list starts, and the end of the last, `[lists + 1]`.
    fn offsets(&self, lists: usize) -> Result<Vec<u64>> {
        let (rows, path) = (self.about.rows as u64, self.reader.path());
        if lists == 0 || u32::try_from(lists).is_err() {
            return Err(mismatch(path, format!("1 to {} lists", u32::MAX), lists.to_string()));
        }
        let offsets = self.reader.u64s("list_offsets", &[lists + 1])?;
        if offsets[0] != 0 || offsets[lists] != rows || !offsets.is_sorted() {
            let needed = format!("tensor list_offsets that ascends from 0 to {rows}, the number of rows");
            return Err(mismatch(path, needed, "another"));
        }
        Ok(offsets)
    }

    /// Puts the rows with these ids into slots, one per row, of a store without rows.
    pub(crate) async fn fill(&self, store: &mut RowStore, ids: &[u64], slots: &[u32]) -> Result<()> {
        self.fill_rows(store, (Some(ids), slots)).await?;
        store.go_on_with(self.about.next);
        Ok(())
    }

    /// The same for rows without ids of their own, which have the numbers of their slots.
    pub(crate) async fn fill_rows(
        &self,
        store: &mut RowStore,
        (ids, slots): (Option<&[u64]>, &[u32]),
    ) -> Result<()> {
        let SavedIndex { dim, elements, rows, .. } = self.about;
        let row_bytes = dim * elements.size();
        let piece_bytes = elements.rows_of_piece(dim) * row_bytes;
        let mut pieces = self.reader.tensor("rows", elements.dtype(), &[rows, dim], piece_bytes)?;
        let mut done = 0;
        while let Some(piece) = pieces.next_piece()? {
            let copy;
            let rows: Vectors<'_> = match Elements::of_bytes(elements, piece) {
                Some(values) => HostVectors::of_whole_rows(values, dim).into(),
                // The bytes of a piece may lie anywhere.
                None => {
                    copy = Matrix::of_bytes(elements, piece, dim)?;
                    (&copy).into()
                }
            };
            let range = done..done + rows.rows();
            let slots = &slots[range.clone()];
            let added = match ids {
                Some(ids) => store.add_at(rows, Some(&ids[range.clone()]), slots, &mut |_| ()).await,
                None => {
                    let ids = memory::collect(slots.iter().map(|&slot| u64::from(slot)))?;
                    let edit = Edit::put(rows, &Placing { slots, ids: &ids, freed: &[] });
                    change(&mut store.rows, edit, &mut |_| ()).await
                }
            };
            added.map_err(|error| blame(self.reader.path(), error.with_rows(|row| done as u64 + row)))?;
            done = range.end;
        }
        Ok(())
    }
}

/// The element type of rows whose tensor has this one: the metric tells which bytes are of bits.
pub(in crate::index) fn of_metric(path: &Path, metric: Metric, stored: ElementKind) -> Result<ElementKind> {
    match (metric.counts_bits(), stored) {
        (true, ElementKind::U8 | ElementKind::Bits) => Ok(ElementKind::Bits),
        (true, other) => {
            Err(mismatch(path, format!("rows of U8 for the metric {metric}"), format!("rows of {other}")))
        }
        (false, other) => Ok(other),
    }
}

/// Turns the error of rows or ids that no index has into one of the file.
pub(crate) fn blame(path: &Path, error: Error) -> Error {
    match error {
        Error::DuplicateId { .. }
        | Error::IdTooLarge { .. }
        | Error::NotFinite { .. }
        | Error::NormOutOfRange { .. } => mismatch(path, "rows and ids of an index", error.to_string()),
        other => other,
    }
}
