//! Searches of rows that the host keeps: the device screens their narrowed copy, and the host reports what the screen leaves.
//!
//! Every distance comes from the host engine, whatever way a query takes. So it has the same bits in any batch, and they are those of
//! [`Device::host`](crate::Device::host).

mod nearest;
pub(crate) mod rescoring;
mod streamed;
mod within;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::device::queries::Queries;
use crate::engine::rows::allowed::Scope;
use crate::engine::rows::apart::ApartRows;
use crate::engine::rows::on_host;
use crate::engine::search::apart::rescoring::Asked;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::Result;
use crate::future::Boxed;
use crate::host;
use crate::matrix::Matrix;
use crate::vectors::HostVectors;
pub(crate) use nearest::search_some;

/// The rows to find.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Nearest,
    Within(f32),
}

/// The nearest rows.
pub(crate) fn search<'f>(
    rows: &'f ApartRows,
    queries: &'f Queries<'f>,
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(searched(rows, queries, request, Wanted::Nearest))
}

/// All rows within a radius.
pub(crate) fn search_within<'f>(
    rows: &'f ApartRows,
    queries: &'f Queries<'f>,
    radius: f32,
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(searched(rows, queries, request, Wanted::Within(radius)))
}

/// Queries of the device in the host's memory.
pub(crate) async fn fetched(queries: &Queries<'_>) -> Result<Option<Matrix>> {
    match queries {
        Queries::Host(_) => Ok(None),
        Queries::Device(matrix) => matrix.fetched().await.map(Some),
    }
}

async fn searched(
    rows: &ApartRows,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
    wanted: Wanted,
) -> Result<SearchResult> {
    // Where the host stands in for a device that failed meanwhile, it begins anew.
    let told = AtomicUsize::new(0);
    let report = |answered| {
        let before = told.fetch_max(answered, Ordering::Relaxed);
        request.report(answered.max(before));
    };
    let request = &SearchRequest { progress: request.progress.map(|_| &report as _), ..*request };
    let fetched = fetched(queries).await?;
    let on_host = fetched.as_ref().map_or(*queries, Queries::from);
    match screened(rows, queries, on_host.on_host()?, request, wanted).await {
        Ok(Some(found)) => Ok(found),
        Err(error) if !rows.stands_in_for(&error) => Err(error),
        _ => {
            let mut found = match wanted {
                Wanted::Nearest => on_host::search(&rows.rows, &on_host, request),
                Wanted::Within(radius) => on_host::search_within(&rows.rows, &on_host, radius, request),
            }?;
            found.statistics.on_host = true;
            Ok(found)
        }
    }
}

/// The answer by a screen on the device; none where the host answers alone.
async fn screened(
    rows: &ApartRows,
    queries: &Queries<'_>,
    on_host: HostVectors<'_>,
    request: &SearchRequest<'_>,
    wanted: Wanted,
) -> Result<Option<SearchResult>> {
    if let Some(windows) = rows.windows.as_ref().filter(|_| rows.rows.len() > 0 && on_host.rows() > 0) {
        let squared = host::checked("queries", on_host)?;
        let asked = Asked { rows: &rows.rows, queries: on_host, squared: &squared, usual: &rows.usual };
        let radius = match wanted {
            Wanted::Nearest => None,
            Wanted::Within(radius) => Some(radius),
        };
        return streamed::search(windows, queries, asked, request, radius).await.map(Some);
    }
    let Some(integers) = rows.integers.as_ref().filter(|rows| request.scope().found(rows) > 0) else {
        return Ok(None);
    };
    let count = on_host.rows() as u64;
    let plan = match wanted {
        Wanted::Nearest => Plan::screened(integers, count, request.k as u64, request.scope()),
        Wanted::Within(_) => Plan::within(integers, count, within::CAPACITY, request.scope()),
    };
    let Some(plan) = plan.filter(|_| count > 0) else { return Ok(None) };
    let squared = host::checked("queries", on_host)?;
    let asked = Asked { rows: &rows.rows, queries: on_host, squared: &squared, usual: &rows.usual };
    let found = match wanted {
        Wanted::Nearest => nearest::search(integers, queries, asked, request, plan).await,
        Wanted::Within(radius) => within::search(integers, queries, asked, (radius, request), plan).await,
    };
    found.map(Some)
}

/// The plan of a search for the nearest rows.
pub(crate) fn plan(rows: &ApartRows, queries: usize, k: usize, budget: u64) -> Result<Plan> {
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
