//! A copy of an index's rows in the host's memory, beside those on a GPU: for searches that are over before a GPU has begun, and for
//! when the GPU is gone.

use std::sync::OnceLock;
use std::time::Duration;

use crate::engine::{Device, EngineRows, Found, Placing, Queries, RowShape, RowSource, SearchRequest};
use crate::error::{Error, Result};
use crate::host;
use crate::matrix::{Element, MatrixView};

/// The copy. It has the same rows in the same slots.
#[derive(Debug)]
pub(crate) struct HostCopy {
    pub(super) rows: EngineRows,
    dim: usize,
    /// The GPU.
    device: Device,
    /// What a launch and a readback take there: a search takes longer.
    latency: OnceLock<Duration>,
    /// Whether it answers where the GPU cannot.
    is_fallback: bool,
}

impl HostCopy {
    pub(crate) fn new(device: &Device, shape: &RowShape, is_fallback: bool) -> Result<Self> {
        let rows = EngineRows::new(&Device::host(), shape)?;
        let latency = OnceLock::new();
        Ok(Self { rows, dim: shape.dim, device: device.clone(), latency, is_fallback })
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
    pub(super) fn reserve(&mut self, placing: &Placing<'_>) -> Result<()> {
        let end = placing.slots.iter().max().map_or(0, |&slot| slot as usize + 1);
        self.rows.reserve(end)
    }

    /// Whether it is likely to be ahead of the GPU.
    pub(super) async fn is_quicker(&self, queries: &Queries<'_>) -> bool {
        if let Queries::Device(_) = queries {
            return false;
        }
        let (rows, is_narrowed) = (self.rows.end() as usize, self.rows.is_narrowed());
        let Some(expected) = host::expected(queries.rows(), rows, self.dim, is_narrowed) else {
            return false;
        };
        if self.latency.get().is_none() {
            // A device that cannot be measured has a fault, which the search will tell.
            let Ok(latency) = self.device.latency().await else { return false };
            self.latency.get_or_init(|| latency);
        }
        self.latency.get().is_some_and(|&latency| expected < latency)
    }

    /// What the host answers where the GPU could not, for this reason.
    pub(super) fn stands_in_for(&self, error: &Error, queries: &Queries<'_>) -> bool {
        let is_of_device =
            matches!(error, Error::DeviceLost { .. } | Error::OutOfMemory { .. } | Error::Device { .. });
        self.is_fallback && is_of_device && !matches!(queries, Queries::Device(_))
    }

    pub(super) async fn search(&self, queries: &Queries<'_>, request: &SearchRequest<'_>) -> Result<Found> {
        let mut found = self.rows.search(queries, request).await?;
        found.statistics.on_host = true;
        Ok(found)
    }

    pub(super) async fn search_within(
        &self,
        queries: &Queries<'_>,
        radius: f32,
        request: &SearchRequest<'_>,
    ) -> Result<Found> {
        let mut found = self.rows.search_within(queries, radius, request).await?;
        found.statistics.on_host = true;
        Ok(found)
    }
}
