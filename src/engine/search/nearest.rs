//! The search for the k nearest rows: screens rows, or takes all; refines them; selects the nearest.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::batches::{Again, Pass, Sink};
use crate::engine::search::exhaustive::exhaustive;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::screening::Screening;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::Profile;
use crate::kernels::key_of;

/// Hits that answers have room for from the start, at most: a search may find far fewer than k rows for each query.
const ROOM: usize = 1 << 22;

/// Everything that a search has found so far.
pub(crate) struct SearchState<'a> {
    request: &'a SearchRequest<'a>,
    pub(crate) answers: Answers,
    pub(crate) statistics: Statistics,
    pub(crate) profile: Option<Profile>,
    /// Queries with an answer.
    pub(crate) answered: usize,
}

impl<'a> SearchState<'a> {
    pub(crate) fn new(rows: &GpuRows, queries: usize, request: &'a SearchRequest<'a>) -> Result<Self> {
        let most = request.scope().found(rows).min(request.k as u64) as usize;
        let hits = queries.saturating_mul(most);
        Ok(Self {
            request,
            answers: Answers::new(queries, hits.min(ROOM))?,
            statistics: Statistics::default(),
            profile: if request.profile { Profile::of_forms(&rows.gpu, request.forms) } else { None },
            answered: 0,
        })
    }

    /// The result, with the times of all stages.
    pub(crate) fn finish<'f>(self, rows: &'f GpuRows) -> Boxed<'f, SearchResult>
    where
        'a: 'f,
    {
        Box::pin(async move {
            let Self { answers, mut statistics, profile, .. } = self;
            if let Some(profile) = profile {
                statistics.stages = profile.times(&rows.gpu).await?;
            }
            Ok(SearchResult { neighbors: answers.collected()?, statistics })
        })
    }
}

impl Sink for SearchState<'_> {
    fn profile(&mut self) -> Option<&mut Profile> {
        self.profile.as_mut()
    }

    fn statistics(&mut self) -> &mut Statistics {
        &mut self.statistics
    }

    fn threshold(&self, _query: usize) -> u32 {
        key_of(self.request.most().unwrap_or(f32::MAX))
    }

    fn put(&mut self, query: usize, found: impl Iterator<Item = (u32, u64)>) -> Result<()> {
        self.answers.put(query, found, self.request)
    }

    fn note_answered(&mut self, queries: usize) {
        self.answered += queries;
        self.request.report(self.answered);
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
    state: &'f mut SearchState<'_>,
) -> Boxed<'f, ()> {
    Box::pin(async move {
        let mut plan = Plan::new(rows, some.len() as u64, request.k as u64, request.scope())?;
        if request.scope().found(rows) == 0 {
            return queries.check_values("queries");
        }
        let mut open = some;
        loop {
            let Again { queries: again, .. } = match Screening::reserve(rows, request, &plan).await? {
                Some(screening) => Pass::new(screening, queries, state).run(&open, plan.batch).await?,
                None => {
                    for numbers in open.batches(plan.batch as usize) {
                        let profile = state.profile.as_mut();
                        let found = exhaustive(rows, queries, &numbers, request, &plan, profile).await?;
                        state.statistics.scored += found.len() as u64 * request.scope().visited(rows);
                        for (number, row) in numbers.iter().zip(found.rows()) {
                            state.put(number, row)?;
                        }
                        state.note_answered(found.len());
                    }
                    Again::default()
                }
            };
            // The scratch buffers of this pass are free again, so that the next pass never waits for buffers while it holds some.
            if again.is_empty() {
                return Ok(());
            }
            plan = plan.again(rows, again.len() as u64, request.scope())?;
            if let Route::Exhaustive { .. } = plan.route {
                state.statistics.searched_exhaustively += again.len() as u64;
            }
            open = QueryNumbers::List(again);
        }
    })
}
