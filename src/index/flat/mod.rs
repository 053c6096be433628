//! `Flat`: exact search over all rows.

mod changes;
mod persist;

use crate::engine::{Device, EngineRows, Found, Plan, Queries, RowShape, Screen, SearchRequest, Statistics};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::future::Boxed;
use crate::matrix::ElementKind;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::store::{CopyOptions, Goal, RowStore, budget_of, check_dim, check_k, check_queries};

/// An exact index: every search answers with the k rows of smallest distance, ties by the smaller id.
///
/// Searches take `&self` and run from many threads at once; the same query has the same answer bit for bit, whatever
/// batch, thread or budget it is searched in.
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
    device: Device,
    metric: Metric,
    dim: usize,
    elements: ElementKind,
    budget: u64,
    /// As it was asked for.
    screen: Screen,
    store: RowStore,
}

/// Options of a new [`Flat`]. Made by [`Flat::builder`].
#[derive(Debug, Clone)]
pub struct FlatBuilder {
    device: Device,
    metric: Metric,
    dim: usize,
    elements: ElementKind,
    budget: Option<u64>,
    capacity: usize,
    screen: Screen,
    copy: CopyOptions,
}

impl FlatBuilder {
    /// How rows are stored. f32 (the default) takes f32 and f16 rows, f16 takes f16 rows and half the memory.
    #[must_use]
    pub fn elements(mut self, elements: ElementKind) -> Self {
        self.elements = elements;
        self
    }

    /// Bytes of scratch memory on the device that one search may use. Default: the device's whole budget.
    #[must_use]
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// How many rows are expected: a segment is then made as large as they need, up to a full one, and not grown step by
    /// step. On the host engine, and for a copy on the host, their memory is taken at once. More rows can be added all the same. Default: 0.
    #[must_use]
    pub fn capacity(mut self, rows: usize) -> Self {
        self.capacity = rows;
        self
    }

    /// Whether a copy of the rows in 8-bit integers is kept, by which most rows are excluded before any distance is
    /// computed. It takes `dim` bytes a row (rounded up to a multiple of 32) and 16 more: a quarter of what f32 rows take.
    /// Answers are the same, bit for bit. Default: [`Screen::Auto`].
    #[must_use]
    pub fn screen(mut self, screen: Screen) -> Self {
        self.screen = screen;
        self
    }

    /// Whether a second copy of the rows is kept in the host's memory. A search that the processor is expected to finish before a GPU has
    /// launched a kernel and sent its result back then runs there, and so does one that takes it less time than searches of about the same
    /// size took the GPU, as the index has seen them; [`Statistics::on_host`] tells. Queries that lie on the GPU are searched for there.
    ///
    /// `get` and `save` read from the copy. Answers differ as they do between adapters: by the last bits of distances, within the bounds of
    /// [`Metric`]. Ignored on the host engine, whose rows are there already. A loaded index has none. Default: false.
    #[must_use]
    pub fn keep_host_copy(mut self, keep: bool) -> Self {
        self.copy.keep = keep;
        self
    }

    /// Whether searches that fail because the GPU is lost, or out of memory, are answered from the host's copy; [`Statistics::on_host`]
    /// tells. Needs [`FlatBuilder::keep_host_copy`]. Default: false.
    #[must_use]
    pub fn fallback(mut self, fallback: bool) -> Self {
        self.copy.fallback = fallback;
        self
    }

    /// The empty index.
    ///
    /// # Errors
    /// [`Error::Argument`] when dim is 0 or above 2^20, or for a fallback without a copy; [`Error::Budget`] when the budget exceeds the device's;
    /// [`Error::Unsupported`] when 128 rows do not fit one binding of the adapter; [`Error::OutOfMemory`] when the host has no room for the
    /// rows that are expected there.
    pub fn build(self) -> Result<Flat> {
        check_dim(self.dim)?;
        let budget = budget_of(&self.device, self.budget)?;
        let shape = RowShape {
            metric: self.metric,
            elements: self.elements,
            dim: self.dim,
            expected: self.capacity as u64,
            screen: self.screen,
        };
        let copy = self.copy.copy(&self.device, &shape)?;
        let rows = EngineRows::new(&self.device, &shape)?;
        Ok(Flat {
            device: self.device,
            metric: self.metric,
            dim: self.dim,
            elements: self.elements,
            budget,
            screen: self.screen,
            store: RowStore::new(rows).with_copy(copy),
        })
    }
}

/// How a search is done. `SearchOptions::new(k)` is what [`Flat::search`] uses.
#[derive(Clone)]
#[non_exhaustive]
pub struct SearchOptions<'a> {
    /// Neighbours wanted a query.
    pub k: usize,
    /// Called after each batch with the number of queries answered so far.
    pub progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
    /// Times the stages on the device, where the adapter has timestamps. A little slower.
    pub profile: bool,
    /// The rows that may be found; none for all.
    pub filter: Option<Filter<'a>>,
    /// Lists that an [`Ivf`](crate::Ivf) looks at for a query; none for its default. A `Flat`, which has no lists, refuses any.
    pub probes: Option<usize>,
}

impl<'a> SearchOptions<'a> {
    /// The k nearest of all rows, without progress or profile.
    pub fn new(k: usize) -> Self {
        Self { k, progress: None, profile: false, filter: None, probes: None }
    }

    /// Looks at so many lists for a query, in an [`Ivf`](crate::Ivf).
    #[must_use]
    pub fn probes(mut self, probes: usize) -> Self {
        self.probes = Some(probes);
        self
    }

    /// Calls `progress` after each batch with the number of queries answered so far.
    #[must_use]
    pub fn progress(mut self, progress: &'a (dyn Fn(usize) + Send + Sync)) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Times the stages on the device, into [`Statistics::stages`].
    #[must_use]
    pub fn profile(mut self, profile: bool) -> Self {
        self.profile = profile;
        self
    }

    /// Searches among the rows that `filter` allows. The answer is as exact as one of an index of these rows alone, and has fewer
    /// than k of them where fewer are allowed.
    #[must_use]
    pub fn filter(mut self, filter: Filter<'a>) -> Self {
        self.filter = Some(filter);
        self
    }
}

/// How a search for all rows within a radius is done: see [`Flat::search_within_with`].
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct WithinOptions<'a> {
    /// Called after each batch with the number of queries answered so far.
    pub progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
    /// The rows that may be found; none for all.
    pub filter: Option<Filter<'a>>,
}

impl<'a> WithinOptions<'a> {
    /// Among all rows, without progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `progress` after each batch with the number of queries answered so far.
    #[must_use]
    pub fn progress(mut self, progress: &'a (dyn Fn(usize) + Send + Sync)) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Searches among the rows that `filter` allows.
    #[must_use]
    pub fn filter(mut self, filter: Filter<'a>) -> Self {
        self.filter = Some(filter);
        self
    }
}

impl std::fmt::Debug for WithinOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithinOptions")
            .field("progress", &self.progress.is_some())
            .field("filter", &self.filter)
            .finish()
    }
}

impl std::fmt::Debug for SearchOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchOptions")
            .field("k", &self.k)
            .field("progress", &self.progress.is_some())
            .field("profile", &self.profile)
            .field("filter", &self.filter)
            .field("probes", &self.probes)
            .finish()
    }
}

impl Flat {
    /// Starts a new index of vectors with `dim` elements.
    pub fn builder(device: &Device, metric: Metric, dim: usize) -> FlatBuilder {
        FlatBuilder {
            device: device.clone(),
            metric,
            dim,
            elements: ElementKind::F32,
            budget: None,
            capacity: 0,
            screen: Screen::default(),
            copy: CopyOptions::default(),
        }
    }

    /// The k nearest rows of each query, `[queries, up to k]`, nearest first, ties by the smaller id. Fewer than k rows
    /// give shorter answers.
    ///
    /// Queries are a [`MatrixView`](crate::MatrixView) of f32 or f16, or a [`DeviceMatrix`](crate::DeviceMatrix) on this device.
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0 or another dim; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the query's
    /// number; [`Error::Budget`] when not even one query fits the budget; [`Error::OutOfMemory`];
    /// [`Error::DeviceLost`].
    pub fn search<'a>(&self, queries: impl Into<Queries<'a>>, k: usize) -> Result<Neighbors> {
        Ok(self.search_with(queries, &SearchOptions::new(k))?.0)
    }

    /// [`Flat::search`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn search_async<'a>(&self, queries: impl Into<Queries<'a>>, k: usize) -> Result<Neighbors> {
        Ok(self.search_with_async(queries, &SearchOptions::new(k)).await?.0)
    }

    /// [`Flat::search`] with options; tells also how the answer came about.
    ///
    /// # Errors
    /// As there.
    pub fn search_with<'a>(
        &self,
        queries: impl Into<Queries<'a>>,
        options: &SearchOptions<'_>,
    ) -> Result<(Neighbors, Statistics)> {
        self.device.block_on(self.search_for(queries.into(), options))
    }

    /// [`Flat::search_with`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn search_with_async<'a>(
        &self,
        queries: impl Into<Queries<'a>>,
        options: &SearchOptions<'_>,
    ) -> Result<(Neighbors, Statistics)> {
        self.search_for(queries.into(), options).await
    }

    fn search_for<'a>(
        &'a self,
        queries: Queries<'a>,
        options: &'a SearchOptions<'_>,
    ) -> Boxed<'a, (Neighbors, Statistics)> {
        Box::pin(async move {
            check_queries(&queries, &self.device, self.dim)?;
            check_k(options.k)?;
            if let Some(probes) = options.probes {
                return Err(Error::argument("probes", "none, because a flat index has no lists", probes));
            }
            let allowed = options.filter.map(|filter| self.store.allowed(&filter));
            let request = SearchRequest {
                metric: self.metric,
                k: options.k,
                budget: self.budget,
                allowed: allowed.as_ref(),
                profile: options.profile,
                progress: options.progress,
            };
            let Found { neighbors, statistics } =
                self.store.search(&queries, &request, Goal::Nearest).await?;
            Ok((neighbors, statistics))
        })
    }

    /// All rows nearer than `radius` to each query: those whose reported distance is below it, nearest first, ties by the
    /// smaller id. The answer is a CSR list, with as many rows a query as there are: see [`Neighbors::offsets`].
    ///
    /// A radius is a distance of the index's metric: for inner product `-(q.x)`, so rows with `q.x > 5` are within `-5.0`.
    /// The same rows are screened as by [`Flat::search`], with a threshold that is fixed.
    ///
    /// # Errors
    /// [`Error::Argument`] for a radius that is NaN, or another dim; otherwise as [`Flat::search`].
    ///
    /// ```no_run
    /// use nearfield::{Device, Flat, MatrixView, Metric};
    /// let device = Device::best()?;
    /// let mut index = Flat::builder(&device, Metric::L2, 1).build()?;
    /// index.add(MatrixView::new(&[0.0f32, 2.0, 3.0, 9.0], 1)?)?;
    /// let found = index.search_within(MatrixView::new(&[2.5f32], 1)?, 1.0)?;
    /// let ids: Vec<u64> = found.row(0).iter().map(|hit| hit.id).collect();
    /// assert_eq!(ids, [1, 2]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn search_within<'a>(&self, queries: impl Into<Queries<'a>>, radius: f32) -> Result<Neighbors> {
        Ok(self.search_within_with(queries, radius, &WithinOptions::new())?.0)
    }

    /// [`Flat::search_within`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn search_within_async<'a>(
        &self,
        queries: impl Into<Queries<'a>>,
        radius: f32,
    ) -> Result<Neighbors> {
        Ok(self.search_within_with_async(queries, radius, &WithinOptions::new()).await?.0)
    }

    /// [`Flat::search_within`] with options; tells also how the answer came about.
    ///
    /// # Errors
    /// As there.
    pub fn search_within_with<'a>(
        &self,
        queries: impl Into<Queries<'a>>,
        radius: f32,
        options: &WithinOptions<'_>,
    ) -> Result<(Neighbors, Statistics)> {
        self.device.block_on(self.within(queries.into(), radius, options))
    }

    /// [`Flat::search_within_with`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn search_within_with_async<'a>(
        &self,
        queries: impl Into<Queries<'a>>,
        radius: f32,
        options: &WithinOptions<'_>,
    ) -> Result<(Neighbors, Statistics)> {
        self.within(queries.into(), radius, options).await
    }

    fn within<'a>(
        &'a self,
        queries: Queries<'a>,
        radius: f32,
        options: &'a WithinOptions<'_>,
    ) -> Boxed<'a, (Neighbors, Statistics)> {
        Box::pin(async move {
            check_queries(&queries, &self.device, self.dim)?;
            if radius.is_nan() {
                return Err(Error::argument("radius", "a number", radius));
            }
            let allowed = options.filter.map(|filter| self.store.allowed(&filter));
            let request = SearchRequest {
                metric: self.metric,
                k: 1,
                budget: self.budget,
                allowed: allowed.as_ref(),
                profile: false,
                progress: options.progress,
            };
            let Found { neighbors, statistics } =
                self.store.search(&queries, &request, Goal::Within(radius)).await?;
            Ok((neighbors, statistics))
        })
    }

    /// How a search for the k nearest of so many queries would run.
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0; [`Error::Budget`] when not even one query fits the budget.
    pub fn plan(&self, queries: usize, k: usize) -> Result<Plan> {
        check_k(k)?;
        self.store.rows.plan(queries, k, self.budget)
    }

    /// Whether a copy of the rows in 8-bit integers is kept: see [`FlatBuilder::screen`].
    pub fn is_screened(&self) -> bool {
        self.store.rows.is_narrowed()
    }

    /// The metric.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Elements a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}
