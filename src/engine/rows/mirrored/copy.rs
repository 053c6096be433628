//! A copy of an index's rows in the host's memory, beside those on a GPU. It answers searches that the processor finishes before a GPU
//! could, and takes over when the GPU is lost.

use std::sync::OnceLock;
use std::time::Duration;

use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::contract::Rows;
use crate::engine::rows::mirrored::crossover::{Crossover, Ran};
use crate::engine::rows::on_host::ListedRows;
use crate::engine::rows::open::open_on_host;
use crate::engine::rows::shape::RowShape;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::{Error, Result};
use crate::options::residency::Residency;
use crate::platform::{CAN_WAIT, Instant};

/// The least time that a GPU is thought to take. In a browser commands and answers pass through another process, and a first search
/// compiles its kernels while its caller waits for it.
const LEAST_LATENCY: Duration = if CAN_WAIT { Duration::ZERO } else { Duration::from_millis(5) };

/// The copy of the rows on a GPU.
#[derive(Debug)]
pub(super) struct HostCopy {
    pub(super) rows: ListedRows,
    /// The GPU.
    device: Device,
    /// The time of a launch and a readback there; a search takes longer.
    latency: OnceLock<Duration>,
    crossover: Crossover,
    pub(super) is_fallback: bool,
}

impl HostCopy {
    /// An empty copy for an index on this device.
    pub(super) fn new(device: &Device, shape: &RowShape, is_fallback: bool) -> Result<Self> {
        let (rows, device) = (open_on_host(&Device::host(), shape)?, device.clone());
        Ok(Self { rows, device, latency: OnceLock::new(), crossover: Crossover::default(), is_fallback })
    }

    /// Searches the copy where that is expected to be faster or the GPU fails, and the rows on the GPU otherwise.
    pub(super) async fn search(
        &self,
        on_gpu: &dyn Rows,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        let there = || on_gpu.search(queries, request);
        if let Vectors::Device(_) = queries {
            return there().await;
        }
        let here = || self.search_here(queries, request);
        let expected = self.expected(queries.rows(), request);
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
    fn expected(&self, queries: usize, request: &SearchRequest<'_>) -> Option<Duration> {
        let rows = &self.rows.rows;
        let Some((lists, probes)) = self.rows.probed(request) else { return rows.expected(queries) };
        let count = lists.len() as u64;
        // Under a filter, searches probe more lists until they find enough rows.
        let enough = request
            .allowed
            .map_or(0, |allowed| (request.k as u64).saturating_mul(count).div_ceil(allowed.count.max(1)));
        lists.expected(rows, queries, u64::from(probes).max(enough).min(count) as usize)
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

    async fn search_here(&self, queries: &Vectors<'_>, request: &SearchRequest<'_>) -> Result<SearchResult> {
        let mut found = self.rows.search(queries, request).await?;
        (found.statistics.on_host, found.statistics.rows) = (true, Residency::Host);
        Ok(found)
    }
}
