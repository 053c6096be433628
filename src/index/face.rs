//! The methods that look the same on every index, written once: thin shims over futures that this crate compiles.

/// Writes the methods that save and load an index. The type has `common` and `saving`, and implements
/// [`Load`](crate::index::loader::Load).
macro_rules! saving_methods {
    ($Index:ident) => {
        impl $Index {
            crate::future::blocking_and_async! { self.common().device;
                /// Saves the index to one file, which [`load`](Self::load) reads, and every program that reads safetensors
                /// (docs/files.md describes it). Rows go to the disk piece by piece, as they are stored; an `Ivf` saves its centroids
                /// and which list each row is in.
                ///
                /// A file that is there already is replaced when the new one is on the disk as a whole: after an error or a crash it
                /// is as it was.
                ///
                /// # Errors
                /// [`Error::Io`] when the file cannot be written; [`Error::Budget`] when not one row fits the device's;
                /// [`Error::OutOfMemory`]; [`Error::DeviceLost`].
                ///
                /// ```no_run
                /// use nearfield::{Device, Flat, MatrixView, Metric};
                /// let device = Device::best()?;
                /// let mut index = Flat::builder(&device, Metric::L2, 2).build()?;
                /// index.add(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0], 2)?)?;
                /// index.save("index.nf")?;
                /// let loaded = Flat::load(&device, "index.nf")?;
                /// assert_eq!(loaded.get(&[1])?, [3.0, 4.0]);
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
                    self.boxed_save(path.as_ref())
                }
                /// The file is written with blocking calls. When its future is dropped, nothing is left of the new file.
                async save_async;

                /// Writes the bytes that [`save`](Self::save) puts into a file. A writer cannot go back to the header, which holds
                /// checksums, so the rows are read from the device twice.
                ///
                /// # Errors
                /// [`Error::Io`] from the writer; otherwise as [`save`](Self::save).
                pub fn save_to(&self, writer: &mut (impl Write + Send)) -> Result<()> {
                    self.boxed_save_to(writer)
                }
                /// The writer is called as it is.
                async save_to_async;

                /// The bytes that [`save`](Self::save) puts into a file.
                ///
                /// # Errors
                /// As [`save`](Self::save), without those of files.
                pub fn to_bytes(&self) -> Result<Vec<u8>> {
                    self.boxed_to_bytes()
                }
                async to_bytes_async;
            }

            /// Loads an index that was saved. It answers as the one that was saved did, bit for bit on the same adapter: ids, rows,
            /// lists and the next insertion number are the same. [`loader`](Self::loader) loads with options, and from other places
            /// than a file.
            ///
            /// # Errors
            /// [`Error::File`] when the file is no index of nearfield, or one of another kind or version, or damaged anywhere;
            /// [`Error::Io`] when it cannot be read; otherwise as [`FlatBuilder::build`](crate::FlatBuilder::build) and
            /// [`add`](Self::add).
            pub fn load(devices: impl Into<Devices>, path: impl AsRef<Path>) -> Result<Self> {
                Self::loader(devices).load(path)
            }

            /// [`load`](Self::load) without blocking. The file is read with blocking calls.
            pub async fn load_async(devices: impl Into<Devices>, path: impl AsRef<Path>) -> Result<Self> {
                Self::loader(devices).load_async(path).await
            }

            fn boxed_save<'s>(&'s self, path: &'s Path) -> Boxed<'s, ()> {
                Box::pin(async move { self.saving().await?.save(path).await })
            }

            fn boxed_save_to<'s>(&'s self, writer: &'s mut (dyn Write + Send)) -> Boxed<'s, ()> {
                Box::pin(async move { self.saving().await?.save_to(writer).await })
            }

            fn boxed_to_bytes(&self) -> Boxed<'_, Vec<u8>> {
                Box::pin(async move { self.saving().await?.to_bytes().await })
            }

            /// Starts loading with options: a budget, a copy on the host, room for more rows.
            ///
            /// `devices` is a reference to a [`Device`], or to several: see [`Devices`](crate::Devices).
            pub fn loader(devices: impl Into<Devices>) -> Loader<Self> {
                Loader::new(devices.into())
            }
        }
    };
}
pub(crate) use saving_methods;

/// Writes the methods that [`Flat`](crate::Flat), [`Ivf`](crate::Ivf) and [`Index`](crate::Index) share.
///
/// The type has `common`, `boxed_add`, `boxed_remove`, `boxed_update`, `boxed_compact`, `boxed_search` and `saving`, and
/// implements [`Load`](crate::index::loader::Load).
macro_rules! index_methods {
    ($Index:ident) => {
        $crate::index::changes::change_methods!($Index);
        $crate::index::face::saving_methods!($Index);

        impl $Index {
            crate::future::blocking_and_async! { self.common().device;
                /// Compiles every kernel that searches of this index run, several at a time, and returns when all are ready: no search
                /// for up to 1,024 neighbours compiles one any more, whatever its queries, filter, radius or probes.
                ///
                /// A GPU's driver compiles kernels when they are first used, up to a second of work where it has not seen them
                /// before. An index begins with that by itself, in the background, when it is made or loaded, so a program that
                /// searches later needs no call. Call this where the first search must not wait, such as before a server
                /// accepts queries, or to fill [`DeviceOptions::cache_dir`](crate::DeviceOptions::cache_dir). The index
                /// needs no rows yet. On the host engine there is nothing to do.
                ///
                /// # Errors
                /// [`Error::Device`] when the driver refuses a kernel; [`Error::DeviceLost`].
                ///
                /// ```no_run
                /// use nearfield::{Device, Flat, MatrixView, Metric};
                /// let device = Device::best()?;
                /// let mut index = Flat::builder(&device, Metric::Cosine, 2).build()?;
                /// index.add(MatrixView::new(&[1.0f32, 0.0, 0.0, 1.0], 2)?)?; // kernels are compiled meanwhile
                /// index.warm_up()?; // waits for those that are not ready
                /// let found = index.search(MatrixView::new(&[1.0f32, 1.0], 2)?, 1)?;
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn warm_up(&self) -> Result<()> {
                    self.common().warm_up()
                }
                async warm_up_async;

                /// Times kernels of searches in several forms, uses the faster ones from now on, and returns the times. The general form
                /// takes the length of vectors from its parameters and fills as many registers as suit GPUs of this vendor. The others
                /// are compiled for this dim, or fill another number of registers. Answers do not depend on it.
                ///
                /// A `Flat` of 32,768 rows or more that has an 8-bit copy, on a GPU without cooperative matrices, also times a batch of 512
                /// queries in tiles of bytes and of floats, and keeps the faster kind. The result does not list that.
                ///
                /// [`warm_up`](Self::warm_up) does the same for kernels that were not timed yet, in at most 0.2 s of searches beside
                /// compiling, and a file in [`DeviceOptions::cache_dir`](crate::DeviceOptions::cache_dir) keeps the times for an
                /// adapter, driver and version of the library. This call times them again. The searches are for some of the index's own
                /// rows; other searches may run meanwhile, but disturb the times. Kernels are timed only on GPUs with timestamps, for
                /// the usual dims (64, 96, 100, 128, 256, 384, 512, 768, 1024, 1536 and 3072), and where there are at least four
                /// million elements. Otherwise the result is empty, as on the host engine.
                ///
                /// # Errors
                /// As a search's, and those of [`warm_up`](Self::warm_up).
                ///
                /// ```no_run
                /// use nearfield::{Device, Flat, MatrixView, Metric};
                /// let mut index = Flat::builder(&Device::best()?, Metric::Cosine, 128).build()?;
                /// let rows: Vec<f32> = (0..100_000 * 128).map(|i| (i as f32 * 0.37).sin()).collect();
                /// index.add(MatrixView::new(&rows, 128)?)?;
                /// for timed in index.tune()? {
                ///     println!("{} {:?} {:?}", timed.kernel, timed.general, timed.specialised);
                /// }
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn tune(&self) -> Result<Vec<TunedKernel>> {
                    self.common().store.rows.tune(self.common().metric, true)
                }
                async tune_async;

                /// The rows with these ids, `[ids, dim]`, in the order of the ids: as they were given, widened to f32.
                ///
                /// # Errors
                /// [`Error::UnknownId`]; [`Error::Budget`] when a row does not fit the device's; [`Error::OutOfMemory`].
                pub fn get(&self, ids: &[u64]) -> Result<Vec<f32>> {
                    Box::pin(self.common().store.get(ids)) as Boxed<'_, Vec<f32>>
                }
                async get_async;
            }

            /// Opens a saved index for changes, which go to a log beside its file: see [`Durable`](crate::Durable).
            ///
            /// # Errors
            /// As [`Loader::open`](crate::Loader::open).
            #[cfg(not(target_arch = "wasm32"))]
            pub fn open(devices: impl Into<Devices>, path: impl AsRef<Path>) -> Result<crate::Durable<Self>> {
                Self::loader(devices).open(path)
            }

            /// Whether a row has this id.
            pub fn contains(&self, id: u64) -> bool {
                self.common().store.contains(id)
            }

            /// The ids of all rows, ascending.
            ///
            /// # Errors
            /// [`Error::OutOfMemory`].
            pub fn ids(&self) -> crate::error::Result<Vec<u64>> {
                self.common().store.ids()
            }

            /// The largest id of a row; none without rows.
            pub fn largest_id(&self) -> Option<u64> {
                self.common().store.largest_id()
            }

            /// The insertion number that the next row gets where the caller gives no ids: see [`add`](Self::add).
            pub fn next_id(&self) -> u64 {
                self.common().store.next_number()
            }

            /// How many rows there are.
            pub fn len(&self) -> usize {
                self.common().store.len() as usize
            }

            /// Whether there are no rows.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether the index keeps a copy of its rows in 8-bit integers: see
            /// [`FlatBuilder::quantization`](crate::FlatBuilder::quantization).
            pub fn is_quantized(&self) -> bool {
                self.common().store.rows.is_quantized()
            }

            /// Where the rows are now: on the device, in the host's memory, or in a file. With [`Residency::Auto`](crate::Residency::Auto) a
            /// change may take them from the device to the host. Those of the host engine are on the host.
            ///
            /// ```
            /// use nearfield::{Device, Flat, Residency, Metric};
            /// let index = Flat::builder(&Device::host(), Metric::L2, 2).build()?;
            /// assert_eq!(index.residency(), Residency::Host);
            /// # Ok::<(), nearfield::Error>(())
            /// ```
            pub fn residency(&self) -> crate::Residency {
                self.common().store.rows.residency()
            }

            /// The memory that the index takes, by part and place, with the room for rows to come.
            ///
            /// ```no_run
            /// use nearfield::{Device, Index};
            /// let index = Index::load(&Device::best()?, "index.nf")?;
            /// println!("{} bytes: {}", index.memory().total(), index.memory());
            /// # Ok::<(), nearfield::Error>(())
            /// ```
            pub fn memory(&self) -> crate::Memory {
                let mut memory = crate::Memory::default();
                self.common().store.measure(&mut memory);
                self.measure_lists(&mut memory);
                memory
            }

            /// The metric.
            pub fn metric(&self) -> Metric {
                self.common().metric
            }

            /// Elements per row.
            pub fn dim(&self) -> usize {
                self.common().dim
            }

            /// How rows are stored.
            pub fn elements(&self) -> $crate::ElementKind {
                self.common().elements
            }

            /// Whether rows of other types are quantised to that one: see [`FlatBuilder::store`](crate::FlatBuilder::store).
            pub fn quantizes(&self) -> bool {
                self.common().quantizes
            }

            /// The device; the first of several.
            pub fn device(&self) -> &Device {
                &self.common().device
            }

            /// The devices, in the order in which they were given.
            pub fn devices(&self) -> &[Device] {
                self.common().devices.list()
            }
        }
    };
}
pub(crate) use index_methods;

/// Writes the searches, over `boxed_search`.
macro_rules! search_methods {
    ($Index:ident) => {
        impl $Index {
            crate::future::blocking_and_async! { self.common().device;
                /// The k nearest rows of each query, `[queries, up to k]`, nearest first, ties by the smaller id. Fewer than k rows
                /// give shorter answers. An [`Ivf`](crate::Ivf) probes [`Ivf::default_probes`](crate::Ivf::default_probes) lists.
                ///
                /// Queries are a [`MatrixView`](crate::MatrixView), a [`Matrix`](crate::Matrix), or a
                /// [`DeviceMatrix`](crate::DeviceMatrix) on this device.
                ///
                /// # Errors
                /// As [`search_with`](Self::search_with).
                pub fn search<'a>(&self, queries: impl Into<Vectors<'a>>, k: usize) -> Result<Neighbors> {
                    self.boxed_search(queries.into(), &SearchOptions::new(k)) => neighbors
                }
                async search_async;

                /// Searches with options: the k nearest rows of each query, or all nearer than a radius, under a filter, in more or
                /// fewer lists. See [`SearchOptions`]. The result tells also how the answer came about.
                ///
                /// An [`Ivf`](crate::Ivf) probes [`SearchOptions::probes`] lists per query, or
                /// [`Ivf::default_probes`](crate::Ivf::default_probes), or as many as [`SearchOptions::recall`] needs. Under a filter, a query that finds fewer than k rows in them
                /// probes twice as many, again and again.
                ///
                /// # Errors
                /// [`Error::Argument`] for k = 0, a radius that is NaN, another dim, no probes, more probes than there are lists, any
                /// probes for a `Flat`, beside a radius or beside a recall, or a recall that is not within 0 and 1; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the query's number; [`Error::Budget`] when not even
                /// one query fits the budget; [`Error::OutOfMemory`]; [`Error::DeviceLost`].
                pub fn search_with<'q>(
                    &self,
                    queries: impl Into<Vectors<'q>>,
                    options: &SearchOptions<'_>,
                ) -> Result<SearchResult> {
                    self.boxed_search(queries.into(), options)
                }
                async search_with_async;

                /// The k nearest of each query's candidates, `[queries, up to k]`, nearest first, ties by the smaller id. Distances are
                /// computed from the rows of this index; those of the candidates are not looked at. A candidate that is named twice counts
                /// once.
                ///
                /// This finds again what an index of few bits loses. Search that index for more candidates than are wanted, and refine them
                /// by an index of the rows in f32, under the same ids: one that keeps them in the host's memory, or in a file
                /// ([`FlatBuilder::mapped`](crate::FlatBuilder::mapped)), with [`Quantization::None`](crate::Quantization::None) so that it
                /// has no copy of them.
                ///
                /// The host computes the distances, from rows that a device sends where the host has none. They are those of
                /// [`Device::host`](crate::Device::host), bit for bit, wherever the rows are.
                ///
                /// # Errors
                /// [`Error::Argument`] for k = 0, another dim, or candidates of another number of queries; [`Error::UnknownId`];
                /// [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the query's number; [`Error::OutOfMemory`];
                /// [`Error::DeviceLost`]; [`Error::File`] where the rows lie in a file that was written to.
                ///
                /// ```
                /// use nearfield::{Device, Flat, HostVectors, MatrixView, Metric, ElementKind};
                /// let values: Vec<f32> = (0..800).map(|i| (i as f32 * 0.7).sin()).collect();
                /// let rows = HostVectors::from(MatrixView::new(&values, 8)?);
                /// let mut coarse = Flat::builder(&Device::host(), Metric::Hamming, 1).build()?;
                /// coarse.add(&rows.quantized(ElementKind::Bits)?)?; // the sign of each number
                /// let mut fine = Flat::builder(&Device::host(), Metric::Cosine, 8).build()?;
                /// fine.add(rows)?;
                ///
                /// let queries = rows.slice(3..5);
                /// let candidates = coarse.search(&queries.quantized(ElementKind::Bits)?, 40)?;
                /// let found = fine.refine(queries, &candidates, 2)?;
                /// assert_eq!((found.row(0)[0].id, found.row(1)[0].id), (3, 4));
                /// # Ok::<(), nearfield::Error>(())
                /// ```
                pub fn refine<'q>(
                    &self,
                    queries: impl Into<Vectors<'q>>,
                    candidates: &Neighbors,
                    k: usize,
                ) -> Result<Neighbors> {
                    self.common().refine(queries.into(), candidates, k)
                }
                async refine_async;
            }
        }
    };
}
pub(crate) use search_methods;
