//! The trait [`Rows`]: an index calls it, and knows nothing else of where its rows are. [`GpuRows`] and `ListedRows` implement it for
//! one engine, `HybridRows` for rows on the host with a quantised copy on a GPU, `Parts` for several devices, and `MirroredRows` for rows
//! with a second copy on the host. Rows have the lists of an `Ivf` too: wherever they go, the lists go with them.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::handle::Device;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::device::vectors::Vectors;
use crate::engine::documents;
use crate::engine::documents::request::{DocumentRequest, Found};
use crate::engine::documents::tokens::{TokenVectors, side_by_side};
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::given::GivenCentroids;
use crate::engine::parts::devices::Devices;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::graph::IdOf;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::TunedKernel;
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::host::HostRows;
use crate::memory;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// Rows to move from slots to as many others.
pub(crate) type Moves = (Vec<u32>, Vec<u32>);

/// Numbers of slots, ascending.
pub(crate) type Slots<'s> = Box<dyn Iterator<Item = u32> + 's>;

/// Rows to copy, and their slot for each slot of the index.
#[derive(Clone, Copy)]
pub(crate) struct RowSource<'s> {
    pub(crate) rows: &'s dyn Rows,
    pub(crate) slot_of: &'s (dyn Fn(u32) -> Result<u32> + Sync),
}

/// The rows of a lost device on another one.
pub(crate) struct Recovered {
    pub(crate) place: usize,
    pub(crate) devices: Devices,
    pub(crate) rows: Box<dyn Rows>,
}

/// The rows of an index, by slot.
pub(crate) trait Rows: Debug + Send + Sync {
    /// Where the rows are: all devices have them in one place.
    fn residency(&self) -> Residency;

    /// How much of the rows a GPU has.
    fn kept(&self) -> Residency {
        Residency::Device
    }

    /// Whether there is a quantised copy of the rows.
    fn is_quantized(&self) -> bool;

    /// The rows on a GPU, or their quantised copy there.
    fn on_gpu(&self) -> Option<&GpuRows> {
        None
    }

    /// The rows, where the host has them: in memory or in a file.
    fn on_host(&self) -> Option<&HostRows> {
        None
    }

    /// Which slots below the end have a row; none when all have.
    fn alive(&self) -> Option<&Bits>;

    /// One past the last slot that has a row.
    fn end(&self) -> u64;

    fn len(&self) -> u64;

    fn measure(&self, memory: &mut Memory);

    /// How a search for the k nearest would run.
    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan>;

    /// Searches all rows, or those of the lists that are nearest to each query. Distances of L2 are its squares.
    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult>;

    /// The k nearest other rows of every row that is allowed, slot by slot; none where searches for all rows take no longer, or where there
    /// is too little memory. Distances of L2 are its squares.
    fn graph<'f>(
        &'f self,
        _request: &'f SearchRequest<'f>,
        _id_of: IdOf<'f>,
    ) -> Boxed<'f, Option<Neighbors>> {
        Box::pin(ready(Ok(None)))
    }

    /// The documents of largest MaxSim for each query, and those of the same score as the last, where rows are the tokens of documents.
    fn search_documents<'f>(
        &'f self,
        queries: &'f TokenVectors<'f>,
        request: &'f DocumentRequest<'f>,
    ) -> Boxed<'f, Found> {
        documents::search((self.on_gpu(), self.on_host()), queries, request)
    }

    /// The first slots of documents with these numbers of tokens, from slot `start` on: those of a document lie side by side on one device.
    fn place_documents(&mut self, start: u32, lengths: &[usize]) -> Result<Vec<u32>> {
        side_by_side(start, lengths)
    }

    /// Whether searches of all rows, or of this many lists a query, are faster together. On the host those that one thread answers are
    /// faster side by side.
    fn gain_together(&self, _probes: Option<u32>) -> bool {
        true
    }

    /// Searches that run side by side on different devices: replicas answer different queries.
    fn side_by_side(&self) -> usize {
        1
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>>;

    /// The rows in these slots, `[slots, dim]`: their bytes as they are stored, without padding.
    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>>;

    /// Copies of the rows in these slots on their device, to be searched for; none where they lie elsewhere, are bits in lists, or where the
    /// device has no memory or no binding for them.
    fn copies<'f>(&'f self, _slots: &'f [u32]) -> Boxed<'f, Option<DeviceMatrix>> {
        Box::pin(ready(Ok(None)))
    }

    /// Compiles the kernels of searches in these rows and in their lists, tests those that need it, and waits for both.
    fn warm_up(&self, metric: Metric) -> Boxed<'_, ()>;

    /// Times the kernels of searches in these rows, or in their lists where they have such, and uses the faster forms.
    fn tune(&self, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>>;

    /// Makes lists without pages around these centroids, and starts to compile the kernels of searches in lists.
    fn attach_lists<'f>(&'f mut self, centroids: GivenCentroids<'f>) -> Boxed<'f, ()>;

    /// Forgets the pages of lists, which a change has made wrong. Searches go through all rows from now on.
    fn forget_pages(&mut self);

    /// Sets the pages of each list, ascending, and the number of its rows, of rows that have no pages. Until this is done, and after an error,
    /// searches go through all rows.
    fn set_pages<'f>(&'f mut self, pages: &'f [Vec<u32>], sizes: &'f [u32]) -> Boxed<'f, ()>;

    /// The list of each row, which is that of its nearest centroid.
    fn assign<'f>(&'f self, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>>;

    /// The centroids of all lists, `[lists, dim]`, of bits `[lists, 8 dim]`.
    fn centroids(&self) -> Boxed<'_, Vec<f32>>;

    /// Whether new rows may be a matrix of the device.
    fn takes_matrices(&self) -> bool {
        true
    }

    /// Writes new rows into slots that have none, moves rows, or frees slots. No search sees any of it before the change is applied.
    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>>;

    /// Like [`prepare`](Self::prepare), in the host's memory, where the rows so far go with the change. The new rows of the edit are in
    /// the host's memory.
    fn prepare_on_host<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, RowChange<'a>> {
        Box::pin(async move { self.prepare(edit, progress).await?.ready() })
    }

    /// Takes over a change of these rows. Returns the rows that take the place of these, where they have left their device.
    ///
    /// # Errors
    /// Faults of this library alone: all memory was taken before.
    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>>;

    /// Drops what was written for a change.
    fn undo(&mut self, _change: &RowChange<'_>) {}

    /// Frees memory behind the end where there is much of it.
    fn shrink(&mut self) -> Result<()>;

    /// The device of a slot: rows do not move to slots of others.
    fn device_of(&self, _slot: u32) -> usize {
        0
    }

    /// One past the last of the slots that lie beside this one on its device.
    fn run_end(&self, _slot: u32) -> u32 {
        u32::MAX
    }

    /// The slots below the end, device by device; all of them once where all devices have them.
    fn slots_by_device(&self) -> Vec<Slots<'_>> {
        vec![Box::new(0..self.end() as u32)]
    }

    /// The most slots of a device, and how many of them have no row, for the device with the largest part of such.
    fn sparsest(&self) -> (u64, u64) {
        (self.end(), self.end() - self.len())
    }

    /// Copies the rows of a lost device to another one. Without a source, those of a replica.
    fn recovered<'f>(
        &'f self,
        _device: &'f Device,
        _source: Option<RowSource<'f>>,
        _id_of: &'f (dyn Fn(u32) -> u64 + Sync),
    ) -> Boxed<'f, Recovered> {
        let needed = "an index on several devices; load others from their files";
        Box::pin(async move { Err(Error::argument("recover", needed, "an index on one")) })
    }

    /// Searches a device in the place of a lost one.
    fn replace(&mut self, _recovered: Recovered) {}
}

/// The error of a call that needs lists.
pub(crate) fn without_lists() -> Error {
    Error::internal("rows that have no lists")
}

impl dyn Rows {
    /// Whether GPUs have the quantised copy alone.
    pub(crate) fn is_hybrid(&self) -> bool {
        self.kept() >= Residency::Host
    }

    /// A function that tells of any slot whether it has a row.
    pub(crate) fn has_row(&self) -> impl Fn(u32) -> bool + '_ {
        let (alive, end) = (self.alive(), self.end());
        move |slot| u64::from(slot) < end && alive.is_none_or(|bits| bits.get(slot as usize))
    }

    /// The moves after which the first slots of every device have all of its rows.
    pub(crate) fn moves(&self) -> Result<Moves> {
        let (mut from, mut to) = (vec![], vec![]);
        let has_row = self.has_row();
        for slots in self.slots_by_device() {
            let mut all: Vec<u32> = memory::with_room(self.end() as usize)?;
            all.extend(slots);
            let rows = all.iter().filter(|&&slot| has_row(slot)).count();
            let (first, last) = all.split_at(rows);
            to.extend(first.iter().copied().filter(|&slot| !has_row(slot)));
            from.extend(last.iter().copied().filter(|&slot| has_row(slot)));
        }
        Ok((from, to))
    }
}

/// Searches rows. Distances are those of the request's metric.
pub(crate) fn search_rows<'f>(
    rows: &'f dyn Rows,
    queries: &'f Vectors<'f>,
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(async move {
        let found = rows.search(queries, request).await?;
        Ok(found.with_roots(request.metric, rows.residency()))
    })
}
