//! The kernels, one file each with the name of its WGSL file: parameters, declaration, `encode` with its checks, and
//! `reference`, a naive computation in f64 for tests to compare with.
//!
//! A new kernel is `wgsl/FOLDER/x.wgsl`, `src/kernels/FOLDER/x.rs` and one word in that folder's `mod.rs`.
//! CONTRIBUTING.md shows one from start to end.

/// Declares the kernels of a folder: a module each, and `KERNELS`.
macro_rules! kernels {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Every kernel of this folder.
        pub static KERNELS: &[&crate::gpu::Kernel] = &[$(&$name::KERNEL,)*];
    };
}

mod blocks;
mod intervals;
mod keys;
mod metrics;
mod pages;
mod sixteen;

pub mod distance;
#[cfg(test)]
pub mod lesson;
pub mod lists;
pub mod reduce;
pub mod screen;
pub mod select;

pub use crate::gpu::{Access, Kernel, Variant, WORKGROUP};
pub use blocks::{BLOCK_ROWS, Part};
pub use distance::{distance_pairs, distance_scan, distance_tile, norms, rescore};
pub use keys::{ABSENT, key_of, value_of};
pub use lists::{
    average, group, list_work, move_rows, probe_slots, screen_lists_coop, screen_lists_i8, winnow,
};
pub(crate) use pages::{NO_PAGE, PAGE, PAGES};
pub use reduce::{locate, reduce_blocks, reduce_partials, reduce_rows};
pub use screen::{collect, narrow, screen_scan_i8, screen_tile_coop, screen_tile_i8, tighten};
pub use select::{
    merge_runs, prefix_sum, sample_runs, scatter_buckets, select_filter, select_k, select_row, select_sample,
    select_short, selection, sort_buckets, sort_places, sort_runs,
};

/// Every kernel that the library runs.
pub fn all() -> impl Iterator<Item = &'static Kernel> {
    [distance::KERNELS, lists::KERNELS, reduce::KERNELS, screen::KERNELS, select::KERNELS]
        .concat()
        .into_iter()
}
