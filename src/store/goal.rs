//! The goal of a search: which rows it looks for, on either engine.

use crate::engine::{EngineLists, EngineRows, SearchRequest, SearchResult, Vectors};
use crate::error::Result;

/// The rows to find for each query.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// The nearest of all: see [`EngineRows::search`].
    Nearest,
    /// The nearest of those in the lists that are nearest to the query: see [`EngineLists::search`].
    InLists { lists: &'a EngineLists, probes: u32 },
    /// All within a radius: see [`EngineRows::search_within`].
    Within(f32),
}

impl<'a> Goal<'a> {
    /// The same goal in the lists of another engine, where there are any.
    pub(super) fn with(self, other: Option<&'a EngineLists>) -> Self {
        match (self, other) {
            (Self::InLists { probes, .. }, Some(lists)) => Self::InLists { lists, probes },
            (goal, _) => goal,
        }
    }

    pub(super) async fn search(
        self,
        rows: &EngineRows,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        match self {
            Self::Nearest => rows.search(queries, request).await,
            Self::InLists { lists, probes } => lists.search(rows, queries, request, probes).await,
            Self::Within(radius) => rows.search_within(queries, radius, request).await,
        }
    }
}
