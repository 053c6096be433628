//! The seam between indexes and what computes for them: an enum over engines. Indexes call these few operations and
//! nothing else, so that another engine is another arm.

mod device;
mod exhaustive;
mod nominate;
mod operations;
mod plan;
mod queries;
mod record;
pub(crate) mod reductions;
pub(crate) mod row_reductions;
mod rows;
mod search;
mod selections;
mod values;

pub use device::{Device, DeviceMatrix};
pub use operations::DistanceMatrix;
pub use plan::{Nominator, Plan, Route};
pub use queries::Queries;
pub use record::Recorder;
pub use reductions::Stages;
pub use search::Statistics;
pub(crate) use search::{Found, SearchRequest};
pub use values::{DeviceVector, ValueRows, Values};

use crate::error::Result;
use crate::matrix::{Element, ElementKind, MatrixView};

/// The rows of an index, where its engine keeps them.
#[derive(Debug)]
pub(crate) enum EngineRows {
    Gpu(rows::GpuRows),
}

impl EngineRows {
    pub(crate) fn new(device: &Device, elements: ElementKind, dim: usize, expected: u64) -> Result<Self> {
        match &device.engine {
            device::Engine::Gpu(gpu) => {
                Ok(Self::Gpu(rows::GpuRows::new(gpu.clone(), elements, dim, expected)?))
            }
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

    pub(crate) fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        match self {
            Self::Gpu(rows) => Plan::new(rows, queries as u64, k as u64, budget),
        }
    }
}
