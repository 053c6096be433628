//! How many bits vectors have in common, in plain Rust: compilers count the bits of a register of rows at a time.

use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::integers::packed::{GROUP, PANEL};
use crate::host::integers::tile::{Tile, by_count};

/// # Safety
/// `tile` points at operands and results of `count` queries.
pub(super) unsafe fn common_bits(tile: Tile, count: usize) {
    with_widest_registers(
        #[inline(always)]
        // SAFETY: the caller promises the same.
        || unsafe { by_count!(common_bits_tile, tile, count, 1, [4, 1]) },
    )
}

/// Steps whose counts a byte holds: each has up to 8 bits.
const STEPS: usize = 31;

#[inline(always)]
unsafe fn common_bits_tile<const Q: usize>(tile: Tile) {
    let mut sums = [[0i32; GROUP]; Q];
    for start in (0..tile.steps).step_by(STEPS) {
        // Counted by bytes, for which processors have instructions.
        let mut counts = [[0u8; 4 * GROUP]; Q];
        for step in start..tile.steps.min(start + STEPS) {
            // SAFETY: below `steps`, and below the panel's queries.
            let (line, words) = unsafe { (&(*tile.lines.add(step)).0, tile.words.add(step * PANEL)) };
            for (query, counts) in counts.iter_mut().enumerate() {
                // SAFETY: as above.
                let word = unsafe { *words.add(query) }.to_le_bytes();
                for at in 0..4 * GROUP {
                    counts[at] += (line[at].cast_unsigned() & word[at % 4]).count_ones() as u8;
                }
            }
        }
        for (sums, counts) in sums.iter_mut().zip(&counts) {
            for lane in 0..GROUP {
                let four = [0, 1, 2, 3].map(|byte| i32::from(counts[4 * lane + byte]));
                sums[lane] += (four[0] + four[1]) + (four[2] + four[3]);
            }
        }
    }
    for (query, sums) in sums.iter().enumerate() {
        // SAFETY: the output has 16 places for each query.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), tile.out.add(query * GROUP), GROUP) }
    }
}
