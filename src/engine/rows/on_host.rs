//! Rows of the host engine, as an index asks for them.

use std::future::ready;
use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::given::GivenCentroids;
use crate::engine::lists::on_host as in_lists;
use crate::engine::lists::tables::PAGE;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Rows, without_lists};
use crate::engine::rows::edit::Edit;
use crate::engine::search::graph::IdOf;
use crate::engine::search::host::{self, by_turns};
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::TunedKernel;
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::host::{HostLists, HostRows, fills_threads};
use crate::interrupt;
use crate::memory;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::residency::Residency;
use crate::platform::CAN_WAIT;
use crate::usage::Memory;

/// Rows of the host engine, and their lists.
#[derive(Debug)]
pub(crate) struct ListedRows {
    pub(crate) rows: HostRows,
    lists: Option<HostLists>,
}

impl From<HostRows> for ListedRows {
    fn from(rows: HostRows) -> Self {
        Self { rows, lists: None }
    }
}

impl ListedRows {
    /// The lists that a request asks for, and how many of them a query probes; none where that is for all rows.
    pub(crate) fn probed(&self, request: &SearchRequest<'_>) -> Option<(&HostLists, u32)> {
        self.lists.as_ref().zip(request.probes)
    }
}

impl Rows for ListedRows {
    fn residency(&self) -> Residency {
        self.rows.residency()
    }

    fn is_quantized(&self) -> bool {
        self.rows.is_quantized()
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
        self.rows.measure(memory);
        self.lists.iter().for_each(|lists| lists.measure(memory));
    }

    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        Ok(Plan { rows: self.residency(), ..host::plan(&self.rows, queries, k, budget)? })
    }

    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            self.rows.check_file()?;
            let search = |queries: HostVectors<'_>, request: &SearchRequest<'_>| match self.probed(request) {
                Some(probed) => in_lists::search(&self.rows, probed, queries, request),
                None => host::search(&self.rows, queries, request),
            };
            by_turns(queries.on_host()?, request, search).await
        })
    }

    fn graph<'f>(&'f self, request: &'f SearchRequest<'f>, _id_of: IdOf<'f>) -> Boxed<'f, Option<Neighbors>> {
        Box::pin(async move {
            if !CAN_WAIT {
                // A browser's page needs turns, which searches give it.
                return Ok(None);
            }
            self.rows.check_file()?;
            let hits = self.rows.graph(request.k, &request.on_host(request.progress))?;
            Ok(hits.map(|hits| host::found(hits, request)).transpose()?.map(|found| found.neighbors))
        })
    }

    fn gain_together(&self, probes: Option<u32>) -> bool {
        let probed = self.lists.as_ref().zip(probes);
        let [probes, lists] = probed.map_or([1, 1], |(lists, probes)| [probes.into(), lists.len() as u64]);
        fills_threads(self.end() * probes / lists.max(1))
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Box::pin(async move { self.rows.fetch(slots) })
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Box::pin(async move { self.rows.fetch_bytes(slots) })
    }

    fn warm_up(&self, _metric: Metric) -> Boxed<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn tune(&self, _metric: Metric, _is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
        Box::pin(ready(Ok(vec![])))
    }

    fn attach_lists<'f>(&'f mut self, centroids: GivenCentroids<'f>) -> Boxed<'f, ()> {
        Box::pin(async move {
            self.lists = Some(HostLists::of(centroids.on_host(&self.rows.host)?));
            Ok(())
        })
    }

    fn forget_pages(&mut self) {
        self.lists.iter_mut().for_each(HostLists::forget_pages);
    }

    fn set_pages<'f>(&'f mut self, pages: &'f [Vec<u32>], sizes: &'f [u32]) -> Boxed<'f, ()> {
        let lists = self.lists.as_mut().ok_or_else(without_lists);
        Box::pin(ready(lists.and_then(|lists| lists.set_pages(pages, PAGE as usize, sizes))))
    }

    fn assign<'f>(&'f self, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        Box::pin(async move {
            let HostLists { centroids, .. } = self.lists.as_ref().ok_or_else(without_lists)?;
            memory::collect(centroids.assign(rows.on_host()?)?.iter().map(Assigned::from))
        })
    }

    fn centroids(&self) -> Boxed<'_, Vec<f32>> {
        let lists = self.lists.as_ref().ok_or_else(without_lists);
        Box::pin(ready(lists.and_then(|lists| lists.centroids.all())))
    }

    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>> {
        Box::pin(async move {
            let rows = edit.rows_on_host()?;
            let mut change = self.rows.prepared(rows, &edit.filled, &edit.freed)?;
            if let Some(rows) = rows {
                self.rows.put(rows, (&edit.filled, &edit.ids), &mut change, (progress, interrupt::check))?;
            } else if edit.moves() {
                self.rows.relocate(&edit.freed, &edit.filled, &change, interrupt::check)?;
            }
            Ok(Prepared::Ready(RowChange::Host(change)))
        })
    }

    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
        let RowChange::Host(change) = change else { return Err(change.misplaced()) };
        self.rows.apply(change);
        Ok(None)
    }

    fn undo(&mut self, change: &RowChange<'_>) {
        if let RowChange::Host(change) = change {
            self.rows.undo(change);
        }
    }

    fn shrink(&mut self) -> Result<()> {
        self.rows.shrink();
        Ok(())
    }
}
