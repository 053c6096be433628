//! Searches of an index for several callers at once.

use crate::batcher::{Batcher, MANY, Request};
use crate::elements::{ElementKind, Matrix};
use crate::engine::{SearchRequest, SearchResult, Statistics, Vectors};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::is_blocked;
use crate::index::common::Common;
use crate::neighbors::Neighbors;
use crate::options::SearchOptions;
use crate::parallel;

/// Searches in flight on a GPU: the host prepares one and reads its answers while the device works on the other.
const ON_GPU: usize = 2;

/// On the host one search takes all threads.
const ON_HOST: usize = 1;

/// Searches for more neighbours run beside: a batch holds all answers twice, before and after each caller has its own.
const MOST_NEIGHBORS: usize = 4096;

/// Searches of this many elements run beside: one that waits has a copy of its queries.
const MOST_ELEMENTS: usize = 1 << 18;

/// What searches have in common that run as one. An index has one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kind {
    k: usize,
    /// Whether queries and rows are of integers: their distances are summed exactly then.
    integral: bool,
    iterative_scan: bool,
    probes: Option<u32>,
}

/// The searches of an index that share batches.
#[derive(Debug)]
pub(crate) struct SharedSearches(Batcher<Kind, SearchResult>);

impl SharedSearches {
    pub(crate) fn new(common: &Common) -> Self {
        Self(Batcher::new(in_flight(common)))
    }

    /// Searches for checked queries, with those of other callers where that is possible.
    pub(crate) async fn search(
        &self,
        common: &Common,
        queries: Vectors<'_>,
        options: &SearchOptions<'_>,
        probes: Option<u32>,
    ) -> Result<SearchResult> {
        let SearchOptions { k, iterative_scan, .. } = *options;
        let kind = Kind { k, integral: common.is_integral(&queries), iterative_scan, probes };
        let alone = common.search(queries, options, probes);
        if !is_joinable(common, &queries, options) || !common.store.rows.gain_together(probes) {
            return alone.await;
        }
        let request = || {
            let Vectors::Host(vectors) = queries else { return None };
            // Searched by itself, a query that is refused has the engine's own error, with its number.
            queries.check_values("queries").ok()?;
            let (values, count) = (vectors.to_f32(), vectors.rows());
            Some(Request { kind, values, queries: count, is_blocking: is_blocked() })
        };
        let run = |kind: Kind, values: Vec<f32>, counts: Vec<usize>| {
            // It borrows nothing, so that whoever of the callers is awake can run it.
            let (store, dim, elements) = (common.store.clone(), common.dim, common.elements);
            let Kind { k, integral, iterative_scan: widens, probes } = kind;
            // A part of the index's, so that searches in flight do not wait for each other's scratch memory, nor for that of a future that
            // is not polled again. Where it is too little, each caller has the whole for itself.
            let budget = common.budget / in_flight(common) as u64;
            let nearest = SearchRequest::nearest(common.metric, k, budget);
            let request = SearchRequest { integral, probes, widens, ..nearest };
            let joint = async move {
                let queries = Matrix::F32(values, dim);
                // Bits are told from numbers by their type.
                let queries = if elements == ElementKind::Bits { queries.to_kind(elements) } else { queries };
                let found = store.search(&(&queries).into(), &request).await?;
                shares(&found, &counts)
            };
            Box::pin(joint) as Boxed<'static, Vec<SearchResult>>
        };
        self.0.search(queries.rows(), request, alone, &run).await
    }
}

fn in_flight(common: &Common) -> usize {
    let of_each = if common.device.is_host() { ON_HOST } else { ON_GPU };
    of_each * common.store.rows.side_by_side()
}

/// Whether a search can run together with others.
fn is_joinable(common: &Common, queries: &Vectors<'_>, options: &SearchOptions<'_>) -> bool {
    let &SearchOptions { k, radius, probes: _, recall: _, iterative_scan: _, filter, profile, progress } =
        options;
    let is_whole = filter.is_none() && radius.is_none();
    let is_plain = is_whole && !profile && progress.is_none() && k <= MOST_NEIGHBORS;
    let is_small = matches!(queries, Vectors::Host(_))
        && (1..MANY).contains(&queries.rows())
        && queries.rows() * common.dim < MOST_ELEMENTS;
    // A thread of the pool takes up other work in the middle of a search on the host, and a search among that work must not wait for
    // the one below it. Nor may all threads of the pool wait for a search that needs one.
    let may_wait = parallel::current_thread_index().is_none();
    common.device.options().join_searches && is_plain && is_small && may_wait
}

/// The shares of callers with these numbers of queries.
fn shares(found: &SearchResult, counts: &[usize]) -> Result<Vec<SearchResult>> {
    let SearchResult { neighbors, statistics } = found;
    let all = neighbors.queries();
    let mut end = 0;
    let share = |&count: &usize| {
        let start = end;
        end += count;
        let of = |whole: u64| part(whole, end, all) - part(whole, start, all);
        let hits = neighbors.offsets()[end] - neighbors.offsets()[start];
        let mut own = Neighbors::with_room(count, hits)?;
        (start..end).for_each(|query| own.push_row(neighbors.row(query).iter().copied()));
        let statistics = Statistics {
            scored: of(statistics.scored),
            refined: of(statistics.refined),
            searched_again: of(statistics.searched_again),
            searched_exhaustively: of(statistics.searched_exhaustively),
            searched_flat: of(statistics.searched_flat),
            joined: (all - count) as u64,
            ..statistics.clone()
        };
        Ok(SearchResult { neighbors: own, statistics })
    };
    counts.iter().map(share).collect()
}

/// The part of a whole that falls to the first `queries` of `all`.
fn part(whole: u64, queries: usize, all: usize) -> u64 {
    (u128::from(whole) * queries as u128 / all.max(1) as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbors::Neighbor;

    #[test]
    fn shares_are_those_of_each_caller_and_add_up() {
        let mut neighbors = Neighbors::with_room(4, 5).expect("memory");
        for query in 0..4u64 {
            neighbors.push_row((0..query).map(|id| Neighbor { id: 10 * query + id, distance: 0.5 }));
        }
        let statistics = Statistics {
            scored: 1001,
            refined: 7,
            searched_again: 1,
            on_host: true,
            ..Statistics::default()
        };
        let shares = shares(&SearchResult { neighbors, statistics }, &[1, 2, 1]).expect("memory");
        let ids: Vec<&[u64]> = shares.iter().map(|share| share.neighbors.ids()).collect();
        assert_eq!(ids, [&[][..], &[10, 20, 21], &[30, 31, 32]]);
        assert_eq!(shares[1].neighbors.offsets(), [0, 1, 3]);
        let sum = |of: fn(&Statistics) -> u64| shares.iter().map(|share| of(&share.statistics)).sum::<u64>();
        assert_eq!(sum(|of| of.scored), 1001);
        assert_eq!((sum(|of| of.refined), sum(|of| of.searched_again)), (7, 1));
        assert_eq!(shares[1].statistics.scored, 500);
        assert!(shares.iter().all(|share| share.statistics.on_host));
        assert_eq!(sum(|of| of.joined), 3 + 2 + 3);
    }
}
