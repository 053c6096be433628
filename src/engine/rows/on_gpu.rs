//! Rows on a GPU, as an index asks for them.

use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::ahead;
use crate::engine::lists::device_lists::DeviceLists;
use crate::engine::lists::probing::Probing;
use crate::engine::rows::allowed::Scope;
use crate::engine::rows::change::{Prepared, RowChange};
use crate::engine::rows::contract::{Probed, Rows};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::search::ahead::Searched;
use crate::engine::search::nearest;
use crate::engine::search::plan::Plan;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::within;
use crate::engine::tune::{Tried, TunedKernel, tune};
use crate::error::Result;
use crate::future::{Boxed, RowProgress};
use crate::memory;
use crate::metric::{Form, Metric};
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
        lists: Probed<'f>,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            let Some((lists, probes)) = lists else {
                return match request.radius {
                    Some(_) => within::search(self, queries, request).await,
                    None => nearest::search(self, queries, request).await,
                };
            };
            let (centroids, Some(tables)) = lists[0].on_gpu()? else {
                let mut found = self.search(queries, request, None).await?;
                found.statistics.tables_missing = self.len() > 0;
                return Ok(found);
            };
            let probing = Probing {
                rows: self,
                centroids,
                tables,
                request,
                #[cfg(not(target_arch = "wasm32"))]
                asked: None,
                probes,
            };
            probing.search(queries).await
        })
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

    fn compile_ahead(&self, _lists: &[DeviceLists], metric: Metric) {
        self.gpu.compile_ahead(self.dim, || ahead::probing(Searched::of(self, metric)));
    }

    fn warm_up<'f>(&'f self, metric: Metric, lists: Option<&'f [DeviceLists]>) -> Boxed<'f, ()> {
        Box::pin(async move {
            let searched = Searched::of(self, metric);
            let of_lists = lists.map_or(vec![], |_| ahead::probing(searched));
            self.gpu.compile_all(self.dim, &[of_lists, searched.kernels()].concat()).await?;
            if self.quantized.is_some() {
                Tiles::tested(&self.gpu, Form::quantized(metric)).await?;
            }
            Ok(())
        })
    }

    fn tune<'f>(
        &'f self,
        metric: Metric,
        is_again: bool,
        lists: Option<&'f [DeviceLists]>,
    ) -> Boxed<'f, Vec<TunedKernel>> {
        Box::pin(async move {
            match lists.map(|lists| lists[0].on_gpu()).transpose()? {
                None => tune(Tried::Rows(self), metric, is_again).await,
                Some((centroids, Some(tables))) => {
                    tune(Tried::Lists(self, centroids, tables), metric, is_again).await
                }
                Some((_, None)) => Ok(vec![]),
            }
        })
    }

    fn set_lists<'f>(
        &'f self,
        lists: &'f mut [DeviceLists],
        pages: &'f [Vec<u32>],
        sizes: &'f [u32],
    ) -> Boxed<'f, ()> {
        Box::pin(lists[0].set_on_gpu(self, pages, sizes))
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
