//! Nearest-neighbour search on any GPU, exact ([`Flat`]) or in lists ([`Ivf`]): Metal, Vulkan and DX12 through [wgpu], no CUDA.
//!
//! ```no_run
//! use nearfield::{Device, Flat, MatrixView, Metric};
//!
//! let rows: Vec<f32> = (0..1000 * 384).map(|i| (i as f32 * 0.37).sin()).collect();
//! let device = Device::best()?; // NEARFIELD_ADAPTER overrides
//! let mut index = Flat::builder(&device, Metric::Cosine, 384).build()?;
//! index.add(MatrixView::new(&rows, 384)?)?;
//! let found = index.search(MatrixView::new(&rows[..384], 384)?, 10)?;
//! for hit in found.row(0) {
//!     println!("{} {}", hit.id, hit.distance);
//! }
//! # Ok::<(), nearfield::Error>(())
//! ```
//!
//! A search returns the k rows of smallest distance under the total order (distance, id), with the
//! precision that [`Metric`] states, bit for bit the same whatever batch, thread or budget it ran in.
//!
//! [wgpu]: https://docs.rs/wgpu

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

mod bits;
mod callers;
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
#[cfg(feature = "io")]
pub mod io;
mod kernels;
mod lock;
mod matrix;
mod memory;
mod metric;
mod neighbors;
mod options;
mod reduce;
mod screen;
mod store;
mod usage;
mod vectors;

pub use engine::{
    Device, DeviceMatrix, DeviceVector, DistanceMatrix, Nominator, Plan, Queries, Recorder, Route, Screen,
    SearchResult, Stages, Statistics, TunedKernel, ValueRows, Values, Vectors,
};
pub use error::{Error, Result};
pub use gpu::{Adapter, AdapterKind, BufferSlice, Capabilities, CooperativeSize, Profile, StageTime};
pub use index::any::Index;
pub use index::clusters::Clusters;
pub use index::common::Rows;
pub use index::flat::{Flat, FlatBuilder};
pub use index::ivf::Ivf;
pub use index::ivf::builder::IvfBuilder;
pub use index::kmeans::KMeans;
pub use index::loader::{Load, Loader};
pub use index::saved::SavedIndex;
pub use kernels::reduce_blocks::Summation;
pub use matrix::{Element, ElementKind, Matrix, MatrixView};
pub use options::device::DeviceOptions;
pub use options::distance::{DistanceOptions, Output, Precision};
pub use options::filter::Filter;

pub use metric::Metric;
pub use neighbors::{Iter, Neighbor, Neighbors};
pub use options::ids::to_ids;
pub use options::{AddOptions, SearchOptions, WithinOptions};
pub use reduce::{Norm, Reduce};
pub use usage::{Memory, MemoryPart, MemoryPlace};
pub use vectors::HostVectors;
/// Arguments of the [`Recorder`]'s methods, which put kernels into a program's own command encoder.
pub mod recording {
    pub use crate::kernels::pairs::{HalfVectors, Pairs};
    pub use crate::kernels::reduce_blocks::{Operation, Reduce, Shape};
    pub use crate::kernels::rescore::{Candidates, Rescore};
    pub use crate::kernels::select_k::{Rows, Scratch, Select, Selected};
    pub use crate::kernels::selection::scratch_bytes;
    pub use crate::kernels::{ABSENT, key_of, value_of};
}

/// The graphics interface, for [`Device::from_wgpu`] and [`Device::record`].
pub use wgpu;
