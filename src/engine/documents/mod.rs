//! Searches for documents of several tokens each, by MaxSim: the sum, over a query's tokens, of the largest inner product with a token of the
//! document. Bounds of all scores exclude most documents, and the scores of the others are computed as they are reported
//! (docs/certified-search.md).

mod all_pairs;
mod buffers;
pub(crate) mod cache;
mod on_gpu;
mod on_host;
mod pairs;
pub(crate) mod request;
mod shortlist;
mod spans;
pub(crate) mod tokens;

use crate::engine::documents::request::{DocumentRequest, Found};
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::rows::segments::GpuRows;
use crate::error::Error;
use crate::future::Boxed;
use crate::host::HostRows;

/// The documents of largest MaxSim for each query, and those of the same score as the last: of tokens on a GPU, on the host, or with their
/// codes on a GPU.
pub(crate) fn search<'f>(
    (on_gpu, on_host): (Option<&'f GpuRows>, Option<&'f HostRows>),
    queries: &'f TokenVectors<'f>,
    request: &'f DocumentRequest<'f>,
) -> Boxed<'f, Found> {
    Box::pin(async move {
        if queries.is_empty() {
            return Ok(Found::default());
        }
        if request.found().is_empty() {
            // No kernel will look at the queries.
            queries.vectors().check_values("queries")?;
            return Ok(Found {
                by_query: queries.offsets()[1..].iter().map(|_| vec![]).collect(),
                ..Found::default()
            });
        }
        match (on_gpu.filter(|rows| rows.quantized.is_some() && rows.end() > 0), on_host) {
            (Some(on_gpu), on_host) => on_gpu::search(on_gpu, on_host, queries, request).await,
            (None, Some(rows)) => on_host::search(rows, &queries.fetched().await?, request).await,
            (None, None) => Err(Error::internal("documents that no engine has")),
        }
    })
}
