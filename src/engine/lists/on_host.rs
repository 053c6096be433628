//! Searches in lists on the host engine.

use crate::elements::HostVectors;
use crate::engine::lists::widening::Widening;
use crate::engine::search::host::found;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::Result;
use crate::host::{HostLists, HostRows};
use crate::memory;

/// The nearest rows in the lists nearest to each query, or in more lists where these have too few rows and the request widens.
pub(crate) fn search(
    rows: &HostRows,
    (lists, probes): (&HostLists, u32),
    queries: HostVectors<'_>,
    request: &SearchRequest<'_>,
) -> Result<SearchResult> {
    let present = request.allowed.map_or(rows.len() as u64, |allowed| allowed.count);
    let wanted = request.widens.then_some((request.k as u64).min(present) as usize);
    let mut widening = Widening { probes, lists: lists.len() as u32, wanted };
    let mut answer = lists.search(rows, queries, &request.on_host(request.progress), probes as usize)?;
    loop {
        let found = memory::collect(answer.iter().map(<[_]>::len))?;
        let Some(short) = widening.short(queries.rows(), |query| found[query]) else { break };
        let before = queries.rows() - short.len();
        let progress = |answered| request.report(before + answered);
        let (some, asked) = (queries.chosen(&short)?, request.on_host(Some(&progress)));
        let more = lists.search(rows, (&some).into(), &asked, widening.probes as usize)?;
        answer.replace(&short, &more)?;
    }
    found(answer, request)
}
