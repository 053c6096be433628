//! The arms of the seam that lead to the host engine.

use super::plan::{Plan, Route};
use super::queries::Queries;
use super::search::{Found, SearchRequest, Statistics, distance_of};
use crate::error::{Error, Result};
use crate::host::{Answer, Asked, HostRows, Wanted};
use crate::neighbors::{Neighbor, Neighbors};

use super::device::Engine;

pub(super) fn search(rows: &HostRows, queries: &Queries<'_>, request: &SearchRequest<'_>) -> Result<Found> {
    if request.k == 0 {
        return Err(Error::argument("k", "at least 1", 0));
    }
    let answer = asked(rows, queries, Wanted::Nearest(request.k), request)?;
    Ok(found(answer, request, |_| true))
}

pub(super) fn search_within(
    rows: &HostRows,
    queries: &Queries<'_>,
    radius: f32,
    request: &SearchRequest<'_>,
) -> Result<Found> {
    if radius.is_nan() {
        return Err(Error::argument("radius", "a number", radius));
    }
    let limit = super::within::limit_of(request.metric, radius);
    let answer = asked(rows, queries, Wanted::Within(limit), request)?;
    Ok(found(answer, request, |hit| hit.distance < radius))
}

fn asked(
    rows: &HostRows,
    queries: &Queries<'_>,
    wanted: Wanted,
    request: &SearchRequest<'_>,
) -> Result<Answer> {
    queries.check_device(&Engine::Host(rows.host().clone()))?;
    let allowed = request.allowed.map(|allowed| allowed.bits());
    let asked = Asked { wanted, budget: request.budget, allowed, progress: request.progress };
    match queries {
        Queries::F32(view) => rows.search(*view, &asked),
        Queries::F16(view) => rows.search(*view, &asked),
        Queries::Device(matrix) => rows.search(matrix.on_host()?, &asked),
    }
}

fn found(answer: Answer, request: &SearchRequest<'_>, is_wanted: impl Fn(&Neighbor) -> bool) -> Found {
    let Answer { rows, scored, rescored } = answer;
    let mut neighbors = Neighbors::with_capacity(rows.len(), rows.iter().map(Vec::len).sum());
    for row in rows {
        let hits =
            row.into_iter().map(|(key, id)| Neighbor { id, distance: distance_of(request.metric, key) });
        neighbors.push_row(hits.filter(&is_wanted));
    }
    Found { neighbors, statistics: Statistics { scored, rescored, ..Statistics::default() } }
}

/// How a search will run.
pub(super) fn plan(rows: &HostRows, queries: usize, k: usize, budget: u64) -> Result<Plan> {
    if k == 0 {
        return Err(Error::argument("k", "at least 1", 0));
    }
    let asked = Asked { wanted: Wanted::Nearest(k), budget, allowed: None, progress: None };
    let found = k.min(rows.len());
    let room = rows.room(queries, &asked, rows.len())?;
    Ok(Plan {
        queries: queries as u64,
        k: found as u32,
        batch: room.batch as u32,
        route: Route::Host { is_screened: rows.is_narrowed() },
        scratch_bytes: room.bytes,
    })
}
