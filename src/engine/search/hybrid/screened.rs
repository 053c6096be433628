//! Rows whose quantised copy is on the device: it screens batch after batch, and the host refines one while the device screens the next.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::batches::{Again, Pass, Sink};
use crate::engine::search::hybrid::refining::Asked;
use crate::engine::search::nearest::SearchState;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::error::{Error, Result};
use crate::future::Boxed;

/// Queries of a search: on the device's side, and where the host reads them.
pub(super) type Queries<'a> = (&'a Vectors<'a>, Asked<'a>);

pub(super) async fn search(
    integers: &GpuRows,
    queries: Queries<'_>,
    request: &SearchRequest<'_>,
    plan: Plan,
) -> Result<SearchResult> {
    let mut state = SearchState::new(integers, queries.0.rows(), request)?;
    let all = QueryNumbers::Range(0..queries.0.rows());
    by_plans(integers, queries, all, request, Some(plan), &mut state).await?;
    state.finish(integers).await
}

/// Answers some of the queries from all rows.
pub(crate) fn search_some<'f>(
    integers: &'f GpuRows,
    queries: (&'f Vectors<'f>, Asked<'f>),
    some: QueryNumbers,
    request: &'f SearchRequest<'f>,
    state: &'f mut SearchState<'_>,
) -> Boxed<'f, ()> {
    let plan = Plan::screened(integers, some.len() as u64, request.k as u64, request.scope());
    Box::pin(by_plans(integers, queries, some, request, plan, state))
}

/// Answers queries by a plan, and what it leaves by the host alone.
async fn by_plans(
    integers: &GpuRows,
    queries: Queries<'_>,
    open: QueryNumbers,
    request: &SearchRequest<'_>,
    next: Option<Plan>,
    state: &mut SearchState<'_>,
) -> Result<()> {
    let limits = (request.radius.is_some(), None);
    let open = screened(integers, queries, open, request, limits, next, state).await?;
    if open.len() == 0 {
        return Ok(());
    }
    let before = state.answered;
    let progress = |answered| request.report(before + answered);
    let hits = queries.1.searched(&open, &request.on_host(Some(&progress)))?;
    state.statistics.searched_exhaustively += open.len() as u64;
    state.statistics.scored += hits.scored;
    state.statistics.refined += hits.refined;
    state.answered += hits.ends.len();
    open.iter().zip(hits.iter()).try_for_each(|(number, row)| state.put(number, row.iter().copied()))
}

/// Answers queries by a plan, and those that overflow by plans with longer lists. Returns those that no plan has room for. The host computes
/// the distances of candidates: within the sink's thresholds or of the k nearest, in a window of its rows from this slot on or in all.
pub(super) async fn screened(
    rows: &GpuRows,
    (queries, asked): Queries<'_>,
    mut open: QueryNumbers,
    request: &SearchRequest<'_>,
    (is_within, window): (bool, Option<u32>),
    mut next: Option<Plan>,
    sink: &mut impl Sink,
) -> Result<QueryNumbers> {
    while let Some(plan) = next {
        let Some(screening) = Screening::reserve(rows, request, &plan).await? else {
            return Err(Error::internal("rows on the host have a plan without a screen"));
        };
        let pass = Pass::new(screening, queries, sink).on_host(asked, is_within, window);
        let Again { queries: again, most } = pass.run(&open, plan.batch).await?;
        let count = again.len() as u64;
        open = QueryNumbers::List(again);
        next = match (count, is_within) {
            (0, _) => None,
            (_, true) => Plan::within(rows, count, most.next_power_of_two(), request.scope()),
            (_, false) => plan.longer(rows, count, request.scope()),
        };
    }
    Ok(open)
}
