//! The elements of rows as they are stored, and their squared norms, by slot.

use std::ops::Range;
use std::sync::Arc;

use crate::elements::{ElementKind, Elements, HostVectors, Matrix, SharedElements};
use crate::error::Result;
use crate::host::arithmetic::prefetch::prefetch;
use crate::host::integers::packed::PackedRows;
use crate::host::rows::mapped::{MappedRows, joined};
use crate::host::rows::whole::WholeRows;
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
    Whole(WholeRows),
    Mapped(MappedRows),
}

impl RowValues {
    pub(crate) fn new(elements: ElementKind, dim: usize) -> Self {
        Self { dim, stored: Stored::Memory(SharedElements::new(elements)), squared: vec![] }
    }

    /// Rows that are their own codes.
    pub(crate) fn whole(elements: ElementKind, dim: usize) -> Self {
        Self { dim, stored: Stored::Whole(WholeRows::new(elements, dim)), squared: vec![] }
    }

    /// The rows of a matrix, with their squared norms.
    pub(crate) fn shared(values: Arc<Vec<f32>>, dim: usize, squared: Vec<f64>) -> Self {
        Self { dim, stored: Stored::Memory(values.into()), squared }
    }

    /// Rows in a file, given with the squared norm of each slot.
    pub(crate) fn mapped(rows: MappedRows) -> Self {
        Self { dim: rows.dim, stored: Stored::Mapped(rows), squared: vec![] }
    }

    /// The rows as they lie in a file; none where they are in memory.
    pub(crate) fn file(&self) -> Option<&MappedRows> {
        match &self.stored {
            Stored::Mapped(rows) => Some(rows),
            _ => None,
        }
    }

    /// The codes that rows are; none where they are others.
    pub(crate) fn codes(&self) -> Option<&PackedRows> {
        match &self.stored {
            Stored::Whole(rows) => Some(&rows.codes),
            _ => None,
        }
    }

    /// The row in a slot, in f32. `scratch` has room for one row.
    #[inline]
    pub(crate) fn row<'a>(&'a self, slot: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        match &self.stored {
            Stored::Memory(all) => {
                all.elements().slice(slot * self.dim..(slot + 1) * self.dim).widened(scratch)
            }
            Stored::Whole(rows) => {
                rows.widen(slot, scratch);
                scratch
            }
            Stored::Mapped(rows) => match rows.values(rows.of_slot(slot)) {
                Some(values) => values.widened(scratch),
                None => {
                    rows.copy_to(rows.of_slot(slot), scratch);
                    scratch
                }
            },
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
            Stored::Whole(_) => self.copied(slots, scratch),
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

    /// The bytes of the row in a slot as they lie; none where they lie apart.
    fn bytes(&self, slot: usize) -> Option<&[u8]> {
        match &self.stored {
            Stored::Memory(all) => Some(all.elements().slice(slot * self.dim..(slot + 1) * self.dim).bytes()),
            Stored::Whole(_) => None,
            Stored::Mapped(rows) => Some(rows.bytes(rows.of_slot(slot))),
        }
    }

    /// Appends the bytes of the row in a slot, as it is stored.
    pub(crate) fn append_bytes(&self, slot: usize, bytes: &mut Vec<u8>) {
        match &self.stored {
            Stored::Whole(rows) => bytes.extend(rows.bytes(slot)),
            _ => bytes.extend_from_slice(self.bytes(slot).unwrap_or_default()),
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
        if let (None, Some(bytes)) = (self.file(), self.bytes(slot)) {
            prefetch(bytes);
        }
    }

    /// Copies of the rows in these slots, one after another.
    pub(crate) fn gathered(&self, slots: &[u32]) -> Result<Matrix> {
        self.announce(slots.iter().map(|&slot| slot as usize));
        if let Stored::Whole(_) = self.stored {
            let mut bytes = memory::with_room(slots.len() * self.dim)?;
            slots.iter().for_each(|&slot| self.append_bytes(slot as usize, &mut bytes));
            return Matrix::of_bytes(self.kind(), &bytes, self.dim);
        }
        let bytes = |place: usize| self.bytes(slots[place] as usize).unwrap_or_default();
        joined(slots.len(), bytes, self.kind(), self.dim)
    }

    /// How the elements are stored.
    pub(crate) fn kind(&self) -> ElementKind {
        match &self.stored {
            Stored::Memory(elements) => elements.kind(),
            Stored::Whole(rows) => rows.elements,
            Stored::Mapped(rows) => rows.elements,
        }
    }

    /// Writes a row into a slot.
    pub(crate) fn write(&mut self, slot: usize, row: Elements<'_>, squared: f64) {
        match &mut self.stored {
            Stored::Memory(elements) => elements.write(slot * self.dim, row),
            Stored::Whole(rows) => rows.write(slot, row),
            // A change that writes rows of a file is refused before.
            Stored::Mapped(_) => {}
        }
        self.squared[slot] = squared;
    }

    /// Appends rows, for which memory was reserved.
    pub(crate) fn append(&mut self, rows: HostVectors<'_>, squared: &[f64]) {
        match &mut self.stored {
            Stored::Memory(elements) => elements.append(rows.elements()),
            // Their codes come in with their terms, slot by slot.
            _ => debug_assert!(false, "rows in memory alone are appended"),
        }
        self.squared.extend_from_slice(squared);
    }

    pub(crate) fn resize(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        match &mut self.stored {
            Stored::Memory(elements) => elements.resize(len)?,
            Stored::Whole(rows) => rows.codes.resize(slots)?,
            Stored::Mapped(_) => {}
        }
        memory::resize(&mut self.squared, slots, 0.0)
    }

    /// Reserves memory for the slots below `slots`, and for no more.
    pub(crate) fn reserve(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        match &mut self.stored {
            Stored::Memory(elements) => elements.reserve_exact(len)?,
            Stored::Whole(rows) => rows.codes.reserve(slots)?,
            Stored::Mapped(_) => {}
        }
        memory::reserve_exact(&mut self.squared, slots)
    }

    /// Bytes of the elements of this many rows.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        match &self.stored {
            Stored::Whole(whole) => whole.codes.bytes_of(rows),
            _ => rows.saturating_mul(self.dim as u64).saturating_mul(self.kind().size() as u64),
        }
    }

    fn len_of(&self, slots: usize) -> Result<usize> {
        slots.checked_mul(self.dim).ok_or_else(|| out_of_memory(self.bytes_of(slots as u64)))
    }

    /// Copies the row in slot `from` to slot `to`.
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        let dim = self.dim;
        match &mut self.stored {
            Stored::Memory(elements) => elements.copy_within(from * dim..(from + 1) * dim, to * dim),
            Stored::Whole(rows) => rows.codes.relocate(from, to),
            Stored::Mapped(_) => {}
        }
        self.squared[to] = self.squared[from];
    }

    /// Drops the slots from `end` on.
    pub(crate) fn truncate(&mut self, end: usize) {
        match &mut self.stored {
            Stored::Memory(elements) => elements.truncate(end * self.dim),
            Stored::Whole(rows) => rows.codes.truncate(end),
            Stored::Mapped(_) => {}
        }
        self.squared.truncate(end);
    }

    /// Frees memory beyond that of `slots` slots.
    pub(crate) fn shrink(&mut self, slots: usize) {
        match &mut self.stored {
            Stored::Memory(elements) => elements.shrink_to(slots.saturating_mul(self.dim)),
            Stored::Whole(rows) => rows.codes.shrink(slots),
            Stored::Mapped(_) => {}
        }
        self.squared.shrink_to(slots);
    }

    /// The bytes that the elements take in memory, with the room for others.
    pub(super) fn capacity_bytes(&self) -> u64 {
        match &self.stored {
            Stored::Memory(elements) => (elements.capacity() * self.kind().size()) as u64,
            Stored::Whole(rows) => rows.codes.capacity_bytes(),
            Stored::Mapped(_) => 0,
        }
    }

    /// Where the elements lie in memory, and for how many there is room.
    #[cfg(test)]
    pub(super) fn allocation(&self) -> (usize, usize) {
        match &self.stored {
            Stored::Memory(all) => (all.elements().bytes().as_ptr() as usize, all.capacity()),
            _ => (0, 0),
        }
    }
}
