//! The methods that change or copy an index, written once for every kind of it.

use crate::error::{Error, Result};
use crate::index::common::Common;

impl Common {
    /// The ids of another index whose rows this one can take under the same ids.
    pub(crate) fn mergeable(&self, other: &Self) -> Result<Vec<u64>> {
        if other.dim != self.dim {
            return Err(Error::argument("other", format!("dim {}", self.dim), other.dim));
        }
        if other.metric != self.metric {
            return Err(Error::argument("other", self.metric.name(), other.metric.name()));
        }
        let ids = other.store.ids()?;
        match ids.iter().find(|&&id| self.store.contains(id)) {
            Some(&id) => Err(Error::DuplicateId { id }),
            None => Ok(ids),
        }
    }
}

/// Writes the methods that [`index_methods`](crate::index::face::index_methods) tells of, as far as they change or copy an index.
macro_rules! change_methods {
    ($Index:ident) => {
        impl $Index {
            crate::future::blocking_and_async! { self.common().device.clone();
                /// Adds rows, `[rows, dim]`, under their insertion numbers: the first row of an index has id 0. Every row that is added
                /// counts, whatever its id, and removed ones go on counting: a number is never given twice.
                ///
                /// The rows of one call have successive numbers. Where a row has one of them as an id of the caller's, all of them come
                /// after that id: numbers skip ids that are taken.
                ///
                /// Rows are a [`MatrixView`](crate::MatrixView), a [`Matrix`](crate::Matrix), or a
                /// [`DeviceMatrix`](crate::DeviceMatrix) on the index's device, which stays the caller's. They take the memory of
                /// removed rows first. In an [`Ivf`](crate::Ivf) each row enters the list of its nearest centroid.
                ///
                /// # Errors
                /// [`Error::Argument`] for another dim, rows of another type whose numbers the index does not hold (matrices on the device are f32), or a
                /// matrix on another device; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the row's number;
                /// [`Error::IdTooLarge`] when all numbers below 2^63 are used up; [`Error::OutOfMemory`]; [`Error::Budget`] when not
                /// one row fits the device's; [`Error::Unsupported`] where rows lie in a file
                /// ([`Residency::Mapped`](crate::Residency::Mapped)). The index is then as it was.
                ///
                /// ```no_run
                /// use nearfield::{Device, Flat, MatrixView, Metric};
                /// let device = Device::best()?;
                /// let mut index = Flat::builder(&device, Metric::L2, 2).build()?;
                /// index.add(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0], 2)?)?;
                /// let rows = device.upload(MatrixView::new(&[5.0f32, 6.0], 2)?)?;
                /// index.add(&rows)?;
                /// assert_eq!(index.get(&[2, 1])?, [5.0, 6.0, 3.0, 4.0]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn add<'r>(&mut self, rows: impl Into<Vectors<'r>>) -> Result<()> {
                    self.boxed_add(rows.into(), &AddOptions::new())
                }
                /// When its future is dropped, all rows are in the index or none is; searches of an [`Ivf`](crate::Ivf) may then
                /// look at all lists, whatever their probes, until the next change.
                async add_async;

                /// [`add`](Self::add) with options: ids of the caller's, and progress.
                ///
                /// # Errors
                /// As [`add`](Self::add); [`Error::DuplicateId`] when an id is there already or given twice, [`Error::IdTooLarge`],
                /// and [`Error::Argument`] when there is not one id per row.
                ///
                /// ```no_run
                /// use nearfield::{AddOptions, Device, Flat, MatrixView, Metric};
                /// let device = Device::best()?;
                /// let mut index = Flat::builder(&device, Metric::L2, 1).build()?;
                /// index.add_with(MatrixView::new(&[1.0f32, 2.0], 1)?, &AddOptions::new().ids(&[70, 30]))?;
                /// assert_eq!(index.ids()?, [30, 70]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn add_with<'r>(
                    &mut self,
                    rows: impl Into<Vectors<'r>>,
                    options: &AddOptions<'_>,
                ) -> Result<()> {
                    self.boxed_add(rows.into(), options)
                }
                /// A dropped future leaves the index as that of [`add_async`](Self::add_async) does.
                async add_with_async;

                /// Removes the rows with these ids: all of them or, after an error, none. An id that is given twice is removed once.
                ///
                /// The next rows that are added use the memory. An index that has much free memory between its rows compacts itself, as
                /// by [`compact`](Self::compact): a `Flat` where more than 30% of at least 4,096 places are free, an `Ivf` where its
                /// lists take 30% more than they need.
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
                /// assert_eq!(index.ids()?, [0, 2]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn remove(&mut self, ids: &[u64]) -> Result<()> {
                    self.boxed_remove(ids)
                }
                /// When its future is dropped, all rows are there or none is; where the index was compacting itself by then, they
                /// are gone.
                async remove_async;

                /// Replaces the rows with these ids by others, `[ids, dim]`: all of them or, after an error, none.
                ///
                /// # Errors
                /// [`Error::UnknownId`]; [`Error::Argument`] when there is not one row per id or an id is given twice; otherwise as
                /// [`add`](Self::add).
                ///
                /// ```no_run
                /// use nearfield::{Device, Flat, MatrixView, Metric};
                /// let device = Device::best()?;
                /// let mut index = Flat::builder(&device, Metric::L2, 1).build()?;
                /// index.add(MatrixView::new(&[1.0f32, 2.0, 3.0], 1)?)?;
                /// index.update(&[2, 0], MatrixView::new(&[3.5f32, 1.5], 1)?)?;
                /// assert_eq!(index.get(&[0, 1, 2])?, [1.5, 2.0, 3.5]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn update<'r>(&mut self, ids: &[u64], rows: impl Into<Vectors<'r>>) -> Result<()> {
                    self.boxed_update(ids, rows.into())
                }
                /// When its future is dropped, the old rows are there or the new ones.
                async update_async;

                /// Adds the rows of another index under their ids: all of them or, after an error, none (insertion numbers that some
                /// had taken by then are not given again). The other may be on another device; it stays as it is.
                ///
                /// # Errors
                /// [`Error::Argument`] for another dim or metric, or rows of another type whose numbers the index does not hold; [`Error::DuplicateId`] for
                /// an id that both have; otherwise as [`add`](Self::add).
                ///
                /// ```no_run
                /// use nearfield::{AddOptions, Device, Flat, Metric};
                /// let device = Device::best()?;
                /// let [mut index, mut others] = [0, 1].map(|_| Flat::builder(&device, Metric::L2, 1));
                /// let (mut index, mut others) = (index.build()?, others.build()?);
                /// index.add(&[[1.0f32], [2.0]][..])?;
                /// others.add_with(&[[5.0f32]][..], &AddOptions::new().ids(&[40]))?;
                /// index.merge(&others)?;
                /// assert_eq!(index.ids()?, [0, 1, 40]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn merge(&mut self, other: &Self) -> Result<()> {
                    self.boxed_merge(other)
                }
                /// When its future is dropped, some of the rows are there.
                async merge_async;

                /// The same index on a device, this one's or another, or on several: its rows, ids and lists, with default resources, as a loaded one
                /// has. Meanwhile the bytes of [`to_bytes`](Self::to_bytes) take host memory.
                ///
                /// # Errors
                /// As [`to_bytes`](Self::to_bytes) and [`Loader::load_bytes`](crate::Loader::load_bytes).
                ///
                /// ```no_run
                /// use nearfield::{Device, Index};
                /// let index = Index::load(&Device::best()?, "index.nf")?;
                /// let copy = index.clone_to(&Device::host())?;
                /// assert_eq!(copy.len(), index.len());
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn clone_to(&self, devices: impl Into<Devices>) -> Result<Self> {
                    self.boxed_clone(devices.into())
                }
                async clone_to_async;

                /// Puts a device in the place of one that was lost, of several: see [`Devices`](crate::Devices). Its rows come from another
                /// replica, from the copy on the host ([`FlatBuilder::keep_host_copy`](crate::FlatBuilder::keep_host_copy)), or from where the host
                /// keeps them ([`Residency::Host`](crate::Residency::Host), [`Residency::Mapped`](crate::Residency::Mapped)). Where several were lost, a call recovers one.
                ///
                /// # Errors
                /// [`Error::Argument`] when no device was lost (a search or change that fails finds out), when there are no rows to
                /// copy, or for a device that the others do not go with; otherwise as [`add`](Self::add). The index is then as it was.
                ///
                /// ```no_run
                /// # use nearfield::{Device, Error, Flat};
                /// # fn search(index: &mut Flat, query: &[f32]) -> Result<(), Error> {
                /// if let Err(Error::DeviceLost { .. }) = index.search(query, 10) {
                ///     index.recover(&Device::named("1")?)?;
                /// }
                /// # Ok(())
                /// # }
                /// ```
                pub fn recover(&mut self, device: &Device) -> Result<()> {
                    self.boxed_recover(device, None)
                }
                async recover_async;

                /// [`recover`](Self::recover) with the rows of another index that has the same ids, such as this one loaded from its file
                /// on the host. Rows are taken as the other has them, but those of a mapped file from the file.
                ///
                /// # Errors
                /// As [`recover`](Self::recover); [`Error::UnknownId`] for an id that the other has not; [`Error::Argument`] for
                /// another dim or element type.
                ///
                /// ```no_run
                /// # use nearfield::{Device, Error, Flat};
                /// # fn recover(index: &mut Flat) -> Result<(), Error> {
                /// let saved = Flat::load(&Device::host(), "index.nf")?;
                /// index.recover_from(&Device::named("1")?, &saved)?;
                /// # Ok(())
                /// # }
                /// ```
                pub fn recover_from(&mut self, device: &Device, other: &Self) -> Result<()> {
                    self.boxed_recover(device, Some(other))
                }
                async recover_from_async;

                /// Moves rows into the places of removed ones and gives up the memory that is free then. A `Flat` has no tombstone left; an
                /// `Ivf` has its lists in as few pages of 32 rows as they need. Ids and answers stay.
                ///
                /// # Errors
                /// [`Error::Budget`] when not one row fits the device's; [`Error::OutOfMemory`]; [`Error::Unsupported`] where rows
                /// that would move lie in a file. The index then answers as before.
                pub fn compact(&mut self) -> Result<()> {
                    self.boxed_compact()
                }
                /// An index whose future was dropped answers as before; some rows may have moved.
                async compact_async;
            }

            fn boxed_recover<'s>(&'s mut self, device: &'s Device, other: Option<&'s Self>) -> Boxed<'s, ()> {
                Box::pin(async move {
                    if let Some(other) = other
                        && (other.dim(), other.elements()) != (self.dim(), self.elements())
                    {
                        let text = |index: &Self| format!("{:?} of dim {}", index.elements(), index.dim());
                        return Err(Error::argument("other", text(self), text(other)));
                    }
                    let recovered = {
                        let store = &self.common().store;
                        store.recovered(device, other.map(|other| &*other.common().store)).await?
                    };
                    self.taken_back(recovered).await
                })
            }

            fn boxed_clone(&self, devices: Devices) -> Boxed<'_, Self> {
                Box::pin(async move {
                    let bytes = self.to_bytes_async().await?;
                    Self::loader(devices).load_bytes_async(&bytes).await
                })
            }

            fn boxed_merge<'s>(&'s mut self, other: &'s Self) -> Boxed<'s, ()> {
                Box::pin(async move {
                    let ids = self.common().mergeable(other.common())?;
                    let mut done = 0;
                    while done < ids.len() {
                        let some = &ids[done..ids.len().min(done + other.common().piece())];
                        let added = match other.common().fetch(some).await {
                            Ok(rows) => self.boxed_add((&rows).into(), &AddOptions::new().ids(some)).await,
                            Err(error) => Err(error),
                        };
                        if let Err(error) = added {
                            // The rows that are there already came with this call.
                            self.boxed_remove(&ids[..done]).await?;
                            return Err(error.with_rows(|row| done as u64 + row));
                        }
                        done += some.len();
                    }
                    Ok(())
                })
            }
        }
    };
}
pub(crate) use change_methods;
