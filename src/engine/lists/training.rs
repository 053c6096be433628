//! The training of centroids, on either engine.

use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::lists::ahead;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::gpu_training::{GpuTraining, most_rows};
use crate::engine::lists::sample::Sample;
use crate::error::Result;
use crate::host::HostTraining;
use crate::metric::Metric;
use crate::options::quantization::Quantization;

/// Rows to train on, and the centroids so far.
#[derive(Debug)]
pub(crate) enum Training<'a> {
    Gpu(GpuTraining),
    Host(HostTraining<'a>),
}

pub(crate) fn most_training_rows(device: &Device) -> usize {
    match &device.engine {
        Engine::Gpu(gpu) => most_rows(gpu),
        Engine::Host(_) => u32::MAX as usize,
    }
}

impl<'a> Training<'a> {
    /// Training of `lists` centroids on the rows with these numbers. The metric is squared L2 or cosine.
    pub(crate) async fn on(
        device: &Device,
        metric: Metric,
        rows: Sample<'a>,
        numbers: &[u64],
        lists: u32,
        quantization: Quantization,
    ) -> Result<Self> {
        rows.check(&device.engine)?;
        let dim = rows.dim();
        match &device.engine {
            Engine::Gpu(gpu) => {
                let is_quantized = quantization.is_wanted(gpu, dim);
                gpu.compile_ahead(dim, || ahead::training(gpu, metric, is_quantized));
                Ok(Self::Gpu(GpuTraining::new(gpu, metric, rows, numbers, lists, is_quantized).await?))
            }
            Engine::Host(host) => {
                let (rows, is_quantized) = (rows.to_host(numbers)?, quantization.is_wanted_on_host(dim));
                Ok(Self::Host(HostTraining::new(host, metric, (rows, dim), lists, is_quantized)?))
            }
        }
    }

    /// Makes rows centroids: each pair is a list and the row that becomes its centroid, as the mean of that row alone.
    pub(crate) async fn seed(&mut self, seeds: &[(u32, u32)]) -> Result<()> {
        match self {
            Self::Gpu(training) => training.seed(seeds).await,
            Self::Host(training) => training.seed(seeds),
        }
    }

    /// Distances of all rows to row `row` as a centroid, bit for bit as [`Training::assign`] computes them. That centroid replaces
    /// the first one until the next call of [`Training::seed`] or [`Training::update`].
    pub(crate) async fn distances(&mut self, row: u32) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(training) => training.distances(row).await,
            Self::Host(training) => training.distances(row),
        }
    }

    /// Writes the nearest of the centroids for every row.
    pub(crate) async fn assign(&self, assigned: &mut [Assigned]) -> Result<()> {
        match self {
            Self::Gpu(training) => training.assign(assigned).await,
            Self::Host(training) => {
                let found = training.assign()?;
                assigned.iter_mut().zip(&found).for_each(|(row, found)| *row = found.into());
                Ok(())
            }
        }
    }

    /// Replaces centroids by the means of their rows. `order` has the rows list by list, those of list `l` from `offsets[l]` on, in
    /// ascending order. Lists without rows keep their centroid.
    pub(crate) async fn update(&mut self, order: &[u32], offsets: &[u32]) -> Result<()> {
        match self {
            Self::Gpu(training) => training.update(order, offsets).await,
            Self::Host(training) => training.update(order, offsets),
        }
    }

    pub(crate) async fn centroids(&self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(training) => training.centroids.to_host().await,
            Self::Host(training) => training.centroids.all(),
        }
    }
}
