//! The seam between indexes and what computes for them: an enum over engines. Indexes call these few operations and
//! nothing else, so that another engine is another arm.

mod alive;
mod allowed;
mod answers;
mod centre;
mod centroids;
mod device;
mod exhaustive;
mod list_tables;
mod lists;
mod moves;
mod narrowed;
mod nominate;
mod operations;
mod plan;
mod probing;
mod queries;
mod record;
pub(crate) mod reductions;
pub(crate) mod row_reductions;
mod rows;
mod sample;
mod saved;
mod scores;
mod search;
mod selections;
mod training;
mod values;
mod within;
mod write;

pub(crate) use allowed::Allowed;
pub use device::{Device, DeviceMatrix};
pub(crate) use list_tables::PAGE;
pub use narrowed::Screen;
pub use operations::DistanceMatrix;
pub use plan::{Nominator, Plan, Route};
pub use queries::Queries;
pub use record::Recorder;
pub use reductions::Stages;
pub(crate) use sample::Sample;
pub use search::Statistics;
pub(crate) use search::{Found, SearchRequest};
pub(crate) use training::{Assigned, Training};
pub use values::{DeviceVector, ValueRows, Values};
pub(crate) use write::{Placing, RowSource};

use crate::bits::Bits;
use crate::error::Result;
use crate::matrix::{Element, ElementKind};
use crate::metric::Metric;

/// What rows an index has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowShape {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    /// How many rows are expected.
    pub(crate) expected: u64,
    pub(crate) screen: Screen,
}

/// The rows of an index, where its engine keeps them.
#[derive(Debug)]
pub(crate) enum EngineRows {
    Gpu(rows::GpuRows),
}

impl EngineRows {
    pub(crate) fn new(device: &Device, shape: &RowShape) -> Result<Self> {
        let &RowShape { metric, elements, dim, expected, screen } = shape;
        match &device.engine {
            device::Engine::Gpu(gpu) => {
                let narrowed = narrowed::NarrowedRows::new(gpu, screen, metric, dim)?;
                Ok(Self::Gpu(rows::GpuRows::new(gpu.clone(), elements, dim, expected, narrowed)?))
            }
        }
    }

    /// Whether there is a narrowed copy of the rows.
    pub(crate) fn is_narrowed(&self) -> bool {
        match self {
            Self::Gpu(rows) => rows.narrowed.is_some(),
        }
    }

    /// Puts rows into slots that have none; all of them or, after an error, none.
    ///
    /// Which slots is the caller's affair. What lies behind the end is made, and what is left out below it is a gap.
    pub(crate) async fn put<T: Element>(
        &mut self,
        source: RowSource<'_, T>,
        placing: &Placing<'_>,
        progress: impl FnMut(usize),
    ) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.put(source, placing, progress).await,
        }
    }

    /// Takes the rows out of slots that have one; the end may come nearer.
    pub(crate) async fn release(&mut self, freed: &[u32]) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.release(freed).await,
        }
    }

    /// Moves rows, with their ids, from slots to as many that have none.
    pub(crate) async fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.relocate(from, to).await,
        }
    }

    /// Gives up memory behind the end, where it is much.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.shrink(),
        }
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    pub(crate) async fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(rows) => rows.fetch(slots).await,
        }
    }

    /// Which slots below the end have a row; none when all have.
    pub(crate) fn alive(&self) -> Option<&Bits> {
        match self {
            Self::Gpu(rows) => rows.alive.as_ref().map(|alive| &alive.bits),
        }
    }

    /// One past the last slot that has a row.
    pub(crate) fn end(&self) -> u64 {
        match self {
            Self::Gpu(rows) => rows.end(),
        }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Gpu(rows) => rows.len(),
        }
    }

    pub(crate) async fn search(&self, queries: &Queries<'_>, request: &SearchRequest<'_>) -> Result<Found> {
        match self {
            Self::Gpu(rows) => search::search(rows, queries, request).await,
        }
    }

    pub(crate) async fn search_within(
        &self,
        queries: &Queries<'_>,
        radius: f32,
        request: &SearchRequest<'_>,
    ) -> Result<Found> {
        match self {
            Self::Gpu(rows) => within::search_within(rows, queries, radius, request).await,
        }
    }

    pub(crate) fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        match self {
            Self::Gpu(rows) => {
                Plan::new(rows, queries as u64, k as u64, allowed::Room { budget, allowed: None })
            }
        }
    }
}

/// As many rows as can be trained on.
pub(crate) fn most_training_rows(device: &Device, dim: usize) -> usize {
    match &device.engine {
        device::Engine::Gpu(gpu) => training::most_rows(gpu, dim),
    }
}

impl Training {
    /// The rows that so many centroids are trained on, by their numbers; the metric is squared L2 or cosine.
    pub(crate) async fn on<T: Element>(
        device: &Device,
        metric: Metric,
        rows: Sample<'_, T>,
        numbers: &[u64],
        lists: u32,
        screen: Screen,
    ) -> Result<Self> {
        match &device.engine {
            device::Engine::Gpu(gpu) => {
                rows.check(gpu)?;
                let is_narrowed = screen.is_wanted(gpu, rows.dim());
                Self::new(gpu, metric, rows, numbers, lists, is_narrowed).await
            }
        }
    }
}

/// The lists of an `Ivf`, where its engine keeps them: their centroids, and which pages of slots each has.
#[derive(Debug)]
pub(crate) enum EngineLists {
    Gpu { centroids: centroids::Centroids, tables: Option<list_tables::ListTables> },
}

impl EngineLists {
    /// Lists without rows, around trained centroids.
    pub(crate) fn of(training: Training) -> Self {
        Self::Gpu { centroids: training.into_centroids(), tables: None }
    }

    /// The list of each row: that of the nearest centroid.
    pub(crate) async fn assign<T: Element>(&self, rows: RowSource<'_, T>) -> Result<Vec<Assigned>> {
        match self {
            Self::Gpu { centroids, .. } => training::assign(centroids, &training::Assigning::New(rows)).await,
        }
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu { centroids, .. } => centroids.to_host().await,
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
        }
    }
}
