//! Rows on a device in slots that a test chooses, where an index would choose them: in any order, with tombstones, far behind the end.

use std::sync::Arc;

use crate::elements::{ElementKind, MatrixView};
use crate::engine::rows::open::open_on;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::{
    Device, Edit, GivenCentroids, Placing, RowShape, Rows, SearchRequest, SearchResult, Vectors, change,
};
use crate::error::{Error, Result};
use crate::gpu::{Commands, words};
use crate::metric::{Form, Metric};
use crate::neighbors::Neighbors;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;

/// Scratch memory of a search.
const BUDGET_BYTES: u64 = 512 << 10;

/// Rows of f32 in slots.
#[derive(Debug)]
pub struct Slots {
    device: Device,
    metric: Metric,
    rows: Box<dyn Rows>,
}

impl Slots {
    /// Makes an index without rows that expects this many.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(
        device: &Device,
        metric: Metric,
        dim: usize,
        quantization: Quantization,
        expected: u64,
    ) -> Result<Self> {
        let (elements, kept, is_fallback, streams) = (ElementKind::F32, Residency::Device, false, false);
        let shape = RowShape { metric, elements, dim, expected, quantization, kept, is_fallback, streams };
        let rows = device.block_on(open_on(device, &shape))?;
        Ok(Self { device: device.clone(), metric, rows })
    }

    /// Puts rows `[n, dim]` into slots `[n]` without a row, and gives up others.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Argument`] for values that are not finite.
    pub fn put<'v>(
        &mut self,
        rows: impl Into<Vectors<'v>>,
        (slots, ids): (&[u32], &[u64]),
        freed: &[u32],
    ) -> Result<()> {
        self.changed(Edit::put(rows.into(), &Placing { slots, ids, freed }))
    }

    fn changed(&mut self, edit: Arc<Edit<'_>>) -> Result<()> {
        let Self { device, rows, .. } = self;
        device.block_on(change(rows, edit, &mut |_| ()))
    }

    /// Gives up the rows in these slots.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn release(&mut self, freed: &[u32]) -> Result<()> {
        self.changed(Edit::release(freed))
    }

    /// Moves rows to slots without a row.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        self.changed(Edit::relocate(from, to))
    }

    /// Gives up memory behind the end.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn shrink(&mut self) -> Result<()> {
        self.rows.shrink()
    }

    /// One more than the last slot with a row, and the number of rows.
    pub fn end_and_len(&self) -> [u64; 2] {
        [self.rows.end(), self.rows.len()]
    }

    /// How many rows each segment of the device's memory has room for.
    pub fn capacities(&self) -> Vec<u32> {
        let segments = self.rows.on_gpu().map_or(&[][..], |rows| &rows.segments);
        segments.iter().map(|segment| segment.capacity).collect()
    }

    /// One bit a slot, 32 in a word, as the device has them: whether there is a row. None while all slots below the end have one.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn alive(&self) -> Result<Option<Vec<u32>>> {
        let Some(alive) = self.rows.on_gpu().and_then(|rows| rows.alive.as_ref()) else { return Ok(None) };
        let ranges = [(&alive.buffer, 0, alive.bits.words().len() as u64 * 4)];
        let read = self.device.block_on(Commands::new(self.device.gpu("slots")?, None).read(&ranges))?;
        let found: Vec<u32> = words::<u32>(&read[0]).collect();
        if found != alive.bits.words() {
            return Err(Error::internal("the bits of the device are not those of the host"));
        }
        Ok(Some(found))
    }

    /// The rows in these slots, `[n, dim]`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        self.device.block_on(self.rows.fetch(slots))
    }

    /// The k nearest rows of each query.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn search<'q>(&self, queries: impl Into<Vectors<'q>>, k: usize) -> Result<SearchResult> {
        let request = SearchRequest::nearest(self.metric, k, BUDGET_BYTES);
        self.device.block_on(self.rows.search(&queries.into(), &request))
    }

    /// The k nearest other rows of each row, slot by slot; none where searches for all rows take no longer, or lists of all rows do not fit
    /// the scratch memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn graph(
        &self,
        k: usize,
        budget: u64,
        id_of: &(dyn Fn(u32) -> u64 + Sync),
    ) -> Result<Option<Neighbors>> {
        let request = SearchRequest::nearest(self.metric, k, budget);
        self.device.block_on(async {
            // A graph does not wait for threads that compile its tiles.
            if let Some(rows) =
                self.rows.on_gpu().filter(|rows| Tiles::expected(&rows.gpu) == Tiles::Matrices)
            {
                rows.gpu.compile_all(rows.dim, &[Tiles::of_pairs(Form::quantized(self.metric))]).await?;
            }
            self.rows.graph(&request, id_of).await
        })
    }

    /// The k nearest rows of each query in the nearest list around centroids `[lists, dim]`. Lists are pages of 32 slots and numbers of
    /// rows; without them the tables of lists are missing.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn search_lists<'q>(
        &mut self,
        centroids: MatrixView<'_, f32>,
        lists: Option<(&[Vec<u32>], &[u32])>,
        queries: impl Into<Vectors<'q>>,
        k: usize,
    ) -> Result<SearchResult> {
        let Self { device, metric, rows } = self;
        let request = SearchRequest { probes: Some(1), ..SearchRequest::nearest(*metric, k, BUDGET_BYTES) };
        let queries = queries.into();
        let quantization = Quantization::None;
        let centroids = GivenCentroids { values: centroids, metric: *metric, quantization };
        device.block_on(async {
            rows.attach_lists(centroids).await?;
            if let Some((pages, sizes)) = lists {
                rows.set_pages(pages, sizes).await?;
            }
            rows.search(&queries, &request).await
        })
    }
}
