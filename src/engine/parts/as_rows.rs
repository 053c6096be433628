//! Rows on several devices, as an index asks for them.

use std::future::ready;
use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::documents::request::{DocumentRequest, Found};
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::given::GivenCentroids;
use crate::engine::parts::rows::Parts;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Recovered, RowSource, Rows, Slots, without_lists};
use crate::engine::rows::edit::Edit;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::tune::TunedKernel;
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::memory;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::usage::{Memory, MemoryPart};

impl Rows for Parts {
    fn residency(&self) -> Residency {
        let places = self.parts.iter().map(|part| part.residency());
        // A replica that was lost keeps what it had.
        places.reduce(|one, other| if one == Residency::Device { other } else { one }).unwrap_or_default()
    }

    fn kept(&self) -> Residency {
        self.parts.iter().map(|part| part.kept()).max().unwrap_or(Residency::Device)
    }

    fn is_quantized(&self) -> bool {
        self.parts.iter().all(|part| part.is_quantized())
    }

    fn alive(&self) -> Option<&Bits> {
        self.alive.as_ref()
    }

    fn end(&self) -> u64 {
        self.end as u64
    }

    fn len(&self) -> u64 {
        self.alive.as_ref().map_or(self.end, Bits::count_ones) as u64
    }

    fn measure(&self, memory: &mut Memory) {
        for (place, rows) in self.parts.iter().enumerate() {
            let mut own = Memory::default();
            rows.measure(&mut own);
            // Replicas share a file.
            let is_shared = |part: &MemoryPart| part.residency == Residency::Mapped && self.layout.is_none();
            for part in own.parts().iter().filter(|part| place == 0 || !is_shared(part)) {
                memory.add(part.name, part.residency, part.bytes);
            }
        }
        if let Some(bits) = &self.alive {
            memory.add("tombstones", Residency::Host, 4 * bits.words().len() as u64);
        }
        self.centroids.iter().for_each(|values| memory.add_vec("centroids", values));
    }

    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        self.longest_plan(queries, k, budget)
    }

    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        match request.probes {
            // One device alone cannot tell that all have too few rows.
            Some(probes) if self.layout.is_some() => Box::pin(self.search_widening(probes, queries, request)),
            _ => self.search_once(queries, request),
        }
    }

    fn search_documents<'f>(
        &'f self,
        queries: &'f TokenVectors<'f>,
        request: &'f DocumentRequest<'f>,
    ) -> Boxed<'f, Found> {
        Box::pin(self.documents(queries, request))
    }

    fn place_documents(&mut self, start: u32, lengths: &[usize]) -> Result<Vec<u32>> {
        match &mut self.layout {
            Some(layout) => layout.place_documents(start, lengths),
            None => self.parts[0].place_documents(start, lengths),
        }
    }

    fn gain_together(&self, probes: Option<u32>) -> bool {
        self.parts.iter().any(|part| part.gain_together(probes))
    }

    fn side_by_side(&self) -> usize {
        if self.layout.is_none() { self.parts.len() } else { 1 }
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Box::pin(self.widened(slots))
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        self.gathered(slots)
    }

    fn warm_up(&self, metric: Metric) -> Boxed<'_, ()> {
        Box::pin(async move { self.on_live(|place| self.parts[place].warm_up(metric)).await.map(drop) })
    }

    fn tune(&self, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
        Box::pin(
            async move { Ok(self.on_live(|place| self.parts[place].tune(metric, is_again)).await?.concat()) },
        )
    }

    fn attach_lists<'f>(&'f mut self, centroids: GivenCentroids<'f>) -> Boxed<'f, ()> {
        Box::pin(async move {
            for part in &mut self.parts {
                part.attach_lists(centroids).await?;
            }
            self.centroids = Some(memory::copied(centroids.values.values())?);
            Ok(())
        })
    }

    fn forget_pages(&mut self) {
        self.parts.iter_mut().for_each(|part| part.forget_pages());
    }

    fn set_pages<'f>(&'f mut self, pages: &'f [Vec<u32>], sizes: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(self.set_on_all(pages, sizes))
    }

    fn assign<'f>(&'f self, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        Box::pin(async move {
            match rows {
                Vectors::Host(rows) => self.assign_on_all(rows).await,
                Vectors::Device(_) => self.parts[self.first_live()?].assign(rows).await,
            }
        })
    }

    fn centroids(&self) -> Boxed<'_, Vec<f32>> {
        let values = self.centroids.as_ref().ok_or_else(without_lists);
        Box::pin(ready(values.and_then(|values| memory::copied(values))))
    }

    fn takes_matrices(&self) -> bool {
        false
    }

    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>> {
        Box::pin(self.prepared(edit, false, progress))
    }

    fn prepare_on_host<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, RowChange<'a>> {
        Box::pin(async move { self.prepared(edit, true, progress).await?.ready() })
    }

    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
        let RowChange::Parts(change) = change else { return Err(change.misplaced()) };
        self.take_over(change).map(|()| None)
    }

    fn undo(&mut self, change: &RowChange<'_>) {
        if let RowChange::Parts(change) = change {
            change.changes.iter().for_each(|(place, change)| self.parts[*place].undo(change));
        }
    }

    fn shrink(&mut self) -> Result<()> {
        let live = self.live();
        live.into_iter().try_for_each(|place| self.parts[place].shrink())
    }

    fn device_of(&self, slot: u32) -> usize {
        self.layout.as_ref().map_or(0, |layout| layout.place(slot).0)
    }

    fn run_end(&self, slot: u32) -> u32 {
        self.layout.as_ref().map_or(u32::MAX, |layout| layout.run_end(slot))
    }

    fn slots_by_device(&self) -> Vec<Slots<'_>> {
        self.divided_slots()
    }

    fn sparsest(&self) -> (u64, u64) {
        let counts = self.parts.iter().map(|part| part.sparsest());
        counts.max_by(|a, b| (a.1 * b.0.max(1)).cmp(&(b.1 * a.0.max(1)))).unwrap_or_default()
    }

    fn recovered<'f>(
        &'f self,
        device: &'f Device,
        source: Option<RowSource<'f>>,
        id_of: &'f (dyn Fn(u32) -> u64 + Sync),
    ) -> Boxed<'f, Recovered> {
        self.copied_to(device, source, id_of)
    }

    fn replace(&mut self, recovered: Recovered) {
        self.take_back(recovered);
    }
}
