//! A copy of an index's rows in the host's memory, beside those on a GPU. It answers searches that the processor finishes before a GPU
//! could, and takes over when the GPU is lost.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::crossover::{Crossover, Ran};
use super::goal::Goal;
use crate::engine::{
    Device, EngineLists, EngineRows, Placing, RowShape, SearchRequest, SearchResult, Vectors,
};
use crate::error::{Error, Result};
use crate::matrix::MatrixView;

/// Whether an index keeps a copy, as set on its builder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyOptions {
    pub(crate) keep_host_copy: bool,
    /// Whether the copy answers when the GPU cannot.
    pub(crate) fallback: bool,
}

impl CopyOptions {
    /// An empty copy; none where none is kept, or where rows are on the host anyway.
    pub(crate) async fn copy(self, device: &Device, shape: &RowShape) -> Result<Option<HostCopy>> {
        if self.fallback && !self.keep_host_copy {
            return Err(Error::argument("fallback", "a copy of the rows on the host", "none"));
        }
        if !self.keep_host_copy || device.is_host() {
            return Ok(None);
        }
        Ok(Some(HostCopy {
            rows: EngineRows::new(&Device::host(), shape).await?,
            lists: None,
            shape: *shape,
            device: device.clone(),
            latency: OnceLock::new(),
            crossover: Crossover::default(),
            is_fallback: self.fallback,
        }))
    }
}

/// The copy: the same rows in the same slots, and the same lists.
#[derive(Debug)]
pub(crate) struct HostCopy {
    pub(super) rows: EngineRows,
    /// The lists of an `Ivf`.
    pub(super) lists: Option<EngineLists>,
    shape: RowShape,
    /// The GPU.
    device: Device,
    /// The time of a launch and a readback there; a search takes longer.
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

    /// Validates rows before the GPU has them, and fetches those that lie there.
    pub(super) async fn fetched(&self, rows: Vectors<'_>) -> Result<Option<Vec<f32>>> {
        let Vectors::Device(matrix) = rows else {
            rows.check_values("rows")?;
            return Ok(None);
        };
        let values = matrix.fetched().await?.into_f32();
        Vectors::from(MatrixView::new(&values, matrix.dim())?).check_values("rows")?;
        Ok(Some(values))
    }

    /// Makes room for the slots of a change, so that [`HostCopy::rows`] cannot refuse it.
    pub(super) fn reserve(&mut self, slots: &[u32]) -> Result<()> {
        let end = slots.iter().max().map_or(0, |&slot| slot as usize + 1);
        self.rows.reserve(end)
    }

    /// Puts rows into reserved slots: the fetched ones, or those of the host.
    pub(super) async fn put(
        &mut self,
        fetched: Option<&[f32]>,
        rows: Vectors<'_>,
        placing: &Placing<'_>,
    ) -> Result<()> {
        let rows = match fetched {
            Some(values) => MatrixView::new(values, self.shape.dim)?.into(),
            None => rows,
        };
        self.rows.put(rows, placing, &mut |_| ()).await
    }

    /// Searches the copy where that is expected to be faster or the GPU fails, and the rows on the GPU otherwise.
    pub(super) async fn search(
        &self,
        on_gpu: &EngineRows,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
        goal: Goal<'_>,
    ) -> Result<SearchResult> {
        if let Vectors::Device(_) = queries {
            return goal.search(on_gpu, queries, request).await;
        }
        let expected = self.expected(queries.rows(), request, goal);
        // Filtered searches take less time than others of their size: they are not noted.
        let size = expected.filter(|_| request.allowed.is_none());
        if self.is_quicker(expected).await {
            match self.timed((Ran::OnHost, size), self.search_here(queries, request, goal)).await {
                // The GPU may need less memory.
                Err(Error::Budget { .. }) => {}
                done => return done,
            }
        }
        match self.timed((Ran::OnGpu, size), goal.search(on_gpu, queries, request)).await {
            Err(error) if self.stands_in_for(&error) => self.search_here(queries, request, goal).await,
            done => done,
        }
    }

    /// The expected duration on the copy; none where it cannot be predicted.
    fn expected(&self, queries: usize, request: &SearchRequest<'_>, goal: Goal<'_>) -> Option<Duration> {
        match (goal, &self.lists) {
            (Goal::InLists { lists: of_gpu, probes }, Some(lists)) => {
                // Under a filter, searches probe more lists until they find enough rows.
                let enough = request.allowed.map_or(0, |allowed| {
                    (request.k as u64).saturating_mul(of_gpu.count()).div_ceil(allowed.count.max(1))
                });
                lists.expected(&self.rows, queries, u64::from(probes).max(enough))
            }
            _ => self.rows.expected(queries),
        }
    }

    /// Whether a search of this expected duration is likely to finish before the GPU would.
    async fn is_quicker(&self, expected: Option<Duration>) -> bool {
        let Some(expected) = expected else { return false };
        if self.latency.get().is_none() {
            // The search reports the fault of a device that cannot be measured.
            let Ok(latency) = self.device.latency().await else { return false };
            self.latency.get_or_init(|| latency);
        }
        self.latency.get().is_some_and(|&latency| self.crossover.is_host_ahead(expected, latency))
    }

    /// Runs a search and notes how long it took.
    async fn timed(
        &self,
        (ran, size): (Ran, Option<Duration>),
        search: impl Future<Output = Result<SearchResult>>,
    ) -> Result<SearchResult> {
        let started = Instant::now();
        let done = search.await;
        if let (Some(size), Ok(_)) = (size, &done) {
            self.crossover.note(ran, size, started.elapsed());
        }
        done
    }

    /// Whether the host answers after this error of the GPU.
    fn stands_in_for(&self, error: &Error) -> bool {
        self.is_fallback
            && matches!(error, Error::DeviceLost { .. } | Error::OutOfMemory { .. } | Error::Device { .. })
    }

    async fn search_here(
        &self,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
        goal: Goal<'_>,
    ) -> Result<SearchResult> {
        let mut found = goal.with(self.lists.as_ref()).search(&self.rows, queries, request).await?;
        found.statistics.on_host = true;
        Ok(found)
    }
}
