//! A `Flat` to a file and back.

use std::path::Path;

use crate::engine::Device;
use crate::error::Result;
use crate::index::flat::Flat;
use crate::index::persist::{Loading, Saving};

impl Flat {
    /// Saves the index to one file, which [`Flat::load`] reads, and everything that reads safetensors (docs/files.md describes it).
    /// Rows go to the disk piece by piece, as they are stored.
    ///
    /// A file that is there already is replaced when the new one is on the disk as a whole: after an error or a crash it is as it
    /// was.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be written; [`Error::Budget`](crate::Error::Budget) when not one row fits
    /// the device's; [`Error::OutOfMemory`](crate::Error::OutOfMemory); [`Error::DeviceLost`](crate::Error::DeviceLost).
    ///
    /// ```no_run
    /// use nearfield::{Device, Flat, MatrixView, Metric};
    /// let device = Device::best()?;
    /// let mut index = Flat::builder(&device, Metric::L2, 2).build()?;
    /// index.add(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0], 2)?)?;
    /// index.save("index.nf")?;
    /// let loaded = Flat::load(&device, "index.nf")?;
    /// assert_eq!(loaded.get(1)?, [3.0, 4.0]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.device.block_on(self.save_async(path))
    }

    /// [`Flat::save`], which waits for the device without blocking; the file is written with blocking calls. When its future is
    /// dropped, nothing is left of the new file.
    ///
    /// # Errors
    /// As there.
    pub async fn save_async(&self, path: impl AsRef<Path>) -> Result<()> {
        let saving = Saving {
            metric: self.metric,
            dim: self.dim,
            elements: self.elements,
            screen: self.screen,
            store: &self.store,
            slots: self.store.slots(),
            lists: None,
        };
        saving.save(path.as_ref()).await
    }

    /// Loads an index that was saved. It answers as the one that was saved did, bit for bit on the same adapter, and new rows get
    /// the insertion numbers that they would have got there. Its searches may use the device's whole budget.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) when the file is no index of nearfield, or an [`Ivf`](crate::Ivf), or of another version,
    /// or damaged anywhere; [`Error::Io`](crate::Error::Io) when it cannot be read; otherwise as
    /// [`FlatBuilder::build`](crate::FlatBuilder::build) and [`Flat::add`].
    ///
    /// ```no_run
    /// use nearfield::{Device, Flat};
    /// let index = Flat::load(&Device::best()?, "index.nf")?;
    /// println!("{} rows of {} elements, {}", index.len(), index.dim(), index.metric());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        device.block_on(Self::load_async(device, path))
    }

    /// [`Flat::load`], which waits for the device without blocking; the file is read with blocking calls.
    ///
    /// # Errors
    /// As there.
    pub async fn load_async(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        let loading = Loading::open(path.as_ref(), false)?;
        let about = &loading.about;
        let builder = Self::builder(device, about.metric, about.dim).elements(about.elements);
        let mut index = builder.screen(about.screen).capacity(about.rows).build()?;
        let slots = index.store.vacant(about.rows)?;
        loading.fill(&mut index.store, &slots).await?;
        Ok(index)
    }
}
