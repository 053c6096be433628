//! Integer dot products by the 128-bit instructions of WebAssembly.

use std::arch::wasm32::*;

use crate::host::integers::packed::{GROUP, PANEL};
use crate::host::integers::tile::{Tile, by_count};

/// # Safety
/// `tile` points at operands and results of `count` queries.
#[target_feature(enable = "simd128")]
pub(super) unsafe fn simd128(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(simd128_tile, tile, count, 2, [2, 1]) }
}

/// Q queries times 16 rows, 4 rows a register, components widened to 16 bits.
#[inline]
#[target_feature(enable = "simd128")]
unsafe fn simd128_tile<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let mut sums = [[i32x4_splat(0); 4]; Q];
        for step in 0..tile.steps {
            let line: *const v128 = tile.lines.add(step).cast();
            let words = tile.words.add(step * PANEL * 2);
            for four in 0..4 {
                let row = v128_load(line.add(four));
                let even = i16x8_shr(i16x8_shl(row, 8), 8);
                let odd = i16x8_shr(row, 8);
                for query in 0..Q {
                    let [q, r] = [0, 1].map(|word| i32x4_splat(*words.add(query * 2 + word)));
                    let sum = i32x4_add(i32x4_dot_i16x8(even, q), i32x4_dot_i16x8(odd, r));
                    sums[query][four] = i32x4_add(sums[query][four], sum);
                }
            }
        }
        for query in 0..Q {
            for four in 0..4 {
                v128_store(tile.out.add(query * GROUP + four * 4).cast(), sums[query][four]);
            }
        }
    }
}
