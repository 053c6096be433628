//! A copy of an index's rows in the host's memory, beside those on a GPU. It answers searches that the processor finishes before a GPU
//! could, and takes over when the GPU is lost.

use std::slice::from_ref;
use std::sync::OnceLock;
use std::time::Duration;

use super::crossover::{Crossover, Ran};
use crate::elements::{HostVectors, MatrixView};
use crate::engine::{
    Device, DeviceLists, EngineLists, Kept, Placing, Probed, RowShape, Rows, SearchRequest, SearchResult,
    Vectors, open_on_host, search_rows,
};
use crate::error::{Error, Result};
use crate::host::{HostChange, HostRows};
use crate::platform::{CAN_WAIT, Instant};

/// The least time that a GPU is thought to take. In a browser commands and answers pass through another process, and a first search
/// compiles its kernels while its caller waits for it.
const LEAST_LATENCY: Duration = if CAN_WAIT { Duration::ZERO } else { Duration::from_millis(5) };

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
        // Rows that the host keeps anyway need no copy.
        if !self.keep_host_copy || device.is_host() || shape.kept >= Kept::Hybrid {
            return Ok(None);
        }
        Ok(Some(HostCopy {
            rows: open_on_host(&Device::host(), shape)?,
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
    pub(super) rows: HostRows,
    /// The lists of an `Ivf`.
    pub(super) lists: Option<DeviceLists>,
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
    pub(crate) async fn with_lists(mut self, lists: &EngineLists, there: &dyn Rows) -> Result<Self> {
        let RowShape { metric, dim, screen, .. } = self.shape;
        let centroids = lists.centroids(there).await?;
        let centroids = MatrixView::new(&centroids, dim)?;
        self.lists = Some(DeviceLists::around(&Device::host(), metric, centroids, screen).await?);
        Ok(self)
    }

    /// Puts rows into slots. Nothing interrupts it, because the GPU has the rows already.
    pub(super) fn put(
        &mut self,
        rows: HostVectors<'_>,
        placing: &Placing<'_>,
        mut change: HostChange,
    ) -> Result<()> {
        let places = (placing.slots, placing.ids);
        self.rows.put(rows, places, &mut change, (&mut |_| (), || Ok(())))?;
        self.rows.apply(change);
        Ok(())
    }

    pub(super) fn relocate(&mut self, from: &[u32], to: &[u32], change: HostChange) -> Result<()> {
        self.rows.relocate(from, to, &change, || Ok(()))?;
        self.rows.apply(change);
        Ok(())
    }

    /// Searches the copy where that is expected to be faster or the GPU fails, and the rows on the GPU otherwise.
    pub(super) async fn search(
        &self,
        (on_gpu, lists): (&dyn Rows, Probed<'_>),
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        let there = || search_rows(on_gpu, lists, queries, request);
        if let Vectors::Device(_) = queries {
            return there().await;
        }
        let here = || self.search_here(queries, request, lists);
        let expected = self.expected(queries.rows(), request, lists);
        // Filtered searches take less time than others of their size: they are not noted.
        let size = expected.filter(|_| request.allowed.is_none());
        if self.is_quicker(expected).await {
            match self.timed((Ran::OnHost, size), here()).await {
                // The GPU may need less memory.
                Err(Error::Budget { .. }) => {}
                done => return done,
            }
        }
        match self.timed((Ran::OnGpu, size), there()).await {
            Err(error) if self.is_fallback && error.is_of_device() => here().await,
            done => done,
        }
    }

    /// The expected duration on the copy; none where it cannot be predicted.
    fn expected(&self, queries: usize, request: &SearchRequest<'_>, lists: Probed<'_>) -> Option<Duration> {
        match (lists, &self.lists) {
            (Some((of_gpu, probes)), Some(lists)) => {
                // Under a filter, searches probe more lists until they find enough rows.
                let enough = request.allowed.map_or(0, |allowed| {
                    (request.k as u64).saturating_mul(of_gpu[0].count()).div_ceil(allowed.count.max(1))
                });
                let probes = probes.max(enough.min(u32::MAX.into()) as u32);
                Rows::expected(&self.rows, queries, Some((from_ref(lists), probes)))
            }
            _ => Rows::expected(&self.rows, queries, None),
        }
    }

    /// Whether a search of this expected duration is likely to finish before the GPU would.
    async fn is_quicker(&self, expected: Option<Duration>) -> bool {
        let Some(expected) = expected else { return false };
        if self.latency.get().is_none() {
            // The search reports the fault of a device that cannot be measured.
            let Ok(latency) = self.device.latency().await else { return false };
            self.latency.get_or_init(|| latency.max(LEAST_LATENCY));
        }
        self.latency.get().is_some_and(|&latency| self.crossover.is_host_ahead(expected, latency))
    }

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

    async fn search_here(
        &self,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
        lists: Probed<'_>,
    ) -> Result<SearchResult> {
        let lists = lists.and_then(|(_, probes)| Some((from_ref(self.lists.as_ref()?), probes)));
        let mut found = search_rows(&self.rows, lists, queries, request).await?;
        found.statistics.on_host = true;
        Ok(found)
    }
}
