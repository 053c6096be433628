//! The seam for what an `Ivf` has beside its rows: centroids in training, and lists around trained ones.

use std::time::Duration;

use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::{Queries, Vectors};
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::sample::Sample;
use crate::engine::lists::training::{self, GpuTraining};
use crate::engine::lists::{on_host, probing, tables as list_tables};
use crate::engine::search::pipeline as search;
use crate::engine::search::pipeline::{Found, SearchRequest};
use crate::engine::{EngineRows, PAGE, Screen};
use crate::error::{Error, Result};
use crate::host::{HostCentroids, HostLists, HostTraining};
use crate::kernels::value_of;
use crate::matrix::MatrixView;
use crate::metric::Metric;
use crate::vectors::with_view;

/// The list of a row, and the distance to its centroid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Assigned {
    pub(crate) list: u32,
    pub(crate) distance: f32,
}

impl From<&(u32, u32)> for Assigned {
    /// From the list and the key of the distance.
    fn from(&(list, key): &(u32, u32)) -> Self {
        Self { list, distance: value_of(key) }
    }
}

/// Rows to train on, and the centroids so far.
#[derive(Debug)]
pub(crate) enum Training<'a> {
    Gpu(GpuTraining),
    Host(HostTraining<'a>),
}

/// As many rows as can be trained on.
pub(crate) fn most_training_rows(device: &Device, dim: usize) -> usize {
    match &device.engine {
        Engine::Gpu(gpu) => training::most_rows(gpu, dim),
        Engine::Host(_) => u32::MAX as usize,
    }
}

impl<'a> Training<'a> {
    /// The rows that so many centroids are trained on, by their numbers; the metric is squared L2 or cosine.
    pub(crate) async fn on(
        device: &Device,
        metric: Metric,
        rows: Sample<'a>,
        numbers: &[u64],
        lists: u32,
        screen: Screen,
    ) -> Result<Self> {
        rows.check(&device.engine)?;
        let dim = rows.dim();
        match &device.engine {
            Engine::Gpu(gpu) => {
                let is_narrowed = screen.is_wanted(gpu, dim);
                Ok(Self::Gpu(GpuTraining::new(gpu, metric, rows, numbers, lists, is_narrowed).await?))
            }
            Engine::Host(host) => {
                let (rows, is_narrowed) = (rows.to_host(numbers)?, screen.is_wanted_on_host(dim));
                Ok(Self::Host(HostTraining::new(host, metric, (rows, dim), lists, is_narrowed)?))
            }
        }
    }

    /// Makes rows centroids: each list gets the row beside it, as the mean of that row alone.
    pub(crate) async fn seed(&mut self, seeds: &[(u32, u32)]) -> Result<()> {
        match self {
            Self::Gpu(training) => training.seed(seeds).await,
            Self::Host(training) => {
                training.seed(seeds);
                Ok(())
            }
        }
    }

    /// The distance of every row to the centroid that one of them would be, in the bits that [`Training::assign`] has. What that is
    /// takes the place of the first centroid, until it is made another.
    pub(crate) async fn distances(&mut self, row: u32) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(training) => training.distances(row).await,
            Self::Host(training) => Ok(training.distances(row)),
        }
    }

    /// The nearest of the centroids for every row.
    pub(crate) async fn assign(&self) -> Result<Vec<Assigned>> {
        match self {
            Self::Gpu(training) => training.assign().await,
            Self::Host(training) => Ok(training.assign()?.iter().map(Assigned::from).collect()),
        }
    }

    /// Centroids become the means of their rows. `order` has rows list by list, those of list `l` from `offsets[l]` on. Lists without
    /// rows keep their centroid.
    pub(crate) async fn update(&mut self, order: &[u32], offsets: &[u32]) -> Result<()> {
        match self {
            Self::Gpu(training) => training.update(order, offsets).await,
            Self::Host(training) => {
                training.update(order, offsets);
                Ok(())
            }
        }
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(training) => training.centroids().await,
            Self::Host(training) => Ok(training.centroids()),
        }
    }
}

/// The lists of an `Ivf`, where its engine keeps them: their centroids, and which pages of slots each has.
#[derive(Debug)]
pub(crate) enum EngineLists {
    Gpu { centroids: Centroids, tables: Option<list_tables::ListTables> },
    Host(HostLists),
}

impl EngineLists {
    /// Lists without rows, around trained centroids.
    pub(crate) fn of(training: Training<'_>) -> Self {
        match training {
            Training::Gpu(training) => Self::Gpu { centroids: training.into_centroids(), tables: None },
            Training::Host(training) => Self::Host(HostLists::of(training.into_centroids())),
        }
    }

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

    /// The list of each row: that of the nearest centroid.
    pub(crate) async fn assign(&self, rows: Vectors<'_>) -> Result<Vec<Assigned>> {
        match self {
            Self::Gpu { centroids, .. } => training::assign(centroids, &training::Assigning::New(rows)).await,
            Self::Host(HostLists { centroids, .. }) => {
                let assigned = with_view!(rows.on_host()?, view => centroids.assign(view))?;
                Ok(assigned.iter().map(Assigned::from).collect())
            }
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Gpu { centroids, .. } => centroids.lists.into(),
            Self::Host(lists) => lists.len() as u64,
        }
    }

    /// About how long a search of so many queries takes that probes so many lists; none where it cannot be told beforehand.
    pub(crate) fn expected(&self, rows: &EngineRows, queries: usize, probes: u64) -> Option<Duration> {
        match (self, rows) {
            (Self::Host(lists), EngineRows::Host(rows)) => {
                lists.expected(rows, queries, probes.min(self.count()) as usize)
            }
            _ => None,
        }
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu { centroids, .. } => centroids.to_host().await,
            Self::Host(lists) => Ok(lists.centroids.all()),
        }
    }

    /// Says which pages each list has, ascending, and how many rows. Until that is done all rows are searched.
    pub(crate) async fn set(&mut self, rows: &EngineRows, pages: &[Vec<u32>], sizes: Vec<u32>) -> Result<()> {
        match (self, rows) {
            (Self::Gpu { tables, .. }, EngineRows::Gpu(rows)) => {
                *tables = None;
                *tables = Some(list_tables::ListTables::new(rows, pages, sizes).await?);
                Ok(())
            }
            (Self::Host(lists), EngineRows::Host(_)) => {
                lists.set(pages, PAGE as usize, sizes);
                Ok(())
            }
            _ => Err(two_engines()),
        }
    }

    /// The nearest rows of the lists that are nearest to each query.
    pub(crate) async fn search(
        &self,
        rows: &EngineRows,
        queries: &Queries<'_>,
        request: &SearchRequest<'_>,
        probes: u32,
    ) -> Result<Found> {
        match (self, rows) {
            (Self::Gpu { centroids, tables: Some(tables) }, EngineRows::Gpu(rows)) => {
                probing::Probing { rows, centroids, tables, request, probes }.search(queries).await
            }
            // Nothing was added yet, or the tables did not fit the memory.
            (Self::Gpu { tables: None, .. }, EngineRows::Gpu(rows)) => {
                search::search(rows, queries, request).await
            }
            (Self::Host(lists), EngineRows::Host(rows)) => {
                on_host::search(rows, lists, queries, request, probes)
            }
            _ => Err(two_engines()),
        }
    }
}

/// An index has its rows and its lists on one device.
fn two_engines() -> Error {
    Error::internal("rows and lists of two engines")
}
