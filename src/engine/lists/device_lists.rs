//! The seam between indexes and engines for lists: the training of centroids, and lists around trained centroids.

use crate::elements::MatrixView;
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::ahead;
use crate::engine::lists::assign::{Assigned, Assigning, assign};
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::sample::Sample;
use crate::engine::lists::tables::{ListTables, PAGE};
use crate::engine::lists::training::{self, GpuTraining};
use crate::engine::rows::segments::GpuRows;
use crate::error::{Error, Result};
use crate::host::{HostCentroids, HostLists, HostTraining};
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::usage::Memory;

/// Rows to train on, and the centroids so far.
#[derive(Debug)]
pub(crate) enum Training<'a> {
    Gpu(GpuTraining),
    Host(HostTraining<'a>),
}

pub(crate) fn most_training_rows(device: &Device) -> usize {
    match &device.engine {
        Engine::Gpu(gpu) => training::most_rows(gpu),
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

    /// The nearest of the centroids for every row.
    pub(crate) async fn assign(&self) -> Result<Vec<Assigned>> {
        match self {
            Self::Gpu(training) => training.assign().await,
            Self::Host(training) => memory::collect(training.assign()?.iter().map(Assigned::from)),
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

/// The lists of an `Ivf`: their centroids, and the pages of slots of each.
#[derive(Debug)]
pub(crate) enum DeviceLists {
    /// There are no tables before the first row, and if they did not fit the device's memory.
    Gpu {
        centroids: Centroids,
        tables: Option<ListTables>,
    },
    Host(HostLists),
}

impl DeviceLists {
    /// Lists without rows, around trained centroids.
    pub(crate) fn of(training: Training<'_>) -> Self {
        match training {
            Training::Gpu(training) => Self::Gpu { centroids: training.centroids, tables: None },
            Training::Host(training) => Self::Host(HostLists::of(training.centroids)),
        }
    }

    pub(crate) async fn around(
        device: &Device,
        metric: Metric,
        centroids: MatrixView<'_, f32>,
        quantization: Quantization,
    ) -> Result<Self> {
        match &device.engine {
            Engine::Gpu(gpu) => {
                let is_quantized = quantization.is_wanted(gpu, centroids.dim());
                let centroids =
                    Centroids::of_host(gpu, metric.of_centroids(), centroids, is_quantized).await?;
                Ok(Self::Gpu { centroids, tables: None })
            }
            Engine::Host(host) => {
                let is_quantized = quantization.is_wanted_on_host(centroids.dim());
                let centroids = HostCentroids::around(host, metric.of_centroids(), centroids, is_quantized)?;
                Ok(Self::Host(HostLists::of(centroids)))
            }
        }
    }

    pub(crate) async fn assign(&self, rows: Vectors<'_>) -> Result<Vec<Assigned>> {
        match self {
            Self::Gpu { centroids, .. } => assign(centroids, &Assigning::New(rows)).await,
            Self::Host(HostLists { centroids, .. }) => {
                let assigned = centroids.assign(rows.on_host()?)?;
                memory::collect(assigned.iter().map(Assigned::from))
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Gpu { centroids, .. } => centroids.lists.into(),
            Self::Host(lists) => lists.len() as u64,
        }
    }

    pub(crate) async fn centroids(&self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu { centroids, .. } => centroids.to_host().await,
            Self::Host(lists) => lists.centroids.all(),
        }
    }

    /// The centroids, and the tables of the lists around them.
    pub(crate) fn on_gpu(&self) -> Result<(&Centroids, Option<&ListTables>)> {
        match self {
            Self::Gpu { centroids, tables } => Ok((centroids, tables.as_ref())),
            Self::Host(_) => Err(two_engines()),
        }
    }

    pub(crate) fn on_host(&self) -> Result<&HostLists> {
        match self {
            Self::Gpu { .. } => Err(two_engines()),
            Self::Host(lists) => Ok(lists),
        }
    }

    /// Makes the tables of lists with these pages and numbers of rows.
    pub(crate) async fn set_on_gpu(
        &mut self,
        rows: &GpuRows,
        pages: &[Vec<u32>],
        sizes: &[u32],
    ) -> Result<()> {
        let Self::Gpu { tables, .. } = self else { return Err(two_engines()) };
        *tables = None;
        *tables = Some(ListTables::new(rows, pages, memory::copied(sizes)?).await?);
        Ok(())
    }

    pub(crate) fn set_on_host(&mut self, pages: &[Vec<u32>], sizes: &[u32]) -> Result<()> {
        let Self::Host(lists) = self else { return Err(two_engines()) };
        lists.set(pages, PAGE as usize, sizes)
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        match self {
            Self::Gpu { centroids, tables } => {
                centroids.measure(memory);
                if let Some(tables) = tables {
                    tables.measure(memory);
                }
            }
            Self::Host(lists) => lists.measure(memory),
        }
    }
}

fn two_engines() -> Error {
    Error::internal("rows and lists are on two engines")
}
