//! Integer dot products in plain Rust, for processors without kernels of their own.

use crate::host::integers::packed::{GROUP, PANEL};
use crate::host::integers::tile::{Tile, by_count};

/// # Safety
/// `tile` points at operands and results of `count` queries.
pub(super) unsafe fn portable(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(portable_tile, tile, count, 1, [2, 1]) }
}

/// Even components and odd ones apart, in pairs of i16: the compiler turns this into `pmaddwd` on x86-64 and widening products elsewhere.
unsafe fn portable_tile<const Q: usize>(tile: Tile) {
    let mut sums = [[0i32; GROUP]; Q];
    for step in 0..tile.steps {
        // SAFETY: below `steps`, and below the panel's queries.
        let (line, words) = unsafe { (&(*tile.lines.add(step)).0, tile.words.add(step * PANEL)) };
        let (mut even, mut odd) = ([0i16; 2 * GROUP], [0i16; 2 * GROUP]);
        for at in 0..2 * GROUP {
            let both = i16::from_le_bytes([line[2 * at] as u8, line[2 * at + 1] as u8]);
            even[at] = (both << 8) >> 8;
            odd[at] = both >> 8;
        }
        for (query, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as above.
            let q = unsafe { *words.add(query) }.to_le_bytes().map(|one| one as i8 as i16);
            let (mut low, mut high) = ([0i16; 2 * GROUP], [0i16; 2 * GROUP]);
            for lane in 0..GROUP {
                (low[2 * lane], low[2 * lane + 1]) = (q[0], q[2]);
                (high[2 * lane], high[2 * lane + 1]) = (q[1], q[3]);
            }
            let mut products = [0i32; 2 * GROUP];
            for at in 0..2 * GROUP {
                products[at] = even[at] as i32 * low[at] as i32 + odd[at] as i32 * high[at] as i32;
            }
            for lane in 0..GROUP {
                sums[lane] += products[2 * lane] + products[2 * lane + 1];
            }
        }
    }
    for (query, sums) in sums.iter().enumerate() {
        // SAFETY: the output has 16 places for each query.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), tile.out.add(query * GROUP), GROUP) }
    }
}
