//! The nearest rows: batches are screened on the device, and the host rescores one while the device screens the next.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::apart::Asked;
use crate::engine::search::apart::rescoring::{Candidates, Collector, Room};
use crate::engine::search::batches::{BatchWork, run_batches};
use crate::engine::search::pipeline::SearchState;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::error::{Error, Result};
use crate::host::{Hits, HostRequest, HostRows, SearchLimit};
use crate::interrupt;
use crate::kernels::value_of;
use crate::memory;
use crate::neighbors::Neighbor;

/// The search over batches of one plan.
struct Nearest<'a> {
    screening: Screening<'a>,
    collector: Collector,
    rows: &'a HostRows,
    asked: Asked<'a>,
    state: &'a mut SearchState,
    overflowed: Vec<usize>,
}

pub(super) async fn nearest(
    rows: &HostRows,
    integers: &GpuRows,
    asked: Asked<'_>,
    request: &SearchRequest<'_>,
    plan: Plan,
) -> Result<SearchResult> {
    let count = asked.on_host.rows();
    let mut state = SearchState::new(integers, count, request)?;
    let mut open = QueryNumbers::Range(0..count);
    let mut next = Some(plan);
    while let Some(plan) = next {
        let Some(screening) = Screening::reserve(integers, request, &plan).await? else {
            return Err(Error::internal("rows on the host have a plan without a screen"));
        };
        let (collector, overflowed) = (Collector::new(Room::of(plan.k)), vec![]);
        let mut work = Nearest { screening, collector, rows, asked, state: &mut state, overflowed };
        run_batches(open.batches(plan.batch as usize), &mut work).await?;
        let overflowed = work.overflowed;
        if overflowed.is_empty() {
            return state.finish(integers).await;
        }
        state.statistics.searched_again += overflowed.len() as u64;
        next = plan.longer(integers, overflowed.len() as u64, request.scope());
        open = QueryNumbers::List(overflowed);
    }
    // The scratch memory of the device is free again: the host's threads may be in searches that wait for it.
    by_host(rows, asked, request, &open, &mut state)?;
    state.finish(integers).await
}

/// Answers queries from all rows, on the host alone.
fn by_host(
    rows: &HostRows,
    asked: Asked<'_>,
    request: &SearchRequest<'_>,
    numbers: &QueryNumbers,
    state: &mut SearchState,
) -> Result<()> {
    let mut some = memory::with_room(numbers.len())?;
    some.extend(numbers.iter());
    let squared = memory::collect(some.iter().map(|&number| asked.squared[number]))?;
    let queries = asked.on_host.chosen(&some)?;
    let before = state.answered;
    let progress = |answered| request.report(before + answered);
    let host_request = HostRequest {
        limit: SearchLimit::Nearest(request.k),
        budget: request.budget,
        allowed: request.allowed.map(|allowed| &allowed.bits),
        progress: Some(&progress),
    };
    let hits = rows.search_checked((Vectors::from(&queries).on_host()?, &squared), &host_request)?;
    state.statistics.searched_exhaustively += some.len() as u64;
    state.statistics.scored += hits.scored;
    put(some.into_iter(), &hits, state)
}

/// Sets the answers of queries.
fn put(numbers: impl ExactSizeIterator<Item = usize>, hits: &Hits, state: &mut SearchState) -> Result<()> {
    state.answered += numbers.len();
    state.statistics.rescored += hits.rescored;
    for (number, row) in numbers.zip(hits.iter()) {
        let hits = row.iter();
        let hits = hits.map(|&(key, id)| Neighbor { id, distance: value_of(key) });
        state.answers.put(number, hits)?;
    }
    Ok(())
}

impl BatchWork for Nearest<'_> {
    type Pending = Candidates;

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Candidates> {
        let Self { screening, collector, asked, state, .. } = self;
        let commands = screening.nominated(asked.queries, &numbers, state.profile.as_mut()).await?;
        // Without `tighten`, nothing is dropped from a list but what exceeds its capacity.
        collector.submit(screening, commands, numbers, screening.tightens())
    }

    async fn finish(&mut self, pending: Candidates) -> Result<()> {
        let Self { screening, collector, rows, asked, state, overflowed } = self;
        let read = collector.read(screening, pending).await?;
        interrupt::check()?;
        let (shortlists, too_many) = read.shortlists(screening.capacity)?;
        let limit = SearchLimit::Nearest(screening.request.k);
        let hits = rows.rescored((asked.on_host, asked.squared), &shortlists, limit)?;
        state.statistics.scored += read.numbers.len() as u64 * screening.rows.end();
        put(shortlists.iter().map(|shortlist| shortlist.query), &hits, state)?;
        overflowed.extend(too_many.into_iter().map(|(query, _)| query));
        screening.request.report(state.answered);
        Ok(())
    }
}
