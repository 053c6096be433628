//! What an index that lives does: rows come and go, ids stay.

use crate::engine::{DeviceMatrix, Vectors};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::future::{Boxed, Progress};
use crate::index::flat::Flat;
use crate::matrix::{Element, MatrixView};
use crate::store::check_rows;

impl Flat {
    /// Adds rows, `[rows, dim]`, under their insertion numbers: the first row of an index has id 0. Every row that is added
    /// counts, whatever its id, and removed ones go on counting: a number is never given twice.
    ///
    /// Rows take the places of removed ones first.
    ///
    /// # Errors
    /// [`Error::Argument`] for another dim, or f32 rows in an index that stores f16; [`Error::NotFinite`] and
    /// [`Error::NormOutOfRange`] with the row's number; [`Error::DuplicateId`] when an insertion number was given to
    /// another row as its id; [`Error::OutOfMemory`]; [`Error::Budget`] when not one row fits the device's. The index is then
    /// as it was.
    pub fn add<T: Element>(&mut self, rows: MatrixView<'_, T>) -> Result<()> {
        self.device.clone().block_on(self.add_rows(rows.into(), None, &mut |_| ()))
    }

    /// [`Flat::add`] without blocking. An index whose future was dropped is as it was.
    ///
    /// # Errors
    /// As there.
    pub async fn add_async<T: Element>(&mut self, rows: MatrixView<'_, T>) -> Result<()> {
        self.add_rows(rows.into(), None, &mut |_| ()).await
    }

    /// Adds rows under the ids of the caller: one a row, each below 2^63 and not in the index. The id of a removed row can be
    /// given again.
    ///
    /// # Errors
    /// As [`Flat::add`]; [`Error::DuplicateId`], [`Error::IdTooLarge`], and [`Error::Argument`] when there is not one id
    /// a row.
    pub fn add_with_ids<T: Element>(&mut self, rows: MatrixView<'_, T>, ids: &[u64]) -> Result<()> {
        self.device.clone().block_on(self.add_rows(rows.into(), Some(ids), &mut |_| ()))
    }

    /// [`Flat::add_with_ids`] without blocking.
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

    /// [`Flat::add`], calling `progress` with the number of rows sent so far.
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

    /// [`Flat::add`] of rows that are on the index's device. They are copied there, and stay the caller's.
    ///
    /// # Errors
    /// As [`Flat::add`]; [`Error::Argument`] also for a matrix on another device. An index that stores f16 takes none, because
    /// matrices on the device are f32.
    ///
    /// ```no_run
    /// use nearfield::{Device, Flat, MatrixView, Metric};
    /// let device = Device::best()?;
    /// let rows = device.upload(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0], 2)?)?;
    /// let mut index = Flat::builder(&device, Metric::L2, 2).build()?;
    /// index.add_device(&rows)?;
    /// assert_eq!(index.get(1)?, [3.0, 4.0]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn add_device(&mut self, rows: &DeviceMatrix) -> Result<()> {
        self.device.clone().block_on(self.add_device_async(rows))
    }

    /// [`Flat::add_device`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn add_device_async(&mut self, rows: &DeviceMatrix) -> Result<()> {
        self.add_rows(rows.into(), None, &mut |_| ()).await
    }

    /// [`Flat::add_with_ids`] of rows that are on the index's device.
    ///
    /// # Errors
    /// As [`Flat::add_device`] and [`Flat::add_with_ids`].
    pub fn add_device_with_ids(&mut self, rows: &DeviceMatrix, ids: &[u64]) -> Result<()> {
        self.device.clone().block_on(self.add_device_with_ids_async(rows, ids))
    }

    /// [`Flat::add_device_with_ids`] without blocking.
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
            self.store.add(rows, ids, progress).await
        })
    }

    /// Removes the rows with these ids: all of them or, after an error, none. An id that is said twice is removed once.
    ///
    /// The row's memory is used by the next row that is added. Where more than 30% of at least 4,096 places are free, the index
    /// compacts itself, as by [`Flat::compact`].
    ///
    /// # Errors
    /// [`Error::UnknownId`] with the first id that no row has; [`Error::OutOfMemory`].
    ///
    /// ```no_run
    /// use nearfield::{Device, Flat, MatrixView, Metric};
    /// let device = Device::best()?;
    /// let mut index = Flat::builder(&device, Metric::L2, 1).build()?;
    /// index.add(MatrixView::new(&[1.0f32, 2.0, 3.0], 1)?)?;
    /// index.remove(&[1])?;
    /// index.update(0, &[2.5f32])?;
    /// assert_eq!((index.ids().collect::<Vec<_>>(), index.get(0)?), (vec![0, 2], vec![2.5]));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn remove(&mut self, ids: &[u64]) -> Result<()> {
        self.device.clone().block_on(self.remove_async(ids))
    }

    /// [`Flat::remove`] without blocking. When its future is dropped, all rows are there or none is: where the index was compacting
    /// itself by then, they are gone.
    ///
    /// # Errors
    /// As there.
    pub async fn remove_async(&mut self, ids: &[u64]) -> Result<()> {
        self.store.remove(ids).await?;
        if self.store.is_sparse() {
            // The rows are gone, whatever comes of this: a device that fails here says so in the next call.
            let _ = self.store.compact().await;
        }
        Ok(())
    }

    /// Puts another row, of `dim` elements, under the id of one.
    ///
    /// # Errors
    /// [`Error::UnknownId`]; [`Error::Argument`], [`Error::NotFinite`] and [`Error::NormOutOfRange`] as of [`Flat::add`], with
    /// row 0; [`Error::OutOfMemory`]; [`Error::Budget`]. The old row is then still there.
    pub fn update<T: Element>(&mut self, id: u64, row: &[T]) -> Result<()> {
        self.device.clone().block_on(self.update_async(id, row))
    }

    /// [`Flat::update`] without blocking. When its future is dropped, the old row is there or the new one.
    ///
    /// # Errors
    /// As there.
    pub async fn update_async<T: Element>(&mut self, id: u64, row: &[T]) -> Result<()> {
        check_rows("row", (self.dim, self.elements), (row.len(), T::KIND))?;
        self.update_row(id, MatrixView::new(row, self.dim)?.into()).await
    }

    fn update_row<'a>(&'a mut self, id: u64, row: Vectors<'a>) -> Boxed<'a, ()> {
        Box::pin(async move {
            let slot = self.store.vacant(1)?[0];
            self.store.update_at(id, row, slot).await
        })
    }

    /// The row with this id, `dim` elements: as it was given, f16 widened to f32.
    ///
    /// # Errors
    /// [`Error::UnknownId`]; [`Error::Budget`] when a row does not fit the device's; [`Error::OutOfMemory`].
    pub fn get(&self, id: u64) -> Result<Vec<f32>> {
        self.device.block_on(self.get_async(id))
    }

    /// [`Flat::get`] without blocking.
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

    /// Moves rows into the places of removed ones, until no place between rows is free, and gives up memory: segments that are
    /// empty then, and what the last one has more than twice too much. Ids and answers stay.
    ///
    /// # Errors
    /// [`Error::Budget`] when not one row fits the device's; [`Error::OutOfMemory`]. The index then answers as before.
    pub fn compact(&mut self) -> Result<()> {
        self.device.clone().block_on(self.compact_async())
    }

    /// [`Flat::compact`] without blocking. An index whose future was dropped answers as before.
    ///
    /// # Errors
    /// As there.
    pub async fn compact_async(&mut self) -> Result<()> {
        self.store.compact().await
    }
}
