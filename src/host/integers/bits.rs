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

#[inline(always)]
unsafe fn common_bits_tile<const Q: usize>(tile: Tile) {
    let mut sums = [[0i32; GROUP]; Q];
    for step in 0..tile.steps {
        // SAFETY: below `steps`, and below the panel's queries.
        let (line, words) = unsafe { (&(*tile.lines.add(step)).0, tile.words.add(step * PANEL)) };
        let mut rows = [0u32; GROUP];
        for (row, four) in rows.iter_mut().zip(line.as_chunks::<4>().0) {
            *row = u32::from_le_bytes(four.map(i8::cast_unsigned));
        }
        for (query, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as above.
            let word = unsafe { *words.add(query) }.cast_unsigned();
            for lane in 0..GROUP {
                sums[lane] += (rows[lane] & word).count_ones().cast_signed();
            }
        }
    }
    for (query, sums) in sums.iter().enumerate() {
        // SAFETY: the output has 16 places for each query.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), tile.out.add(query * GROUP), GROUP) }
    }
}
