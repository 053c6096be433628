//! Centroids that the host has, and how each device gets a copy of them.

use std::sync::Arc;

use crate::elements::MatrixView;
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::assign::{Assigned, Assigning, assign};
use crate::engine::lists::centroids::Centroids;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::host::{Host, HostCentroids};
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;

/// Centroids that lists are made around, `[lists, dim]`, of bits `[lists, 8 dim]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GivenCentroids<'a> {
    pub(crate) values: MatrixView<'a, f32>,
    /// The metric of the rows.
    pub(crate) metric: Metric,
    pub(crate) quantization: Quantization,
}

impl GivenCentroids<'_> {
    pub(crate) async fn on_gpu(&self, gpu: &Arc<Gpu>) -> Result<Centroids> {
        let is_quantized = self.quantization.is_wanted(gpu, self.values.dim());
        Centroids::of_host(gpu, self.metric.of_centroids(), self.values, is_quantized).await
    }

    pub(crate) fn on_host(&self, host: &Arc<Host>) -> Result<HostCentroids> {
        let is_quantized = self.quantization.is_wanted_on_host(self.values.dim());
        HostCentroids::around(host, self.metric.of_centroids(), self.values, is_quantized)
    }
}

/// Centroids on one device, for rows that no index has.
pub(crate) enum DeviceCentroids {
    Gpu(Centroids),
    Host(HostCentroids),
}

impl DeviceCentroids {
    pub(crate) async fn of(given: &GivenCentroids<'_>, device: &Device) -> Result<Self> {
        Ok(match &device.engine {
            Engine::Gpu(gpu) => Self::Gpu(given.on_gpu(gpu).await?),
            Engine::Host(host) => Self::Host(given.on_host(host)?),
        })
    }

    /// The list of each row, which is that of its nearest centroid.
    pub(crate) async fn assign(&self, rows: Vectors<'_>) -> Result<Vec<Assigned>> {
        match self {
            Self::Gpu(centroids) => assign(centroids, &Assigning::New(rows)).await,
            Self::Host(centroids) => {
                memory::collect(centroids.assign(rows.on_host()?)?.iter().map(Assigned::from))
            }
        }
    }
}
