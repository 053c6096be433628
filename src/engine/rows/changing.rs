//! Changes the rows of an index: prepares a change and takes it over, and takes rows to the host that outgrow their device.

use std::sync::Arc;

use crate::engine::rows::change::RowChange;
use crate::engine::rows::contract::Rows;
use crate::engine::rows::edit::Edit;
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};

/// Makes a change; all of it or, after an error, nothing. Rows go to the host where their device has no room for the change.
pub(crate) fn change<'f>(
    rows: &'f mut Box<dyn Rows>,
    edit: Arc<Edit<'f>>,
    progress: RowProgress<'f>,
) -> Boxed<'f, ()> {
    Box::pin(async move {
        let edit = if rows.takes_matrices() { edit } else { edit.fetched().await? };
        // A change that is tried again has sent its rows before.
        let mut most = 0;
        let mut progress = |sent: usize| {
            most = sent.max(most);
            progress(most);
        };
        let change = match rows.prepare(edit.clone(), &mut progress).await {
            Err(error) if rows.outgrow(&error) => {
                let edit = edit.fetched().await?;
                match rows.prepare_on_host(edit.clone(), &mut progress).await {
                    // The device may have room for the new rows' copy when the rows themselves are gone. They stay on the host, whatever
                    // comes now. Where rows are on the host, the second try streams them.
                    Err(Error::OutOfMemory { .. }) => {
                        let gone = rows.prepare_on_host(Arc::default(), &mut |_| ()).await?;
                        apply(rows, gone)?;
                        rows.prepare_on_host(edit, &mut progress).await?
                    }
                    prepared => prepared?,
                }
            }
            prepared => prepared?,
        };
        apply(rows, change)
    })
}

/// Takes over a change that these rows prepared.
pub(crate) fn apply(rows: &mut Box<dyn Rows>, change: RowChange<'_>) -> Result<()> {
    if let Some(moved) = rows.apply(change)? {
        *rows = moved;
    }
    Ok(())
}
