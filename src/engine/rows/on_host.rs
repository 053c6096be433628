//! Rows of the host engine, as an index asks for them.

use std::future::ready;
use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::device_lists::DeviceLists;
use crate::engine::lists::on_host as in_lists;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Probed, Rows};
use crate::engine::rows::edit::Edit;
use crate::engine::search::host::{self, by_turns};
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::TunedKernel;
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::host::{HostRows, fills_threads};
use crate::interrupt;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::usage::Memory;

impl Rows for HostRows {
    fn residency(&self) -> Residency {
        if self.values.file().is_some() { Residency::Mapped } else { Residency::Host }
    }

    fn is_quantized(&self) -> bool {
        self.is_quantized()
    }

    fn in_file(&self) -> Option<&HostRows> {
        self.values.file().map(|_| self)
    }

    fn alive(&self) -> Option<&Bits> {
        self.alive()
    }

    fn end(&self) -> u64 {
        self.end() as u64
    }

    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn measure(&self, memory: &mut Memory) {
        self.measure(memory);
    }

    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        Ok(Plan { rows: self.residency(), ..host::plan(self, queries, k, budget)? })
    }

    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
        lists: Probed<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            self.check_file()?;
            let lists = lists.map(|(lists, probes)| Ok((lists[0].on_host()?, probes))).transpose()?;
            let search = |queries: HostVectors<'_>, request: &SearchRequest<'_>| match lists {
                Some((lists, probes)) => in_lists::search(self, lists, queries, request, probes),
                None => host::search(self, queries, request),
            };
            by_turns(queries.on_host()?, request, search).await
        })
    }

    fn gain_together(&self, [probes, lists]: [u64; 2]) -> bool {
        fills_threads(self.end() as u64 * probes / lists.max(1))
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Box::pin(async move { self.check_file().and_then(|()| self.fetch(slots)) })
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Box::pin(async move { self.check_file().and_then(|()| self.fetch_bytes(slots)) })
    }

    fn warm_up<'f>(&'f self, _metric: Metric, _lists: Option<&'f [DeviceLists]>) -> Boxed<'f, ()> {
        Box::pin(ready(Ok(())))
    }

    fn tune<'f>(
        &'f self,
        _metric: Metric,
        _is_again: bool,
        _lists: Option<&'f [DeviceLists]>,
    ) -> Boxed<'f, Vec<TunedKernel>> {
        Box::pin(ready(Ok(vec![])))
    }

    fn set_lists<'f>(
        &'f self,
        lists: &'f mut [DeviceLists],
        pages: &'f [Vec<u32>],
        sizes: &'f [u32],
    ) -> Boxed<'f, ()> {
        Box::pin(ready(lists[0].set_on_host(pages, sizes)))
    }

    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>> {
        Box::pin(async move {
            let rows = edit.rows_on_host()?;
            let mut change = self.prepared(rows, &edit.filled, &edit.freed)?;
            if let Some(rows) = rows {
                self.put(rows, (&edit.filled, &edit.ids), &mut change, (progress, interrupt::check))?;
            } else if edit.moves() {
                self.relocate(&edit.freed, &edit.filled, &change, interrupt::check)?;
            }
            Ok(Prepared::Ready(RowChange::Host(change)))
        })
    }

    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
        let RowChange::Host(change) = change else { return Err(change.misplaced()) };
        self.apply(change);
        Ok(None)
    }

    fn undo(&mut self, change: &RowChange<'_>) {
        if let RowChange::Host(change) = change {
            self.undo(change);
        }
    }

    fn shrink(&mut self) -> Result<()> {
        self.shrink();
        Ok(())
    }
}
