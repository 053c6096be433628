//! Nearest-neighbour search on any GPU: Metal, Vulkan and DX12 through [wgpu], no CUDA. Where there is no GPU, the processor searches
//! behind the same types.
//!
//! ```no_run
//! use nearfield::{Device, Flat, Metric};
//!
//! let device = Device::best()?; // NEARFIELD_ADAPTER overrides
//! let mut index = Flat::builder(&device, Metric::Cosine, 3).build()?;
//! index.add(&[[0.1f32, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.7, 0.1]][..])?;
//! let found = index.search(&[0.1f32, 0.8, 0.1], 2)?;
//! for hit in found.row(0) {
//!     println!("row {} at {}", hit.id, hit.distance);
//! }
//! # Ok::<(), nearfield::Error>(())
//! ```
//!
//! # Which type
//!
//! | you want | take |
//! |---|---|
//! | the k nearest rows, or all within a radius, exactly | [`Flat`] |
//! | most of them in a fraction of the time, among millions of rows | [`Ivf`] |
//! | either, as a file or a setting says | [`Index`] |
//! | a function of yours over any index | [`VectorIndex`] |
//! | neighbours once, without an index | [`Device::nearest`] |
//! | all distances between two sets | [`Device::distances`] |
//! | the k smallest values of each row | [`Device::top_k`] |
//! | clusters | [`KMeans`] |
//! | sums, norms, dot products, extremes, standard deviations | [`Reduce`] |
//! | vectors from npy, safetensors, CSV and others | `io::VectorFile`, with the feature `io` |
//!
//! # Vectors and ids
//!
//! Rows and queries are f32, f16, bf16, i8, u8 or [bits](PackedBits) and lie one after the other: a [`MatrixView`] of your memory, a [`Matrix`], arrays (`&[[f32; 3]]`), one
//! vector (`&[f32]`), or a [`DeviceMatrix`] that is on the device already. [`Matrix::from_rows`] copies vectors that lie apart.
//!
//! ```
//! use nearfield::{AddOptions, Device, Flat, Matrix, Metric, SearchOptions};
//!
//! let device = Device::host();
//! let mut index = Flat::builder(&device, Metric::L2, 2).build()?;
//! let rows = Matrix::from_rows(&[vec![0.0f32, 0.0], vec![3.0, 4.0], vec![6.0, 8.0]])?;
//! index.add_with(&rows, &AddOptions::new().ids(&[10, 20, 30]))?; // without ids: 0, 1, 2
//! index.remove(&[30])?;
//! let even = |id: u64| id % 20 == 0;
//! let options = SearchOptions::new(5).filter(&even);
//! let found = index.search_with(&[0.0f32, 1.0], &options)?.neighbors;
//! assert_eq!((found.ids(), found.queries()), (&[20][..], 1));
//! # Ok::<(), nearfield::Error>(())
//! ```
//!
//! # Lists
//!
//! An [`Ivf`] keeps rows in lists around centroids and searches the lists nearest to a query: as many as a recall needs
//! ([`SearchOptions::recall`]), or as you say ([`SearchOptions::probes`]).
//!
//! ```
//! use nearfield::{Device, Ivf, MatrixView, Metric, SearchOptions};
//!
//! let values: Vec<f32> = (0..2000 * 16).map(|i| (i as f32 * 0.37).sin()).collect();
//! let rows = MatrixView::new(&values, 16)?;
//! let mut index = Ivf::builder(&Device::host(), Metric::Cosine, 16).lists(20).train(rows)?;
//! index.add(rows)?;
//! let found = index.search_with(rows.slice(0..200), &SearchOptions::new(10).recall(0.95))?.neighbors;
//! assert_eq!(found.row(1)[0].id, 1, "a row is its own nearest neighbour");
//! println!("{}", index.memory());
//! # Ok::<(), nearfield::Error>(())
//! ```
//!
//! # Files, threads and async
//!
//! [`Flat::save`] writes an index to a file that survives crashes; [`Index::load`] reads it on any device. Searches take `&self` and run
//! from many threads at once; those that arrive together run as one. Every call that waits for the device has a twin that ends in `_async`
//! and blocks no thread. [`Device::from_wgpu`] works inside a program that already uses wgpu.
//!
//! # What is promised
//!
//! A search returns the k rows of smallest distance under the total order (distance, id): ties go to the smaller id. Distances have the
//! precision that [`Metric`] states. On one adapter the answers are the same, bit for bit, whatever batch, thread or budget they came from.
//! Values that are not finite are refused with their row, and after an error an index is as it was. Scratch memory stays within
//! [`DeviceOptions::budget_bytes`].
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `io` | readers and writers of vector files: the module `io` |
//! | `hdf5` | `io`, and a reader of HDF5 files |
//! | `ndarray` | arrays of the crate `ndarray` as rows and queries |
//! | `unstable` | what may change in any version, also after 1.0: `Device::record` and the module `recording`, `Plan::route` |
//!
//! The [guide](https://github.com/nearfield/nearfield/blob/main/docs/guide.md) goes on from here.
//!
//! [wgpu]: https://docs.rs/wgpu

// docs.rs says which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Kernels and certificates are public where `internals` shows them, and are linted there.
#![cfg_attr(
    not(feature = "internals"),
    expect(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "only benchmarks and tests use all of the internals"
    )
)]

#[cfg(target_endian = "big")]
compile_error!(
    "files and device buffers hold little-endian values, which nearfield copies as they lie in memory"
);

mod batcher;
mod bits;
mod elements;
mod engine;
mod error;
mod files;
mod future;
mod gpu;
mod host;
mod index;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod interrupt;
#[cfg(feature = "io")]
pub mod io;
mod kernels;
mod lock;
mod memory;
mod metric;
#[cfg(feature = "ndarray")]
mod ndarray;
mod neighbors;
mod options;
mod parallel;
mod platform;
mod reduce;
mod screen;
mod store;
mod usage;

pub use elements::{Element, ElementKind, Elements, HostVectors, Matrix, MatrixView, PackedBits};
pub use engine::{
    Device, DeviceMatrix, DeviceVector, Devices, DistanceMatrix, Plan, SearchResult, Stages, Statistics,
    TokenVectors, TunedKernel, ValueRows, Values, Vectors,
};
#[cfg(feature = "unstable")]
pub use engine::{Recorder, Route, ScreenKernel};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "unstable")]
pub use gpu::Profile;
#[cfg(target_arch = "wasm32")]
pub use gpu::browser_instance;
pub use gpu::{
    Adapter, AdapterKind, BufferSlice, Capabilities, CooperativeSize, KernelForms, MemoryUsage, Refusal,
    StageTime,
};
pub use index::any::Index;
pub use index::clusters::Clusters;
pub use index::documents::MultiVector;
pub use index::documents::builder::MultiVectorBuilder;
pub use index::documents::options::MaxSimOptions;
pub use index::documents::ranking::{DocumentScore, MaxSimStatistics, Ranking};
#[cfg(not(target_arch = "wasm32"))]
pub use index::durable::Durable;
#[cfg(not(target_arch = "wasm32"))]
pub use index::durable::follower::Follower;
pub use index::flat::{Flat, FlatBuilder};
pub use index::ivf::Ivf;
pub use index::ivf::builder::IvfBuilder;
pub use index::kmeans::KMeans;
pub use index::loader::Loader;
pub use index::log::opening::SavedLog;
pub use index::pairwise::csr::{Csr, Symmetry};
pub use index::pairwise::density::DensityClusters;
pub use index::pairwise::duplicates::{DuplicateOptions, Duplicates, Keep, Removed};
pub use index::pairwise::graph::KnnGraph;
pub use index::pairwise::pairs::Pair;
pub use index::pairwise::tree::{Merge, SpanningTree};
pub use index::saved::SavedIndex;
pub use index::saved::kept::Load;
pub use index::vector_index::VectorIndex;
pub use interrupt::interruptible;
pub use kernels::reduce_blocks::Summation;
pub use metric::{Metric, Output, Precision};
pub use neighbors::{Iter, Neighbor, Neighbors};
pub use options::device::DeviceOptions;
pub use options::distance::DistanceOptions;
pub use options::distribution::Distribution;
pub use options::filter::Filter;
pub use options::ids::to_ids;
pub use options::quantization::Quantization;
pub use options::residency::Residency;
pub use options::{AddOptions, SearchOptions};
pub use reduce::named::{Reduced, Reduction};
pub use reduce::{Norm, Reduce};
pub use usage::{Memory, MemoryPart};
/// Arguments of the [`Recorder`]'s methods, which put kernels into a program's own command encoder.
#[cfg(feature = "unstable")]
pub mod recording {
    pub use crate::kernels::pairs::{HalfVectors, Pairs};
    pub use crate::kernels::reduce_blocks::{Operation, Reduce, Shape};
    pub use crate::kernels::refine::{Candidates, Refine};
    pub use crate::kernels::select_k::{Rows, Scratch, Select, Selected};
    pub use crate::kernels::selection::scratch_bytes;
    pub use crate::kernels::{ABSENT, key_of, value_of};
}

/// The graphics interface, for [`Device::from_wgpu`].
pub use wgpu;
