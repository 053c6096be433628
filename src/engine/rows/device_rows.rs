//! The rows of an index on either engine: what an index asks of its rows, each operation with an arm for each engine.
//!
//! A browser has one memory for its page and the library: rows of a GPU's index are never on the host there, and `Hybrid` is left out.

use std::time::Duration;
#[cfg(target_arch = "wasm32")]
use std::{convert::Infallible, marker::PhantomData};

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::allowed::Scope;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::hybrid::{HybridRows, changes::HybridChange};
use crate::engine::rows::moves::GpuChange;
use crate::engine::rows::on_host;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::outgrown::{self, Outgrown};
use crate::engine::rows::quantized::QuantizedRows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::rows::shape::{Kept, RowShape};
use crate::engine::rows::write::Placing;
use crate::engine::search::ahead::Searched;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::search::hybrid;
use crate::engine::search::pipeline;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::turns::by_turns;
use crate::engine::search::within;
use crate::engine::tune::{Tried, TunedKernel, tune};
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::host::{HostChange, HostRows, fills_threads};
use crate::interrupt;
use crate::kernels::screen_tile_coop;
use crate::memory;
use crate::metric::Metric;
use crate::screen::certificate::Form;
use crate::usage::{Memory, MemoryPlace};

/// The rows of an index, where its engine keeps them.
#[derive(Debug)]
pub(crate) enum DeviceRows {
    Gpu(GpuRows),
    /// Those of a GPU's index that the host keeps.
    #[cfg(not(target_arch = "wasm32"))]
    Hybrid(Box<HybridRows>),
    Host(HostRows),
}

/// The engine that has the rows themselves, not a copy.
enum Keeper<'a> {
    Gpu(&'a GpuRows),
    Host(&'a HostRows),
}

/// A change of rows that is ready: see [`DeviceRows::apply`].
pub(crate) enum RowChange<'a> {
    Gpu(GpuChange),
    Host(HostChange),
    #[cfg(not(target_arch = "wasm32"))]
    Hybrid(HybridChange<'a>),
    #[cfg(not(target_arch = "wasm32"))]
    Outgrown(Box<Outgrown<'a>>),
    /// None is made: without rows on the host, changes borrow nothing.
    #[cfg(target_arch = "wasm32")]
    Borrowed(Infallible, PhantomData<&'a ()>),
}

impl DeviceRows {
    pub(crate) fn new<'f>(device: &'f Device, shape: &'f RowShape) -> Boxed<'f, Self> {
        Box::pin(async move {
            let &RowShape { metric, elements, dim, expected, screen, kept, .. } = shape;
            match (&device.engine, kept) {
                #[cfg(not(target_arch = "wasm32"))]
                (Engine::Gpu(gpu), Kept::Hybrid | Kept::Streamed) => {
                    let rows = HybridRows::new(gpu, shape)?;
                    if let Some(integers) = rows.on_gpu() {
                        gpu.compile_ahead(dim, || Searched::of(integers, metric).kernels());
                    }
                    Ok(Self::Hybrid(Box::new(rows)))
                }
                (Engine::Gpu(gpu), _) => {
                    // Before anything runs: what this thread needs first, it compiles itself, and the rest is ready when rows are.
                    let is_quantized = screen.is_wanted(gpu, dim);
                    gpu.compile_ahead(dim, || {
                        Searched::expected(gpu, metric, elements, is_quantized).kernels()
                    });
                    let quantized = QuantizedRows::new(gpu, screen, metric, dim)?;
                    #[cfg(not(target_arch = "wasm32"))]
                    if outgrown::next(shape).is_some() {
                        // With a place to go to, rows leave the device before their copy does.
                        let quantized = quantized.map(QuantizedRows::required);
                        let mut rows = GpuRows::new(gpu, (elements, dim), expected, quantized, true)?;
                        rows.outgrown = Some(*shape);
                        return Ok(Self::Gpu(rows));
                    }
                    Ok(Self::Gpu(GpuRows::new(gpu, (elements, dim), expected, quantized, true)?))
                }
                (Engine::Host(host), _) => {
                    let is_quantized = screen.is_wanted_on_host(dim);
                    let rows = HostRows::new(host.clone(), metric, elements, dim, is_quantized);
                    Ok(Self::Host(rows.expecting(expected)?))
                }
            }
        })
    }

    /// What a GPU has of the rows: they themselves, or their quantised copy.
    pub(crate) fn on_gpu(&self) -> Option<&GpuRows> {
        match self {
            Self::Gpu(rows) => Some(rows),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => rows.on_gpu(),
            Self::Host(_) => None,
        }
    }

    fn keeper(&self) -> Keeper<'_> {
        match self {
            Self::Gpu(rows) => Keeper::Gpu(rows),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(hybrid) => Keeper::Host(&hybrid.rows),
            Self::Host(rows) => Keeper::Host(rows),
        }
    }

    /// The rows, where they lie in a file.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn in_file(&self) -> Option<&HostRows> {
        match self.keeper() {
            Keeper::Host(rows) if rows.values.file().is_some() => Some(rows),
            _ => None,
        }
    }

    /// An error if rows lie in a file that was written to since it was mapped.
    pub(crate) fn check_file(&self) -> Result<()> {
        match self.keeper() {
            Keeper::Gpu(_) => Ok(()),
            Keeper::Host(rows) => rows.check_file(),
        }
    }

    pub(crate) async fn warm_up(&self, metric: Metric) -> Result<()> {
        let Some(rows) = self.on_gpu() else { return Ok(()) };
        rows.gpu.compile_all(rows.dim, &Searched::of(rows, metric).kernels()).await?;
        if rows.quantized.is_some() {
            screen_tile_coop::is_usable(&rows.gpu, Form::quantized(metric)).await?;
        }
        Ok(())
    }

    pub(crate) async fn tune(&self, metric: Metric, is_again: bool) -> Result<Vec<TunedKernel>> {
        let tried = match self {
            Self::Gpu(rows) => Some(Tried::Rows(rows)),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => rows.integers.as_ref().map(|integers| Tried::Hybrid(rows, integers)),
            Self::Host(_) => None,
        };
        match tried {
            Some(tried) => tune(tried, metric, is_again).await,
            None => Ok(vec![]),
        }
    }

    pub(crate) fn is_quantized(&self) -> bool {
        match self {
            Self::Gpu(rows) => rows.quantized.is_some(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => rows.on_gpu().is_some(),
            Self::Host(rows) => rows.is_quantized(),
        }
    }

    pub(crate) fn place(&self) -> MemoryPlace {
        match self.keeper() {
            Keeper::Gpu(_) => MemoryPlace::Device,
            Keeper::Host(rows) if rows.values.file().is_some() => MemoryPlace::File,
            Keeper::Host(_) => MemoryPlace::Host,
        }
    }

    /// Whether a GPU has their quantised copy alone.
    pub(crate) fn is_hybrid(&self) -> bool {
        !matches!(self, Self::Gpu(_) | Self::Host(_))
    }

    /// Whether searches send that copy, window by window.
    pub(crate) fn is_streamed(&self) -> bool {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => rows.windows.is_some(),
            _ => false,
        }
    }

    /// Writes rows into slots that have none. No search sees them before the change is applied.
    ///
    /// The caller chooses the slots. Slots behind the end are created, and those left out below it become tombstones.
    pub(crate) async fn prepared_put<'a>(
        &mut self,
        source: Vectors<'a>,
        placing: &'a Placing<'a>,
        progress: RowProgress<'_>,
    ) -> Result<RowChange<'a>> {
        match self {
            Self::Gpu(rows) => Ok(RowChange::Gpu(rows.prepared_put(source, placing, progress).await?)),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => {
                Ok(RowChange::Hybrid(rows.prepared_put(source.on_host()?, placing, progress).await?))
            }
            Self::Host(rows) => {
                let (source, Placing { slots, ids, freed }) = (source.on_host()?, placing);
                let mut change = rows.prepared(Some(source), slots, freed)?;
                rows.put(source, (slots, ids), &mut change, (progress, interrupt::check))?;
                Ok(RowChange::Host(change))
            }
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    /// Whether the rows go to the host after this error of a change: see [`prepared_on_host`](Self::prepared_on_host).
    pub(crate) fn outgrow(&self, error: &Error) -> bool {
        match self {
            Self::Gpu(rows) => rows.outgrow(error),
            Self::Hybrid(rows) => rows.outgrow(error),
            Self::Host(_) => false,
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    /// Like [`prepared_put`](Self::prepared_put), in the host's memory, where the rows so far go with the change. Without new rows,
    /// slots are freed.
    pub(crate) async fn prepared_on_host<'a>(
        &mut self,
        new: Option<(HostVectors<'a>, &'a Placing<'a>)>,
        freed: &[u32],
        progress: RowProgress<'_>,
    ) -> Result<RowChange<'a>> {
        let rows = match self {
            Self::Gpu(rows) => rows,
            Self::Hybrid(rows) => {
                let change = match rows.prepared_either(new, freed, progress).await {
                    Err(error) if rows.outgrow(&error) => rows.prepared_streaming(new, freed).await?,
                    prepared => prepared?,
                };
                return Ok(RowChange::Hybrid(change));
            }
            Self::Host(_) => {
                return match new {
                    Some((source, placing)) => self.prepared_put(source.into(), placing, progress).await,
                    None => self.prepared_release(freed).await,
                };
            }
        };
        let loan = rows.lent();
        let mut hybrid = rows.brought_to_host().await?;
        if let (Some(integers), Some(shape)) = (&hybrid.integers, &rows.outgrown) {
            rows.gpu.compile_ahead(rows.dim, || Searched::of(integers, shape.metric).kernels());
        }
        let change = match hybrid.prepared_either(new, freed, progress).await {
            // The limit counts the memory of the rows as free. The driver does not: it may have room for the copy when they are gone.
            Err(error @ Error::MemoryLimit { .. }) if hybrid.outgrow(&error) => {
                hybrid.prepared_streaming(new, freed).await?
            }
            prepared => prepared?,
        };
        Ok(RowChange::Outgrown(Box::new(Outgrown { rows: hybrid, change, loan })))
    }

    /// Prepares to remove the rows in these slots; the end may move down.
    pub(crate) async fn prepared_release(&mut self, freed: &[u32]) -> Result<RowChange<'static>> {
        match self {
            Self::Gpu(rows) => Ok(RowChange::Gpu(rows.prepared_release(freed).await?)),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => Ok(RowChange::Hybrid(rows.prepared_release(freed).await?)),
            Self::Host(rows) => Ok(RowChange::Host(rows.prepared(None, &[], freed)?)),
        }
    }

    /// Copies rows, with their ids, to slots that have none; they leave their own when the change is applied.
    pub(crate) fn prepared_move<'f, 'a: 'f>(
        &'f mut self,
        from: &'a [u32],
        to: &'a [u32],
    ) -> Boxed<'f, RowChange<'a>> {
        Box::pin(async move {
            match self {
                Self::Gpu(rows) => Ok(RowChange::Gpu(rows.prepared_move(from, to).await?)),
                #[cfg(not(target_arch = "wasm32"))]
                Self::Hybrid(rows) => Ok(RowChange::Hybrid(rows.prepared_move(from, to).await?)),
                Self::Host(rows) => {
                    let change = rows.prepared(None, to, from)?;
                    rows.relocate(from, to, &change, interrupt::check)?;
                    Ok(RowChange::Host(change))
                }
            }
        })
    }

    /// Takes over a change of these rows.
    ///
    /// # Errors
    /// Faults of this library alone: all memory was taken before.
    pub(crate) fn apply(&mut self, change: RowChange<'_>) -> Result<()> {
        match (self, change) {
            (Self::Gpu(rows), RowChange::Gpu(change)) => rows.apply(change),
            (Self::Host(rows), RowChange::Host(change)) => {
                rows.apply(change);
                Ok(())
            }
            #[cfg(not(target_arch = "wasm32"))]
            (Self::Hybrid(rows), RowChange::Hybrid(change)) => rows.apply(change),
            #[cfg(not(target_arch = "wasm32"))]
            (before @ Self::Gpu(_), RowChange::Outgrown(outgrown)) => {
                let Outgrown { mut rows, change, loan } = *outgrown;
                rows.apply(change)?;
                *before = Self::Hybrid(Box::new(rows));
                loan.settle();
                Ok(())
            }
            _ => Err(Error::internal("a change of rows on another engine")),
        }
    }

    pub(crate) async fn release(&mut self, freed: &[u32]) -> Result<()> {
        let change = self.prepared_release(freed).await?;
        self.apply(change)
    }

    pub(crate) async fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        let change = self.prepared_move(from, to).await?;
        self.apply(change)
    }

    pub(crate) fn undo(&mut self, change: &RowChange<'_>) {
        if let (Self::Host(rows), RowChange::Host(change)) = (self, change) {
            rows.undo(change);
        }
    }

    pub(crate) fn shrink(&mut self) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.shrink(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => rows.shrink(),
            Self::Host(rows) => {
                rows.shrink();
                Ok(())
            }
        }
    }

    pub(crate) async fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        self.check_file()?;
        match self.keeper() {
            Keeper::Gpu(rows) => rows.fetch(slots).await,
            Keeper::Host(rows) => rows.fetch(slots),
        }
    }

    pub(crate) async fn fetch_bytes(&self, slots: &[u32]) -> Result<Vec<u8>> {
        self.check_file()?;
        match self.keeper() {
            Keeper::Gpu(rows) => {
                let used = rows.dim * rows.layout.elements.size();
                let mut bytes = memory::with_room(slots.len() * used)?;
                rows.gather_own(slots, |row| bytes.extend_from_slice(&row[..used])).await?;
                Ok(bytes)
            }
            Keeper::Host(rows) => rows.fetch_bytes(slots),
        }
    }

    pub(crate) fn alive(&self) -> Option<&Bits> {
        match self.keeper() {
            Keeper::Gpu(rows) => rows.alive.as_ref().map(|alive| &alive.bits),
            Keeper::Host(rows) => rows.alive(),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        match self.keeper() {
            Keeper::Gpu(rows) => rows.end(),
            Keeper::Host(rows) => rows.end() as u64,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self.keeper() {
            Keeper::Gpu(rows) => rows.len(),
            Keeper::Host(rows) => rows.len() as u64,
        }
    }

    pub(crate) async fn search(
        &self,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        self.check_file()?;
        match self {
            Self::Gpu(rows) if request.radius.is_some() => within::search(rows, queries, request).await,
            Self::Gpu(rows) => pipeline::search(rows, queries, request).await,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => hybrid::search(rows, queries, request).await,
            Self::Host(rows) => {
                let search = |queries: HostVectors<'_>, request: &SearchRequest<'_>| {
                    on_host::search(rows, queries, request)
                };
                by_turns(queries.on_host()?, request, search).await
            }
        }
    }

    pub(crate) fn expected(&self, queries: usize) -> Option<Duration> {
        match self {
            Self::Host(rows) => rows.expected(queries),
            _ => None,
        }
    }

    /// Whether searches of this share of the rows, `[probes, lists]`, are faster together. On the host those that one thread answers
    /// are faster side by side.
    pub(crate) fn gain_together(&self, [probes, lists]: [u64; 2]) -> bool {
        match self {
            Self::Host(rows) => fills_threads(rows.end() as u64 * probes / lists.max(1)),
            _ => true,
        }
    }

    pub(crate) fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        let plan = match self {
            Self::Gpu(rows) => Plan::new(rows, queries as u64, k as u64, Scope { budget, allowed: None }),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => hybrid::plan(rows, queries, k, budget),
            Self::Host(rows) => on_host::plan(rows, queries, k, budget),
        };
        Ok(Plan { rows: self.place(), ..plan? })
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        match self {
            Self::Gpu(rows) => rows.measure(memory),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Hybrid(rows) => rows.measure(memory),
            Self::Host(rows) => rows.measure(memory),
        }
    }
}
