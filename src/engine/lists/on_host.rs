//! Searches in lists on the host engine.

use crate::engine::device::vectors::Queries;
use crate::engine::lists::widening::Widening;
use crate::engine::rows::on_host::found;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::Result;
use crate::host::{HostLists, HostRequest, HostRows, SearchLimit};
use crate::matrix::MatrixView;
use crate::vectors::with_view;

/// The nearest rows in the lists nearest to each query, or in more lists where a filter leaves too few rows.
pub(crate) fn search(
    rows: &HostRows,
    lists: &HostLists,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
    probes: u32,
) -> Result<SearchResult> {
    let queries = queries.on_host()?;
    let allowed = request.allowed.map(|allowed| &allowed.bits);
    let wanted = request.allowed.map(|allowed| request.k.min(allowed.count as usize));
    let mut widening = Widening { probes, lists: lists.len() as u32, wanted };
    let limit = SearchLimit::Nearest(request.k);
    let asked = HostRequest { limit, budget: request.budget, allowed, progress: request.progress };
    let mut answer = lists.search(rows, queries, &asked, probes as usize)?;
    while let Some(short) = widening.short(queries.rows(), |query| answer.queries[query].len()) {
        let before = queries.rows() - short.len();
        let progress = |answered| request.report(before + answered);
        let asked = HostRequest { progress: Some(&progress), ..asked };
        let more = with_view!(queries, view => {
            let some: Vec<_> = short.iter().flat_map(|&query| view.row(query)).copied().collect();
            let some = MatrixView::new(&some, view.dim())?;
            lists.search(rows, some.into(), &asked, widening.probes as usize)?
        });
        short.into_iter().zip(more.queries).for_each(|(query, row)| answer.queries[query] = row);
        answer.scored += more.scored;
        answer.rescored += more.rescored;
    }
    Ok(found(answer, request, |_| true))
}
