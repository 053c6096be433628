//! The part that every kind of index has: its device, its rows, and how it was built.

use std::path::PathBuf;
use std::sync::Arc;

use crate::elements::{ElementKind, Matrix, MatrixView};
use crate::engine::{
    Allowed, CopyOptions, Device, Devices, GivenCentroids, Recovered, RowShape, SearchRequest, SearchResult,
    Vectors, open_rows,
};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::quantizing;
use crate::memory;
use crate::metric::Metric;
use crate::options::SearchOptions;
use crate::options::distribution::Distribution;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;
use crate::store::{RowStore, budget_of, check_dim, check_k};

/// Where an index lives, and with how much memory.
#[derive(Debug, Clone)]
pub struct Resources {
    pub(crate) devices: Devices,
    pub(crate) distribution: Distribution,
    /// Bytes of scratch memory per search; none for the device's whole budget.
    pub(crate) budget: Option<u64>,
    /// How many rows are expected.
    pub(crate) capacity: usize,
    pub(crate) copy: CopyOptions,
    pub(crate) residency: Residency,
    /// The file that has the rows.
    pub(crate) file: Option<PathBuf>,
    /// Whether searches may send the rows' 8-bit copy window by window: not in lists.
    pub(crate) streams: bool,
}

impl Resources {
    pub(crate) fn of(devices: Devices) -> Self {
        let (distribution, copy) = (Distribution::default(), CopyOptions::default());
        let (residency, file) = (Residency::default(), None);
        Self { devices, distribution, budget: None, capacity: 0, copy, residency, file, streams: true }
    }
}

/// The settings of an index, from a builder or from a file.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) resources: Resources,
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) elements: ElementKind,
    /// Whether rows of other types are quantised to `elements`.
    pub(crate) quantizes: bool,
    pub(crate) quantization: Quantization,
}

impl Settings {
    pub(crate) fn new(devices: Devices, metric: Metric, dim: usize) -> Self {
        let (elements, quantization) = (metric.default_elements(), Quantization::default());
        Self { resources: Resources::of(devices), metric, dim, elements, quantizes: false, quantization }
    }

    /// Checks the settings, and makes the store without rows.
    pub(crate) fn open(self) -> Boxed<'static, Common> {
        Box::pin(async move {
            let shape = self.shape()?;
            let Resources { devices, distribution, copy, .. } = &self.resources;
            let store = RowStore::new(open_rows(devices, *distribution, &shape, *copy).await?);
            self.over(store)
        })
    }

    /// Checks the settings, and makes the kind of rows that they describe.
    pub(crate) fn shape(&self) -> Result<RowShape> {
        let &Self { ref resources, metric, dim, elements, quantizes, quantization } = self;
        check_dim(dim)?;
        metric.check(elements)?;
        if quantizes && !quantizing::can_store(metric, elements) {
            let needed =
                "f32, f16 or bf16, or i8 under the metric cosine, where the scale of a row has no effect";
            return Err(Error::argument("store", needed, format!("{elements} under the metric {metric}")));
        }
        // A GPU has bits as codes.
        let is_host = resources.devices.first()?.is_host();
        let quantization = if metric.counts_bits() && !is_host { Quantization::Int8 } else { quantization };
        resources.devices.check()?;
        budget_of(&resources.devices, resources.budget)?;
        let (kept, expected) = (self.kept()?, resources.capacity as u64);
        let streams = resources.streams && resources.residency != Residency::Host;
        let is_fallback = resources.copy.fallback;
        Ok(RowShape { metric, elements, dim, expected, quantization, kept, is_fallback, streams })
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn kept(&self) -> Result<Residency> {
        match (self.resources.residency, &self.resources.file) {
            (Residency::Mapped, Some(_)) => Ok(Residency::Host),
            (Residency::Mapped, None) => {
                Err(Error::argument("residency", "a file: `mapped(path)`", "Residency::Mapped"))
            }
            (other, None) => Ok(other),
            (other, Some(file)) => {
                let needed = format!("Residency::Mapped for the rows of {}", file.display());
                Err(Error::argument("residency", needed, format!("Residency::{other:?}")))
            }
        }
    }

    /// A browser has one memory for its page and the library.
    #[cfg(target_arch = "wasm32")]
    fn kept(&self) -> Result<Residency> {
        match self.resources.residency {
            Residency::Auto | Residency::Device => Ok(Residency::Device),
            other => {
                Err(Error::argument("residency", "Residency::Device in a browser", format!("{other:?}")))
            }
        }
    }

    /// The settings of an index with lists. An error for rows on the host that a GPU would not screen: lists are screened by what the GPU
    /// has of the rows.
    pub(crate) fn with_lists(mut self) -> Result<Self> {
        self.resources.streams = false;
        let Self { resources: Resources { devices, residency, .. }, dim, quantization, .. } = &self;
        let is_host = devices.first().is_ok_and(Device::is_host);
        if *residency == Residency::Streamed && !is_host {
            let needed = "another place for the rows of an Ivf: a Flat alone is searched window by window";
            return Err(Error::argument("residency", needed, "Residency::Streamed"));
        }
        if matches!(residency, Residency::Auto | Residency::Device)
            || is_host
            || self.metric.counts_bits()
            || quantization.is_wanted_on_host(*dim)
        {
            return Ok(self);
        }
        let needed = format!("Quantization::Int8 for rows of dim {dim} on the host, which lists need");
        Err(Error::argument("quantization", needed, format!("Quantization::{quantization:?}")))
    }

    /// The common part of an index over a store.
    pub(crate) fn over(self, store: RowStore) -> Result<Common> {
        let Self { resources, metric, dim, elements, quantizes, quantization } = self;
        let Resources { devices, budget, .. } = resources;
        let budget = budget_of(&devices, budget)?;
        let (device, store) = (devices.first()?.clone(), Arc::new(store));
        Ok(Common { device, devices, metric, dim, elements, quantizes, budget, quantization, store })
    }
}

/// Writes the setters of [`Resources`], which the builders and the loader of indexes have. They are in the field at this path.
macro_rules! resource_methods {
    ($($field:ident).+) => {
        crate::options::setters! { options => options.$($field).+;
            /// Sets the bytes of scratch memory on the device that one search may use. Default: the device's whole budget.
            budget: u64 => Some;
            /// How the rows lie on several devices. Default: [`Distribution::Sharded`](crate::Distribution::Sharded).
            distribution: $crate::options::distribution::Distribution;
            /// Sets how many rows are expected, so that their memory is taken at once and not step by step: a segment is made as
            /// large as they need, up to a full one. More rows can be added all the same. Default: 0.
            capacity: usize;
            /// Sets where the rows are: on the device, or in the host's memory; a builder's `mapped` leaves them in a file. Default: [`Residency::Device`].
            ///
            /// On a GPU, rows on the host leave its memory to their 8-bit copy, which takes about a quarter of that of f32 rows: an index may
            /// have four times as many. A search reads back which rows the screen cannot exclude, and the host computes their distances with
            /// all threads while the GPU screens the next queries. Searches of few rows, for many neighbours or with a filter that allows few
            /// rows, queries that the screen leaves too many rows for, and all searches of an index whose dim is not screened are answered by the host alone:
            /// [`Statistics::on_host`](crate::Statistics::on_host) and
            /// [`Statistics::searched_exhaustively`](crate::Statistics::searched_exhaustively) tell. All of them report the distances of
            /// [`Device::host`](crate::Device::host), bit for bit.
            ///
            /// A loader takes every place but a file; a builder maps the rows of a saved index. `get` and `save` read from the host. [`keep_host_copy`](Self::keep_host_copy) makes no second copy then, and
            /// [`fallback`](Self::fallback) lets the host answer when the GPU fails. [`Quantization::None`](crate::Quantization::None) is an error, because
            /// the copy is the screen. The host engine has its rows in the host's memory anyway.
            residency: $crate::options::residency::Residency;
        }

        crate::options::setters! { options => options.$($field).+.copy;
            /// Whether a second copy of the rows is kept in the host's memory. A search runs there when the processor is expected
            /// to finish before a GPU has launched a kernel and sent its result back, or when searches of about the same size
            /// took the GPU longer; [`Statistics::on_host`](crate::Statistics::on_host) tells. Queries on the GPU are searched
            /// for there.
            ///
            /// `get` and `save` read from the copy. Answers differ as they do between adapters: in the last bits of distances,
            /// within the bounds of [`Metric`](crate::Metric), and in an [`Ivf`](crate::Ivf) also in the last list that is probed, where
            /// centroids are at nearly the same distance. Ignored on the host engine, whose rows are there already. Default:
            /// false.
            keep_host_copy: bool;
            /// Whether the host's copy answers searches that fail because the GPU is lost, is out of memory, or refuses a
            /// command;
            /// [`Statistics::on_host`](crate::Statistics::on_host) tells. Needs [`keep_host_copy`](Self::keep_host_copy).
            /// Default: false.
            fallback: bool;
        }
    };
}
pub(crate) use resource_methods;

/// The device, the rows and the settings of an index.
#[derive(Debug)]
pub struct Common {
    /// The first of the devices, whose `block_on` calls run.
    pub(crate) device: Device,
    pub(crate) devices: Devices,
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) elements: ElementKind,
    /// Whether rows of other types are quantised to `elements`.
    pub(crate) quantizes: bool,
    /// Bytes of scratch memory per search.
    pub(crate) budget: u64,
    /// As the caller asked for it.
    pub(crate) quantization: Quantization,
    /// Shared with searches for several callers. Their futures are gone when nobody borrows the index.
    pub(crate) store: Arc<RowStore>,
}

/// # Errors
/// [`Error::Argument`] for a recall that is not within 0 and 1.
pub(crate) fn check_recall(recall: f64) -> Result<()> {
    match (0.0..=1.0).contains(&recall) {
        true => Ok(()),
        false => Err(Error::argument("recall", "a number from 0 to 1", recall)),
    }
}

impl Common {
    /// Rows that are copied from this index at a time.
    pub(crate) fn piece(&self) -> usize {
        self.elements.rows_of_piece(self.dim)
    }

    /// The rows with these ids, as they are stored.
    pub(crate) async fn fetch(&self, ids: &[u64]) -> Result<Matrix> {
        let bytes = self.store.rows.fetch_bytes(&self.store.slots_of(ids)?).await?;
        Matrix::of_bytes(self.elements, &bytes, self.dim)
    }

    /// Mutable access to what joint searches share.
    ///
    /// # Errors
    /// [`Error::Argument`] when such a search was never finished or dropped.
    pub(crate) fn store_mut(&mut self) -> Result<&mut RowStore> {
        Arc::get_mut(&mut self.store).ok_or_else(|| {
            let needed = "futures of searches that are finished or dropped before a change";
            Error::argument("index", needed, "one that was forgotten")
        })
    }

    /// Gives the rows lists around these centroids, `[lists, dim]`, of bits `[lists, 8 dim]`.
    pub(crate) async fn attach_lists(&mut self, centroids: &[f32]) -> Result<()> {
        let &mut Self { metric, dim, quantization, .. } = self;
        let values = MatrixView::new(centroids, metric.dim_of_centroids(dim))?;
        self.store_mut()?.rows.attach_lists(GivenCentroids { values, metric, quantization }).await
    }

    /// Waits until the kernels of searches are compiled, and times them where the device is to do that.
    pub(crate) fn warm_up(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.store.rows.warm_up(self.metric).await?;
            if self.device.options().tune {
                self.store.rows.tune(self.metric, false).await?;
            }
            Ok(())
        })
    }

    pub(crate) fn replace(&mut self, recovered: Recovered) -> Result<()> {
        let devices = recovered.devices.clone();
        self.store_mut()?.rows.replace(recovered);
        self.device = devices.first()?.clone();
        self.devices = devices;
        Ok(())
    }

    /// Checks that the index can store these rows.
    fn check_rows(&self, rows: &Vectors<'_>) -> Result<()> {
        self.check_vectors("rows", rows)?;
        let (own, given) = (self.elements, rows.kind());
        if !own.holds(given) && (!self.quantizes || given == ElementKind::Bits) {
            let needed = format!("{own} rows, because the index stores {own}");
            return Err(Error::argument("rows", needed, format!("{given} rows")));
        }
        Ok(())
    }

    /// Checks new rows. Gives them quantised where the index does not hold their type.
    pub(crate) async fn taken(&self, rows: &Vectors<'_>) -> Result<Option<Matrix>> {
        self.check_rows(rows)?;
        if self.elements.holds(rows.kind()) {
            return Ok(None);
        }
        let rows = rows.fetched().await?;
        rows.vectors().quantized(self.elements).map(Some)
    }

    /// Checks that vectors have the index's dim, and lie on its device or in the host's memory.
    pub(crate) fn check_vectors(&self, argument: &'static str, vectors: &Vectors<'_>) -> Result<()> {
        if vectors.dim() != self.dim {
            let needed = format!("dim {}, as the index has", self.dim);
            return Err(Error::argument(argument, needed, vectors.dim()));
        }
        vectors.check_device(argument, &self.device.engine)
    }

    /// Checks that an update has one row per id, and gives the slots of the rows that it replaces.
    pub(crate) fn replaced(&self, ids: &[u64], rows: &Vectors<'_>) -> Result<Vec<u32>> {
        self.check_rows(rows)?;
        if rows.rows() != ids.len() {
            return Err(Error::argument("rows", format!("{} rows, one per id", ids.len()), rows.rows()));
        }
        let slots = self.store.slots_of(ids)?;
        let mut sorted = memory::collect(slots.iter().copied().zip(ids.iter().copied()))?;
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::argument("ids", "each id once", format!("{} twice", pair[0].1))),
            None => Ok(slots),
        }
    }

    /// Whether queries and rows are of integers, so that distances are exact.
    pub(crate) fn is_integral(&self, queries: &Vectors<'_>) -> bool {
        self.elements.is_integer() && queries.kind().is_integer()
    }

    /// Checks that the index can answer these queries with these options, as far as all kinds of indexes do.
    pub(crate) fn check_search(&self, queries: &Vectors<'_>, options: &SearchOptions<'_>) -> Result<()> {
        self.check_vectors("queries", queries)?;
        if (queries.kind() == ElementKind::Bits) != self.metric.counts_bits() {
            let needed = if self.metric.counts_bits() { "bits" } else { "numbers" };
            return Err(Error::argument("queries", format!("{needed}, as the index stores"), queries.kind()));
        }
        self.check_limits(options)
    }

    /// Checks what options say of the rows that are to be found.
    pub(crate) fn check_limits(&self, options: &SearchOptions<'_>) -> Result<()> {
        check_k(options.k)?;
        if let Some(recall) = options.recall {
            check_recall(recall)?;
            if options.probes.is_some() {
                return Err(Error::argument("recall", "probes or a recall", "both"));
            }
        }
        let Some(radius) = options.radius else { return Ok(()) };
        if radius.is_nan() {
            return Err(Error::argument("radius", "a number", "NaN"));
        }
        match options.probes {
            Some(probes) => {
                let needed = "none beside a radius, because all rows are searched";
                Err(Error::argument("probes", needed, probes))
            }
            None => Ok(()),
        }
    }

    /// Searches for checked queries: the nearest rows of all or of this many lists, or all rows within a radius.
    pub(crate) async fn search(
        &self,
        queries: Vectors<'_>,
        options: &SearchOptions<'_>,
        probes: Option<u32>,
    ) -> Result<SearchResult> {
        let allowed = options.filter.map(|filter| self.store.allowed(&filter)).transpose()?;
        self.search_among(&queries, options, probes, allowed.as_ref()).await
    }

    /// Searches only the rows that are allowed, in place of those that a filter of the options does.
    pub(crate) async fn search_among(
        &self,
        queries: &Vectors<'_>,
        options: &SearchOptions<'_>,
        probes: Option<u32>,
        allowed: Option<&Allowed>,
    ) -> Result<SearchResult> {
        let radius = options.unlimited();
        // Plans have no use for a k that a radius stands for.
        let k = if radius.is_some() { 1 } else { options.k };
        let request = SearchRequest {
            integral: self.is_integral(queries),
            radius,
            allowed,
            probes,
            widens: options.iterative_scan || allowed.is_some(),
            profile: options.profile,
            progress: options.progress,
            ..SearchRequest::nearest(self.metric, k, self.budget)
        };
        let mut found = self.store.search(queries, &request).await?;
        if let Some(limit) = options.radius.filter(|_| radius.is_none()) {
            found.neighbors.cut_at(limit);
        }
        Ok(found)
    }
}
