//! The kernels, one file each with the name of its WGSL file: parameters, declaration, `encode` with its checks, and
//! `reference`, a naive computation in f64 for tests to compare with.
//!
//! A new kernel is `wgsl/FOLDER/x.wgsl`, `src/kernels/FOLDER/x.rs` and one word in that folder's `mod.rs`.
//! CONTRIBUTING.md tells what goes where.

/// Declares the kernels of a folder: a module for each, and a list of them.
macro_rules! kernels {
    ($list:ident: $($name:ident)*) => {
        $(pub mod $name;)*

        /// The kernels of a list.
        pub(super) static $list: &[&crate::gpu::Kernel] = &[$(&$name::KERNEL,)*];
    };
}

/// Declares a kernel's storage buffers, from binding 1 on.
macro_rules! bindings {
    ($($buffer:ident: $access:ident),* $(,)?) => {
        &[$((stringify!($buffer), crate::gpu::Access::$access)),*]
    };
}

mod blocks;
mod held;
mod intervals;
mod keys;
mod lengths;
pub(crate) mod metrics;
mod pages;
mod sixteen;
mod test_tile;

pub mod distance;
pub mod lists;
pub mod maxsim;
pub mod reduce;
pub mod screen;
pub mod select;

pub use crate::gpu::{Access, Driver, Kernel, Variant, WORKGROUP};
pub use blocks::{BLOCK_ROWS, Part};
pub(crate) use blocks::{IN_BLOCKS, OF_BITS, Scored};
pub use distance::*;
pub use keys::{ABSENT, key_of, value_of};
pub use lengths::DIMENSIONS;
pub use lists::*;
pub use maxsim::*;
pub use metrics::metric_constant;
pub(crate) use pages::{NO_PAGE, PAGE, PAGES, table_bytes};
pub use reduce::*;
pub use screen::*;
pub use select::*;

/// Every kernel that the library runs.
pub fn all() -> impl Iterator<Item = &'static Kernel> {
    of_indexes().chain([PAIRS, REDUCE].concat())
}

/// Those that an index runs. A program without other calculations has no others in it.
pub(crate) fn of_indexes() -> impl Iterator<Item = &'static Kernel> {
    [DISTANCE, LISTS, MAXSIM, SCREEN, SELECT].concat().into_iter()
}
