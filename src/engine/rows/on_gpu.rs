//! Rows on a GPU, as an index asks for them.

use std::future::ready;
use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::ElementKind;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::ahead;
use crate::engine::lists::assign::{Assigned, Assigning, assign};
use crate::engine::lists::given::GivenCentroids;
use crate::engine::lists::probing::Probing;
use crate::engine::lists::tables::{GpuLists, ListTables};
use crate::engine::rows::allowed::Scope;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Rows, without_lists};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::search::ahead::Searched;
use crate::engine::search::graph::{self, IdOf};
use crate::engine::search::nearest;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::within;
use crate::engine::tune::{Tried, TunedKernel, tune};
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::memory;
use crate::metric::{Form, Metric};
use crate::neighbors::Neighbors;
use crate::options::residency::Residency;
use crate::usage::Memory;
#[cfg(not(target_arch = "wasm32"))]
use crate::{engine::rows::hybrid::outgrown::Outgrown, error::Error};

impl Rows for GpuRows {
    fn residency(&self) -> Residency {
        Residency::Device
    }

    fn is_quantized(&self) -> bool {
        self.quantized.is_some()
    }

    fn on_gpu(&self) -> Option<&GpuRows> {
        Some(self)
    }

    fn alive(&self) -> Option<&Bits> {
        self.alive.as_ref().map(|alive| &alive.bits)
    }

    fn end(&self) -> u64 {
        self.end()
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn measure(&self, memory: &mut Memory) {
        self.measure(memory);
    }

    fn plan(&self, queries: usize, k: usize, budget: u64) -> Result<Plan> {
        let plan = Plan::new(self, queries as u64, k as u64, Scope { budget, allowed: None })?;
        Ok(Plan { rows: self.residency(), ..plan })
    }

    fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            if let Some(probing) = Probing::of(self, request) {
                return probing.search(queries).await;
            }
            let mut found = match request.radius {
                Some(_) => within::search(self, queries, request).await?,
                None => nearest::search(self, queries, request).await?,
            };
            found.statistics.tables_missing = request.probes.is_some() && self.len() > 0;
            Ok(found)
        })
    }

    fn graph<'f>(&'f self, request: &'f SearchRequest<'f>, id_of: IdOf<'f>) -> Boxed<'f, Option<Neighbors>> {
        graph::graph(self, request, id_of)
    }

    fn fetch<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<f32>> {
        Box::pin(self.fetch(slots))
    }

    fn fetch_bytes<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Vec<u8>> {
        Box::pin(async move {
            let used = self.dim * self.layout.elements.size();
            let mut bytes = memory::with_room(slots.len() * used)?;
            self.gather_own(slots, |row| bytes.extend_from_slice(&row[..used])).await?;
            Ok(bytes)
        })
    }

    fn copies<'f>(&'f self, slots: &'f [u32]) -> Boxed<'f, Option<DeviceMatrix>> {
        Box::pin(async move {
            let bytes = slots.len() as u64 * self.copied_layout().row_bytes();
            // The host makes numbers of the queries of lists of bits.
            let are_bits_in_lists = self.lists.is_some() && self.layout.elements == ElementKind::Bits;
            let fits = bytes <= self.gpu.adapter.capabilities.max_binding_bytes;
            if !self.keeps_rows || are_bits_in_lists || !fits {
                return Ok(None);
            }
            match self.copies(slots).await {
                Err(error) if error.lacks_memory() => Ok(None),
                copies => copies.map(Some),
            }
        })
    }

    fn warm_up(&self, metric: Metric) -> Boxed<'_, ()> {
        Box::pin(async move {
            let searched = Searched::of(self, metric);
            let of_lists = self.lists.as_ref().map_or(vec![], |_| ahead::probing(searched));
            self.gpu.compile_all(self.dim, &[of_lists, searched.kernels()].concat()).await?;
            if self.quantized.is_some() {
                Tiles::tested(&self.gpu, Form::quantized(metric), true).await?;
            }
            Ok(())
        })
    }

    fn tune(&self, metric: Metric, is_again: bool) -> Boxed<'_, Vec<TunedKernel>> {
        match &self.lists {
            Some(GpuLists { tables: None, .. }) => Box::pin(ready(Ok(vec![]))),
            _ => tune(Tried::Rows(self), metric, is_again),
        }
    }

    fn attach_lists<'f>(&'f mut self, centroids: GivenCentroids<'f>) -> Boxed<'f, ()> {
        Box::pin(async move {
            let metric = centroids.metric;
            let centroids = centroids.on_gpu(&self.gpu).await?;
            self.lists = Some(GpuLists { centroids, tables: None });
            self.gpu.compile_ahead(self.dim, || ahead::probing(Searched::of(self, metric)));
            Ok(())
        })
    }

    fn forget_pages(&mut self) {
        self.lists.iter_mut().for_each(|lists| lists.tables = None);
    }

    fn set_pages<'f>(&'f mut self, pages: &'f [Vec<u32>], sizes: &'f [u32]) -> Boxed<'f, ()> {
        Box::pin(async move {
            let end = self.end();
            let Self { gpu, segments, lists: Some(lists), .. } = self else { return Err(without_lists()) };
            let slots =
                segments.iter().map(|segment| segment.first_slot..segment.first_slot + segment.capacity);
            let tables = ListTables::new(gpu, (slots.collect(), end), pages, memory::copied(sizes)?);
            lists.tables = Some(tables.await?);
            Ok(())
        })
    }

    fn assign<'f>(&'f self, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        Box::pin(async move {
            let lists = self.lists.as_ref().ok_or_else(without_lists)?;
            assign(&lists.centroids, &Assigning::New(rows)).await
        })
    }

    fn centroids(&self) -> Boxed<'_, Vec<f32>> {
        Box::pin(async move { self.lists.as_ref().ok_or_else(without_lists)?.centroids.to_host().await })
    }

    fn prepare<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, Prepared<'a>> {
        Box::pin(async move {
            let change = match edit.rows() {
                Some(rows) => self.prepared_put(rows, &edit.placing(), progress).await,
                None if edit.moves() => self.prepared_move(&edit.freed, &edit.filled).await,
                None => self.prepared_release(&edit.freed).await,
            };
            match change {
                #[cfg(not(target_arch = "wasm32"))]
                Err(error) if self.outgrown.is_some() && error.lacks_memory() => {
                    Ok(Prepared::Outgrown(error))
                }
                change => change.map(|change| Prepared::Ready(RowChange::Gpu(change))),
            }
        })
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn prepare_on_host<'f, 'a: 'f>(
        &'f mut self,
        edit: Arc<Edit<'a>>,
        progress: RowProgress<'f>,
    ) -> Boxed<'f, RowChange<'a>> {
        Box::pin(async move {
            let loan = self.lent();
            let mut hybrid = self.brought_to_host().await?;
            if let (Some(integers), Some(shape)) = (&hybrid.integers, &self.outgrown) {
                self.gpu.compile_ahead(self.dim, || Searched::of(integers, shape.metric).kernels());
            }
            let change = match hybrid.prepared(edit.clone(), progress).await {
                // The limit counts the memory of the rows as free. The driver does not: it may have room for the copy when they are gone.
                Err(error @ Error::MemoryLimit { .. }) if hybrid.outgrow(&error) => {
                    hybrid.prepared_streaming(edit).await?
                }
                prepared => prepared?,
            };
            Ok(RowChange::Outgrown(Box::new(Outgrown { rows: hybrid, change, loan })))
        })
    }

    fn apply(&mut self, change: RowChange<'_>) -> Result<Option<Box<dyn Rows>>> {
        match change {
            RowChange::Gpu(change) => self.apply(change).map(|()| None),
            #[cfg(not(target_arch = "wasm32"))]
            RowChange::Outgrown(outgrown) => {
                let Outgrown { mut rows, change, loan } = *outgrown;
                rows.apply(change)?;
                rows.integers.iter_mut().for_each(|integers| integers.lists = self.lists.take());
                loan.settle();
                Ok(Some(Box::new(rows)))
            }
            other => Err(other.misplaced()),
        }
    }

    fn shrink(&mut self) -> Result<()> {
        self.shrink()
    }
}
