//! The search for the k nearest rows: screens rows, or takes all; refines them; selects the nearest.

use std::mem::take;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::{Answers, Results};
use crate::engine::search::batches::{BatchWork, run_batches};
use crate::engine::search::exhaustive::exhaustive;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::screening::Screening;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Profile, Reading, words};

/// Hits that answers have room for from the start, at most: a search may find far fewer than k rows for each query.
const ROOM: usize = 1 << 22;

/// Everything that a search has found so far.
pub(crate) struct SearchState {
    pub(crate) answers: Answers,
    pub(crate) statistics: Statistics,
    pub(crate) profile: Option<Profile>,
    /// Queries with an answer.
    pub(crate) answered: usize,
}

impl SearchState {
    pub(crate) fn new(rows: &GpuRows, queries: usize, request: &SearchRequest<'_>) -> Result<Self> {
        let most = request.scope().found(rows).min(request.k as u64) as usize;
        let hits = queries.saturating_mul(most);
        Ok(Self {
            answers: Answers::new(queries, hits.min(ROOM))?,
            statistics: Statistics::default(),
            profile: if request.profile { Profile::of_forms(&rows.gpu, request.forms) } else { None },
            answered: 0,
        })
    }

    /// The result, with the times of all stages.
    pub(crate) fn finish<'f>(self, rows: &'f GpuRows) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            let Self { answers, mut statistics, profile, .. } = self;
            if let Some(profile) = profile {
                statistics.stages = profile.times(&rows.gpu).await?;
            }
            Ok(SearchResult { neighbors: answers.collected()?, statistics })
        })
    }
}

pub(crate) async fn search(
    rows: &GpuRows,
    queries: &Vectors<'_>,
    request: &SearchRequest<'_>,
) -> Result<SearchResult> {
    let mut state = SearchState::new(rows, queries.rows(), request)?;
    search_some(rows, queries, QueryNumbers::Range(0..queries.rows()), request, &mut state).await?;
    state.finish(rows).await
}

pub(crate) fn search_some<'f>(
    rows: &'f GpuRows,
    queries: &'f Vectors<'f>,
    some: QueryNumbers,
    request: &'f SearchRequest<'f>,
    state: &'f mut SearchState,
) -> Boxed<'f, ()> {
    Box::pin(async move {
        let mut plan = Plan::new(rows, some.len() as u64, request.k as u64, request.scope())?;
        if request.scope().found(rows) == 0 {
            return queries.check_values("queries");
        }
        let mut open = some;
        loop {
            let batches = open.batches(plan.batch as usize);
            let overflowed = match Screening::reserve(rows, request, &plan).await? {
                Some(screening) => {
                    let mut work = Screened { screening, queries, state, overflowed: vec![] };
                    run_batches(batches, &mut work).await?;
                    work.overflowed
                }
                None => {
                    for numbers in batches {
                        let profile = state.profile.as_mut();
                        let found = exhaustive(rows, queries, &numbers, request, &plan, profile).await?;
                        state.statistics.scored += found.len() as u64 * request.scope().visited(rows);
                        state.answered += found.len();
                        for (number, row) in numbers.iter().zip(found.rows()) {
                            state.answers.put(number, row)?;
                        }
                        request.report(state.answered);
                    }
                    vec![]
                }
            };
            // The scratch buffers of this pass are free again, so that the next pass never waits for buffers while it holds some.
            if overflowed.is_empty() {
                return Ok(());
            }
            plan = plan.again(rows, overflowed.len() as u64, request.scope())?;
            state.statistics.searched_again += overflowed.len() as u64;
            if let Route::Exhaustive { .. } = plan.route {
                state.statistics.searched_exhaustively += overflowed.len() as u64;
            }
            open = QueryNumbers::List(overflowed);
        }
    })
}

/// The screening route over batches.
struct Screened<'a> {
    screening: Screening<'a>,
    queries: &'a Vectors<'a>,
    state: &'a mut SearchState,
    overflowed: Vec<usize>,
}

impl BatchWork for Screened<'_> {
    type Pending = (QueryNumbers, Reading);

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Self::Pending> {
        self.screening.submit(self.queries, numbers, self.state.profile.as_mut()).await
    }

    async fn finish(&mut self, (numbers, reading): Self::Pending) -> Result<()> {
        let Self { screening, state, overflowed, .. } = self;
        let mut parts = reading.wait(&screening.rows.gpu).await?;
        numbers.check(&parts[0])?;
        let results = Results::new([screening.k as usize; 2], [1, 2, 3].map(|part| take(&mut parts[part])));
        let mut flags = words::<u32>(&parts[4]);
        let before = overflowed.len();
        for ((number, row), count) in numbers.iter().zip(results.rows()).zip(words::<u32>(&parts[5])) {
            let is_flagged = flags.next().is_some_and(|flag| flag != 0);
            if is_flagged || count > screening.capacity {
                overflowed.push(number);
            }
            state.statistics.refined += u64::from(count.min(screening.capacity));
            state.answers.put(number, row)?;
        }
        state.statistics.scored += results.len() as u64 * screening.rows.end();
        state.answered += results.len() - (overflowed.len() - before);
        screening.request.report(state.answered);
        Ok(())
    }
}
