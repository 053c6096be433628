//! Integer dot products and common bits by the instructions of x86-64.

use std::arch::x86_64::*;

use crate::host::integers::packed::{GROUP, PANEL};
use crate::host::integers::tile::{Tile, by_count};

/// # Safety
/// `tile` points at operands and results of `groups` (1 or 2) groups and `count` queries; the processor has avx512f, avx512bw, avx512vnni.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn avx512_vnni(tile: Tile, groups: usize, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe {
        if groups == 2 {
            by_count!(two_groups, tile, count, 1, [12, 6, 4, 3, 2, 1])
        } else {
            by_count!(one_group, tile, count, 1, [12, 4, 2, 1])
        }
    }
}

/// Q queries times 32 rows: 24 accumulators of 32 registers for Q = 12.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn two_groups<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps` of two groups, words of a panel, 16 places of output for each query and group.
    unsafe {
        let flip = _mm512_set1_epi8(-128);
        let mut sums = [[_mm512_setzero_si512(); 2]; Q];
        for query in 0..Q {
            sums[query] = [_mm512_set1_epi32(*tile.starts.add(query)); 2];
        }
        for step in 0..tile.steps {
            let line = tile.lines.add(step);
            let a = _mm512_xor_si512(_mm512_load_si512(line.cast()), flip);
            let b = _mm512_xor_si512(_mm512_load_si512(line.add(tile.steps).cast()), flip);
            let words = tile.words.add(step * PANEL);
            for query in 0..Q {
                let q = _mm512_set1_epi32(*words.add(query));
                sums[query][0] = _mm512_dpbusd_epi32(sums[query][0], a, q);
                sums[query][1] = _mm512_dpbusd_epi32(sums[query][1], b, q);
            }
        }
        for query in 0..Q {
            _mm512_storeu_si512(tile.out.add(query * GROUP).cast(), sums[query][0]);
            _mm512_storeu_si512(tile.out.add(query * GROUP + tile.group_stride).cast(), sums[query][1]);
        }
    }
}

/// Q queries times 16 rows. For small Q each query has four sums, because a single one would wait for the instruction's latency.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn one_group<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let flip = _mm512_set1_epi8(-128);
        let chains = if Q >= 8 { 1 } else { 4 };
        let mut sums = [[_mm512_setzero_si512(); 4]; Q];
        for query in 0..Q {
            sums[query][0] = _mm512_set1_epi32(*tile.starts.add(query));
        }
        let mut step = 0;
        while step + chains <= tile.steps {
            for chain in 0..chains {
                let row = _mm512_xor_si512(_mm512_load_si512(tile.lines.add(step + chain).cast()), flip);
                let words = tile.words.add((step + chain) * PANEL);
                for query in 0..Q {
                    let q = _mm512_set1_epi32(*words.add(query));
                    sums[query][chain] = _mm512_dpbusd_epi32(sums[query][chain], row, q);
                }
            }
            step += chains;
        }
        while step < tile.steps {
            let row = _mm512_xor_si512(_mm512_load_si512(tile.lines.add(step).cast()), flip);
            let words = tile.words.add(step * PANEL);
            for query in 0..Q {
                let q = _mm512_set1_epi32(*words.add(query));
                sums[query][0] = _mm512_dpbusd_epi32(sums[query][0], row, q);
            }
            step += 1;
        }
        for query in 0..Q {
            let [a, b, c, d] = sums[query];
            let sum = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
            _mm512_storeu_si512(tile.out.add(query * GROUP).cast(), sum);
        }
    }
}

/// # Safety
/// `tile` points at operands and results of `count` queries; the processor has avx2 and avxvnni.
#[target_feature(enable = "avx2,avxvnni")]
pub(super) unsafe fn avx_vnni(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(avx_vnni_tile, tile, count, 1, [6, 4, 2, 1]) }
}

/// Q queries times 16 rows: 12 accumulators of 16 registers for Q = 6.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn avx_vnni_tile<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let flip = _mm256_set1_epi8(-128);
        let mut sums = [[_mm256_setzero_si256(); 2]; Q];
        for query in 0..Q {
            sums[query] = [_mm256_set1_epi32(*tile.starts.add(query)); 2];
        }
        for step in 0..tile.steps {
            let line: *const __m256i = tile.lines.add(step).cast();
            let a = _mm256_xor_si256(_mm256_load_si256(line), flip);
            let b = _mm256_xor_si256(_mm256_load_si256(line.add(1)), flip);
            let words = tile.words.add(step * PANEL);
            for query in 0..Q {
                let q = _mm256_set1_epi32(*words.add(query));
                sums[query][0] = _mm256_dpbusd_avx_epi32(sums[query][0], a, q);
                sums[query][1] = _mm256_dpbusd_avx_epi32(sums[query][1], b, q);
            }
        }
        for query in 0..Q {
            let out: *mut __m256i = tile.out.add(query * GROUP).cast();
            _mm256_storeu_si256(out, sums[query][0]);
            _mm256_storeu_si256(out.add(1), sums[query][1]);
        }
    }
}

/// # Safety
/// `tile` points at operands and results of `count` queries; the processor has avx2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(avx2_tile, tile, count, 2, [4, 2, 1]) }
}

/// Q queries times 16 rows, components widened to 16 bits: `vpmaddubsw` would saturate.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn avx2_tile<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; Q];
        for step in 0..tile.steps {
            let line: *const __m256i = tile.lines.add(step).cast();
            let [a, b] = [_mm256_load_si256(line), _mm256_load_si256(line.add(1))];
            let even = [a, b].map(|row| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(row)));
            let odd = [a, b].map(|row| _mm256_srai_epi16::<8>(row));
            let words = tile.words.add(step * PANEL * 2);
            for query in 0..Q {
                let q =
                    [_mm256_set1_epi32(*words.add(query * 2)), _mm256_set1_epi32(*words.add(query * 2 + 1))];
                for half in 0..2 {
                    let sum = _mm256_add_epi32(
                        _mm256_madd_epi16(even[half], q[0]),
                        _mm256_madd_epi16(odd[half], q[1]),
                    );
                    sums[query][half] = _mm256_add_epi32(sums[query][half], sum);
                }
            }
        }
        for query in 0..Q {
            let out: *mut __m256i = tile.out.add(query * GROUP).cast();
            _mm256_storeu_si256(out, sums[query][0]);
            _mm256_storeu_si256(out.add(1), sums[query][1]);
        }
    }
}

/// # Safety
/// `tile` points at operands and results of `count` queries; the processor has avx2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2_bits(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(avx2_bits_tile, tile, count, 2, [4, 2, 1]) }
}

/// The bits that Q queries and 16 rows have in common, looked up four at a time. Counts are bytes, each of which holds those of 31 steps.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn avx2_bits_tile<const Q: usize>(tile: Tile) {
    const STEPS: usize = 31;
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let mask = _mm256_set1_epi8(0x0f);
        let ones = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        let mut sums = [[_mm256_setzero_si256(); 2]; Q];
        // Closures and iterators here would not be compiled for these registers.
        let mut step = 0;
        while step < tile.steps {
            let mut counts = [[_mm256_setzero_si256(); 2]; Q];
            let end = tile.steps.min(step + STEPS);
            while step < end {
                let line: *const __m256i = tile.lines.add(step).cast();
                let [a, b] = [_mm256_load_si256(line), _mm256_load_si256(line.add(1))];
                let low = [_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)];
                let high = [
                    _mm256_and_si256(_mm256_srli_epi16::<4>(a), mask),
                    _mm256_and_si256(_mm256_srli_epi16::<4>(b), mask),
                ];
                let words = tile.words.add(step * PANEL * 2);
                for query in 0..Q {
                    let q_low = _mm256_set1_epi32(*words.add(query * 2));
                    let q_high = _mm256_set1_epi32(*words.add(query * 2 + 1));
                    for half in 0..2 {
                        let of_low = _mm256_shuffle_epi8(ones, _mm256_and_si256(low[half], q_low));
                        let of_high = _mm256_shuffle_epi8(ones, _mm256_and_si256(high[half], q_high));
                        let found = _mm256_add_epi8(of_low, of_high);
                        counts[query][half] = _mm256_add_epi8(counts[query][half], found);
                    }
                }
                step += 1;
            }
            for query in 0..Q {
                for half in 0..2 {
                    let pairs = _mm256_maddubs_epi16(counts[query][half], _mm256_set1_epi8(1));
                    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                    sums[query][half] = _mm256_add_epi32(sums[query][half], fours);
                }
            }
        }
        for query in 0..Q {
            let out: *mut __m256i = tile.out.add(query * GROUP).cast();
            _mm256_storeu_si256(out, sums[query][0]);
            _mm256_storeu_si256(out.add(1), sums[query][1]);
        }
    }
}

/// # Safety
/// `tile` points at operands and results of `count` queries.
pub(super) unsafe fn sse2(tile: Tile, count: usize) {
    // SAFETY: the caller promises the same.
    unsafe { by_count!(sse2_tile, tile, count, 2, [2, 1]) }
}

/// As `avx2_tile`, with 4 rows a register.
#[inline]
unsafe fn sse2_tile<const Q: usize>(tile: Tile) {
    // SAFETY: lines below `steps`, words of a panel, 16 places of output for each query.
    unsafe {
        let mut sums = [[_mm_setzero_si128(); 4]; Q];
        for step in 0..tile.steps {
            let line: *const __m128i = tile.lines.add(step).cast();
            let words = tile.words.add(step * PANEL * 2);
            for four in 0..4 {
                let row = _mm_load_si128(line.add(four));
                let even = _mm_srai_epi16::<8>(_mm_slli_epi16::<8>(row));
                let odd = _mm_srai_epi16::<8>(row);
                for query in 0..Q {
                    let q =
                        [_mm_set1_epi32(*words.add(query * 2)), _mm_set1_epi32(*words.add(query * 2 + 1))];
                    let sum = _mm_add_epi32(_mm_madd_epi16(even, q[0]), _mm_madd_epi16(odd, q[1]));
                    sums[query][four] = _mm_add_epi32(sums[query][four], sum);
                }
            }
        }
        for query in 0..Q {
            for four in 0..4 {
                _mm_storeu_si128(tile.out.add(query * GROUP + four * 4).cast(), sums[query][four]);
            }
        }
    }
}
