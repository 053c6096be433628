//! The seam between indexes and what computes for them: an enum over engines. Indexes call these few operations and
//! nothing else, so that another engine is another arm.

pub(crate) mod device;
mod host;
pub(crate) mod lists;
pub(crate) mod ops;
pub(crate) mod pass;
pub(crate) mod rows;
pub(crate) mod search;

pub use device::handle::{Device, DeviceMatrix};
pub use device::queries::Queries;
pub use device::record::Recorder;
pub use device::values::{DeviceVector, ValueRows, Values};
pub(crate) use lists::assign::Assigned;
pub(crate) use lists::clusters::{EngineLists, Training, most_training_rows};
pub(crate) use lists::sample::Sample;
pub(crate) use lists::tables::PAGE;
pub use ops::distances::DistanceMatrix;
pub use ops::reductions::Stages;
pub(crate) use ops::row_reductions;
pub(crate) use rows::allowed::Allowed;
pub use crate::screen::Screen;
pub(crate) use rows::write::{Placing, RowSource};
pub use search::plan::{Plan, Route};
pub use search::request::Statistics;
pub(crate) use search::request::{Found, SearchRequest};
pub use search::screens::Nominator;

use std::time::Duration;

use crate::bits::Bits;
use crate::error::Result;
use crate::host::HostRows;
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
    Gpu(rows::segments::GpuRows),
    Host(HostRows),
}

impl EngineRows {
    pub(crate) fn new(device: &Device, shape: &RowShape) -> Result<Self> {
        let &RowShape { metric, elements, dim, expected, screen } = shape;
        match &device.engine {
            device::handle::Engine::Gpu(gpu) => {
                let narrowed = rows::narrowed::NarrowedRows::new(gpu, screen, metric, dim)?;
                Ok(Self::Gpu(rows::segments::GpuRows::new(gpu.clone(), elements, dim, expected, narrowed)?))
            }
            device::handle::Engine::Host(host) => {
                let is_narrowed = screen.is_wanted_on_host(dim);
                let rows = HostRows::new(host.clone(), metric, elements, dim, is_narrowed);
                Ok(Self::Host(rows.expecting(expected)?))
            }
        }
    }

    /// Whether there is a narrowed copy of the rows.
    pub(crate) fn is_narrowed(&self) -> bool {
        match self {
            Self::Gpu(rows) => rows.narrowed.is_some(),
            Self::Host(rows) => rows.is_narrowed(),
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
            Self::Host(rows) => {
                let places = (placing.slots, placing.ids, placing.freed);
                match source {
                    RowSource::Host(view) => rows.put(view, places, progress),
                    RowSource::Device(matrix) => rows.put(matrix.on_host()?, places, progress),
                }
            }
        }
    }

    /// Room for slots up to this one, so that a change that fills them does not fail for memory of the host.
    pub(crate) fn reserve(&mut self, end: usize) -> Result<()> {
        match self {
            Self::Gpu(_) => Ok(()),
            Self::Host(rows) => rows.reserve(end),
        }
    }

    /// Takes the rows out of slots that have one; the end may come nearer.
    pub(crate) async fn release(&mut self, freed: &[u32]) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.release(freed).await,
            Self::Host(rows) => {
                rows.release(freed);
                Ok(())
            }
        }
    }

    /// Moves rows, with their ids, from slots to as many that have none.
    pub(crate) async fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.relocate(from, to).await,
            Self::Host(rows) => rows.relocate(from, to),
        }
    }

    /// Gives up memory behind the end, where it is much.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        match self {
            Self::Gpu(rows) => rows.shrink(),
            Self::Host(rows) => {
                rows.shrink();
                Ok(())
            }
        }
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    pub(crate) async fn fetch(&self, slots: &[u32]) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(rows) => rows.fetch(slots).await,
            Self::Host(rows) => Ok(rows.fetch(slots)),
        }
    }

    /// Which slots below the end have a row; none when all have.
    pub(crate) fn alive(&self) -> Option<&Bits> {
        match self {
            Self::Gpu(rows) => rows.alive.as_ref().map(|alive| &alive.bits),
            Self::Host(rows) => rows.alive(),
        }
    }

    /// One past the last slot that has a row.
    pub(crate) fn end(&self) -> u64 {
        match self {
            Self::Gpu(rows) => rows.end(),
            Self::Host(rows) => rows.end() as u64,
        }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Gpu(rows) => rows.len(),
            Self::Host(rows) => rows.len() as u64,
        }
    }

    pub(crate) async fn search(&self, queries: &Queries<'_>, request: &SearchRequest<'_>) -> Result<Found> {
        match self {
            Self::Gpu(rows) => search::pipeline::search(rows, queries, request).await,
            Self::Host(rows) => host::search(rows, queries, request),
        }
    }

    pub(crate) async fn search_within(
        &self,
        queries: &Queries<'_>,
        radius: f32,
        request: &SearchRequest<'_>,
    ) -> Result<Found> {
        match self {
            Self::Gpu(rows) => search::within::search_within(rows, queries, radius, request).await,
            Self::Host(rows) => host::search_within(rows, queries, radius, request),
        }
    }

    /// About how long a search of so many queries takes; none where it cannot be told beforehand.
    pub(crate) fn expected(&self, queries: usize) -> Option<Duration> {
        match self {
            Self::Gpu(_) => None,
            Self::Host(rows) => rows.expected(queries),
        }
    }

    pub(crate) fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        match self {
            Self::Gpu(rows) => {
                Plan::new(rows, queries as u64, k as u64, rows::allowed::Scope { budget, allowed: None })
            }
            Self::Host(rows) => host::plan(rows, queries, k, budget),
        }
    }
}
