//! A copy of an index's rows in the host's memory, beside those on a GPU: for searches that are over before a GPU has answered, and for
//! when the GPU is gone.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::crossover::{Crossover, Side};
use super::goal::Goal;
use crate::engine::{
    Device, EngineLists, EngineRows, Found, Placing, Queries, RowShape, RowSource, SearchRequest,
};
use crate::error::{Error, Result};
use crate::gpu::AdapterKind;
use crate::host;
use crate::matrix::{Element, MatrixView};

/// Whether an index keeps a copy, as its builder was told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyOptions {
    pub(crate) keep: bool,
    /// Whether it answers where the GPU cannot.
    pub(crate) fallback: bool,
}

impl CopyOptions {
    /// The copy, of no rows; none where none is kept, or where rows are on the host anyway.
    pub(crate) fn copy(self, device: &Device, shape: &RowShape) -> Result<Option<HostCopy>> {
        if self.fallback && !self.keep {
            return Err(Error::argument("fallback", "a copy of the rows on the host", "none"));
        }
        if !self.keep || device.adapter().kind == AdapterKind::Host {
            return Ok(None);
        }
        Ok(Some(HostCopy {
            rows: EngineRows::new(&Device::host(), shape)?,
            lists: None,
            shape: *shape,
            device: device.clone(),
            latency: OnceLock::new(),
            crossover: Crossover::default(),
            is_fallback: self.fallback,
        }))
    }
}

/// The copy. It has the same rows in the same slots, and around them the same lists.
#[derive(Debug)]
pub(crate) struct HostCopy {
    pub(super) rows: EngineRows,
    /// Those of an `Ivf`.
    pub(super) lists: Option<EngineLists>,
    shape: RowShape,
    /// The GPU.
    device: Device,
    /// What a launch and a readback take there: a search takes longer.
    latency: OnceLock<Duration>,
    crossover: Crossover,
    is_fallback: bool,
}

impl HostCopy {
    /// The same with lists around the centroids of those on the GPU.
    pub(crate) async fn with_lists(mut self, lists: &EngineLists) -> Result<Self> {
        let RowShape { metric, dim, screen, .. } = self.shape;
        let centroids = lists.centroids().await?;
        let centroids = MatrixView::new(&centroids, dim)?;
        self.lists = Some(EngineLists::around(&Device::host(), metric, centroids, screen).await?);
        Ok(self)
    }

    /// Rows as this copy takes them: those on the GPU are fetched. What it would refuse is refused before the GPU has it.
    pub(super) async fn fetched<T: Element>(&self, rows: RowSource<'_, T>) -> Result<Option<Vec<f32>>> {
        match rows {
            RowSource::Host(view) => host::checked("rows", view).map(|_| None),
            RowSource::Device(matrix) => {
                let values = self.device.read_matrix(matrix).await?;
                host::checked("rows", MatrixView::new(&values, matrix.dim())?)?;
                Ok(Some(values))
            }
        }
    }

    /// Room for what a change puts into slots, so that [`HostCopy::rows`] cannot refuse it.
    pub(super) fn reserve(&mut self, slots: &[u32]) -> Result<()> {
        let end = slots.iter().max().map_or(0, |&slot| slot as usize + 1);
        self.rows.reserve(end)
    }

    /// Puts rows into slots for which there is room: those that were fetched, or those of the host.
    pub(super) async fn put<T: Element>(
        &mut self,
        fetched: Option<&[f32]>,
        rows: RowSource<'_, T>,
        placing: &Placing<'_>,
    ) -> Result<()> {
        match fetched {
            Some(values) => {
                let view = MatrixView::new(values, self.shape.dim)?;
                self.rows.put(RowSource::Host(view), placing, |_| ()).await
            }
            None => self.rows.put(rows, placing, |_| ()).await,
        }
    }

    /// What is sought, from the copy where that is likely to be quicker or where the GPU fails, and otherwise from the rows there.
    pub(super) async fn search(
        &self,
        on_gpu: &EngineRows,
        queries: &Queries<'_>,
        request: &SearchRequest<'_>,
        goal: Goal<'_>,
    ) -> Result<Found> {
        if let Queries::Device(_) = queries {
            return goal.search(on_gpu, queries, request).await;
        }
        let expected = self.expected(queries.rows(), request, goal);
        // Under a filter a search may take much less than others of its size.
        let size = expected.filter(|_| request.allowed.is_none());
        if self.is_quicker(expected).await {
            match self.timed((Side::Host, size), self.search_here(queries, request, goal)).await {
                // The GPU may do with less memory.
                Err(Error::Budget { .. }) => {}
                done => return done,
            }
        }
        match self.timed((Side::Gpu, size), goal.search(on_gpu, queries, request)).await {
            Err(error) if self.stands_in_for(&error) => self.search_here(queries, request, goal).await,
            done => done,
        }
    }

    /// About how long the copy takes for so many queries. None where it cannot be told.
    fn expected(&self, queries: usize, request: &SearchRequest<'_>, goal: Goal<'_>) -> Option<Duration> {
        match (goal, &self.lists) {
            (Goal::InLists { lists: of_gpu, probes }, Some(lists)) => {
                // A filter widens probes until they have found enough.
                let enough = request.allowed.map_or(0, |allowed| {
                    (request.k as u64).saturating_mul(of_gpu.count()).div_ceil(allowed.count().max(1))
                });
                lists.expected(&self.rows, queries, u64::from(probes).max(enough))
            }
            _ => self.rows.expected(queries),
        }
    }

    /// Whether a search that is expected to take so long here is likely to be ahead of the GPU.
    async fn is_quicker(&self, expected: Option<Duration>) -> bool {
        let Some(expected) = expected else { return false };
        if self.latency.get().is_none() {
            // A device that cannot be measured has a fault, which the search will tell.
            let Ok(latency) = self.device.latency().await else { return false };
            self.latency.get_or_init(|| latency);
        }
        self.latency.get().is_some_and(|&latency| self.crossover.is_host_ahead(expected, latency))
    }

    /// A search, of which it is remembered how long it took.
    async fn timed(
        &self,
        (side, size): (Side, Option<Duration>),
        search: impl Future<Output = Result<Found>>,
    ) -> Result<Found> {
        let started = Instant::now();
        let done = search.await;
        if let (Some(size), Ok(_)) = (size, &done) {
            self.crossover.note(side, size, started.elapsed());
        }
        done
    }

    /// Whether the host answers where the GPU could not, for this reason.
    fn stands_in_for(&self, error: &Error) -> bool {
        self.is_fallback
            && matches!(error, Error::DeviceLost { .. } | Error::OutOfMemory { .. } | Error::Device { .. })
    }

    async fn search_here(
        &self,
        queries: &Queries<'_>,
        request: &SearchRequest<'_>,
        goal: Goal<'_>,
    ) -> Result<Found> {
        let mut found = goal.with(self.lists.as_ref()).search(&self.rows, queries, request).await?;
        found.statistics.on_host = true;
        Ok(found)
    }
}
