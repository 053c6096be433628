//! The options of a new `MultiVector`.

use std::path::PathBuf;

use crate::engine::Devices;
#[cfg(doc)]
use crate::engine::TokenVectors;
use crate::error::{Error, Result};
use crate::future::blocking_and_async;
use crate::index::common::{Settings, resource_methods};
use crate::index::documents::MultiVector;
use crate::index::quantizing::element_methods;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;

/// Options of a new [`MultiVector`]. Made by [`MultiVector::builder`].
#[derive(Debug, Clone)]
pub struct MultiVectorBuilder {
    settings: Settings,
    offsets: Option<Vec<usize>>,
}

impl MultiVectorBuilder {
    element_methods!(settings);
    resource_methods!(settings.resources);

    /// The index has the tokens of a file: of a saved `MultiVector`, or with [`offsets`](Self::offsets) of a file of vectors. See
    /// [`Residency::Mapped`].
    #[must_use]
    pub fn mapped(mut self, path: impl Into<PathBuf>) -> Self {
        let resources = &mut self.settings.resources;
        (resources.residency, resources.file) = (Residency::Mapped, Some(path.into()));
        self
    }

    /// Sets where the tokens of each document begin in the file of vectors that is [`mapped`](Self::mapped), `[documents + 1]`, as
    /// [`TokenVectors::new`] takes them. The ids of documents are their numbers.
    #[must_use]
    pub fn offsets(mut self, offsets: &[usize]) -> Self {
        self.offsets = Some(offsets.into());
        self
    }

    blocking_and_async! { self.settings.resources.devices.clone();
        /// The index: an empty one, or with [`mapped`](Self::mapped) that of the file's documents, whose tokens are read through once.
        ///
        /// # Errors
        /// [`Error::Argument`] when dim is 0 or above 2^20, for devices of different kinds, and for offsets that do not go with a mapped file;
        /// [`Error::Io`] and [`Error::File`] for a file that cannot be read or mapped, has rows of another dim or type, or is damaged;
        /// [`Error::Budget`] when the budget exceeds the device's; [`Error::OutOfMemory`].
        pub fn build(self) -> Result<MultiVector> {
            MultiVector::of(self.settings, self.offsets)
        }
        async build_async;
    }
}

impl MultiVector {
    /// Starts a new index of documents whose tokens have `dim` elements. `capacity` of the builder counts tokens.
    pub fn builder(devices: impl Into<Devices>, dim: usize) -> MultiVectorBuilder {
        let settings = Settings::new(devices.into(), Metric::OF_TOKENS, dim);
        MultiVectorBuilder { settings, offsets: None }
    }

    pub(super) async fn of(mut settings: Settings, offsets: Option<Vec<usize>>) -> Result<Self> {
        if !settings.resources.devices.first()?.is_host() {
            // The screen of documents reads codes.
            settings.quantization = Quantization::Int8;
        }
        #[cfg(not(target_arch = "wasm32"))]
        if let (Residency::Mapped, Some(path)) =
            (settings.resources.residency, settings.resources.file.clone())
        {
            return Self::of_file(settings, &path, offsets).await;
        }
        if offsets.is_some() {
            return Err(Error::argument("offsets", "a mapped file, whose documents they divide", "none"));
        }
        let resources = settings.resources.clone();
        Ok(Self::over(settings.open().await?, resources))
    }
}
