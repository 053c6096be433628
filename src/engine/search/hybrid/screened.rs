//! Rows whose quantised copy is on the device: it screens batch after batch, and the host refines one while the device screens the next.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::batches::{BatchWork, run_batches};
use crate::engine::search::hybrid::refining::{Asked, CandidatePlaces, Collecting, Collector, put};
use crate::engine::search::pipeline::SearchState;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::host::Hits;
use crate::kernels::key_of;

/// The search over batches of one plan.
struct Screened<'a> {
    screening: Screening<'a>,
    collector: Collector<'a>,
    queries: &'a Vectors<'a>,
    asked: Asked<'a>,
    state: &'a mut SearchState,
    overflowed: Vec<usize>,
    /// Candidates that a query of those has, at most.
    needed: u64,
}

pub(super) async fn search(
    integers: &GpuRows,
    queries: &Vectors<'_>,
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
    queries: &'f Vectors<'f>,
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
    queries: &Vectors<'_>,
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
        let collector = Collector::new(request.radius.map_or(plan.k, |_| 0), asked.usual);
        let (state, overflowed) = (&mut *state, vec![]);
        let mut work = Screened { screening, collector, queries, asked, state, overflowed, needed: 0 };
        run_batches(open.batches(plan.batch as usize), &mut work).await?;
        let Screened { state, overflowed, needed, .. } = work;
        let count = overflowed.len() as u64;
        if count == 0 {
            return Ok(());
        }
        state.statistics.searched_again += count;
        next = match request.radius {
            Some(_) => Plan::within(integers, count, needed.next_power_of_two(), request.scope()),
            None => plan.longer(integers, count, request.scope()),
        };
        open = QueryNumbers::List(overflowed);
    }
    let before = state.answered;
    let progress = |answered| request.report(before + answered);
    let hits = asked.searched(&open, &request.on_host(Some(&progress)))?;
    state.statistics.searched_exhaustively += open.len() as u64;
    state.statistics.scored += hits.scored;
    answer(open.iter(), &hits, request, state)
}

fn answer(
    numbers: impl Iterator<Item = usize>,
    hits: &Hits,
    request: &SearchRequest<'_>,
    state: &mut SearchState,
) -> Result<()> {
    state.answered += hits.ends.len();
    state.statistics.refined += hits.refined;
    numbers.zip(hits.iter()).try_for_each(|(number, row)| put(&mut state.answers, number, row, request))
}

/// Whether words tell of queries with too many candidates. Without `tighten`, nothing is dropped from a list but what exceeds its capacity.
fn is_flagged(screening: &Screening<'_>) -> bool {
    screening.request.radius.is_none() && screening.tightens()
}

impl BatchWork for Screened<'_> {
    type Pending = Collecting;

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Collecting> {
        let (screening, profile) = (&self.screening, self.state.profile.as_mut());
        let commands = match screening.request.most() {
            Some(most) => screening.within(self.queries, &numbers, |_| key_of(most), profile).await?,
            None => screening.screened(self.queries, &numbers, profile).await?,
        };
        let places = CandidatePlaces::of(screening, is_flagged(screening));
        self.collector.submit(commands, numbers, &places, &[])
    }

    async fn finish(&mut self, pending: Collecting) -> Result<()> {
        let Self { screening, collector, asked, state, overflowed, needed, .. } = self;
        let (places, request) = (CandidatePlaces::of(screening, is_flagged(screening)), screening.request);
        let collected = collector.read(&screening.rows.gpu, &places, pending).await?;
        let (shortlists, too_many) = collected.shortlists(|_, count| count > places.capacity)?;
        let hits = asked.refined(&shortlists, request.limit())?;
        state.statistics.scored += collected.numbers.len() as u64 * screening.rows.end();
        answer(shortlists.iter().map(|shortlist| shortlist.query), &hits, request, state)?;
        *needed = too_many.iter().map(|&(_, count)| u64::from(count)).fold(*needed, u64::max);
        overflowed.extend(too_many.into_iter().map(|(query, _)| query));
        request.report(state.answered);
        Ok(())
    }
}
