//! Searches of an index's rows on the host engine.

use crate::engine::device::vectors::Queries;
use crate::engine::search::answers::reported;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::within::limit_of;
use crate::error::Result;
use crate::host::{Hits, HostRequest, HostRows, SearchLimit};
use crate::kernels::value_of;
use crate::neighbors::{Neighbor, Neighbors};
use crate::usage::MemoryPlace;

pub(crate) fn search(
    rows: &HostRows,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
) -> Result<SearchResult> {
    let answer = asked(rows, queries, SearchLimit::Nearest(request.k), request)?;
    found(answer, |_| true)
}

pub(crate) fn search_within(
    rows: &HostRows,
    queries: &Queries<'_>,
    radius: f32,
    request: &SearchRequest<'_>,
) -> Result<SearchResult> {
    let limit = limit_of(request.metric, radius);
    let answer = asked(rows, queries, SearchLimit::Within(limit), request)?;
    found(answer, |hit| reported(request.metric, hit.distance) < radius)
}

fn asked(
    rows: &HostRows,
    queries: &Queries<'_>,
    limit: SearchLimit,
    request: &SearchRequest<'_>,
) -> Result<Hits> {
    let allowed = request.allowed.map(|allowed| &allowed.bits);
    let asked = HostRequest { limit, budget: request.budget, allowed, progress: request.progress };
    rows.search(queries.on_host()?, &asked)
}

/// Turns the keys of an answer into distances, those of L2 into its squares, and keeps those that are wanted.
pub(crate) fn found(answer: Hits, is_wanted: impl Fn(&Neighbor) -> bool) -> Result<SearchResult> {
    let mut neighbors = Neighbors::with_room(answer.ends.len(), answer.rows.len())?;
    for row in answer.iter() {
        let hits = row.iter();
        let hits = hits.map(|&(key, id)| Neighbor { id, distance: value_of(key) });
        neighbors.push_row(hits.filter(&is_wanted));
    }
    let Hits { scored, rescored, .. } = answer;
    Ok(SearchResult { neighbors, statistics: Statistics { scored, rescored, ..Statistics::default() } })
}

/// Plans a search.
pub(crate) fn plan(rows: &HostRows, queries: usize, k: usize, budget: u64) -> Result<Plan> {
    let asked = HostRequest { limit: SearchLimit::Nearest(k), budget, allowed: None, progress: None };
    let found = k.min(rows.len());
    let schedule = rows.schedule(queries, &asked, rows.len())?;
    Ok(Plan {
        queries: queries as u64,
        k: found as u32,
        batch: schedule.batch as u32,
        route: Route::Host { is_screened: rows.is_narrowed() },
        scratch_bytes: schedule.scratch_bytes,
        devices: 1,
        placement: None,
        rows: MemoryPlace::Host,
        windows: 0,
        reports_on_host: true,
    })
}
