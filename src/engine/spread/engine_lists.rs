//! The lists of an `Ivf`, on one device or on several.

use std::time::Duration;

use crate::elements::{Matrix, MatrixView};
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::device_lists::{DeviceLists, Training};
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::spread::devices::Devices;
use crate::engine::spread::engine_rows::EngineRows;
use crate::engine::tune::TunedKernel;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::memory;
use crate::metric::Metric;
use crate::screen::Screen;
use crate::usage::Memory;

/// The lists of an index: every device has all centroids, and the pages of its own rows.
#[derive(Debug)]
pub(crate) struct EngineLists {
    pub(super) parts: Vec<DeviceLists>,
    /// All centroids, for a device that comes when the others are lost; none for one device.
    centroids: Option<Matrix>,
}

impl EngineLists {
    /// Lists without rows, around centroids that were trained on the first device.
    pub(crate) async fn of(
        training: Training<'_>,
        devices: &Devices,
        metric: Metric,
        screen: Screen,
    ) -> Result<Self> {
        let mut parts = vec![DeviceLists::of(training)];
        let [_, others @ ..] = devices.list() else { return Err(Error::internal("lists on no device")) };
        if others.is_empty() {
            return Ok(Self { parts, centroids: None });
        }
        let centroids = parts[0].centroids().await?;
        let dim = centroids.len() / (parts[0].count() as usize).max(1);
        let view = MatrixView::new(&centroids, dim)?;
        for device in others {
            parts.push(DeviceLists::around(device, metric, view, screen).await?);
        }
        Ok(Self { parts, centroids: Some(Matrix::F32(centroids, dim)) })
    }

    /// Lists without rows, around centroids of the host. The metric is that of the index.
    pub(crate) async fn around(
        devices: &Devices,
        metric: Metric,
        centroids: MatrixView<'_, f32>,
        screen: Screen,
    ) -> Result<Self> {
        let mut parts = vec![];
        for device in devices.list() {
            parts.push(DeviceLists::around(device, metric, centroids, screen).await?);
        }
        let kept = || Ok(Matrix::F32(memory::copied(centroids.values())?, centroids.dim()));
        let centroids = (parts.len() > 1).then(kept).transpose()?;
        Ok(Self { parts, centroids })
    }

    /// The list of each row, which is that of its nearest centroid, by the first device.
    pub(crate) async fn assign_on_first(&self, rows: Vectors<'_>) -> Result<Vec<Assigned>> {
        self.parts[0].assign(rows).await
    }

    /// The list of each row, which is that of its nearest centroid.
    pub(crate) fn assign<'f>(&'f self, there: &'f EngineRows, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        Box::pin(async move {
            match (there, rows) {
                #[cfg(not(target_arch = "wasm32"))]
                (EngineRows::Several(there), Vectors::Host(rows)) => self.assign_on_all(there, rows).await,
                _ => self.parts[there.first_live()?].assign(rows).await,
            }
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.parts[0].count()
    }

    /// The expected duration of a search that probes `probes` lists for each query. None if it is not known beforehand.
    pub(crate) fn expected(&self, rows: &EngineRows, queries: usize, probes: u64) -> Option<Duration> {
        match rows {
            EngineRows::One(rows) => self.parts[0].expected(rows, queries, probes),
            #[cfg(not(target_arch = "wasm32"))]
            EngineRows::Several(_) => None,
        }
    }

    /// Starts to compile the kernels of searches in these lists.
    pub(crate) fn compile_ahead(&self, rows: &EngineRows, metric: Metric) {
        let parts = self.parts.iter().zip(rows.parts());
        parts.for_each(|(lists, rows)| lists.compile_ahead(rows, metric));
    }

    /// Times the kernels of searches in these lists, and uses the faster forms.
    pub(crate) fn tune<'f>(
        &'f self,
        rows: &'f EngineRows,
        metric: Metric,
        is_again: bool,
    ) -> Boxed<'f, Vec<TunedKernel>> {
        Box::pin(async move {
            match rows {
                EngineRows::One(rows) => self.parts[0].tune(rows, metric, is_again).await,
                #[cfg(not(target_arch = "wasm32"))]
                EngineRows::Several(rows) => {
                    let tune = |place: usize| self.parts[place].tune(&rows.parts[place], metric, is_again);
                    Ok(rows.on_live(|place| Box::pin(tune(place))).await?.concat())
                }
            }
        })
    }

    /// Compiles the kernels of searches in these lists and in all rows, and waits for them.
    pub(crate) fn warm_up<'f>(&'f self, rows: &'f EngineRows, metric: Metric) -> Boxed<'f, ()> {
        Box::pin(async move {
            match rows {
                EngineRows::One(rows) => self.parts[0].warm_up(rows, metric).await,
                #[cfg(not(target_arch = "wasm32"))]
                EngineRows::Several(rows) => {
                    let warm_up = |place: usize| self.parts[place].warm_up(&rows.parts[place], metric);
                    rows.on_live(|place| Box::pin(warm_up(place))).await.map(drop)
                }
            }
        })
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self, rows: &EngineRows) -> Result<Vec<f32>> {
        match &self.centroids {
            Some(Matrix::F32(values, _)) => memory::copied(values),
            _ => self.parts[rows.first_live()?].centroids().await,
        }
    }

    /// Lists without rows around the same centroids, for a device in the place of a lost one.
    pub(crate) async fn around_again(
        &self,
        device: &Device,
        metric: Metric,
        screen: Screen,
    ) -> Result<DeviceLists> {
        let Some(Matrix::F32(values, dim)) = &self.centroids else {
            return Err(Error::internal("lists on one device"));
        };
        DeviceLists::around(device, metric, MatrixView::new(values, *dim)?, screen).await
    }

    pub(crate) fn replace(&mut self, place: usize, lists: DeviceLists) {
        self.parts[place] = lists;
    }

    /// Sets the pages of each list, ascending, and the number of its rows. Searches go through all rows before this is done.
    pub(crate) fn set<'f>(
        &'f mut self,
        rows: &'f EngineRows,
        pages: &'f [Vec<u32>],
        sizes: &'f [u32],
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            match rows {
                EngineRows::One(rows) => self.parts[0].set(rows, pages, sizes).await,
                #[cfg(not(target_arch = "wasm32"))]
                EngineRows::Several(rows) => self.set_all(rows, pages, sizes).await,
            }
        })
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        self.parts.iter().for_each(|lists| lists.measure(memory));
        if let Some(Matrix::F32(values, _)) = &self.centroids {
            memory.add_vec("centroids", values);
        }
    }
}

/// Lists, and how many of them each query probes; none for a search of all rows.
pub(crate) type Probed<'l> = Option<(&'l EngineLists, u32)>;

/// Searches all rows, or those of the lists that are nearest to each query.
pub(crate) fn search_rows<'f>(
    rows: &'f EngineRows,
    lists: Probed<'f>,
    queries: &'f Vectors<'f>,
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(async move {
        let found = match (rows, lists) {
            (EngineRows::One(rows), None) => rows.search(queries, request).await?,
            (EngineRows::One(rows), Some((lists, probes))) => {
                lists.parts[0].search(rows, queries, request, probes).await?
            }
            #[cfg(not(target_arch = "wasm32"))]
            (EngineRows::Several(rows), Some((lists, probes))) if rows.layout.is_some() => {
                lists.search_shards(rows, queries, request, probes).await?
            }
            #[cfg(not(target_arch = "wasm32"))]
            (EngineRows::Several(rows), lists) => {
                let lists = lists.map(|(lists, probes)| (&lists.parts[..], probes));
                rows.search(lists, queries, request).await?
            }
        };
        Ok(found.with_roots(request.metric, rows.place()))
    })
}
