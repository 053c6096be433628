//! Search in the lists of an `Ivf`: the nearest centroids of each query, and the nearest rows in their lists.
//!
//! The ways to search have one answer. For few rows, for many neighbours, or without a quantised copy, all rows of the probed lists are candidates
//! and are refined. Otherwise the first rows of a query's nearest lists give it a threshold, and a screen on integers excludes most of the
//! other rows: query by query where few queries probe the same list, and else list by list, so that a list is read once for many
//! queries.

mod batch;
mod needs;
mod plan;
mod screened;
mod search;

use crate::elements::ElementKind;
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::tables::{GpuLists, ListTables};
use crate::engine::rows::segments::GpuRows;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::search::hybrid::refining::Asked;
use crate::engine::search::request::SearchRequest;

/// A search in the lists around some centroids.
#[derive(Clone, Copy)]
pub(crate) struct Probing<'a> {
    pub(crate) rows: &'a GpuRows,
    pub(crate) centroids: &'a Centroids,
    pub(crate) tables: &'a ListTables,
    pub(crate) request: &'a SearchRequest<'a>,
    #[cfg(not(target_arch = "wasm32"))]
    /// The rows and the queries of the host, where that computes distances.
    pub(crate) asked: Option<Asked<'a>>,
    /// Lists that each query probes.
    pub(crate) probes: u32,
}

impl<'a> Probing<'a> {
    /// The search that a request asks for; none where that is for all rows, or there are no tables of lists.
    pub(crate) fn of(rows: &'a GpuRows, request: &'a SearchRequest<'a>) -> Option<Self> {
        let GpuLists { centroids, tables: Some(tables) } = rows.lists.as_ref()? else { return None };
        Some(Self {
            rows,
            centroids,
            tables,
            request,
            #[cfg(not(target_arch = "wasm32"))]
            asked: None,
            probes: request.probes?,
        })
    }

    pub(super) fn lists(&self) -> u32 {
        self.centroids.lists
    }

    /// Whether rows are bits, which centroids see as numbers 0 and 1.
    pub(super) fn of_bits(&self) -> bool {
        self.rows.layout.elements == ElementKind::Bits
    }
}
