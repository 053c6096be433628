//! Rows in a mapped file, in place.

use std::ops::Range;

use half::f16;

use crate::error::Result;
use crate::files::MappedFile;
use crate::host::arithmetic::values::HostValues;
use crate::matrix::{Element, ElementKind, Matrix};
use crate::memory;
use crate::usage::{Memory, MemoryPlace};

/// Rows of a file, `[rows, dim]`.
#[derive(Debug)]
pub(crate) struct MappedRows {
    pub(crate) file: MappedFile,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    pub(crate) rows: usize,
    /// Where the first row starts, in bytes. The file is long enough for all of them.
    pub(crate) start: usize,
    /// The row of each slot, any one for a gap. None if the row in a slot has its number.
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

    /// Copies of neighbouring rows.
    pub(crate) fn copied(&self, rows: Range<usize>) -> Result<Matrix> {
        self.will_need(rows.clone());
        joined(rows.map(|row| self.bytes(row)), self.elements, self.dim)
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
    pub(super) fn values(&self, row: usize) -> Option<HostValues<'_>> {
        let bytes = self.bytes(row);
        Some(match self.elements {
            ElementKind::F32 => HostValues::F32(bytemuck::try_cast_slice(bytes).ok()?),
            ElementKind::F16 => HostValues::F16(bytemuck::try_cast_slice(bytes).ok()?),
        })
    }

    /// Copies a row that is not aligned, widened to f32, to a place of `dim` elements.
    pub(super) fn copy_to(&self, row: usize, wide: &mut [f32]) {
        let bytes = self.bytes(row);
        match self.elements {
            ElementKind::F32 => bytemuck::cast_slice_mut(wide).copy_from_slice(bytes),
            ElementKind::F16 => {
                let values = bytes.as_chunks().0.iter();
                wide.iter_mut()
                    .zip(values)
                    .for_each(|(wide, value)| *wide = f16::from_le_bytes(*value).to_f32());
            }
        }
    }

    /// Adds the bytes of the rows, and the memory of the table of slots.
    pub(super) fn measure(&self, memory: &mut Memory) {
        let bytes = self.rows * self.dim * self.elements.size();
        memory.add("rows", MemoryPlace::File, bytes as u64);
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

/// Rows of `dim` elements from their bytes, which need not be aligned.
pub(super) fn joined<'r>(
    rows: impl ExactSizeIterator<Item = &'r [u8]>,
    elements: ElementKind,
    dim: usize,
) -> Result<Matrix> {
    fn values<'r, T: Element>(rows: impl ExactSizeIterator<Item = &'r [u8]>, dim: usize) -> Result<Vec<T>> {
        let mut values: Vec<T> = memory::filled(rows.len() * dim, T::zeroed())?;
        let places = values.chunks_exact_mut(dim.max(1));
        rows.zip(places).for_each(|(row, place)| bytemuck::cast_slice_mut(place).copy_from_slice(row));
        Ok(values)
    }
    Ok(match elements {
        ElementKind::F32 => Matrix::F32(values(rows, dim)?, dim),
        ElementKind::F16 => Matrix::F16(values(rows, dim)?, dim),
    })
}
