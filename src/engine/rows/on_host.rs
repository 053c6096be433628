//! Searches of an index's rows on the host engine.

use crate::elements::HostVectors;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::error::Result;
use crate::host::{Hits, HostRequest, HostRows, SearchLimit};
use crate::kernels::value_of;
use crate::neighbors::{Neighbor, Neighbors};

pub(crate) fn search(
    rows: &HostRows,
    queries: HostVectors<'_>,
    request: &SearchRequest<'_>,
) -> Result<SearchResult> {
    found(rows.search(queries, &request.on_host(request.progress))?, request)
}

/// Turns the keys of an answer into distances, those of L2 into its squares, and keeps those that are wanted.
pub(crate) fn found(answer: Hits, request: &SearchRequest<'_>) -> Result<SearchResult> {
    let mut neighbors = Neighbors::with_room(answer.ends.len(), answer.rows.len())?;
    for row in answer.iter() {
        let hits = row.iter().map(|&(key, id)| Neighbor { id, distance: value_of(key) });
        neighbors.push_row(hits.filter(|hit| request.takes(hit.distance)));
    }
    let Hits { scored, refined, .. } = answer;
    Ok(SearchResult { neighbors, statistics: Statistics { scored, refined, ..Statistics::default() } })
}

pub(crate) fn plan(rows: &HostRows, queries: usize, k: usize, budget: u64) -> Result<Plan> {
    let asked = HostRequest { limit: SearchLimit::Nearest(k), budget, allowed: None, progress: None };
    let schedule = rows.schedule(queries, &asked, rows.len())?;
    let (k, route) = (k.min(rows.len()), Route::Host { is_screened: rows.is_quantized() });
    let plan = Plan::of([queries as u64, k as u64, schedule.batch as u64], route, schedule.scratch_bytes);
    Ok(Plan { reports_on_host: true, ..plan })
}
