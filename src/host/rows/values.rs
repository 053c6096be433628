//! The elements of rows as they are stored, and their squared norms, by slot.

use std::ops::Range;
use std::sync::Arc;

use crate::elements::{ElementKind, Elements, HostVectors, Matrix, SharedElements};
use crate::error::Result;
use crate::host::arithmetic::prefetch::prefetch;
use crate::host::rows::mapped::{MappedRows, joined};
use crate::memory::{self, out_of_memory};

/// Rows by slot, with their squared norms.
#[derive(Debug)]
pub(crate) struct RowValues {
    pub(crate) dim: usize,
    stored: Stored,
    /// The squared norm of each row.
    pub(crate) squared: Vec<f64>,
}

/// `[slots, dim]`. A matrix may share those in memory. Those of a file are not written to.
#[derive(Debug)]
enum Stored {
    Memory(SharedElements),
    Mapped(MappedRows),
}

impl RowValues {
    pub(crate) fn new(elements: ElementKind, dim: usize) -> Self {
        Self { dim, stored: Stored::Memory(SharedElements::new(elements)), squared: vec![] }
    }

    /// The rows of a matrix, with their squared norms.
    pub(crate) fn shared(values: Arc<Vec<f32>>, dim: usize, squared: Vec<f64>) -> Self {
        Self { dim, stored: Stored::Memory(values.into()), squared }
    }

    /// Rows in a file, given with the squared norm of each slot.
    pub(crate) fn mapped(rows: MappedRows) -> Self {
        Self { dim: rows.dim, stored: Stored::Mapped(rows), squared: vec![] }
    }

    /// The elements in memory, to be written to; none of a file.
    fn owned(&mut self) -> Option<&mut SharedElements> {
        match &mut self.stored {
            Stored::Memory(elements) => Some(elements),
            Stored::Mapped(_) => None,
        }
    }

    /// The rows as they lie in a file; none where they are in memory.
    pub(crate) fn file(&self) -> Option<&MappedRows> {
        match &self.stored {
            Stored::Memory(_) => None,
            Stored::Mapped(rows) => Some(rows),
        }
    }

    /// The elements of a row. None where they have to be copied.
    #[inline]
    fn elements(&self, slot: usize) -> Option<Elements<'_>> {
        match &self.stored {
            Stored::Memory(all) => Some(all.elements().slice(slot * self.dim..(slot + 1) * self.dim)),
            Stored::Mapped(rows) => rows.values(rows.of_slot(slot)),
        }
    }

    /// The row in a slot, in f32. `scratch` has room for one row.
    #[inline]
    pub(crate) fn row<'a>(&'a self, slot: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        match (self.elements(slot), self.file()) {
            (None, Some(rows)) => {
                rows.copy_to(rows.of_slot(slot), scratch);
                scratch
            }
            (values, _) => values.unwrap_or(Elements::F32(&[])).widened(scratch),
        }
    }

    /// Elements of scratch memory that [`row`](Self::row) needs: none where rows lie as f32.
    pub(crate) fn scratch_len(&self) -> usize {
        let is_wide = self.kind().is_wide() && self.file().is_none_or(MappedRows::is_aligned);
        if is_wide { 0 } else { self.dim }
    }

    /// Neighbouring rows, `[slots, dim]`, in f32.
    pub(crate) fn widened<'a>(&'a self, slots: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        let range = slots.start * self.dim..slots.end * self.dim;
        match &self.stored {
            Stored::Memory(all) => all.elements().slice(range).widened_in(scratch),
            Stored::Mapped(rows) => {
                self.announce(slots.clone());
                if let Some(neighbours) = rows.neighbours(slots.clone()) {
                    return neighbours;
                }
                self.copied(slots, scratch)
            }
        }
    }

    /// The rows in these slots, `[slots, dim]`, in f32.
    pub(crate) fn chosen<'a>(&self, slots: &[u32], scratch: &'a mut Vec<f32>) -> &'a [f32] {
        let slots = slots.iter().map(|&slot| slot as usize);
        self.announce(slots.clone());
        self.copied(slots, scratch)
    }

    fn copied<'a>(
        &self,
        slots: impl ExactSizeIterator<Item = usize>,
        scratch: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        scratch.resize(slots.len() * self.dim, 0.0);
        let mut wide = vec![0.0; self.scratch_len()];
        for (slot, place) in slots.zip(scratch.chunks_exact_mut(self.dim)) {
            place.copy_from_slice(self.row(slot, &mut wide));
        }
        scratch
    }

    /// The bytes of the row in a slot, as it is stored.
    pub(crate) fn bytes(&self, slot: usize) -> &[u8] {
        match &self.stored {
            Stored::Mapped(rows) => rows.bytes(rows.of_slot(slot)),
            Stored::Memory(_) => self.elements(slot).map_or(&[], Elements::bytes),
        }
    }

    /// Tells the system that the rows in these slots are read soon, where they lie in a file.
    pub(crate) fn announce(&self, slots: impl IntoIterator<Item = usize>) {
        if let Some(rows) = self.file() {
            rows.will_need(slots.into_iter().map(|slot| rows.of_slot(slot)));
        }
    }

    /// Starts to load the row in a slot into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, slot: usize) {
        // What is on the disk would be waited for.
        if self.file().is_none() {
            prefetch(self.bytes(slot));
        }
    }

    /// Copies of the rows in these slots, one after another.
    pub(crate) fn gathered(&self, slots: &[u32]) -> Result<Matrix> {
        self.announce(slots.iter().map(|&slot| slot as usize));
        joined(slots.len(), |place| self.bytes(slots[place] as usize), self.kind(), self.dim)
    }

    /// How the elements are stored.
    pub(crate) fn kind(&self) -> ElementKind {
        match &self.stored {
            Stored::Memory(elements) => elements.kind(),
            Stored::Mapped(rows) => rows.elements,
        }
    }

    /// Writes a row into a slot.
    pub(crate) fn write(&mut self, slot: usize, row: Elements<'_>, squared: f64) {
        let at = slot * self.dim;
        // A change that writes rows of a file is refused before.
        if let Some(elements) = self.owned() {
            elements.write(at, row);
        }
        self.squared[slot] = squared;
    }

    /// Appends rows, for which memory was reserved.
    pub(crate) fn append(&mut self, rows: HostVectors<'_>, squared: &[f64]) {
        if let Some(elements) = self.owned() {
            elements.append(rows.elements());
        }
        self.squared.extend_from_slice(squared);
    }

    pub(crate) fn resize(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        self.owned().map_or(Ok(()), |elements| elements.resize(len))?;
        memory::resize(&mut self.squared, slots, 0.0)
    }

    /// Reserves memory for the slots below `slots`, and for no more.
    pub(crate) fn reserve(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        self.owned().map_or(Ok(()), |elements| elements.reserve_exact(len))?;
        memory::reserve_exact(&mut self.squared, slots)
    }

    /// Bytes of the elements of this many rows.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        rows.saturating_mul(self.dim as u64).saturating_mul(self.kind().size() as u64)
    }

    fn len_of(&self, slots: usize) -> Result<usize> {
        slots.checked_mul(self.dim).ok_or_else(|| out_of_memory(self.bytes_of(slots as u64)))
    }

    /// Copies the row in slot `from` to slot `to`.
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        let dim = self.dim;
        if let Some(elements) = self.owned() {
            elements.copy_within(from * dim..(from + 1) * dim, to * dim);
        }
        self.squared[to] = self.squared[from];
    }

    /// Drops the slots from `end` on.
    pub(crate) fn truncate(&mut self, end: usize) {
        let len = end * self.dim;
        if let Some(elements) = self.owned() {
            elements.truncate(len);
        }
        self.squared.truncate(end);
    }

    /// Frees memory beyond that of `slots` slots.
    pub(crate) fn shrink(&mut self, slots: usize) {
        let len = slots.saturating_mul(self.dim);
        if let Some(elements) = self.owned() {
            elements.shrink_to(len);
        }
        self.squared.shrink_to(slots);
    }

    /// The bytes that the elements take in memory, with the room for others.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.allocated().map_or(0, |elements| elements.capacity() * self.kind().size()) as u64
    }

    /// Where the elements lie in memory, and for how many there is room.
    #[cfg(test)]
    pub(super) fn allocation(&self) -> (usize, usize) {
        self.allocated().map_or((0, 0), |all| (all.elements().bytes().as_ptr() as usize, all.capacity()))
    }

    fn allocated(&self) -> Option<&SharedElements> {
        match &self.stored {
            Stored::Memory(elements) => Some(elements),
            Stored::Mapped(_) => None,
        }
    }
}
