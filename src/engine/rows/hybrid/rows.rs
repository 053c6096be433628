//! Rows that the host keeps for an index on a GPU, as the index asks for them.

use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::device_lists::DeviceLists;
use crate::engine::lists::hybrid as in_lists;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Probed, Rows};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::hybrid;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::{Tried, TunedKernel, tune};
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::host::HostRows;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::usage::Memory;

impl Rows for HybridRows {
    fn residency(&self) -> Residency {
        Rows::residency(&self.rows)
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

    fn in_file(&self) -> Option<&HostRows> {
        self.rows.in_file()
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
        lists: Probed<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            self.rows.check_file()?;
            let Some((lists, probes)) = lists else { return hybrid::search(self, queries, request).await };
            let (centroids, Some(tables)) = lists[0].on_gpu()? else {
                let mut found = hybrid::search(self, queries, request).await?;
                found.statistics.tables_missing = self.rows.len() > 0;
                return Ok(found);
            };
            in_lists::search(self, (centroids, tables), queries, request, probes).await
        })
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Rows::fetch(&self.rows, slots)
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Rows::fetch_bytes(&self.rows, slots)
    }

    fn compile_ahead(&self, lists: &[DeviceLists], metric: Metric) {
        if let Some(integers) = self.on_gpu() {
            integers.compile_ahead(lists, metric);
        }
    }

    fn warm_up<'f>(&'f self, metric: Metric, lists: Option<&'f [DeviceLists]>) -> Boxed<'f, ()> {
        match self.on_gpu() {
            Some(integers) => integers.warm_up(metric, lists),
            None => self.rows.warm_up(metric, lists),
        }
    }

    fn tune<'f>(
        &'f self,
        metric: Metric,
        is_again: bool,
        lists: Option<&'f [DeviceLists]>,
    ) -> Boxed<'f, Vec<TunedKernel>> {
        Box::pin(async move {
            match (&self.integers, lists) {
                (Some(integers), None) => tune(Tried::Hybrid(self, integers), metric, is_again).await,
                _ => Ok(vec![]),
            }
        })
    }

    fn set_lists<'f>(
        &'f self,
        lists: &'f mut [DeviceLists],
        pages: &'f [Vec<u32>],
        sizes: &'f [u32],
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            let without = || Error::internal("lists of rows on the host have no screen");
            lists[0].set_on_gpu(self.on_gpu().ok_or_else(without)?, pages, sizes).await
        })
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
