//! Options of a new `Ivf`, and its training.

use std::path::PathBuf;

use crate::elements::MatrixView;
use crate::engine::{DeviceCentroids, DeviceMatrix, Devices, GivenCentroids, Sample, Vectors};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::index::common::{Settings, resource_methods};
use crate::index::ivf::{Ivf, Pages};
use crate::index::kmeans::KMeans;
use crate::index::quantizing::element_methods;
#[cfg(not(target_arch = "wasm32"))]
use crate::index::{
    mapped::MappedVectors,
    saved::{SavedKind, blame},
};
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;
use crate::options::setters;
use crate::store::MAX_DIM;

/// Options of a new [`Ivf`]. Made by [`Ivf::builder`].
#[derive(Debug, Clone)]
pub struct IvfBuilder<'a> {
    settings: Settings,
    lists: Option<usize>,
    means: KMeans<'a>,
}

impl<'a> IvfBuilder<'a> {
    setters! { options => options;
        /// Sets the number of lists. Default: [`Ivf::recommend`] for the rows that are trained on.
        lists: usize => Some;
    }

    element_methods!(settings);

    /// Whether the index keeps a copy of its rows in 8-bit integers: see [`FlatBuilder::quantization`](crate::FlatBuilder::quantization).
    /// Searches of many queries are much faster with it. Default: [`Quantization::Auto`].
    #[must_use]
    pub fn quantization(mut self, quantization: Quantization) -> Self {
        self.settings.quantization = quantization;
        self.means = self.means.quantization(quantization);
        self
    }

    resource_methods!(settings.resources);

    /// The index has the rows of a file: see [`Residency::Mapped`](crate::Residency::Mapped).
    #[must_use]
    pub fn mapped(mut self, path: impl Into<PathBuf>) -> Self {
        let resources = &mut self.settings.resources;
        (resources.residency, resources.file) = (Residency::Mapped, Some(path.into()));
        self
    }

    /// Sets how centroids are trained: every option of [`KMeans`] but its metric and its number of lists.
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

    blocking_and_async! { self.settings.resources.devices.clone();
        /// The index without rows, its centroids trained on a sample, `[rows, dim]`, of the rows that it will have; all of them
        /// will do. With [`mapped`](Self::mapped) it has the file's rows, which are read through twice: to assign
        /// them to lists, and to quantise them.
        ///
        /// # Errors
        /// [`Error::Argument`] when dim is 0 or above 2^20, for a sample of another dim, for a fallback without a copy, or for rows on the host
        /// that are not screened; [`Error::Io`] and [`Error::File`] as [`FlatBuilder::build`](crate::FlatBuilder::build);
        /// [`Error::Budget`] when the budget exceeds the device's; [`Error::OutOfMemory`] when the host has no memory for the rows
        /// that are expected there; otherwise as [`KMeans::train`].
        pub fn train<'r>(self, sample: impl Into<Vectors<'r>>) -> Result<Ivf> {
            self.train_on(sample.into())
        }
        async train_async;

        /// [`IvfBuilder::train`] on rows in one device matrix or several that follow each other.
        ///
        /// # Errors
        /// As [`IvfBuilder::train`]; [`Error::Argument`] for rows of another device, or of different dims.
        pub fn train_device(self, sample: &[&DeviceMatrix]) -> Result<Ivf> {
            self.trained(Sample::Device(sample))
        }
        async train_device_async;
    }

    // One lifetime: a bound between two would keep the compiler from caching its proof that the future is `Send`, which
    // then takes 15 s.
    fn train_on(self, sample: Vectors<'a>) -> Boxed<'a, Ivf> {
        Box::pin(async move { self.trained((&sample).into()).await })
    }

    fn trained(self, sample: Sample<'a>) -> Boxed<'a, Ivf> {
        Box::pin(async move {
            let Self { settings, lists, means } = self;
            let settings = settings.with_lists()?;
            let metric = settings.metric;
            let check_sample = |dim: usize| {
                if sample.are_bits() != metric.counts_bits() {
                    let of = |are_bits| if are_bits { "bits" } else { "numbers" };
                    let needed = format!("{}, as the index stores", of(metric.counts_bits()));
                    return Err(Error::argument("sample", needed, of(sample.are_bits())));
                }
                if metric.dim_of_centroids(dim) > MAX_DIM {
                    let needed = format!(
                        "at most {} bytes of bits, which centroids have a number each for",
                        MAX_DIM / 8
                    );
                    return Err(Error::argument("dim", needed, dim));
                }
                match sample.dim() == metric.dim_of_centroids(dim) {
                    true => Ok(()),
                    false => {
                        Err(Error::argument("sample", format!("dim {dim}, as the index has"), sample.dim()))
                    }
                }
            };
            let lists = lists.unwrap_or_else(|| Ivf::recommend(sample.rows()));
            let means = means.of(metric.of_centroids(), lists);
            #[cfg(not(target_arch = "wasm32"))]
            if let (Residency::Mapped, Some(path)) = (settings.resources.residency, &settings.resources.file)
            {
                settings.shape()?;
                check_sample(settings.dim)?;
                let vectors = MappedVectors::open(path, settings.metric, settings.dim, SavedKind::OF_ROWS)?;
                let device = settings.resources.devices.first()?;
                let centroids = means.run(device, sample).await?.training.centroids().await?;
                return Ivf::of_file(settings, vectors, &centroids, lists).await;
            }
            settings.shape()?;
            check_sample(settings.dim)?;
            let device = settings.resources.devices.first()?.clone();
            let centroids = means.run(&device, sample).await?.training.centroids().await?;
            Ivf::around(settings, &centroids).await
        })
    }
}

impl Ivf {
    /// An index without rows, its lists around these centroids, `[lists, dim]`.
    pub(crate) async fn around(settings: Settings, centroids: &[f32]) -> Result<Self> {
        let lists = centroids.len() / settings.metric.dim_of_centroids(settings.dim).max(1);
        let mut common = settings.open().await?;
        common.attach_lists(centroids).await?;
        Ok(Self::of(common, Pages::new(lists)))
    }

    #[cfg(not(target_arch = "wasm32"))]
    /// The index of a file's rows, in the lists of their nearest centroids.
    async fn of_file(
        settings: Settings,
        vectors: MappedVectors,
        centroids: &[f32],
        lists: usize,
    ) -> Result<Self> {
        let path = vectors.rows.file.path().to_owned();
        let Settings { resources, metric, dim, quantization, .. } = &settings;
        let values = MatrixView::new(centroids, metric.dim_of_centroids(*dim))?;
        let given = GivenCentroids { values, metric: *metric, quantization: *quantization };
        let on_device = DeviceCentroids::of(&given, resources.devices.first()?).await?;
        let mut of_rows = memory::with_room(vectors.rows.rows)?;
        for piece in vectors.rows.pieces() {
            let (first, rows) = piece?;
            let assigned = on_device
                .assign((&rows).into())
                .await
                .map_err(|error| blame(&path, error.with_rows(|row| first as u64 + row)))?;
            of_rows.extend(assigned.iter().map(|row| row.list));
        }
        drop(on_device);
        let mut pages = Pages::new(lists);
        let slots = pages.place(&of_rows, &|_| false)?;
        let mut common = vectors.read(settings, slots).await?;
        common.attach_lists(centroids).await?;
        let store = common.store_mut()?;
        if store.len() > 0 {
            store.rows.set_pages(&pages.of_list, &pages.sizes).await?;
        }
        Ok(Self::of(common, pages))
    }

    /// Starts a new index of vectors with `dim` elements.
    ///
    /// `devices` is a reference to a [`Device`](crate::Device), or to several: see [`Devices`]. Centroids are trained on the first.
    pub fn builder<'a>(devices: impl Into<Devices>, metric: Metric, dim: usize) -> IvfBuilder<'a> {
        let settings = Settings::new(devices.into(), metric, dim);
        IvfBuilder { settings, lists: None, means: KMeans::new(metric, 0) }
    }
}
