//! The arms of the seam that lead to the host engine.

use crate::engine::device::queries::Queries;
use crate::engine::lists::widening::Widening;
use crate::engine::search::pipeline::{Found, SearchRequest, Statistics, distance_of};
use crate::engine::search::plan::{Plan, Route};
use crate::error::Result;
use crate::host::{Hits, HostLists, HostRequest, HostRows, SearchLimit};
use crate::matrix::{Element, MatrixView};
use crate::neighbors::{Neighbor, Neighbors};

pub(crate) fn search(rows: &HostRows, queries: &Queries<'_>, request: &SearchRequest<'_>) -> Result<Found> {
    let answer = asked(rows, queries, SearchLimit::Nearest(request.k), request)?;
    Ok(found(answer, request, |_| true))
}

pub(crate) fn search_within(
    rows: &HostRows,
    queries: &Queries<'_>,
    radius: f32,
    request: &SearchRequest<'_>,
) -> Result<Found> {
    let limit = crate::engine::search::within::limit_of(request.metric, radius);
    let answer = asked(rows, queries, SearchLimit::Within(limit), request)?;
    Ok(found(answer, request, |hit| hit.distance < radius))
}

/// The nearest rows in the lists that are nearest to each query, or in more of them where a filter leaves too few.
pub(crate) fn search_lists(
    rows: &HostRows,
    lists: &HostLists,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
    probes: u32,
) -> Result<Found> {
    let answer = match queries {
        Queries::F32(view) => probed(rows, lists, *view, request, probes),
        Queries::F16(view) => probed(rows, lists, *view, request, probes),
        Queries::Device(matrix) => probed(rows, lists, matrix.on_host()?, request, probes),
    };
    Ok(found(answer?, request, |_| true))
}

fn probed<T: Element>(
    rows: &HostRows,
    lists: &HostLists,
    queries: MatrixView<'_, T>,
    request: &SearchRequest<'_>,
    probes: u32,
) -> Result<Hits> {
    let allowed = request.allowed.map(|allowed| allowed.bits());
    let wanted = request.allowed.map(|allowed| request.k.min(allowed.count() as usize));
    let mut widening = Widening { probes, lists: lists.len() as u32, wanted };
    let limit = SearchLimit::Nearest(request.k);
    let asked = HostRequest { limit, budget: request.budget, allowed, progress: request.progress };
    let mut answer = lists.search(rows, queries, &asked, probes as usize)?;
    while let Some(short) = widening.short(queries.rows(), |query| answer.queries[query].len()) {
        let some: Vec<T> = short.iter().flat_map(|&query| queries.row(query)).copied().collect();
        let before = queries.rows() - short.len();
        let progress = |answered| request.report(before + answered);
        let asked = HostRequest { progress: Some(&progress), ..asked };
        let some = MatrixView::new(&some, queries.dim())?;
        let more = lists.search(rows, some, &asked, widening.probes as usize)?;
        short.into_iter().zip(more.queries).for_each(|(query, row)| answer.queries[query] = row);
        answer.scored += more.scored;
        answer.rescored += more.rescored;
    }
    Ok(answer)
}

fn asked(
    rows: &HostRows,
    queries: &Queries<'_>,
    limit: SearchLimit,
    request: &SearchRequest<'_>,
) -> Result<Hits> {
    let allowed = request.allowed.map(|allowed| allowed.bits());
    let asked = HostRequest { limit, budget: request.budget, allowed, progress: request.progress };
    match queries {
        Queries::F32(view) => rows.search(*view, &asked),
        Queries::F16(view) => rows.search(*view, &asked),
        Queries::Device(matrix) => rows.search(matrix.on_host()?, &asked),
    }
}

fn found(answer: Hits, request: &SearchRequest<'_>, is_wanted: impl Fn(&Neighbor) -> bool) -> Found {
    let Hits { queries: rows, scored, rescored } = answer;
    let mut neighbors = Neighbors::with_capacity(rows.len(), rows.iter().map(Vec::len).sum());
    for row in rows {
        let hits =
            row.into_iter().map(|(key, id)| Neighbor { id, distance: distance_of(request.metric, key) });
        neighbors.push_row(hits.filter(&is_wanted));
    }
    Found { neighbors, statistics: Statistics { scored, rescored, ..Statistics::default() } }
}

/// How a search will run.
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
    })
}
