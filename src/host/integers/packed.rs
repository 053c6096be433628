//! Rows and queries of i8, laid out for the kernels of integer dot products.
//!
//! Rows lie in groups of 16. A group is a run of 64-byte lines, one for each step of four components: bytes
//! `4 * row .. 4 * row + 4` of line `step` are components `4 * step .. 4 * step + 4` of that row of the group. A vector
//! register then holds 16 rows (8 in 256 bits, 4 in 128), a query's four components are broadcast to all of them as one
//! 32-bit word, and no product needs a sum across lanes. Missing components and missing rows are zero.
//!
//! Queries lie in panels of [`PANEL`]: words `[panel][step][query of the panel]`, so that a tile reads both operands in order.

use crate::parallel::*;

use crate::error::Result;
use crate::host::integers::isa::Isa;
use crate::memory;

/// Rows of a group.
pub(crate) const GROUP: usize = 16;
/// Queries of a panel.
pub(crate) const PANEL: usize = 12;

/// Four components of each of 16 rows.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(super) [i8; 64]);

/// Rows in groups.
#[derive(Debug)]
pub(crate) struct PackedRows {
    pub(super) lines: Vec<Line>,
    rows: usize,
    pub(super) dim: usize,
    pub(super) steps: usize,
}

impl PackedRows {
    /// No rows, of `dim` components.
    pub(crate) fn new(dim: usize) -> Self {
        Self { lines: vec![], rows: 0, dim, steps: dim.div_ceil(4) }
    }

    /// Resizes to `rows` rows; new ones are zero.
    pub(crate) fn resize(&mut self, rows: usize) -> Result<()> {
        memory::resize(&mut self.lines, rows.div_ceil(GROUP) * self.steps, Line([0; 64]))?;
        self.rows = rows;
        Ok(())
    }

    /// Reserves memory for `rows` rows in all, and for no more.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        memory::reserve_exact(&mut self.lines, rows.div_ceil(GROUP).saturating_mul(self.steps))
    }

    /// The bytes that this many rows take.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        rows.div_ceil(GROUP as u64).saturating_mul((self.steps * size_of::<Line>()) as u64)
    }

    /// The bytes that the rows take, with the room for others.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        (self.lines.capacity() * size_of::<Line>()) as u64
    }

    /// Drops the rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.lines.truncate(rows.div_ceil(GROUP) * self.steps);
        self.rows = rows;
    }

    /// Frees memory beyond that of `rows` rows.
    pub(crate) fn shrink(&mut self, rows: usize) {
        memory::shrink(&mut self.lines, rows.div_ceil(GROUP).saturating_mul(self.steps));
    }

    /// The lines of each group.
    pub(crate) fn groups_mut(&mut self) -> impl Iterator<Item = &mut [Line]> {
        self.lines.chunks_exact_mut(self.steps)
    }

    /// The lines of a group; none behind the last.
    pub(crate) fn group_mut(&mut self, group: usize) -> Option<&mut [Line]> {
        self.lines.chunks_exact_mut(self.steps).nth(group)
    }

    /// The components of a row, and zeros up to a multiple of four.
    pub(crate) fn lane(&self, row: usize) -> impl Iterator<Item = i8> {
        let (first, at) = (row / GROUP * self.steps, row % GROUP * 4);
        self.lines[first..first + self.steps].iter().flat_map(move |line| line.0[at..at + 4].iter().copied())
    }

    /// The lines of each group, for several threads.
    pub(crate) fn par_groups_mut(&mut self) -> impl IndexedParallelIterator<Item = &mut [Line]> {
        self.lines.par_chunks_exact_mut(self.steps)
    }

    /// Copies the row at place `from` to place `to`.
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        let [(first, from), (second, to)] = [from, to].map(|row| (row / GROUP * self.steps, row % GROUP * 4));
        for step in 0..self.steps {
            let mut four = [0; 4];
            four.copy_from_slice(&self.lines[first + step].0[from..from + 4]);
            self.lines[second + step].0[to..to + 4].copy_from_slice(&four);
        }
    }

    /// Copies a row to a place of another group.
    pub(crate) fn copy_lane(&self, row: usize, into: &mut [Line], lane: usize) {
        let (first, from) = (row / GROUP * self.steps, row % GROUP * 4);
        for (line, into) in self.lines[first..first + self.steps].iter().zip(into) {
            into.0[lane * 4..][..4].copy_from_slice(&line.0[from..from + 4]);
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(GROUP)
    }
}

/// Sets the components of one row of a group.
pub(crate) fn set_lane(lines: &mut [Line], lane: usize, components: &[i8]) {
    for (line, four) in lines.iter_mut().zip(components.chunks(4)) {
        line.0[lane * 4..][..four.len()].copy_from_slice(four);
    }
}

/// Queries in panels, for one instruction set.
pub(crate) struct PackedQueries {
    pub(super) isa: Isa,
    pub(super) words: Vec<i32>,
    /// The value that the accumulators of each query start at, padded to whole panels.
    pub(super) starts: Vec<i32>,
    pub(crate) queries: usize,
    pub(super) dim: usize,
}

impl PackedQueries {
    /// Packs queries given row after row.
    pub(crate) fn new(queries: &[i8], dim: usize, isa: Isa) -> Result<PackedQueries> {
        assert!(queries.len().is_multiple_of(dim), "whole queries of {dim} components");
        let (count, steps, per) = (queries.len() / dim, dim.div_ceil(4), isa.words());
        let panels = count.div_ceil(PANEL);
        let mut words = memory::filled(panels * steps * PANEL * per, 0)?;
        let mut starts = memory::filled(panels * PANEL, 0)?;
        for (number, query) in queries.chunks_exact(dim).enumerate() {
            let panel = number / PANEL * steps * PANEL * per;
            for (step, four) in query.chunks(4).enumerate() {
                let mut q = [0i8; 4];
                q[..four.len()].copy_from_slice(four);
                let at = panel + step * PANEL * per + number % PANEL * per;
                if isa.looks_up_bits() {
                    let word = u32::from_le_bytes(q.map(i8::cast_unsigned));
                    let halves = [word, word >> 4].map(|word| (word & 0x0f0f_0f0f).cast_signed());
                    words[at..at + 2].copy_from_slice(&halves);
                } else if per == 2 {
                    // Even components and odd ones apart, as the kernels split those of rows.
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
        Ok(PackedQueries { isa, words, starts, queries: count, dim })
    }

    /// The instruction set that they are packed for.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    pub(crate) fn panels(&self) -> usize {
        self.queries.div_ceil(PANEL)
    }
}
