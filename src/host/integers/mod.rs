//! Integer dot products of many i8 rows with i8 queries, exact in i32.
//!
//! Rows lie in groups of 16. A group is a run of 64-byte lines, one for every four components ("step"): bytes
//! `4 * row .. 4 * row + 4` of line `step` are components `4 * step .. 4 * step + 4` of that row of the group. A vector
//! register then holds 16 rows (8 in 256 bits, 4 in 128), a query's four components are broadcast to all of them as one
//! 32-bit word, and no product ever needs a sum across lanes. Missing components and missing rows are zero.
//!
//! Queries lie in panels of [`PANEL`]: words `[panel][step][query of the panel]`, so that a tile reads both sides in order.
//!
//! Scores come out as `[group][query][16]`: whoever reads them keeps the constants of 16 rows in one register and walks over
//! queries.
//!
//! Every instruction set gives the same integers. Components lie in -127..=127, and in as much less as keeps dot products of long vectors
//! below 2^24 ([`Narrowing`](crate::screen::certificate::Narrowing)): so does the correction by `128 * sum(q)` stay in i32, below 2^30.

/// How many queries each call of a kernel takes, so that `count` are done: whole tiles of `LARGE`, then what is left.
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

#[cfg(target_arch = "aarch64")]
#[expect(
    unsafe_code,
    reason = "SIMD instructions that the caller has detected, on pointers into slices cut to size"
)]
#[expect(clippy::needless_range_loop, reason = "registers have numbers, on both sides alike")]
mod arm;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "SIMD instructions that the caller has detected, on pointers into slices cut to size"
)]
#[expect(clippy::needless_range_loop, reason = "registers have numbers, on both sides alike")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::widen;

use std::ops::Range;

use rayon::prelude::*;

use crate::error::Result;

/// Rows of a group.
pub(crate) const GROUP: usize = 16;
/// Queries of a panel.
pub(crate) const PANEL: usize = 12;

/// Which instructions compute the products.
#[expect(dead_code, reason = "each processor has some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    /// `vpdpbusd` on 512 bits.
    Avx512Vnni,
    /// `vpdpbusd` on 256 bits.
    AvxVnni,
    /// `vpmaddwd` on 256 bits.
    Avx2,
    /// `pmaddwd` on 128 bits, which every x86-64 has.
    Sse2,
    /// `sdot`.
    NeonDot,
    /// `smull` and `sadalp`, which every aarch64 has.
    Neon,
    /// Whatever the compiler makes of plain Rust.
    Portable,
}

impl Isa {
    /// The fastest one of this machine.
    pub(crate) fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
            {
                return Isa::Avx512Vnni;
            }
            if is_x86_feature_detected!("avx2") {
                return if is_x86_feature_detected!("avxvnni") { Isa::AvxVnni } else { Isa::Avx2 };
            }
            Isa::Sse2
        }
        #[cfg(target_arch = "aarch64")]
        {
            if std::arch::is_aarch64_feature_detected!("dotprod") { Isa::NeonDot } else { Isa::Neon }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Isa::Portable
    }

    /// Those of this machine, for tests.
    pub(crate) fn all() -> Vec<Isa> {
        let mut all = vec![Isa::Portable];
        #[cfg(target_arch = "aarch64")]
        all.push(Isa::Neon);
        #[cfg(target_arch = "x86_64")]
        {
            all.push(Isa::Sse2);
            if is_x86_feature_detected!("avx2") {
                all.push(Isa::Avx2);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") {
                all.push(Isa::AvxVnni);
            }
        }
        if !all.contains(&Isa::detect()) {
            all.push(Isa::detect());
        }
        all
    }

    /// 32-bit words that a query has a step: `vpmaddwd` wants its components widened to 16 bits beforehand.
    fn words(self) -> usize {
        if matches!(self, Isa::Avx2 | Isa::Sse2) { 2 } else { 1 }
    }

    /// `vpdpbusd` takes one unsigned side: rows get 128 added, and 128 times the query's sum is taken off again.
    fn unsigned_rows(self) -> bool {
        matches!(self, Isa::Avx512Vnni | Isa::AvxVnni)
    }
}

/// Four components of each of 16 rows.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([i8; 64]);

/// Rows in groups.
#[derive(Debug)]
pub(crate) struct PackedRows {
    lines: Vec<Line>,
    rows: usize,
    dim: usize,
    steps: usize,
}

impl PackedRows {
    /// None, of so many components.
    pub(crate) fn new(dim: usize) -> Self {
        Self { lines: vec![], rows: 0, dim, steps: dim.div_ceil(4) }
    }

    /// So many rows; those that are new are zero.
    pub(crate) fn resize(&mut self, rows: usize) -> Result<()> {
        crate::host::rows::store::resize(&mut self.lines, rows.div_ceil(GROUP) * self.steps, Line([0; 64]))?;
        self.rows = rows;
        Ok(())
    }

    /// No more than so many.
    pub(crate) fn cut(&mut self, rows: usize) {
        self.lines.truncate(rows.div_ceil(GROUP) * self.steps);
        self.rows = rows;
    }

    /// The lines of each group.
    pub(crate) fn groups_mut(&mut self) -> impl Iterator<Item = &mut [Line]> {
        self.lines.chunks_exact_mut(self.steps)
    }

    /// The same for threads.
    pub(crate) fn par_groups_mut(&mut self) -> impl IndexedParallelIterator<Item = &mut [Line]> {
        self.lines.par_chunks_exact_mut(self.steps)
    }

    /// A row in the place of another.
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        let [(first, from), (second, to)] = [from, to].map(|row| (row / GROUP * self.steps, row % GROUP * 4));
        for step in 0..self.steps {
            let mut four = [0; 4];
            four.copy_from_slice(&self.lines[first + step].0[from..from + 4]);
            self.lines[second + step].0[to..to + 4].copy_from_slice(&four);
        }
    }

    /// Room for so many.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        crate::host::rows::store::reserve(&mut self.lines, rows.div_ceil(GROUP).saturating_mul(self.steps))
    }

    /// Gives up memory that so many rows do not need.
    pub(crate) fn shrink(&mut self, rows: usize) {
        self.lines.shrink_to(rows.div_ceil(GROUP).saturating_mul(self.steps));
    }

    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(GROUP)
    }
}

/// The components of one row of a group.
pub(crate) fn set_lane(lines: &mut [Line], lane: usize, components: &[i8]) {
    for (line, four) in lines.iter_mut().zip(components.chunks(4)) {
        line.0[lane * 4..][..four.len()].copy_from_slice(four);
    }
}

/// Queries in panels, for one instruction set.
pub(crate) struct PackedQueries {
    isa: Isa,
    words: Vec<i32>,
    /// What an accumulator starts at, a query (padded to whole panels).
    starts: Vec<i32>,
    queries: usize,
    dim: usize,
}

impl PackedQueries {
    /// Packs row-major queries. `isa` must be one that this machine has.
    pub(crate) fn new(queries: &[i8], dim: usize, isa: Isa) -> PackedQueries {
        debug_assert!(queries.len().is_multiple_of(dim));
        debug_assert!(Isa::all().contains(&isa), "{isa:?} is not of this machine");
        let (count, steps, per) = (queries.len() / dim, dim.div_ceil(4), isa.words());
        let panels = count.div_ceil(PANEL);
        let mut words = vec![0; panels * steps * PANEL * per];
        let mut starts = vec![0; panels * PANEL];
        for (number, query) in queries.chunks_exact(dim).enumerate() {
            let panel = number / PANEL * steps * PANEL * per;
            for (step, four) in query.chunks(4).enumerate() {
                let mut q = [0i8; 4];
                q[..four.len()].copy_from_slice(four);
                let at = panel + step * PANEL * per + number % PANEL * per;
                if per == 2 {
                    // The even components and the odd ones, as a row's are taken apart.
                    let pair = |low: i8, high: i8| {
                        (low as i16 as u16 as u32 | (high as i16 as u16 as u32) << 16) as i32
                    };
                    words[at] = pair(q[0], q[2]);
                    words[at + 1] = pair(q[1], q[3]);
                } else {
                    words[at] = i32::from_le_bytes(q.map(|one| one as u8));
                }
            }
            if isa.unsigned_rows() {
                starts[number] = -128 * query.iter().map(|&one| one as i32).sum::<i32>();
            }
        }
        PackedQueries { isa, words, starts, queries: count, dim }
    }

    pub(crate) fn queries(&self) -> usize {
        self.queries
    }

    pub(crate) fn panels(&self) -> usize {
        self.queries.div_ceil(PANEL)
    }
}

/// One tile's view of its operands.
#[derive(Clone, Copy)]
struct Tile {
    /// The first line of the first group; groups follow each other `steps` lines apart.
    lines: *const Line,
    /// The first word of the panel.
    words: *const i32,
    starts: *const i32,
    steps: usize,
    /// Where the scores of the first group and the panel's first query go, and how far apart groups are.
    out: *mut i32,
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "one kernel takes two groups, that of AVX-512")
    )]
    group_stride: usize,
}

/// Scores of some groups of rows with the queries of some panels: `out[group][query][lane]`, where group and query count from
/// the ranges' starts and there are `queries_of(panels) = min(panels.end * PANEL, queries) - panels.start * PANEL` queries.
pub(crate) fn dots(
    rows: &PackedRows,
    groups: Range<usize>,
    queries: &PackedQueries,
    panels: Range<usize>,
    out: &mut [i32],
) {
    assert_eq!(rows.dim, queries.dim);
    assert!(groups.start <= groups.end && groups.end <= rows.groups());
    assert!(panels.start <= panels.end && panels.end <= queries.panels());
    let wide = (panels.end * PANEL).min(queries.queries).saturating_sub(panels.start * PANEL);
    assert_eq!(out.len(), groups.len() * wide * GROUP);
    let (steps, per) = (rows.steps, queries.isa.words());
    let mut group = groups.start;
    while group < groups.end {
        let pair = if queries.isa == Isa::Avx512Vnni && group + 1 < groups.end { 2 } else { 1 };
        for panel in panels.clone() {
            let tile = Tile {
                lines: rows.lines[group * steps..(group + pair) * steps].as_ptr(),
                words: queries.words[panel * steps * PANEL * per..][..steps * PANEL * per].as_ptr(),
                starts: queries.starts[panel * PANEL..][..PANEL].as_ptr(),
                steps,
                out: out[((group - groups.start) * wide + (panel - panels.start) * PANEL) * GROUP..]
                    .as_mut_ptr(),
                group_stride: wide * GROUP,
            };
            let count = (queries.queries - panel * PANEL).min(PANEL);
            #[expect(
                unsafe_code,
                reason = "SIMD instructions, on pointers into slices that were cut to size"
            )]
            // SAFETY: `tile` points at whole groups and a whole panel (sliced above), its output has `count` queries of `pair`
            // groups (length asserted above), and `isa` is one that `Isa::detect` found, or in tests `Isa::all`.
            unsafe {
                match queries.isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512Vnni => x86::avx512_vnni(tile, pair, count),
                    #[cfg(target_arch = "x86_64")]
                    Isa::AvxVnni => x86::avx_vnni(tile, count),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => x86::avx2(tile, count),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Sse2 => x86::sse2(tile, count),
                    #[cfg(target_arch = "aarch64")]
                    Isa::NeonDot => arm::neon_dot(tile, count),
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => arm::neon(tile, count),
                    _ => portable(tile, count),
                }
            }
        }
        group += pair;
    }
}

/// # Safety
/// As `Tile` says, for `count` queries.
#[expect(unsafe_code, reason = "the same interface as the kernels of instruction sets")]
unsafe fn portable(tile: Tile, count: usize) {
    // SAFETY: what the caller promises.
    unsafe { by_count!(portable_tile, tile, count, 1, [2, 1]) }
}

/// Even components and odd ones apart, in pairs of i16: a form in which the compiler finds `pmaddwd` on x86-64 and widening
/// products elsewhere.
#[expect(unsafe_code, reason = "the same interface as the kernels of instruction sets")]
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
        // SAFETY: the output has 16 places a query.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), tile.out.add(query * GROUP), GROUP) }
    }
}
