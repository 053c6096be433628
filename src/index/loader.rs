//! Loading with options, from a file, a reader or bytes.

use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

use crate::engine::Devices;
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::index::common::{Resources, resource_methods};
#[cfg(not(target_arch = "wasm32"))]
use crate::index::durable::{Durable, follower::Follower};
use crate::index::file::Reader;
use crate::index::log::opening;
use crate::index::saved::Loading;
use crate::index::saved::kept::Load;
#[cfg(doc)]
use crate::metric::Metric;
use crate::options::residency::Residency;

/// Loads an index that was saved: made by [`Flat::loader`](crate::Flat::loader), [`Ivf::loader`](crate::Ivf::loader) and
/// [`Index::loader`](crate::Index::loader).
///
/// ```no_run
/// use nearfield::{Device, Index};
/// let device = Device::best()?;
/// let loader = Index::loader(&device).budget(256 << 20).keep_host_copy(true);
/// let index = loader.load("index.nf")?;
/// let same = loader.load_bytes(&index.to_bytes()?)?;
/// assert_eq!(index.len(), same.len());
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader<I> {
    resources: Resources,
    index: PhantomData<fn() -> I>,
}

impl<I> Clone for Loader<I> {
    fn clone(&self) -> Self {
        Self { resources: self.resources.clone(), index: PhantomData }
    }
}

impl<I: Load> Loader<I> {
    pub(crate) fn new(devices: Devices) -> Self {
        Self { resources: Resources::of(devices), index: PhantomData }
    }

    resource_methods!(resources);

    blocking_and_async! { self.resources.devices;
        /// Loads the index of a file, with the changes of the log beside it ([`Durable`]), as far as they are whole.
        ///
        /// # Errors
        /// As [`Flat::load`](crate::Flat::load).
        pub fn load(&self, path: impl AsRef<Path>) -> Result<I> {
            self.read_file(path.as_ref())
        }
        /// The file is read with blocking calls.
        async load_async;

        /// Loads the index that a reader gives. No byte after it is read.
        ///
        /// # Errors
        /// As [`load`](Self::load); the path of a reader's [`Error::Io`] is `reader of an index`.
        pub fn load_from(&self, reader: impl Read + Send) -> Result<I> {
            self.read(Reader::from_reader(Box::new(reader)))
        }
        /// The reader is called as it is.
        async load_from_async;

        /// Loads the index of bytes in memory, which has no byte after it.
        ///
        /// # Errors
        /// As [`load`](Self::load).
        pub fn load_bytes(&self, bytes: &[u8]) -> Result<I> {
            self.read(Reader::from_bytes(bytes))
        }
        async load_bytes_async;
    }

    /// Opens the index of a file for changes, which go to a log beside it: see [`Durable`].
    ///
    /// # Errors
    /// [`Error::File`] while another writer has the index, and for a log that is damaged or of another index; otherwise as
    /// [`load`](Self::load).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Durable<I>> {
        self.check()?;
        Durable::of(path.as_ref(), self.resources.clone())
    }

    /// Loads the index of a file and follows the changes that a [`Durable`] makes: see [`Follower`].
    ///
    /// # Errors
    /// As [`load`](Self::load).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn follow(&self, path: impl AsRef<Path>) -> Result<Follower<I>> {
        self.check()?;
        Follower::of(path.as_ref(), self.resources.clone())
    }

    fn check(&self) -> Result<()> {
        if self.resources.residency != Residency::Mapped {
            return Ok(());
        }
        let needed = "Auto, Device, Host or Streamed: Flat::builder maps the rows of a saved index";
        Err(Error::argument("residency", needed, "Residency::Mapped"))
    }

    fn read_file<'l>(&self, path: &'l Path) -> Boxed<'l, I> {
        let (checked, resources) = (self.check(), self.resources.clone());
        Box::pin(async move {
            checked?;
            Ok(opening::open(path, resources).await?.index)
        })
    }

    fn read<'l>(&self, reader: Result<Reader<'l>>) -> Boxed<'l, I> {
        let loading = self.check().and(reader).and_then(|reader| Loading::new(reader, I::KINDS));
        match loading {
            Ok(loading) => I::from_saved(loading, self.resources.clone()),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}
