//! `Flat`: exact search over all rows.

use std::path::PathBuf;

use std::io::Write;
use std::path::Path;

use crate::engine::{Device, Devices, Plan, Recovered, SearchResult, TunedKernel, Vectors};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::index::common::{Common, Resources, Settings, resource_methods};
use crate::index::face::{index_methods, search_methods};
use crate::index::loader::Loader;
use crate::index::pairwise::methods::pairwise_methods;
use crate::index::quantizing::element_methods;
use crate::index::saved::kept::{FromSaved, kept_methods};
use crate::index::saved::{Loading, SavedKind, Saving};
use crate::index::shared::SharedSearches;
use crate::index::vector_index::vector_index;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;
use crate::options::{AddOptions, SearchOptions, setters};
use crate::store::check_k;
use crate::usage::Memory;
#[cfg(not(target_arch = "wasm32"))]
use crate::{index::mapped::MappedVectors, memory};

/// An exact index: every search answers with the k rows of smallest distance, ties by the smaller id.
///
/// Searches take `&self` and run from many threads at once; the same query has the same answer bit for bit, whatever
/// batch, thread or budget it is searched in. Searches that arrive while the device works are searched together, so that many callers
/// with a query each are served about as fast as one with all queries. Nothing has to be set for this, and a search that finds the
/// device idle starts at once; [`DeviceOptions::join_searches`](crate::DeviceOptions::join_searches) turns it off.
///
/// ```no_run
/// use nearfield::{Device, Flat, MatrixView, Metric};
/// let device = Device::best()?;
/// let mut index = Flat::builder(&device, Metric::L2Squared, 2).build()?;
/// index.add(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0], 2)?)?;
/// let found = index.search(MatrixView::new(&[3.0f32, 3.0], 2)?, 1)?;
/// assert_eq!((found.row(0)[0].id, found.row(0)[0].distance), (1, 1.0));
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct Flat {
    common: Common,
    searches: SharedSearches,
}

/// Options of a new [`Flat`]. Made by [`Flat::builder`].
#[derive(Debug, Clone)]
pub struct FlatBuilder {
    settings: Settings,
}

impl FlatBuilder {
    element_methods!(settings);

    setters! { options => options.settings;
        /// Whether the index keeps a copy of its rows in 8-bit integers, by which it excludes most rows before it computes any
        /// distance. The copy takes `dim` bytes per row (rounded up to a multiple of 32) and 16 more: a quarter of what f32 rows
        /// take. On a GPU rows of i8 and u8 are such integers themselves ([`Quantization`]). Answers are the same, bit for bit. Default: [`Quantization::Auto`].
        quantization: Quantization;
    }

    resource_methods!(settings.resources);

    /// The index has the rows of a file: see [`Residency::Mapped`](crate::Residency::Mapped).
    #[must_use]
    pub fn mapped(mut self, path: impl Into<PathBuf>) -> Self {
        let resources = &mut self.settings.resources;
        (resources.residency, resources.file) = (Residency::Mapped, Some(path.into()));
        self
    }

    blocking_and_async! { self.settings.resources.devices.clone();
        /// The index: an empty one, or with [`mapped`](Self::mapped) that of the file's rows, which are read through once.
        ///
        /// # Errors
        /// [`Error::Argument`] when dim is 0 or above 2^20, for a fallback without a copy, or for rows on the host without a screen;
        /// [`Error::Io`] and [`Error::File`] for a file that cannot be read or mapped, has rows of another dim or type, or is damaged;
        /// [`Error::Budget`] when the budget exceeds the device's; [`Error::Unsupported`] when 128 rows do not fit one binding of the adapter;
        /// [`Error::OutOfMemory`] when the host has no memory for the rows that are expected there.
        pub fn build(self) -> Result<Flat> {
            Flat::of(self.settings)
        }
        async build_async;
    }
}

index_methods!(Flat);
search_methods!(Flat);
pairwise_methods!(Flat, self => true);
vector_index!(Flat);

impl Flat {
    /// Starts a new index of vectors with `dim` elements.
    ///
    /// `devices` is a reference to a [`Device`], or to several: see [`Devices`].
    pub fn builder(devices: impl Into<Devices>, metric: Metric, dim: usize) -> FlatBuilder {
        FlatBuilder { settings: Settings::new(devices.into(), metric, dim) }
    }

    /// An index of these rows, `[rows, dim]`, of their type, under the ids from 0 on: for a matrix that is searched, or of which the rows
    /// are compared, without more options.
    ///
    /// # Errors
    /// As [`FlatBuilder::build`] and [`add`](Self::add).
    ///
    /// ```
    /// use nearfield::{Device, Flat, Metric};
    /// let rows = [[0.0f32, 0.0], [0.0, 1.0], [5.0, 5.0]];
    /// let graph = Flat::from_rows(&Device::host(), Metric::L2, &rows)?.knn_graph(1)?;
    /// assert_eq!(graph.neighbors().row(2)[0].id, 1);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn from_rows<'r>(
        devices: impl Into<Devices>,
        metric: Metric,
        rows: impl Into<Vectors<'r>>,
    ) -> Result<Self> {
        let rows = rows.into();
        let mut index = Self::builder_for(devices.into(), metric, &rows).build()?;
        index.add(rows)?;
        Ok(index)
    }

    /// [`from_rows`](Self::from_rows) without blocking.
    pub async fn from_rows_async<'r>(
        devices: impl Into<Devices>,
        metric: Metric,
        rows: impl Into<Vectors<'r>>,
    ) -> Result<Self> {
        let rows = rows.into();
        let mut index = Self::builder_for(devices.into(), metric, &rows).build_async().await?;
        index.add_async(rows).await?;
        Ok(index)
    }

    fn builder_for(devices: Devices, metric: Metric, rows: &Vectors<'_>) -> FlatBuilder {
        Self::builder(devices, metric, rows.dim()).elements(rows.kind()).capacity(rows.rows())
    }

    async fn of(settings: Settings) -> Result<Self> {
        #[cfg(not(target_arch = "wasm32"))]
        if let (Residency::Mapped, Some(path)) = (settings.resources.residency, &settings.resources.file) {
            let vectors = MappedVectors::open(path, settings.metric, settings.dim, SavedKind::OF_ROWS)?;
            let slots = memory::collect(0..vectors.rows.rows as u32)?;
            return Ok(Self::over(vectors.read(settings, slots).await?));
        }
        Ok(Self::over(settings.open().await?))
    }

    fn over(common: Common) -> Self {
        Self { searches: SharedSearches::new(&common), common }
    }

    /// How a search for the k nearest of this many queries would run.
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0; [`Error::Budget`] when not even one query fits the budget.
    pub fn plan(&self, queries: usize, k: usize) -> Result<Plan> {
        check_k(k)?;
        self.common.store.rows.plan(queries, k, self.common.budget)
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    pub(crate) fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    pub(crate) fn boxed_search<'s>(
        &'s self,
        queries: Vectors<'s>,
        options: &'s SearchOptions<'_>,
    ) -> Boxed<'s, SearchResult> {
        Box::pin(async move {
            self.common.check_search(&queries, options)?;
            if let Some(probes) = options.probes {
                return Err(Error::argument("probes", "none, because a flat index has no lists", probes));
            }
            self.searches.search(&self.common, queries, options, None).await
        })
    }

    /// A flat index has no lists.
    pub(crate) fn measure_lists(&self, _: &mut Memory) {}

    pub(crate) fn boxed_add<'s>(
        &'s mut self,
        rows: Vectors<'s>,
        options: &'s AddOptions<'_>,
    ) -> Boxed<'s, ()> {
        Box::pin(async move {
            let quantized = self.common.taken(&rows).await?;
            let rows = quantized.as_ref().map_or(rows, Vectors::from);
            let store = self.common.store_mut()?;
            let slots = store.vacant(rows.rows())?;
            store.add_at(rows, options.ids, &slots, &mut |rows| options.report(rows)).await
        })
    }

    pub(crate) fn boxed_update<'s>(&'s mut self, ids: &'s [u64], rows: Vectors<'s>) -> Boxed<'s, ()> {
        Box::pin(async move {
            self.common.replaced(ids, &rows)?;
            let quantized = self.common.taken(&rows).await?;
            let rows = quantized.as_ref().map_or(rows, Vectors::from);
            let store = self.common.store_mut()?;
            let slots = store.vacant(ids.len())?;
            store.update_at(ids, rows, &slots).await
        })
    }

    pub(crate) fn boxed_remove<'s>(&'s mut self, ids: &'s [u64]) -> Boxed<'s, ()> {
        Box::pin(async move {
            let store = self.common.store_mut()?;
            store.remove(ids).await?;
            if store.is_sparse() {
                // The rows are gone, whether this succeeds or not: a device that fails here says so in the next call.
                let _ = store.compact().await;
            }
            Ok(())
        })
    }

    pub(crate) fn boxed_compact(&mut self) -> Boxed<'_, ()> {
        Box::pin(async move { self.common.store_mut()?.compact().await })
    }

    pub(crate) fn taken_back(&mut self, recovered: Recovered) -> Boxed<'_, ()> {
        Box::pin(async move { self.common.replace(recovered) })
    }

    pub(crate) fn saving(&self) -> Boxed<'_, Saving<'_>> {
        let slots = self.common.store.slots();
        let saving = slots.map(|slots| Saving { common: &self.common, slots, lists: None, documents: None });
        Box::pin(std::future::ready(saving))
    }
}

impl FromSaved for Flat {
    const KINDS: &'static [SavedKind] = &[SavedKind::Flat];

    kept_methods!();

    fn from_saved(loading: Loading<'_>, resources: Resources) -> Boxed<'_, Self> {
        Box::pin(async move {
            let ids = loading.ids()?;
            let mut index = Self::of(loading.settings(resources, ids.len())).await?;
            let store = index.common.store_mut()?;
            let slots = store.vacant(ids.len())?;
            loading.fill(store, &ids, &slots).await?;
            Ok(index)
        })
    }
}
