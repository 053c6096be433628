//! Rows of a GPU with a second copy in the host's memory, which answers the searches that the processor finishes first, and those for
//! which the GPU fails.

mod copy;
mod crossover;

use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::documents::request::{DocumentRequest, Found};
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::given::GivenCentroids;
use crate::engine::rows::change::{MirroredChange, Prepared, RowChange};
use crate::engine::rows::changing::apply;
use crate::engine::rows::contract::{Recovered, RowSource, Rows, Slots};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::segments::GpuRows;
use crate::engine::rows::shape::RowShape;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::TunedKernel;
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::host::HostRows;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::usage::Memory;
use copy::HostCopy;

/// Whether an index keeps a copy, as set on its builder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyOptions {
    pub(crate) keep_host_copy: bool,
    /// Whether the copy answers when the GPU cannot.
    pub(crate) fallback: bool,
}

impl CopyOptions {
    pub(crate) fn check(self) -> Result<()> {
        match self.fallback && !self.keep_host_copy {
            true => Err(Error::argument("fallback", "a copy of the rows on the host", "none")),
            false => Ok(()),
        }
    }

    /// The rows with an empty copy. Rows that are on the host need none.
    pub(crate) fn mirrored(
        self,
        rows: Box<dyn Rows>,
        device: &Device,
        shape: &RowShape,
    ) -> Result<Box<dyn Rows>> {
        if !self.keep_host_copy || device.is_host() || rows.is_hybrid() {
            return Ok(rows);
        }
        let copy = Some(HostCopy::new(device, shape, self.fallback)?);
        Ok(Box::new(MirroredRows { rows, copy }))
    }
}

/// The rows, and their copy: the same rows in the same slots, and in the same lists.
#[derive(Debug)]
pub(crate) struct MirroredRows {
    rows: Box<dyn Rows>,
    /// None when the rows themselves have gone to the host.
    copy: Option<HostCopy>,
}

impl MirroredRows {
    /// The copy while there is one, and else the rows.
    fn nearest(&self) -> &dyn Rows {
        self.copy.as_ref().map_or(&*self.rows, |copy| &copy.rows)
    }
}

impl Rows for MirroredRows {
    fn residency(&self) -> Residency {
        self.rows.residency()
    }

    fn kept(&self) -> Residency {
        self.rows.kept()
    }

    fn is_quantized(&self) -> bool {
        self.rows.is_quantized()
    }

    fn on_gpu(&self) -> Option<&GpuRows> {
        self.rows.on_gpu()
    }

    fn on_host(&self) -> Option<&HostRows> {
        self.nearest().on_host()
    }

    fn alive(&self) -> Option<&Bits> {
        self.rows.alive()
    }

    fn end(&self) -> u64 {
        self.rows.end()
    }

    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn measure(&self, memory: &mut Memory) {
        self.rows.measure(memory);
        if let Some(copy) = &self.copy {
            let mut of_copy = Memory::default();
            copy.rows.measure(&mut of_copy);
            memory.add("host copy", Residency::Host, of_copy.total());
        }
    }

    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        self.rows.plan(queries, k, budget)
    }

    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        match &self.copy {
            Some(copy) => Box::pin(copy.search(&*self.rows, queries, request)),
            None => self.rows.search(queries, request),
        }
    }

    fn search_documents<'f>(
        &'f self,
        queries: &'f TokenVectors<'f>,
        request: &'f DocumentRequest<'f>,
    ) -> Boxed<'f, Found> {
        Box::pin(async move {
            match (self.rows.search_documents(queries, request).await, &self.copy) {
                (Err(error), Some(copy)) if copy.is_fallback && error.is_of_device() => {
                    copy.rows.search_documents(queries, request).await
                }
                (found, _) => found,
            }
        })
    }

    fn place_documents(&mut self, start: u32, lengths: &[usize]) -> Result<Vec<u32>> {
        self.rows.place_documents(start, lengths)
    }

    fn gain_together(&self, probes: Option<u32>) -> bool {
        self.nearest().gain_together(probes)
    }

    fn side_by_side(&self) -> usize {
        self.rows.side_by_side()
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        self.nearest().fetch(slots)
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        self.nearest().fetch_bytes(slots)
    }

    fn warm_up(&self, metric: Metric) -> Boxed<'_, ()> {
        self.rows.warm_up(metric)
    }

    fn tune(&self, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
        self.rows.tune(metric, is_again)
    }

    fn attach_lists<'f>(&'f mut self, centroids: GivenCentroids<'f>) -> Boxed<'f, ()> {
        Box::pin(async move {
            if let Some(copy) = &mut self.copy {
                copy.rows.attach_lists(centroids).await?;
            }
            self.rows.attach_lists(centroids).await
        })
    }

    fn forget_pages(&mut self) {
        self.copy.iter_mut().for_each(|copy| copy.rows.forget_pages());
        self.rows.forget_pages();
    }

    fn set_pages<'f>(&'f mut self, pages: &'f [Vec<u32>], sizes: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(async move {
            // The copy is done at once; it comes first, so that a dropped future does not leave it out. It gets the pages even if the GPU
            // does not.
            let here = match &mut self.copy {
                Some(copy) => copy.rows.set_pages(pages, sizes).await,
                None => Ok(()),
            };
            self.rows.set_pages(pages, sizes).await.and(here)
        })
    }

    fn assign<'f>(&'f self, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        self.rows.assign(rows)
    }

    fn centroids(&self) -> Boxed<'_, Vec<f32>> {
        self.nearest().centroids()
    }

    fn takes_matrices(&self) -> bool {
        self.rows.takes_matrices()
    }

    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>> {
        Box::pin(async move {
            // The copy comes first, so that it cannot refuse the change after the GPU. That the host has no memory for it is an error: the
            // rows do not outgrow their device by that.
            let mut mirrored = None;
            if let Some(copy) = &mut self.copy {
                let here = edit.fetched().await?;
                let change = copy.rows.rows.prepared(here.rows_on_host()?, &here.filled, &here.freed)?;
                mirrored = Some((change, here));
            }
            Ok(match self.rows.prepare(edit, progress).await? {
                Prepared::Ready(there) => {
                    Prepared::Ready(RowChange::Mirrored(Box::new(MirroredChange { there, mirrored })))
                }
                outgrown => outgrown,
            })
        })
    }

    /// The rows themselves go to the host, and the copy goes.
    fn prepare_on_host<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, RowChange<'a>> {
        Box::pin(async move {
            let there = self.rows.prepare_on_host(edit, progress).await?;
            Ok(RowChange::Mirrored(Box::new(MirroredChange { there, mirrored: None })))
        })
    }

    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
        let RowChange::Mirrored(change) = change else { return Err(change.misplaced()) };
        let MirroredChange { there, mirrored } = *change;
        apply(&mut self.rows, there)?;
        let (Some(copy), Some((mut change, edit))) = (&mut self.copy, mirrored) else {
            self.copy = None;
            return Ok(None);
        };
        // Nothing interrupts it, because the GPU has the change already.
        if let Some(rows) = edit.rows_on_host()? {
            let places = (&*edit.filled, &*edit.ids);
            copy.rows.rows.put(rows, places, &mut change, (&mut |_| (), || Ok(())))?;
        } else if edit.moves() {
            copy.rows.rows.relocate(&edit.freed, &edit.filled, &change, || Ok(()))?;
        }
        copy.rows.rows.apply(change);
        Ok(None)
    }

    fn undo(&mut self, change: &RowChange<'_>) {
        if let RowChange::Mirrored(change) = change {
            self.rows.undo(&change.there);
        }
    }

    fn shrink(&mut self) -> Result<()> {
        self.copy.iter_mut().for_each(|copy| copy.rows.rows.shrink());
        self.rows.shrink()
    }

    fn device_of(&self, slot: u32) -> usize {
        self.rows.device_of(slot)
    }

    fn run_end(&self, slot: u32) -> u32 {
        self.rows.run_end(slot)
    }

    fn slots_by_device(&self) -> Vec<Slots<'_>> {
        self.rows.slots_by_device()
    }

    fn sparsest(&self) -> (u64, u64) {
        self.rows.sparsest()
    }

    fn recovered<'f>(
        &'f self,
        device: &'f Device,
        source: Option<RowSource<'f>>,
        id_of: &'f (dyn Fn(u32) -> u64 + Sync),
    ) -> Boxed<'f, Recovered> {
        let of_copy = self.copy.as_ref().map(|copy| RowSource { rows: &copy.rows, slot_of: &Ok });
        self.rows.recovered(device, source.or(of_copy), id_of)
    }

    fn replace(&mut self, recovered: Recovered) {
        self.rows.replace(recovered);
    }
}
