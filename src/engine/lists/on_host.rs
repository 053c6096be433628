//! Searches in lists on the host engine.

use crate::engine::device::vectors::Queries;
use crate::engine::lists::widening::Widening;
use crate::engine::rows::on_host::found;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::Result;
use crate::host::{HostLists, HostRequest, HostRows, SearchLimit};
use crate::matrix::MatrixView;
use crate::memory;
use crate::vectors::with_view;

/// The nearest rows in the lists nearest to each query, or in more lists where these have too few rows and the request widens.
pub(crate) fn search(
    rows: &HostRows,
    lists: &HostLists,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
    probes: u32,
) -> Result<SearchResult> {
    let queries = queries.on_host()?;
    let allowed = request.allowed.map(|allowed| &allowed.bits);
    let present = request.allowed.map_or(rows.len() as u64, |allowed| allowed.count);
    let wanted = request.widens.then_some((request.k as u64).min(present) as usize);
    let mut widening = Widening { probes, lists: lists.len() as u32, wanted };
    let limit = SearchLimit::Nearest(request.k);
    let asked = HostRequest { limit, budget: request.budget, allowed, progress: request.progress };
    let mut answer = lists.search(rows, queries, &asked, probes as usize)?;
    loop {
        let found = memory::collect(answer.iter().map(<[_]>::len))?;
        let Some(short) = widening.short(queries.rows(), |query| found[query]) else { break };
        let before = queries.rows() - short.len();
        let progress = |answered| request.report(before + answered);
        let asked = HostRequest { progress: Some(&progress), ..asked };
        let more = with_view!(queries, view => {
            let mut some = memory::with_room(short.len() * view.dim())?;
            short.iter().for_each(|&query| some.extend_from_slice(view.row(query)));
            let some = MatrixView::new(&some, view.dim())?;
            lists.search(rows, some.into(), &asked, widening.probes as usize)?
        });
        answer.replace(&short, &more)?;
    }
    found(answer, |_| true)
}
