//! Search in the lists of an `Ivf`: the nearest centroids of each query, and the nearest rows in their lists.
//!
//! There are two ways with one answer. For few queries, all rows of the probed lists are candidates and are rescored. For many, where
//! rows are narrowed, the search is list-major: queries are grouped by the lists they probe, so that a list is read once for 32 of
//! them, and its rows are screened by tiles of integers as in `Flat`.

mod batch;
mod list_major;
mod plan;
mod search;

use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::tables::ListTables;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::request::SearchRequest;

/// A search in the lists around some centroids.
#[derive(Clone, Copy)]
pub(crate) struct Probing<'a> {
    pub(crate) rows: &'a GpuRows,
    pub(crate) centroids: &'a Centroids,
    pub(crate) tables: &'a ListTables,
    pub(crate) request: &'a SearchRequest<'a>,
    /// Lists that each query probes.
    pub(crate) probes: u32,
}

impl Probing<'_> {
    /// The number of all lists.
    pub(super) fn lists(&self) -> u32 {
        self.centroids.lists
    }
}
