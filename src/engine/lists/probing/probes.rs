//! A search in the lists that queries probe.

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
