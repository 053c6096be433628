//! `Ivf`: approximate search in lists of rows, each around a centroid.

mod changes;
mod pages;
mod persist;

use crate::engine::{
    Device, DeviceMatrix, EngineLists, EngineRows, Found, Queries, RowShape, Sample, Screen, SearchRequest,
    Statistics,
};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::flat::SearchOptions;
use crate::index::kmeans::KMeans;
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::store::{CopyOptions, Goal, RowStore, budget_of, check_dim, check_k, check_queries};
use pages::Pages;

/// An inverted file: rows lie in lists, each around a centroid, and a search looks at the lists whose centroids are nearest to the query
/// (J. Sivic, A. Zisserman, *Video Google*, ICCV 2003). Among the rows of those lists its answer is exact, with the distances, the
/// order and the tie rule of [`Flat`](crate::Flat); with as many probes as there are lists it is the same, bit for bit.
///
/// Rows come and go as in `Flat`, and ids stay. Searches take `&self` and run from many threads at once.
///
/// ```no_run
/// use nearfield::{Device, Ivf, MatrixView, Metric};
/// let rows: Vec<f32> = (0..10_000 * 64).map(|i| (i as f32 * 0.37).sin()).collect();
/// let rows = MatrixView::new(&rows, 64)?;
/// let device = Device::best()?;
/// let mut index = Ivf::builder(&device, Metric::L2, 64).lists(Ivf::recommend(rows.rows())).train(rows)?;
/// index.add(rows)?;
/// let found = index.search(rows.slice(0..1), 10, 8)?;
/// assert_eq!(found.row(0)[0].id, 0);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct Ivf {
    device: Device,
    metric: Metric,
    dim: usize,
    elements: ElementKind,
    budget: u64,
    /// As it was asked for.
    screen: Screen,
    lists: usize,
    store: RowStore,
    pages: Pages,
    engine: EngineLists,
}

/// Options of a new [`Ivf`]. Made by [`Ivf::builder`].
#[derive(Debug, Clone)]
pub struct IvfBuilder<'a> {
    device: Device,
    metric: Metric,
    dim: usize,
    lists: Option<usize>,
    elements: ElementKind,
    budget: Option<u64>,
    capacity: usize,
    screen: Screen,
    copy: CopyOptions,
    means: KMeans<'a>,
}

impl<'a> IvfBuilder<'a> {
    /// How many lists. Default: [`Ivf::recommend`] for the rows that are trained on.
    #[must_use]
    pub fn lists(mut self, lists: usize) -> Self {
        self.lists = Some(lists);
        self
    }

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

    /// How many rows are expected, so that their memory is taken at once. Default: 0.
    #[must_use]
    pub fn capacity(mut self, rows: usize) -> Self {
        self.capacity = rows;
        self
    }

    /// Whether a copy of the rows in 8-bit integers is kept: see [`FlatBuilder::screen`](crate::FlatBuilder::screen). Searches of many
    /// queries are much faster with it. Default: [`Screen::Auto`].
    #[must_use]
    pub fn screen(mut self, screen: Screen) -> Self {
        self.screen = screen;
        self.means = self.means.screen(screen);
        self
    }

    /// Whether a second copy of the rows and of the centroids is kept in the host's memory, where the processor answers the searches in
    /// which it is likely to be ahead of the GPU: see [`FlatBuilder::keep_host_copy`](crate::FlatBuilder::keep_host_copy). What counts are
    /// the rows of the lists that are probed. Centroids at nearly the same distance may change places there, so that the last list that is
    /// probed is another. Default: false.
    #[must_use]
    pub fn keep_host_copy(mut self, keep: bool) -> Self {
        self.copy.keep = keep;
        self
    }

    /// Whether searches that fail because the GPU is lost, or out of memory, are answered from the host's copy:
    /// see [`FlatBuilder::fallback`](crate::FlatBuilder::fallback). Needs [`IvfBuilder::keep_host_copy`]. Default: false.
    #[must_use]
    pub fn fallback(mut self, fallback: bool) -> Self {
        self.copy.fallback = fallback;
        self
    }

    /// How centroids are trained: what is set of a [`KMeans`] but its metric and its lists.
    ///
    /// ```no_run
    /// # use nearfield::{Device, Ivf, MatrixView, Metric};
    /// # let (device, rows) = (Device::best()?, MatrixView::new(&[0.0f32; 64], 1)?);
    /// let index = Ivf::builder(&device, Metric::L2, 1).lists(4).kmeans(|means| means.iterations(20).seed(7)).train(rows)?;
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[must_use]
    pub fn kmeans(mut self, set: impl FnOnce(KMeans<'a>) -> KMeans<'a>) -> Self {
        self.means = set(self.means);
        self
    }

    /// The index without rows, its centroids trained on a sample `[rows, dim]` of those that it will have; all of them will do.
    ///
    /// # Errors
    /// [`Error::Argument`] when dim is 0 or above 2^20, for a sample of another dim, or for a fallback without a copy; [`Error::Budget`]
    /// when the budget exceeds the device's; [`Error::OutOfMemory`] when the host has no room for the rows that are expected there;
    /// otherwise as [`KMeans::train`].
    pub fn train<T: Element>(self, sample: MatrixView<'_, T>) -> Result<Ivf> {
        let device = self.device.clone();
        device.block_on(self.trained(Sample::Host(sample.into())))
    }

    /// [`IvfBuilder::train`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn train_async<T: Element>(self, sample: MatrixView<'_, T>) -> Result<Ivf> {
        self.trained(Sample::Host(sample.into())).await
    }

    /// [`IvfBuilder::train`] on rows that lie on the device, in one matrix or several that follow each other.
    ///
    /// # Errors
    /// As there; [`Error::Argument`] for rows of another device, or of different dims.
    pub fn train_device(self, sample: &[&DeviceMatrix]) -> Result<Ivf> {
        let device = self.device.clone();
        device.block_on(self.train_device_async(sample))
    }

    /// [`IvfBuilder::train_device`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn train_device_async(self, sample: &[&DeviceMatrix]) -> Result<Ivf> {
        self.trained(Sample::Device(sample)).await
    }

    fn trained<'s>(self, sample: Sample<'s>) -> Boxed<'s, Ivf>
    where
        'a: 's,
    {
        Box::pin(async move {
            check_dim(self.dim)?;
            if sample.dim() != self.dim {
                return Err(Error::argument(
                    "sample",
                    format!("dim {}, as the index has", self.dim),
                    sample.dim(),
                ));
            }
            let budget = budget_of(&self.device, self.budget)?;
            let lists = self.lists.unwrap_or_else(|| Ivf::recommend(sample.rows()));
            let shape = RowShape {
                metric: self.metric,
                elements: self.elements,
                dim: self.dim,
                expected: self.capacity as u64,
                screen: self.screen,
            };
            let copy = self.copy.copy(&self.device, &shape)?;
            let rows = EngineRows::new(&self.device, &shape)?;
            let trained = self.means.of(self.metric, lists).run(&self.device, sample).await?;
            let engine = EngineLists::of(trained.training);
            let copy = match copy {
                Some(copy) => Some(copy.with_lists(&engine).await?),
                None => None,
            };
            Ok(Ivf {
                device: self.device,
                metric: self.metric,
                dim: self.dim,
                elements: self.elements,
                budget,
                screen: self.screen,
                lists,
                store: RowStore::new(rows).with_copy(copy),
                pages: Pages::new(lists),
                engine,
            })
        })
    }
}

impl Ivf {
    /// Starts a new index of vectors with `dim` elements.
    pub fn builder<'a>(device: &Device, metric: Metric, dim: usize) -> IvfBuilder<'a> {
        IvfBuilder {
            device: device.clone(),
            metric,
            dim,
            lists: None,
            elements: ElementKind::F32,
            budget: None,
            capacity: 0,
            screen: Screen::default(),
            copy: CopyOptions::default(),
            means: KMeans::new(metric, 0),
        }
    }

    /// How many lists are about right for so many rows: the power of two that is nearest to four times the square root, or fewer where
    /// that leaves less than 32 rows a list.
    pub fn recommend(rows: usize) -> usize {
        let root = 4 * rows.isqrt();
        let nearest = (root + root / 3).next_power_of_two() / 2;
        nearest.min(rows / 32).max(1)
    }

    /// The k nearest rows of each query among those in the `probes` lists nearest to it, `[queries, up to k]`, nearest first, ties by the
    /// smaller id. Fewer than k rows there give shorter answers.
    ///
    /// Queries are a [`MatrixView`] of f32 or f16, or a [`DeviceMatrix`](crate::DeviceMatrix) on this device.
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0, no probes or more than there are lists, or another dim; [`Error::NotFinite`] and
    /// [`Error::NormOutOfRange`] with the query's number; [`Error::Budget`] when not even one query fits the budget;
    /// [`Error::OutOfMemory`]; [`Error::DeviceLost`].
    pub fn search<'q>(&self, queries: impl Into<Queries<'q>>, k: usize, probes: usize) -> Result<Neighbors> {
        Ok(self.search_with(queries, &SearchOptions::new(k).probes(probes))?.0)
    }

    /// [`Ivf::search`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn search_async<'q>(
        &self,
        queries: impl Into<Queries<'q>>,
        k: usize,
        probes: usize,
    ) -> Result<Neighbors> {
        Ok(self.search_with_async(queries, &SearchOptions::new(k).probes(probes)).await?.0)
    }

    /// [`Ivf::search`] with options; tells also how the answer came about. Without [`SearchOptions::probes`] it probes
    /// [`Ivf::default_probes`]. Under a filter, a query that finds fewer than k rows probes twice as many lists, again and again.
    ///
    /// # Errors
    /// As there.
    pub fn search_with<'q>(
        &self,
        queries: impl Into<Queries<'q>>,
        options: &SearchOptions<'_>,
    ) -> Result<(Neighbors, Statistics)> {
        self.device.block_on(self.search_for(queries.into(), options))
    }

    /// [`Ivf::search_with`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn search_with_async<'q>(
        &self,
        queries: impl Into<Queries<'q>>,
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
            let probes = options.probes.unwrap_or(self.default_probes());
            if probes == 0 || probes > self.lists {
                return Err(Error::argument(
                    "probes",
                    format!("1 to {}, the number of lists", self.lists),
                    probes,
                ));
            }
            let allowed = options.filter.as_ref().map(|filter| self.store.allowed(filter));
            let request = SearchRequest {
                metric: self.metric,
                k: options.k,
                budget: self.budget,
                allowed: allowed.as_ref(),
                profile: options.profile,
                progress: options.progress,
            };
            let goal = Goal::InLists { lists: &self.engine, probes: probes as u32 };
            let Found { neighbors, statistics } = self.store.search(&queries, &request, goal).await?;
            Ok((neighbors, statistics))
        })
    }

    /// The fewest probes with which these queries find at least `recall` of their k nearest rows, on average: measured against
    /// exact search. Take some hundred queries like those to come. At most [`Ivf::lists`], which find them all.
    ///
    /// # Errors
    /// [`Error::Argument`] for no queries, or a recall that is not within 0 and 1; otherwise as [`Ivf::search`].
    ///
    /// ```no_run
    /// # use nearfield::{Device, Ivf, MatrixView, Metric};
    /// # let (device, rows) = (Device::best()?, MatrixView::new(&[0.0f32; 64], 1)?);
    /// # let index = Ivf::builder(&device, Metric::L2, 1).lists(4).train(rows)?;
    /// # let (sample, queries) = (rows, rows);
    /// let probes = index.probes_for_recall(sample, 10, 0.95)?;
    /// let found = index.search(queries, 10, probes)?;
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn probes_for_recall<'q>(
        &self,
        queries: impl Into<Queries<'q>>,
        k: usize,
        recall: f64,
    ) -> Result<usize> {
        self.device.block_on(self.probes_for(queries.into(), k, recall))
    }

    /// [`Ivf::probes_for_recall`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn probes_for_recall_async<'q>(
        &self,
        queries: impl Into<Queries<'q>>,
        k: usize,
        recall: f64,
    ) -> Result<usize> {
        self.probes_for(queries.into(), k, recall).await
    }

    fn probes_for<'a>(&'a self, queries: Queries<'a>, k: usize, recall: f64) -> Boxed<'a, usize> {
        Box::pin(async move {
            if queries.rows() == 0 {
                return Err(Error::argument("queries", "at least one", 0));
            }
            if !(0.0..=1.0).contains(&recall) {
                return Err(Error::argument("recall", "0 to 1", recall));
            }
            let truth = self.search_async(queries, k, self.lists).await?;
            // Divided, because a product may be rounded up past a whole number of rows.
            let all = truth.hits().len().max(1) as f64;
            let is_enough =
                |found: &Neighbors| truth.hits().is_empty() || shared(found, &truth) as f64 / all >= recall;
            // What a query finds with some probes it finds with more, so the number of true neighbours never falls.
            let (mut too_few, mut enough) = (0, self.lists);
            let mut next = 1;
            while enough - too_few > 1 {
                let probes = next.clamp(too_few + 1, enough - 1);
                let found = self.search_async(queries, k, probes).await?;
                if is_enough(&found) {
                    enough = probes;
                } else {
                    too_few = probes;
                }
                // Few probes cost little: doubled until they are enough, then halved between.
                next = if enough == self.lists { 2 * probes } else { (too_few + enough) / 2 };
            }
            Ok(enough)
        })
    }

    /// The probes of a search that does not say how many: a 64th of the lists, and at least one.
    pub fn default_probes(&self) -> usize {
        (self.lists / 64).max(1)
    }

    /// How many lists there are.
    pub fn lists(&self) -> usize {
        self.lists
    }

    /// How many rows each list has.
    pub fn list_sizes(&self) -> Vec<usize> {
        self.pages.sizes().iter().map(|&size| size as usize).collect()
    }

    /// The centroids, `[lists, dim]`: of length 1 for cosine and inner product, except where rows cancel each other out.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn centroids(&self) -> Result<Vec<f32>> {
        self.device.block_on(self.store.centroids(&self.engine))
    }

    /// Whether a copy of the rows in 8-bit integers is kept: see [`IvfBuilder::screen`].
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

/// How many rows two answers share, query by query.
fn shared(found: &Neighbors, truth: &Neighbors) -> usize {
    let rows = found.iter().zip(truth.iter());
    rows.map(|(found, truth)| {
        let ids: std::collections::HashSet<u64> = truth.iter().map(|hit| hit.id).collect();
        found.iter().filter(|hit| ids.contains(&hit.id)).count()
    })
    .sum()
}
