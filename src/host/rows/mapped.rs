//! Rows in a mapped file, in place.

use std::ops::Range;
use std::sync::Arc;

use crate::elements::{Element, ElementKind, Elements, Matrix, with_type};
use crate::error::Result;
use crate::files::MappedFile;
use crate::interrupt;
use crate::memory;
use crate::options::residency::Residency;
use crate::parallel::*;
use crate::usage::Memory;

/// Elements that one thread copies at least.
const COPIED_ALONE: usize = 1 << 16;

/// Pieces that the disk is asked for before they are read: it works while these are used.
const AHEAD: usize = 8;

/// Rows of a file, `[rows, dim]`.
#[derive(Debug)]
pub(crate) struct MappedRows {
    pub(crate) file: Arc<MappedFile>,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    pub(crate) rows: usize,
    /// Where the first row starts, in bytes. The file is long enough for all of them.
    pub(crate) start: usize,
    /// The row of each slot, any one for a tombstone. None if the row in a slot has its number.
    pub(crate) of_slots: Option<Vec<u32>>,
}

impl MappedRows {
    /// The row in a slot.
    pub(super) fn of_slot(&self, slot: usize) -> usize {
        self.of_slots.as_ref().map_or(slot, |rows| rows[slot] as usize)
    }

    fn place(&self, row: usize) -> Range<usize> {
        let row_bytes = self.dim * self.elements.size();
        self.start + row * row_bytes..self.start + (row + 1) * row_bytes
    }

    /// The bytes of a row.
    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        &self.file.bytes()[self.place(row)]
    }

    /// Whether the elements lie where a processor reads them as they are. The file starts at a page.
    pub(super) fn is_aligned(&self) -> bool {
        self.start.is_multiple_of(self.elements.size())
    }

    /// Rows of the same file from this one on, `rows` of which are used.
    pub(crate) fn from(&self, first: usize, rows: usize) -> Self {
        let &Self { ref file, elements, dim, .. } = self;
        Self { file: file.clone(), elements, dim, rows, start: self.place(first).start, of_slots: None }
    }

    /// Copies of the rows with these numbers.
    pub(crate) fn chosen(&self, numbers: &[usize]) -> Result<Matrix> {
        self.will_need(numbers.iter().copied());
        joined(numbers.len(), |place| self.bytes(numbers[place]), self.elements, self.dim)
    }

    /// Copies of all rows in the order of the file, piece by piece, each with the number of its first row.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Result<(usize, Matrix)>> + '_ {
        let (all, piece) = (self.rows, self.elements.rows_of_piece(self.dim));
        let mut announced = 0;
        (0..all).step_by(piece).map(move |first| {
            interrupt::check()?;
            self.file.check()?;
            let rows = all.min(first + piece) - first;
            let soon = announced..all.min(first + (AHEAD + 1) * piece);
            announced = soon.end;
            self.will_need(soon);
            Ok((first, joined(rows, |place| self.bytes(first + place), self.elements, self.dim)?))
        })
    }

    /// The elements of neighbouring slots in f32, where they lie like this in the file.
    pub(super) fn neighbours(&self, slots: Range<usize>) -> Option<&[f32]> {
        if self.elements != ElementKind::F32 || self.of_slots.is_some() || slots.is_empty() {
            return None;
        }
        let bytes = self.place(slots.start).start..self.place(slots.end - 1).end;
        bytemuck::try_cast_slice(&self.file.bytes()[bytes]).ok()
    }

    /// The elements of a row. None where their place is not aligned.
    pub(super) fn values(&self, row: usize) -> Option<Elements<'_>> {
        Elements::of_bytes(self.elements, self.bytes(row))
    }

    /// Copies a row that is not aligned, widened to f32, to a place of `dim` elements.
    pub(super) fn copy_to(&self, row: usize, wide: &mut [f32]) {
        let bytes = self.bytes(row);
        with_type!(self.elements, T => {
            let values = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
            wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = value.widen());
        });
    }

    /// Adds the bytes of the rows, and the memory of the table of slots.
    pub(super) fn measure(&self, memory: &mut Memory) {
        let bytes = self.rows * self.dim * self.elements.size();
        memory.add("rows", Residency::Mapped, bytes as u64);
        self.of_slots.iter().for_each(|rows| memory.add_vec("rows", rows));
    }

    /// Tells the system that rows are read soon. Neighbours are told together.
    pub(super) fn will_need(&self, rows: impl Iterator<Item = usize>) {
        let mut open: Option<Range<usize>> = None;
        for place in rows.map(|row| self.place(row)) {
            match &mut open {
                Some(before) if before.end == place.start => before.end = place.end,
                _ => {
                    open.replace(place).into_iter().for_each(|before| self.file.will_need(before));
                }
            }
        }
        open.into_iter().for_each(|last| self.file.will_need(last));
    }
}

/// Copies `count` rows of `dim` elements, given the bytes of each, which need not be aligned. Several threads do it: one alone spends longer on
/// page faults than the disk needs.
pub(super) fn joined<'r>(
    count: usize,
    bytes: impl Fn(usize) -> &'r [u8] + Send + Sync,
    elements: ElementKind,
    dim: usize,
) -> Result<Matrix> {
    fn values<'r, T: Element>(
        count: usize,
        bytes: impl Fn(usize) -> &'r [u8] + Send + Sync,
        dim: usize,
    ) -> Result<Vec<T>> {
        let dim = dim.max(1);
        let mut values: Vec<T> = memory::filled(count * dim, T::zeroed())?;
        let copy = |(row, place): (usize, &mut [T])| {
            bytemuck::cast_slice_mut(place).copy_from_slice(bytes(row));
        };
        // A thread of the pool would take up other work of it while it waits, perhaps a caller's that waits for this.
        if current_thread_index().is_some() {
            values.chunks_exact_mut(dim).enumerate().for_each(copy);
        } else {
            values.par_chunks_exact_mut(dim).with_min_len(COPIED_ALONE / dim).enumerate().for_each(copy);
        }
        Ok(values)
    }
    with_type!(elements, T => Ok(Matrix::of(values::<T>(count, bytes, dim)?, dim)))
}
