//! The seam between indexes and what computes for them: an enum over engines. Indexes call these few operations and
//! nothing else, so that another engine is another arm.

mod centre;
mod centroids;
mod device;
mod exhaustive;
mod lists;
mod narrowed;
mod nominate;
mod operations;
mod plan;
mod queries;
mod record;
pub(crate) mod reductions;
pub(crate) mod row_reductions;
mod rows;
mod scores;
mod search;
mod selections;
mod training;
mod values;
mod within;

pub use device::{Device, DeviceMatrix};
pub use narrowed::Screen;
pub use operations::DistanceMatrix;
pub use plan::{Nominator, Plan, Route};
pub use queries::Queries;
pub use record::Recorder;
pub use reductions::Stages;
pub use search::Statistics;
pub(crate) use search::{Found, SearchRequest};
pub(crate) use training::{Assigned, Training};
pub use values::{DeviceVector, ValueRows, Values};

use crate::error::Result;
use crate::matrix::{Element, ElementKind, MatrixView};
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

    /// Appends rows in the next slots; all of them or, after an error, none.
    pub(crate) async fn add<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        ids: &[u64],
        progress: impl FnMut(usize),
    ) -> Result<()> {
        match self {
            Self::Gpu(gpu_rows) => gpu_rows.add(rows, ids, progress).await,
        }
    }

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
            Self::Gpu(rows) => Plan::new(rows, queries as u64, k as u64, budget),
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
    /// Rows that so many centroids are trained on; the metric is squared L2 or cosine.
    pub(crate) async fn on<T: Element>(
        device: &Device,
        metric: Metric,
        rows: MatrixView<'_, T>,
        lists: u32,
        screen: Screen,
    ) -> Result<Self> {
        match &device.engine {
            device::Engine::Gpu(gpu) => {
                let is_narrowed = screen.is_wanted(gpu, rows.dim());
                Self::new(gpu, metric, rows, lists, is_narrowed).await
            }
        }
    }
}
