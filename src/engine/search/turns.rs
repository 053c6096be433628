//! Searches of the host engine that leave a browser its turns: it hears of an aborted search, and runs its timers, between two pieces of one.

use std::time::Duration;

use crate::elements::HostVectors;
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::error::Result;
use crate::host::{self, integers::packed::PANEL};
use crate::neighbors::Neighbors;
use crate::platform::{self, CAN_WAIT, Instant};

/// How long a piece is to take: the next has as many queries as fit, by the pace of the last. A panel is the least, because a part of one
/// takes as long.
const PIECE: Duration = Duration::from_millis(30);

/// A clock of a browser may stand still for a piece: the next is not longer than this many.
const GROWTH: usize = 8;

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
    let (mut start, mut most, mut turn) = (0, PANEL, Instant::now());
    while start < rows {
        // A turn takes a tenth of a millisecond: short searches, such as those that a host copy answers for a GPU, take none.
        if turn.elapsed() >= PIECE / 2 {
            platform::next_turn().await;
            turn = Instant::now();
        }
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
