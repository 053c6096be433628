//! Searches of rows that the host keeps: the device screens their quantised copy, and the host reports what the screen leaves.
//!
//! Every distance comes from the host engine, whatever way a query takes. So it has the same bits in any batch, and they are those of
//! [`Device::host`](crate::Device::host).

pub(crate) mod refining;
mod screened;
mod streamed;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::allowed::Scope;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::search::host as on_host;
use crate::engine::search::hybrid::refining::Asked;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::within::CAPACITY;
use crate::error::Result;
use crate::future::Boxed;
use crate::host;
pub(crate) use screened::search_some;

/// The nearest rows, or all within a radius.
pub(crate) fn search<'f>(
    rows: &'f HybridRows,
    queries: &'f Vectors<'f>,
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(async move {
        // Where the host stands in for a device that failed meanwhile, it begins anew.
        let told = AtomicUsize::new(0);
        let report = |answered| {
            let before = told.fetch_max(answered, Ordering::Relaxed);
            request.report(answered.max(before));
        };
        let request = &SearchRequest { progress: request.progress.map(|_| &report as _), ..*request };
        let fetched = queries.fetched().await?;
        match by_screen(rows, queries, fetched.vectors(), request).await {
            Ok(Some(found)) => Ok(found),
            Err(error) if !rows.stands_in_for(&error) => Err(error),
            _ => {
                let mut found = on_host::search(&rows.rows, fetched.vectors(), request)?;
                found.statistics.on_host = true;
                Ok(found)
            }
        }
    })
}

/// The answer by a screen on the device; none where the host answers alone.
async fn by_screen(
    rows: &HybridRows,
    queries: &Vectors<'_>,
    on_host: HostVectors<'_>,
    request: &SearchRequest<'_>,
) -> Result<Option<SearchResult>> {
    let (count, scope) = (on_host.rows() as u64, request.scope());
    let windows = rows.windows.as_ref().filter(|_| rows.rows.len() > 0 && count > 0);
    let integers = rows.integers.as_ref().filter(|rows| scope.found(rows) > 0 && count > 0);
    let planned = integers.and_then(|rows| {
        let plan = match request.radius {
            None => Plan::screened(rows, count, request.k as u64, scope),
            Some(_) => Plan::within(rows, count, CAPACITY, scope),
        };
        Some((rows, plan?))
    });
    if windows.is_none() && planned.is_none() {
        return Ok(None);
    }
    let squared = host::checked("queries", on_host)?;
    let asked = Asked { rows: &rows.rows, queries: on_host, squared: &squared, usual: &rows.usual };
    match (windows, planned) {
        (Some(windows), _) => streamed::search(windows, (queries, asked), request).await.map(Some),
        (None, Some((rows, plan))) => screened::search(rows, (queries, asked), request, plan).await.map(Some),
        (None, None) => Ok(None),
    }
}

/// The plan of a search for the nearest rows.
pub(crate) fn plan(rows: &HybridRows, queries: usize, k: usize, budget: u64) -> Result<Plan> {
    let scope = Scope { budget, allowed: None };
    let screened = |rows| Plan::screened(rows, queries as u64, k as u64, scope);
    let plan = match &rows.windows {
        Some(windows) => {
            let asked = (rows.rows.end() as u64, queries as u64, k.min(rows.rows.len()) as u64);
            streamed::plan(windows, asked, budget)
        }
        None => rows.integers.as_ref().filter(|rows| rows.len() > 0).and_then(screened),
    };
    plan.map_or_else(|| on_host::plan(&rows.rows, queries, k, budget), Ok)
}
