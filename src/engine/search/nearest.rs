//! The search for the k nearest rows: screens rows, or takes all; refines them; selects the nearest.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::batches::{Again, Pass, Sink};
use crate::engine::search::exhaustive::exhaustive;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::engine::search::state::SearchState;
use crate::error::Result;
use crate::future::Boxed;

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
