//! An `Ivf` to a file and back.

use std::path::Path;

use crate::engine::{Device, EngineLists, EngineRows, PAGE, RowShape};
use crate::error::{Error, Result};
use crate::index::ivf::{Ivf, Pages};
use crate::index::persist::{Lists, Loading, Saving};
use crate::matrix::MatrixView;
use crate::store::RowStore;

impl Ivf {
    /// Saves the index to one file, with its centroids and which list each row is in: see [`Flat::save`](crate::Flat::save).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```no_run
    /// # use nearfield::{Device, Ivf, MatrixView, Metric};
    /// # let (device, values) = (Device::best()?, [0.0f32; 64]);
    /// # let rows = MatrixView::new(&values, 1)?;
    /// let mut index = Ivf::builder(&device, Metric::L2, 1).lists(4).train(rows)?;
    /// index.add(rows)?;
    /// index.save("index.nf")?;
    /// assert_eq!(Ivf::load(&device, "index.nf")?.list_sizes(), index.list_sizes());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.device.block_on(self.save_async(path))
    }

    /// [`Ivf::save`], which waits for the device without blocking; the file is written with blocking calls. When its future is
    /// dropped, nothing is left of the new file.
    ///
    /// # Errors
    /// As there.
    pub async fn save_async(&self, path: impl AsRef<Path>) -> Result<()> {
        let rows = &self.store.rows;
        let (slots, offsets) = self.pages.in_order(rows.alive(), rows.end());
        let saving = Saving {
            metric: self.metric,
            dim: self.dim,
            elements: self.elements,
            screen: self.screen,
            store: &self.store,
            slots,
            lists: Some(Lists { offsets, centroids: self.store.centroids(&self.engine).await? }),
        };
        saving.save(path.as_ref()).await
    }

    /// Loads an index that was saved: nothing is trained, and every row is in the list that it was in. It answers as the one that
    /// was saved did, bit for bit on the same adapter: see [`Flat::load`](crate::Flat::load).
    ///
    /// # Errors
    /// As there; [`Error::File`] also when the file is a [`Flat`](crate::Flat).
    ///
    /// ```no_run
    /// use nearfield::{Device, Ivf};
    /// let index = Ivf::load(&Device::best()?, "index.nf")?;
    /// println!("{} rows in {} lists", index.len(), index.lists());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        device.block_on(Self::load_async(device, path))
    }

    /// [`Ivf::load`], which waits for the device without blocking; the file is read with blocking calls.
    ///
    /// # Errors
    /// As there.
    pub async fn load_async(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        let loading = Loading::open(path.as_ref(), true)?;
        let about = &loading.about;
        let Lists { offsets, centroids } = loading.lists()?;
        let lists = offsets.len() - 1;
        let (pages, slots) = packed(&offsets)?;
        // Whole pages, so that segments are made large enough at once.
        let expected =
            slots.iter().max().map_or(0, |&last| (u64::from(last) + 1).next_multiple_of(PAGE.into()));
        let shape = RowShape {
            metric: about.metric,
            elements: about.elements,
            dim: about.dim,
            expected,
            screen: about.screen,
        };
        let mut store = RowStore::new(EngineRows::new(device, &shape)?);
        let centroids = MatrixView::new(&centroids, about.dim)?;
        let mut engine = EngineLists::around(device, about.metric, centroids, about.screen).await?;
        loading.fill(&mut store, &slots).await?;
        if store.len() > 0 {
            // Without them a search would look at all rows, which is not what the saved index answered with.
            store.set_lists(&mut engine, pages.of_lists(), pages.sizes()).await?;
        }
        Ok(Self {
            device: device.clone(),
            metric: about.metric,
            dim: about.dim,
            elements: about.elements,
            budget: device.options().budget_bytes,
            screen: about.screen,
            lists,
            store,
            pages,
            engine,
        })
    }
}

/// Pages of lists without gaps but at their ends, and the slots of their rows in the order of the lists.
fn packed(offsets: &[u64]) -> Result<(Pages, Vec<u32>)> {
    let rows = offsets.last().copied().unwrap_or(0);
    Error::check_slots(rows)?;
    let mut lists = Vec::with_capacity(rows as usize);
    for (list, range) in (0..).zip(offsets.windows(2)) {
        lists.resize(range[1] as usize, list);
    }
    let mut pages = Pages::new(offsets.len() - 1);
    let slots = pages.place(&lists, None, 0)?;
    Ok((pages, slots))
}
