//! The operands of one call of a kernel: up to a panel of queries against one or two groups of rows.

use crate::host::integers::packed::Line;

/// One tile's view of its operands.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The first line of the first group; groups follow each other `steps` lines apart.
    pub(super) lines: *const Line,
    /// The first word of the panel.
    pub(super) words: *const i32,
    pub(super) starts: *const i32,
    pub(super) steps: usize,
    /// The scores of the first group and the panel's first query; those of the next group lie `group_stride` further.
    pub(super) out: *mut i32,
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only the kernel for AVX-512 takes two groups")
    )]
    pub(super) group_stride: usize,
}

/// Calls a kernel until `count` queries are done: with the largest number of queries per call first, then with smaller ones.
macro_rules! by_count {
    ($kernel:ident, $tile:expr, $count:expr, $per:expr, [$($size:literal),*]) => {{
        let (mut tile, mut left): (Tile, usize) = ($tile, $count);
        while left > 0 {
            $(if left >= $size {
                $kernel::<$size>(tile);
                tile.words = tile.words.add($size * $per);
                tile.starts = tile.starts.add($size);
                tile.out = tile.out.add($size * GROUP);
                left -= $size;
                continue;
            })*
        }
    }};
}

pub(super) use by_count;
