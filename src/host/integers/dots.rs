//! Integer dot products of many i8 rows with i8 queries, exact in i32; of vectors of bits, the number of bits that both have.
//!
//! Scores come out as `[group][query][16]`: their reader keeps the constants of 16 rows in one register and walks over queries.
//!
//! Every instruction set gives the same integers. Components lie in -128..=127, and for long vectors in a smaller range that keeps dot
//! products below 2^24 ([`Quantizing`](crate::screen::certificate::Quantizing)). The correction by `128 * sum(q)` therefore stays in i32,
//! below 2^30.

use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use crate::host::integers::arm;
use crate::host::integers::bits::common_bits;
use crate::host::integers::isa::Instructions;
use crate::host::integers::packed::{GROUP, PANEL, PackedQueries, PackedRows};
use crate::host::integers::portable::portable;
use crate::host::integers::tile::Tile;
#[cfg(target_arch = "wasm32")]
use crate::host::integers::wasm;
#[cfg(target_arch = "x86_64")]
use crate::host::integers::x86;

/// Scores groups of rows against all queries: `out[group][query][lane]`, where groups count from the start of the range.
pub(crate) fn dots(rows: &PackedRows, groups: Range<usize>, queries: &PackedQueries, out: &mut [i32]) {
    assert_eq!(rows.dim, queries.dim);
    assert!(groups.start <= groups.end && groups.end <= rows.groups());
    let count = queries.queries;
    assert_eq!(out.len(), groups.len() * count * GROUP);
    let (steps, per) = (rows.steps, queries.isa.words());
    let instructions = queries.isa.instructions();
    let mut group = groups.start;
    while group < groups.end {
        let pair = if instructions == Instructions::Avx512Vnni && group + 1 < groups.end { 2 } else { 1 };
        for panel in 0..queries.panels() {
            let tile = Tile {
                lines: rows.lines[group * steps..(group + pair) * steps].as_ptr(),
                words: queries.words[panel * steps * PANEL * per..][..steps * PANEL * per].as_ptr(),
                starts: queries.starts[panel * PANEL..][..PANEL].as_ptr(),
                steps,
                out: out[((group - groups.start) * count + panel * PANEL) * GROUP..].as_mut_ptr(),
                group_stride: count * GROUP,
            };
            let count = (count - panel * PANEL).min(PANEL);
            #[expect(unsafe_code, reason = "kernels take pointers; these point into slices cut to size")]
            // SAFETY: `tile` points at whole groups and a whole panel (sliced above), its output has room for `count` queries of
            // `pair` groups (length asserted above), and this machine has the instructions of an `Isa`.
            unsafe {
                match instructions {
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx512Vnni => x86::avx512_vnni(tile, pair, count),
                    #[cfg(target_arch = "x86_64")]
                    Instructions::AvxVnni => x86::avx_vnni(tile, count),
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx2 => x86::avx2(tile, count),
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx2Bits => x86::avx2_bits(tile, count),
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Sse2 => x86::sse2(tile, count),
                    #[cfg(target_arch = "aarch64")]
                    Instructions::NeonDot => arm::neon_dot(tile, count),
                    #[cfg(target_arch = "aarch64")]
                    Instructions::Neon => arm::neon(tile, count),
                    #[cfg(target_arch = "wasm32")]
                    Instructions::Simd128 => wasm::simd128(tile, count),
                    Instructions::Bits => common_bits(tile, count),
                    _ => portable(tile, count),
                }
            }
        }
        group += pair;
    }
}
