//! Integer dot products by the instructions of 64-bit Arm.

use std::arch::aarch64::*;
use std::arch::asm;

use crate::host::integers::packed::{GROUP, PANEL};
use crate::host::integers::tile::{Tile, by_count};

/// Adds the products of four components to each of four sums.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sum: int32x4_t, row: int8x16_t, query: int32x4_t) -> int32x4_t {
    // `vdotq_s32` is not stable.
    // SAFETY: the instruction touches registers only, and the function demands its feature.
    unsafe {
        asm!("sdot {0:v}.4s, {1:v}.16b, {2:v}.16b", inout(vreg) sum, in(vreg) row, in(vreg) query,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// # Safety
/// `tile` points at operands and results of `count` queries; the processor has dotprod.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn neon_dot(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(tile_of, tile, count, 1, [6, 4, 2, 1]) }
}

/// Q queries times 16 rows: 24 accumulators of 32 registers for Q = 6.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn tile_of<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let mut sums = [[vdupq_n_s32(0); 4]; Q];
        for step in 0..tile.steps {
            let line: *const i8 = tile.lines.add(step).cast();
            let rows =
                [vld1q_s8(line), vld1q_s8(line.add(16)), vld1q_s8(line.add(32)), vld1q_s8(line.add(48))];
            let words = tile.words.add(step * PANEL);
            for query in 0..Q {
                let q = vdupq_n_s32(*words.add(query));
                for four in 0..4 {
                    sums[query][four] = sdot(sums[query][four], rows[four], q);
                }
            }
        }
        for query in 0..Q {
            for four in 0..4 {
                vst1q_s32(tile.out.add(query * GROUP + four * 4), sums[query][four]);
            }
        }
    }
}

/// # Safety
/// `tile` points at operands and results of `count` queries.
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(neon_tile, tile, count, 1, [2, 1]) }
}

/// Q queries times 16 rows: two sums for each row, added at the end, so 16 accumulators for Q = 2.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn neon_tile<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let mut sums = [[[vdupq_n_s32(0); 2]; 4]; Q];
        for step in 0..tile.steps {
            let line: *const i8 = tile.lines.add(step).cast();
            let words = tile.words.add(step * PANEL);
            for four in 0..4 {
                let row = vld1q_s8(line.add(four * 16));
                for query in 0..Q {
                    let q = vreinterpretq_s8_s32(vdupq_n_s32(*words.add(query)));
                    let [low, high] = &mut sums[query][four];
                    *low = vpadalq_s16(*low, vmull_s8(vget_low_s8(row), vget_low_s8(q)));
                    *high = vpadalq_s16(*high, vmull_high_s8(row, q));
                }
            }
        }
        for query in 0..Q {
            for four in 0..4 {
                let [low, high] = sums[query][four];
                vst1q_s32(tile.out.add(query * GROUP + four * 4), vpaddq_s32(low, high));
            }
        }
    }
}
