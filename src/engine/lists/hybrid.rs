//! Searches in lists whose rows the host keeps.

use crate::engine::device::vectors::Vectors;
use crate::engine::lists::probing::Probing;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::search::host as on_host;
use crate::engine::search::hybrid::refining::Asked;
use crate::engine::search::request::SearchResult;
use crate::error::Result;
use crate::host;

pub(crate) async fn search(
    rows: &HybridRows,
    probing: Probing<'_>,
    queries: &Vectors<'_>,
) -> Result<SearchResult> {
    let fetched = queries.fetched().await?;
    let on_host = fetched.vectors();
    let in_lists = async {
        let squared = host::checked("queries", on_host)?;
        let asked = Asked { rows: &rows.rows, queries: on_host, squared: &squared, usual: &rows.usual };
        Probing { asked: Some(asked), ..probing }.search(queries).await
    };
    match in_lists.await {
        Err(error) if rows.stands_in_for(&error) => {
            // The lists are on the device. All rows have the nearest ones as well.
            let mut found = on_host::search(&rows.rows, on_host, probing.request)?;
            (found.statistics.on_host, found.statistics.searched_flat) = (true, queries.rows() as u64);
            Ok(found)
        }
        done => done,
    }
}
