//! The kernels, one file each with the name of its WGSL file: parameters, declaration, `encode` with its checks, and
//! `reference`, a naive computation in f64 that tests compare with.
//!
//! A new kernel is `wgsl/FOLDER/x.wgsl`, `src/kernels/FOLDER/x.rs` and one word in the list of that folder's `mod.rs`.

/// Declares the kernels of a folder: a module each, and `KERNELS`.
macro_rules! kernels {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Every kernel of this folder.
        pub static KERNELS: &[&crate::gpu::Kernel] = &[$(&$name::KERNEL,)*];
    };
}

pub mod distance;
pub mod lists;
pub mod reduce;
pub mod screen;
pub mod select;

pub use crate::gpu::{Access, Kernel, Variant, WORKGROUP};
pub use distance::{distance_pairs, distance_scan, distance_tile, norms, rescore};
pub use lists::{
    average, group, list_work, move_rows, probe_slots, screen_lists_coop, screen_lists_i8, winnow,
};
pub use reduce::{locate, reduce_blocks, reduce_partials, reduce_rows};
pub use screen::{collect, narrow, screen_scan_i8, screen_tile_coop, screen_tile_i8, tighten};
pub use select::{
    merge_runs, prefix_sum, sample_runs, scatter_buckets, select_filter, select_k, select_row, select_sample,
    select_short, sort_buckets, sort_places, sort_runs,
};

/// Every kernel that the library runs.
pub fn all() -> impl Iterator<Item = &'static Kernel> {
    [distance::KERNELS, lists::KERNELS, reduce::KERNELS, screen::KERNELS, select::KERNELS]
        .concat()
        .into_iter()
}

/// Rows that are screened together: the width of a tile, and the unit in which segments are sized and sampled.
pub const BLOCK_ROWS: u32 = 128;

/// The key of nothing: behind every number, and never part of a result.
pub const ABSENT: u32 = u32::MAX;

/// The order-preserving key of a distance; [`ABSENT`] for a NaN. The same as `key_of` in `wgsl/lib/keys.wgsl`.
pub fn key_of(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_nan() {
        ABSENT
    } else if value == 0.0 {
        1 << 31
    } else if value < 0.0 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// The distance of a key.
pub fn value_of(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

/// Which columns of a score buffer stand for which rows of a segment: `blocks` blocks of [`BLOCK_ROWS`] rows, from
/// block `block_first` on every `block_step`-th, in columns from `column_first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The segment.
    pub segment: usize,
    /// First block of the segment.
    pub block_first: u32,
    /// Distance between blocks.
    pub block_step: u32,
    /// How many blocks.
    pub blocks: u32,
    /// Where their columns start.
    pub column_first: u32,
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, key_of, value_of};

    #[test]
    fn keys_keep_the_order_of_numbers() {
        let values =
            [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-40, 0.0, 1e-40, 1e-3, 1.0, f32::MAX, f32::INFINITY];
        for pair in values.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(value_of(key_of(value)).to_bits(), value.to_bits());
        }
        assert_eq!(key_of(-0.0), key_of(0.0));
        assert_eq!(key_of(f32::NAN), ABSENT);
        assert_eq!(key_of(-f32::NAN), ABSENT);
        assert!(key_of(f32::INFINITY) < ABSENT);
    }
}
