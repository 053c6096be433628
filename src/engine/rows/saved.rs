//! What saving an index reads from the device, and what loading one makes there.

use std::sync::Arc;

use crate::engine::device::handle::Engine;
use crate::engine::lists::centroids::Centroids;
use crate::engine::{Device, EngineLists, EngineRows, Screen};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Gpu};
use crate::host::{HostCentroids, HostLists};
use crate::matrix::MatrixView;
use crate::metric::Metric;

impl EngineRows {
    /// The rows in these slots, `[slots, dim]`: their bytes as they are stored, without padding.
    pub(crate) async fn fetch_bytes(&self, slots: &[u32]) -> Result<Vec<u8>> {
        match self {
            Self::Gpu(rows) => {
                let used = rows.dim * rows.layout.elements.size();
                let mut bytes = Vec::with_capacity(slots.len() * used);
                rows.gather_own(slots, |row| bytes.extend_from_slice(&row[..used])).await?;
                Ok(bytes)
            }
            Self::Host(rows) => Ok(rows.fetch_bytes(slots)),
        }
    }
}

impl EngineLists {
    /// Lists without rows, around centroids of the host; the metric is that of the index.
    pub(crate) async fn around(
        device: &Device,
        metric: Metric,
        centroids: MatrixView<'_, f32>,
        screen: Screen,
    ) -> Result<Self> {
        match &device.engine {
            Engine::Gpu(gpu) => {
                let is_narrowed = screen.is_wanted(gpu, centroids.dim());
                let centroids =
                    Centroids::of_host(gpu, metric.of_centroids(), centroids, is_narrowed).await?;
                Ok(Self::Gpu { centroids, tables: None })
            }
            Engine::Host(host) => {
                let is_narrowed = screen.is_wanted_on_host(centroids.dim());
                let centroids = HostCentroids::around(host, metric.of_centroids(), centroids, is_narrowed)?;
                Ok(Self::Host(HostLists::of(centroids)))
            }
        }
    }
}

impl Centroids {
    /// Centroids as they are given, `[lists, dim]`.
    async fn of_host(
        gpu: &Arc<Gpu>,
        metric: Metric,
        rows: MatrixView<'_, f32>,
        is_narrowed: bool,
    ) -> Result<Self> {
        // Another centre than the one they were trained around. What a search answers does not depend on it.
        let centre = is_narrowed.then(|| mean(rows));
        let centroids = Self::new(gpu, metric, rows.dim(), rows.rows() as u32, centre).await?;
        gpu.upload_rows(&centroids.rows, 0, centroids.layout(), rows, |_| ()).await?;
        // Not looked at: a mean may be shorter than rows have to be.
        let refused = gpu.create_storage("refused", 8)?;
        gpu.upload_bytes(&refused, 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(gpu, None);
        centroids.encode_update(&mut commands, BufferSlice::all(&refused))?;
        commands.submit();
        Ok(centroids)
    }
}

/// The mean of all rows, of which there is one at least.
fn mean(rows: MatrixView<'_, f32>) -> Vec<f32> {
    let mut sums = vec![0.0; rows.dim()];
    for row in rows.values().chunks_exact(rows.dim()) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    sums.iter().map(|sum| (sum / rows.rows() as f64) as f32).collect()
}
