//! What an index that lives does: rows come and go, ids stay.

use crate::engine::{DeviceMatrix, Vectors};
use crate::error::{Error, Result};
use crate::future::{Boxed, Progress};
use crate::index::ivf::Ivf;
use crate::matrix::{Element, MatrixView};
use crate::store::check_rows;

impl Ivf {
    /// Adds rows, `[rows, dim]`, under their insertion numbers, each to the list of its nearest centroid: see
    /// [`Flat::add`](crate::Flat::add).
    ///
    /// # Errors
    /// As there.
    pub fn add<T: Element>(&mut self, rows: MatrixView<'_, T>) -> Result<()> {
        self.device.clone().block_on(self.add_rows(rows.into(), None, &mut |_| ()))
    }

    /// [`Ivf::add`] without blocking. When its future is dropped, all rows are there or none is; searches may look at all lists, whatever
    /// their probes, until the next change.
    ///
    /// # Errors
    /// As there.
    pub async fn add_async<T: Element>(&mut self, rows: MatrixView<'_, T>) -> Result<()> {
        self.add_rows(rows.into(), None, &mut |_| ()).await
    }

    /// Adds rows under the ids of the caller: see [`Flat::add_with_ids`](crate::Flat::add_with_ids).
    ///
    /// # Errors
    /// As there.
    pub fn add_with_ids<T: Element>(&mut self, rows: MatrixView<'_, T>, ids: &[u64]) -> Result<()> {
        self.device.clone().block_on(self.add_rows(rows.into(), Some(ids), &mut |_| ()))
    }

    /// [`Ivf::add_with_ids`] without blocking. A dropped future leaves the index as that of [`Ivf::add_async`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn add_with_ids_async<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        ids: &[u64],
    ) -> Result<()> {
        self.add_rows(rows.into(), Some(ids), &mut |_| ()).await
    }

    /// [`Ivf::add`], calling `progress` with the number of rows done so far.
    ///
    /// # Errors
    /// As there.
    pub fn add_with_progress<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        mut progress: impl FnMut(usize) + Send,
    ) -> Result<()> {
        self.device.clone().block_on(self.add_rows(rows.into(), None, &mut progress))
    }

    /// [`Ivf::add`] of rows that are on the index's device: see [`Flat::add_device`](crate::Flat::add_device).
    ///
    /// # Errors
    /// As there.
    pub fn add_device(&mut self, rows: &DeviceMatrix) -> Result<()> {
        self.device.clone().block_on(self.add_device_async(rows))
    }

    /// [`Ivf::add_device`] without blocking. A dropped future leaves the index as that of [`Ivf::add_async`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn add_device_async(&mut self, rows: &DeviceMatrix) -> Result<()> {
        self.add_rows(rows.into(), None, &mut |_| ()).await
    }

    /// [`Ivf::add_with_ids`] of rows that are on the index's device.
    ///
    /// # Errors
    /// As [`Ivf::add_device`] and [`Ivf::add_with_ids`].
    pub fn add_device_with_ids(&mut self, rows: &DeviceMatrix, ids: &[u64]) -> Result<()> {
        self.device.clone().block_on(self.add_device_with_ids_async(rows, ids))
    }

    /// [`Ivf::add_device_with_ids`] without blocking. A dropped future leaves the index as that of [`Ivf::add_async`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn add_device_with_ids_async(&mut self, rows: &DeviceMatrix, ids: &[u64]) -> Result<()> {
        self.add_rows(rows.into(), Some(ids), &mut |_| ()).await
    }

    fn add_rows<'a>(
        &'a mut self,
        rows: Vectors<'a>,
        ids: Option<&'a [u64]>,
        progress: Progress<'a>,
    ) -> Boxed<'a, ()> {
        Box::pin(async move {
            check_rows("rows", (self.dim, self.elements), (rows.dim(), rows.kind()))?;
            rows.check_device("rows", &self.device.engine)?;
            let (slots, pages) = self.placed(rows).await?;
            self.store.add_at(rows, ids, &slots, progress).await?;
            self.pages = pages;
            self.tell().await;
            Ok(())
        })
    }

    /// Slots for rows in the lists of their nearest centroids, and the pages when they are there.
    async fn placed(&self, rows: Vectors<'_>) -> Result<(Vec<u32>, crate::index::ivf::Pages)> {
        let assigned = self.engine.assign(rows).await?;
        let lists: Vec<u32> = assigned.iter().map(|row| row.list).collect();
        let mut pages = self.pages.clone();
        let slots = pages.place(&lists, self.store.rows.alive(), self.store.rows.end())?;
        Ok((slots, pages))
    }

    /// Tells the device which pages the lists have. The change is made by then, and nothing was waited for between the store's part of it
    /// and that of the pages: where the device has no memory for this, or the future is dropped, all rows are searched until the next
    /// change. A copy on the host knows its pages in any case.
    async fn tell(&mut self) {
        let Self { store, engine, pages, .. } = self;
        let _ = store.set_lists(engine, pages.of_lists(), pages.sizes()).await;
    }

    /// Removes the rows with these ids: see [`Flat::remove`](crate::Flat::remove).
    ///
    /// # Errors
    /// As there.
    pub fn remove(&mut self, ids: &[u64]) -> Result<()> {
        self.device.clone().block_on(self.remove_async(ids))
    }

    /// [`Ivf::remove`] without blocking. When its future is dropped, all rows are there or none is: where the index was compacting
    /// itself by then, they are gone. As for searches, see [`Ivf::add_async`].
    ///
    /// # Errors
    /// As there.
    pub async fn remove_async(&mut self, ids: &[u64]) -> Result<()> {
        let mut slots: Vec<u32> = ids.iter().filter_map(|&id| self.store.slot_of(id)).collect();
        slots.sort_unstable();
        slots.dedup();
        self.store.remove(ids).await?;
        self.pages.leave(&slots, self.store.rows.alive(), self.store.rows.end());
        self.tell().await;
        if self.pages.is_sparse() {
            // The rows are gone, whatever comes of this: a device that fails here says so in the next call.
            let _ = self.compact_async().await;
        }
        Ok(())
    }

    /// Puts another row, of `dim` elements, under the id of one: see [`Flat::update`](crate::Flat::update).
    ///
    /// # Errors
    /// As there.
    pub fn update<T: Element>(&mut self, id: u64, row: &[T]) -> Result<()> {
        self.device.clone().block_on(self.update_async(id, row))
    }

    /// [`Ivf::update`] without blocking. When its future is dropped, the old row is there or the new one. As for searches, see
    /// [`Ivf::add_async`].
    ///
    /// # Errors
    /// As there.
    pub async fn update_async<T: Element>(&mut self, id: u64, row: &[T]) -> Result<()> {
        check_rows("row", (self.dim, self.elements), (row.len(), T::KIND))?;
        self.update_row(id, MatrixView::new(row, self.dim)?.into()).await
    }

    fn update_row<'a>(&'a mut self, id: u64, row: Vectors<'a>) -> Boxed<'a, ()> {
        Box::pin(async move {
            let old = self.store.slot_of(id).ok_or(Error::UnknownId { id })?;
            let (slots, pages) = self.placed(row).await?;
            self.store.update_at(id, row, slots[0]).await?;
            self.pages = pages;
            self.pages.leave(&[old], self.store.rows.alive(), self.store.rows.end());
            self.tell().await;
            Ok(())
        })
    }

    /// The row with this id, `dim` elements: see [`Flat::get`](crate::Flat::get).
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, id: u64) -> Result<Vec<f32>> {
        self.device.block_on(self.store.get(id))
    }

    /// [`Ivf::get`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn get_async(&self, id: u64) -> Result<Vec<f32>> {
        self.store.get(id).await
    }

    /// Whether a row has this id.
    pub fn contains(&self, id: u64) -> bool {
        self.store.contains(id)
    }

    /// The ids of all rows, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.store.ids()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.store.len() as usize
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves rows so that lists lie in as few pages of 32 rows as can be, and gives up the memory behind them that is a whole segment.
    /// Ids and answers stay.
    ///
    /// # Errors
    /// [`Error::Budget`] when not one row fits the device's; [`Error::OutOfMemory`]. The index then answers as it did.
    pub fn compact(&mut self) -> Result<()> {
        self.device.clone().block_on(self.compact_async())
    }

    /// [`Ivf::compact`] without blocking. When its future is dropped, the rows are the same; some may have moved. As for searches, see
    /// [`Ivf::add_async`].
    ///
    /// # Errors
    /// As there.
    pub async fn compact_async(&mut self) -> Result<()> {
        // First within lists, then whole pages.
        for step in [crate::index::ivf::Pages::consolidated, crate::index::ivf::Pages::lowered] {
            let moves = step(&self.pages, self.store.rows.alive(), self.store.rows.end());
            if !moves.from.is_empty() {
                self.store.relocate(&moves.from, &moves.to).await?;
            }
            self.pages = moves.pages;
            self.tell().await;
        }
        Ok(())
    }
}
