//! Writes an index.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::index::common::Common;
use crate::index::file::{Dtype, Writer, digits};
use crate::index::log::place::WriterLock;
use crate::index::log::reader::Log;
use crate::index::saved::contents::{PIECE_IDS, SavedDocuments, SavedKind, SavedLists};
use crate::options::quantization::Tag;
use crate::platform::Instant;

/// The metadata that names the index whose log has the changes that this file has too.
pub(crate) const CHANGES_OF: &str = "changes_of";

/// What a file tells of the log whose changes it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checkpoint {
    /// The index that the changes are of.
    pub(crate) index: u64,
    /// The most bytes of rows that are written a second; none for as many as there can be.
    pub(crate) rate: Option<u64>,
}

/// An index to save.
#[derive(Debug)]
pub struct Saving<'a> {
    pub(crate) common: &'a Common,
    /// The slots of all rows, in the order of the file.
    pub(crate) slots: Vec<u32>,
    pub(crate) lists: Option<SavedLists>,
    pub(crate) documents: Option<SavedDocuments>,
}

impl Saving<'_> {
    /// Writes a file, which takes its place when all of it is on the disk.
    pub(crate) async fn save(&self, path: &Path) -> Result<()> {
        let of_log = WriterLock::of_log(path)?;
        self.save_alone(path).await?;
        // It has changes of the index that was there.
        of_log.map_or(Ok(()), |lock| lock.remove_log(path))
    }

    /// Writes a file, of which the log beside it is none, and leaves that.
    pub(crate) async fn save_alone(&self, path: &Path) -> Result<()> {
        let replaced = Log::index_of(path).map(|index| Checkpoint { index, rate: None });
        self.write(replaced, |metadata, tensors| Writer::create(path, metadata, tensors)).await?.finish()
    }

    /// Writes the file of an index whose log is open.
    pub(crate) async fn checkpoint(&self, path: &Path, of: Checkpoint) -> Result<()> {
        self.write(Some(of), |metadata, tensors| Writer::create(path, metadata, tensors)).await?.finish()
    }

    pub(crate) async fn to_bytes(&self) -> Result<Vec<u8>> {
        self.write(None, Writer::in_memory).await?.into_bytes()
    }

    /// Writes the bytes of the file one after the other. The header holds checksums, so all bytes are computed once before it.
    pub(crate) async fn save_to(&self, writer: &mut (dyn Write + Send)) -> Result<()> {
        let header = self.write(None, Writer::of_checksums).await?.into_header()?;
        self.write(None, |_, _| Writer::behind(header, writer)).await?.finish()
    }

    /// Writes all tensors to the writer that `start` makes.
    async fn write<'w>(
        &self,
        checkpoint: Option<Checkpoint>,
        start: impl FnOnce(&[(&str, String)], &[(&str, Dtype, &[usize])]) -> Result<Writer<'w>>,
    ) -> Result<Writer<'w>> {
        let common = self.common;
        let (kind, next) = match (&self.lists, &self.documents) {
            (_, Some(documents)) => (SavedKind::MultiVector, documents.next),
            (Some(_), None) => (SavedKind::Ivf, common.store.next_number()),
            (None, None) => (SavedKind::Flat, common.store.next_number()),
        };
        let mut metadata = vec![
            ("index", kind.word().to_owned()),
            ("metric", common.metric.name().to_owned()),
            ("dim", common.dim.to_string()),
            ("screen", Tag(common.quantization).to_string()),
            ("next", next.to_string()),
        ];
        if common.quantizes {
            metadata.push(("quantises", "yes".to_owned()));
        }
        if let Some(Checkpoint { index, .. }) = checkpoint {
            metadata.push((CHANGES_OF, digits(index)));
        }
        let rows = self.slots.len();
        let of_tokens = self.documents.as_ref().and_then(|documents| documents.centroids.as_ref());
        let centroids = self.lists.as_ref().map(|lists| &lists.centroids).or(of_tokens);
        let dim_of_centroids = common.metric.dim_of_centroids(common.dim);
        let lists = centroids.map_or(0, |centroids| centroids.len() / dim_of_centroids);
        let (offsets_shape, centroids_shape) = ([lists + 1], [lists, dim_of_centroids]);
        let documents = self.documents.as_ref().map(|documents| documents.ids.len());
        let (ids_shape, rows_shape) = ([documents.unwrap_or(rows)], [rows, common.dim]);
        let ends_shape = [documents.unwrap_or(0) + 1];
        let mut tensors: Vec<(&str, Dtype, &[usize])> = vec![("ids", Dtype::U64, &ids_shape)];
        if self.lists.is_some() {
            tensors.push(("list_offsets", Dtype::U64, &offsets_shape));
        }
        if self.documents.is_some() {
            tensors.push(("document_offsets", Dtype::U64, &ends_shape));
        }
        if centroids.is_some() {
            tensors.push(("centroids", Dtype::F32, &centroids_shape));
        }
        tensors.push(("rows", common.elements.dtype(), &rows_shape));
        let mut writer = start(&metadata, &tensors)?;
        let of_rows = if self.documents.is_some() { &[] } else { &self.slots[..] };
        for slots in of_rows.chunks(PIECE_IDS) {
            let ids = slots.iter().filter_map(|&slot| common.store.id_of(slot));
            writer.write("ids", &ids.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())?;
        }
        if let Some(lists) = &self.lists {
            writer.write("list_offsets", bytemuck::cast_slice(&lists.offsets))?;
        }
        if let Some(SavedDocuments { ids, offsets, .. }) = &self.documents {
            writer.write("ids", bytemuck::cast_slice(ids))?;
            writer.write("document_offsets", bytemuck::cast_slice(offsets))?;
        }
        if let Some(centroids) = centroids {
            writer.write("centroids", bytemuck::cast_slice(centroids))?;
        }
        let (start, mut done) = (Instant::now(), 0);
        for slots in self.slots.chunks(common.piece()) {
            let bytes = common.store.rows.fetch_bytes(slots).await?;
            writer.write("rows", &bytes)?;
            done += bytes.len();
            if let Some(rate) = checkpoint.and_then(|checkpoint| checkpoint.rate) {
                let due = Duration::try_from_secs_f64(done as f64 / rate as f64).unwrap_or(Duration::MAX);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
        }
        Ok(writer)
    }
}
