//! Changes the rows of an index: prepares a change and takes it over, and takes rows to the host that outgrow their device.

use std::sync::Arc;

use crate::engine::rows::change::{Prepared, RowChange};
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
        // A second try sends the rows again; progress never goes back.
        let mut most = 0;
        let mut progress = |sent: usize| {
            most = sent.max(most);
            progress(most);
        };
        let change = match rows.prepare(edit.clone(), &mut progress).await {
            // Rows that go or move take none with them: what cannot be done on the device is an error.
            Ok(Prepared::Outgrown(error)) if edit.rows().is_none() => return Err(error),
            Ok(Prepared::Outgrown(_)) => {
                let edit = edit.fetched().await?;
                match rows.prepare_on_host(edit.clone(), &mut progress).await {
                    // The device may have room for the new rows' copy when the rows themselves are gone. They stay on the host, whatever
                    // comes now. Where the device has no room for the copy either, the last try streams it.
                    Err(Error::OutOfMemory { .. }) => {
                        let gone = rows.prepare_on_host(Arc::default(), &mut |_| ()).await?;
                        apply(rows, gone)?;
                        rows.prepare_on_host(edit, &mut progress).await?
                    }
                    prepared => prepared?,
                }
            }
            prepared => prepared?.ready()?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::Bits;
    use crate::engine::device::vectors::Vectors;
    use crate::engine::lists::assign::Assigned;
    use crate::engine::lists::given::GivenCentroids;
    use crate::engine::rows::write::Placing;
    use crate::engine::search::plan::Plan;
    use crate::engine::search::request::{SearchRequest, SearchResult};
    use crate::engine::tune::TunedKernel;
    use crate::gpu::NoDevice;
    use crate::metric::Metric;
    use crate::options::residency::Residency;
    use crate::usage::Memory;

    /// Rows of a device without memory; the host refuses them with another error.
    #[derive(Debug, Default)]
    struct Full;

    fn full() -> Error {
        Error::OutOfMemory { purpose: "rows".into(), bytes: None }
    }

    impl Rows for Full {
        fn prepare<'f, 'a: 'f>(
            &'f mut self,
            _: Arc<Edit<'a>>,
            _: RowProgress<'f>,
        ) -> Boxed<'f, Prepared<'a>> {
            Box::pin(async { Ok(Prepared::Outgrown(full())) })
        }

        fn prepare_on_host<'f, 'a: 'f>(
            &'f mut self,
            _: Arc<Edit<'a>>,
            _: RowProgress<'f>,
        ) -> Boxed<'f, RowChange<'a>> {
            Box::pin(async { Err(Error::internal("seen")) })
        }

        fn residency(&self) -> Residency {
            Residency::Device
        }

        fn is_quantized(&self) -> bool {
            false
        }

        fn alive(&self) -> Option<&Bits> {
            None
        }

        fn end(&self) -> u64 {
            4
        }

        fn len(&self) -> u64 {
            4
        }

        fn measure(&self, _: &mut Memory) {}

        fn plan(&self, _: usize, _: usize, _: u64) -> Result<Plan> {
            Err(full())
        }

        fn search<'f>(&'f self, _: &'f Vectors<'f>, _: &'f SearchRequest<'f>) -> Boxed<'f, SearchResult> {
            Box::pin(async { Err(full()) })
        }

        fn fetch<'f>(&'f self, _: &'f [u32]) -> Boxed<'f, Vec<f32>> {
            Box::pin(async { Err(full()) })
        }

        fn fetch_bytes<'f>(&'f self, _: &'f [u32]) -> Boxed<'f, Vec<u8>> {
            Box::pin(async { Err(full()) })
        }

        fn warm_up(&self, _: Metric) -> Boxed<'_, ()> {
            Box::pin(async { Err(full()) })
        }

        fn tune(&self, _: Metric, _: bool) -> Boxed<'_, Vec<TunedKernel>> {
            Box::pin(async { Err(full()) })
        }

        fn attach_lists<'f>(&'f mut self, _: GivenCentroids<'f>) -> Boxed<'f, ()> {
            Box::pin(async { Err(full()) })
        }

        fn forget_pages(&mut self) {}

        fn set_pages<'f>(&'f mut self, _: &'f [Vec<u32>], _: &'f [u32]) -> Boxed<'f, ()> {
            Box::pin(async { Err(full()) })
        }

        fn assign<'f>(&'f self, _: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
            Box::pin(async { Err(full()) })
        }

        fn centroids(&self) -> Boxed<'_, Vec<f32>> {
            Box::pin(async { Err(full()) })
        }

        fn apply(&mut self, _: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
            Err(full())
        }

        fn shrink(&mut self) -> Result<()> {
            Err(full())
        }
    }

    /// Makes a change on a device without memory. Returns the error, and whether it is the host's.
    fn changed(edit: Arc<Edit<'_>>) -> (Error, bool) {
        let mut rows: Box<dyn Rows> = Box::<Full>::default();
        let error = NoDevice.block_on(change(&mut rows, edit, &mut |_| ())).expect_err("no memory");
        let is_of_host = !matches!(error, Error::OutOfMemory { .. });
        (error, is_of_host)
    }

    #[test]
    fn new_rows_may_outgrow_a_device_and_rows_that_go_or_move_stay() {
        let placing = Placing { slots: &[4], ids: &[4], freed: &[] };
        let (error, is_of_host) = changed(Edit::put((&[1.0f32]).into(), &placing));
        assert!(is_of_host, "{error}");
        for edit in [Edit::release(&[1]), Edit::relocate(&[3], &[1])] {
            let (error, is_of_host) = changed(edit);
            assert!(!is_of_host, "{error}");
        }
    }
}
