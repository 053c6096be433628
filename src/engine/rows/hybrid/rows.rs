//! Rows that the host keeps for an index on a GPU, as the index asks for them.

use std::future::ready;
use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::given::GivenCentroids;
use crate::engine::lists::hybrid as in_lists;
use crate::engine::lists::probing::Probing;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Rows, without_lists};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::hybrid;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::{Tried, TunedKernel, tune};
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::host::HostRows;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::usage::Memory;

impl Rows for HybridRows {
    fn residency(&self) -> Residency {
        self.rows.residency()
    }

    fn kept(&self) -> Residency {
        if self.windows.is_some() { Residency::Streamed } else { Residency::Host }
    }

    fn is_quantized(&self) -> bool {
        self.on_gpu().is_some()
    }

    fn on_gpu(&self) -> Option<&GpuRows> {
        self.on_gpu()
    }

    fn on_host(&self) -> Option<&HostRows> {
        Some(&self.rows)
    }

    fn alive(&self) -> Option<&Bits> {
        self.rows.alive()
    }

    fn end(&self) -> u64 {
        self.rows.end() as u64
    }

    fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    fn measure(&self, memory: &mut Memory) {
        self.measure(memory);
    }

    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        Ok(Plan { rows: self.residency(), ..hybrid::plan(self, queries, k, budget)? })
    }

    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            self.rows.check_file()?;
            if let Some(probing) = self.integers.as_ref().and_then(|integers| Probing::of(integers, request))
            {
                return in_lists::search(self, probing, queries).await;
            }
            let mut found = hybrid::search(self, queries, request).await?;
            found.statistics.tables_missing = request.probes.is_some() && self.rows.len() > 0;
            Ok(found)
        })
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Box::pin(async move { self.rows.fetch(slots) })
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Box::pin(async move { self.rows.fetch_bytes(slots) })
    }

    fn warm_up(&self, metric: Metric) -> Boxed<'_, ()> {
        match self.on_gpu() {
            Some(integers) => integers.warm_up(metric),
            None => Box::pin(ready(Ok(()))),
        }
    }

    fn tune(&self, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
        match &self.integers {
            Some(integers) if integers.lists.is_none() => {
                tune(Tried::Hybrid(self, integers), metric, is_again)
            }
            _ => Box::pin(ready(Ok(vec![]))),
        }
    }

    fn attach_lists<'f>(&'f mut self, centroids: GivenCentroids<'f>) -> Boxed<'f, ()> {
        Box::pin(
            async move { self.integers.as_mut().ok_or_else(without_lists)?.attach_lists(centroids).await },
        )
    }

    fn forget_pages(&mut self) {
        self.integers.iter_mut().for_each(GpuRows::forget_pages);
    }

    fn set_pages<'f>(&'f mut self, pages: &'f [Vec<u32>], sizes: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(
            async move { self.integers.as_mut().ok_or_else(without_lists)?.set_pages(pages, sizes).await },
        )
    }

    fn assign<'f>(&'f self, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        Box::pin(async move { self.integers.as_ref().ok_or_else(without_lists)?.assign(rows).await })
    }

    fn centroids(&self) -> Boxed<'_, Vec<f32>> {
        Box::pin(async move { self.integers.as_ref().ok_or_else(without_lists)?.centroids().await })
    }

    fn takes_matrices(&self) -> bool {
        false
    }

    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>> {
        Box::pin(async move {
            match self.prepared(edit, progress).await {
                Err(error) if self.outgrow(&error) => Ok(Prepared::Outgrown(error)),
                change => change.map(|change| Prepared::Ready(RowChange::Hybrid(change))),
            }
        })
    }

    fn prepare_on_host<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, RowChange<'a>> {
        Box::pin(async move {
            let change = match self.prepared(edit.clone(), progress).await {
                Err(error) if self.outgrow(&error) => self.prepared_streaming(edit).await?,
                prepared => prepared?,
            };
            Ok(RowChange::Hybrid(change))
        })
    }

    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
        let RowChange::Hybrid(change) = change else { return Err(change.misplaced()) };
        self.apply(change).map(|()| None)
    }

    fn shrink(&mut self) -> Result<()> {
        self.shrink()
    }
}
