//! The nearest rows: batches are screened on the device, and the host rescores one while the device screens the next.

use crate::engine::device::queries::{Queries, QueryNumbers};
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::apart::rescoring::{Asked, CandidatePlaces, Collecting, Collector, neighbors};
use crate::engine::search::batches::{BatchWork, run_batches};
use crate::engine::search::pipeline::SearchState;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::host::{Hits, HostRequest, SearchLimit};

/// The search over batches of one plan.
struct Nearest<'a> {
    screening: Screening<'a>,
    collector: Collector<'a>,
    queries: &'a Queries<'a>,
    asked: Asked<'a>,
    state: &'a mut SearchState,
    overflowed: Vec<usize>,
}

pub(super) async fn search(
    integers: &GpuRows,
    queries: &Queries<'_>,
    asked: Asked<'_>,
    request: &SearchRequest<'_>,
    plan: Plan,
) -> Result<SearchResult> {
    let mut state = SearchState::new(integers, queries.rows(), request)?;
    let all = QueryNumbers::Range(0..queries.rows());
    by_plans(integers, queries, asked, all, request, Some(plan), &mut state).await?;
    state.finish(integers).await
}

/// Answers some of the queries from all rows.
pub(crate) fn search_some<'f>(
    integers: &'f GpuRows,
    queries: &'f Queries<'f>,
    asked: Asked<'f>,
    some: QueryNumbers,
    request: &'f SearchRequest<'f>,
    state: &'f mut SearchState,
) -> Boxed<'f, ()> {
    let plan = Plan::screened(integers, some.len() as u64, request.k as u64, request.scope());
    Box::pin(by_plans(integers, queries, asked, some, request, plan, state))
}

/// Answers queries by a plan, those that overflow by plans with longer lists, and the rest by the host alone.
async fn by_plans(
    integers: &GpuRows,
    queries: &Queries<'_>,
    asked: Asked<'_>,
    mut open: QueryNumbers,
    request: &SearchRequest<'_>,
    mut next: Option<Plan>,
    state: &mut SearchState,
) -> Result<()> {
    while let Some(plan) = next {
        let Some(screening) = Screening::reserve(integers, request, &plan).await? else {
            return Err(Error::internal("rows on the host have a plan without a screen"));
        };
        let (collector, state, overflowed) = (Collector::new(plan.k, asked.usual), &mut *state, vec![]);
        let mut work = Nearest { screening, collector, queries, asked, state, overflowed };
        run_batches(open.batches(plan.batch as usize), &mut work).await?;
        let overflowed = work.overflowed;
        if overflowed.is_empty() {
            return Ok(());
        }
        work.state.statistics.searched_again += overflowed.len() as u64;
        next = plan.longer(integers, overflowed.len() as u64, request.scope());
        open = QueryNumbers::List(overflowed);
    }
    let before = state.answered;
    let progress = |answered| request.report(before + answered);
    let on_host = HostRequest {
        limit: SearchLimit::Nearest(request.k),
        budget: request.budget,
        allowed: request.allowed.map(|allowed| &allowed.bits),
        progress: Some(&progress),
    };
    let hits = asked.searched(&open, &on_host)?;
    state.statistics.searched_exhaustively += open.len() as u64;
    state.statistics.scored += hits.scored;
    put(open.iter(), &hits, state)
}

/// Sets the answers of queries.
fn put(numbers: impl Iterator<Item = usize>, hits: &Hits, state: &mut SearchState) -> Result<()> {
    state.answered += hits.ends.len();
    state.statistics.rescored += hits.rescored;
    for (number, row) in numbers.zip(hits.iter()) {
        state.answers.put(number, neighbors(row))?;
    }
    Ok(())
}

impl BatchWork for Nearest<'_> {
    type Pending = Collecting;

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Collecting> {
        let Self { screening, collector, queries, state, .. } = self;
        let commands = screening.nominated(queries, &numbers, state.profile.as_mut()).await?;
        // Without `tighten`, nothing is dropped from a list but what exceeds its capacity.
        let places = CandidatePlaces::of(screening, screening.tightens());
        collector.submit(commands, numbers, &places, &[])
    }

    async fn finish(&mut self, pending: Collecting) -> Result<()> {
        let Self { screening, collector, asked, state, overflowed, .. } = self;
        let places = CandidatePlaces::of(screening, screening.tightens());
        let collected = collector.read(&screening.rows.gpu, &places, pending).await?;
        let (shortlists, too_many) = collected.shortlists(|_, count| count > places.capacity)?;
        let hits = asked.rescored(&shortlists, SearchLimit::Nearest(screening.request.k))?;
        state.statistics.scored += collected.numbers.len() as u64 * screening.rows.end();
        put(shortlists.iter().map(|shortlist| shortlist.query), &hits, state)?;
        overflowed.extend(too_many.into_iter().map(|(query, _)| query));
        screening.request.report(state.answered);
        Ok(())
    }
}
