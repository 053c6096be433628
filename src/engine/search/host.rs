//! Searches of the host engine. In a browser they leave the page its turns: it hears of an aborted search, and runs its timers, between
//! two pieces of one.

use std::time::Duration;

use crate::elements::HostVectors;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::error::Result;
use crate::host::{self, Hits, HostRequest, HostRows, SearchLimit, integers::packed::PANEL};
use crate::kernels::value_of;
use crate::neighbors::{Neighbor, Neighbors};
use crate::platform::{self, CAN_WAIT, Instant};

/// How long a piece is to take: the next has as many queries as fit, by the pace of the last. A panel is the least, because a part of one
/// takes as long.
const PIECE: Duration = Duration::from_millis(30);

/// A clock of a browser may stand still for a piece: the next is not longer than this many.
const GROWTH: usize = 8;

/// How long ago the page had its turn.
pub(crate) struct Turn(Instant);

impl Turn {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// Leaves the page its turn after half a piece. It takes a tenth of a millisecond: short searches, such as those that a host copy answers
    /// for a GPU, take none.
    pub(crate) async fn leave(&mut self) {
        if self.0.elapsed() >= PIECE / 2 {
            platform::next_turn().await;
            *self = Self::new();
        }
    }
}

/// The nearest rows, or all within a radius.
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

/// Searches the queries: in a browser in pieces, elsewhere at once.
pub(crate) async fn by_turns(
    queries: HostVectors<'_>,
    request: &SearchRequest<'_>,
    search: impl Fn(HostVectors<'_>, &SearchRequest<'_>) -> Result<SearchResult> + Send,
) -> Result<SearchResult> {
    let rows = queries.rows();
    if CAN_WAIT || rows < 2 * PANEL {
        return search(queries, request);
    }
    // All of them are checked before any is searched.
    host::checked("queries", queries)?;
    let (mut found, mut statistics) = (vec![], Statistics::default());
    let (mut start, mut most, mut turn) = (0, PANEL, Turn::new());
    while start < rows {
        turn.leave().await;
        // Fewer than a panel are not left over.
        let end = if rows - start < most + PANEL { rows } else { start + most };
        let progress = |answered| request.report(start + answered);
        let begun = Instant::now();
        let piece =
            search(queries.slice(start..end), &SearchRequest { progress: Some(&progress), ..*request })?;
        let fit = (end - start) as f64 * (PIECE.as_secs_f64() / begun.elapsed().as_secs_f64());
        most = (fit as usize).min(GROWTH * most).next_multiple_of(PANEL).max(PANEL);
        statistics.add(&piece.statistics);
        found.push(piece.neighbors);
        start = end;
    }
    Ok(SearchResult { neighbors: Neighbors::join(&found)?, statistics })
}
