//! The elements of rows as they are stored, and their squared norms, by slot.

use std::ops::Range;
use std::sync::Arc;

use half::f16;

use crate::error::Result;
use crate::host::arithmetic::prefetch::prefetch;
use crate::host::arithmetic::values::HostValues;
use crate::host::arithmetic::widen::widen;
use crate::host::rows::mapped::{MappedRows, joined};
use crate::matrix::{ElementKind, Matrix};
use crate::memory::{self, out_of_memory};
use crate::parallel::*;
use crate::vectors::HostVectors;

/// Elements that one thread copies: more threads would take longer to wake.
const COPIED_ALONE: usize = 1 << 18;

fn extend<T: Copy + Send + Sync>(values: &mut Vec<T>, more: &[T]) {
    if more.len() <= COPIED_ALONE {
        return values.extend_from_slice(more);
    }
    values.par_extend(more.par_iter().with_min_len(COPIED_ALONE / 4).map(|&value| value));
}

/// Rows by slot, with their squared norms.
#[derive(Debug)]
pub(crate) struct RowValues {
    pub(crate) dim: usize,
    elements: Elements,
    /// The squared norm of each row.
    pub(crate) squared: Vec<f64>,
}

/// `[slots, dim]` in either element type. A matrix may share those of f32; whoever writes to shared ones gets a copy. Those of a file are
/// not written to.
#[derive(Debug)]
enum Elements {
    F32(Arc<Vec<f32>>),
    F16(Vec<f16>),
    Mapped(MappedRows),
}

/// Runs the same expression on the elements of either type, and another one on those of a file.
macro_rules! of_either {
    ($elements:expr, $values:ident => $work:expr, $mapped:ident => $otherwise:expr) => {
        match $elements {
            Elements::F32($values) => $work,
            Elements::F16($values) => $work,
            Elements::Mapped($mapped) => $otherwise,
        }
    };
    (mut $elements:expr, $values:ident => $work:expr) => {
        match $elements {
            Elements::F32(shared) => {
                let $values = Arc::make_mut(shared);
                $work;
            }
            Elements::F16($values) => {
                $work;
            }
            Elements::Mapped(_) => {}
        }
    };
}

impl RowValues {
    pub(crate) fn new(elements: ElementKind, dim: usize) -> Self {
        let elements = match elements {
            ElementKind::F32 => Elements::F32(Arc::default()),
            ElementKind::F16 => Elements::F16(vec![]),
        };
        Self { dim, elements, squared: vec![] }
    }

    /// The rows of a matrix, with their squared norms.
    pub(crate) fn shared(values: Arc<Vec<f32>>, dim: usize, squared: Vec<f64>) -> Self {
        Self { dim, elements: Elements::F32(values), squared }
    }

    /// Rows in a file, given with the squared norm of each slot.
    pub(crate) fn mapped(rows: MappedRows) -> Self {
        Self { dim: rows.dim, elements: Elements::Mapped(rows), squared: vec![] }
    }

    /// The rows as they lie in a file; none where they are in memory.
    pub(crate) fn file(&self) -> Option<&MappedRows> {
        of_either!(&self.elements, _values => None, mapped => Some(mapped))
    }

    /// The elements of a row. None where they have to be copied.
    #[inline]
    fn elements(&self, slot: usize) -> Option<HostValues<'_>> {
        let range = slot * self.dim..(slot + 1) * self.dim;
        match &self.elements {
            Elements::F32(values) => Some(HostValues::F32(&values[range])),
            Elements::F16(values) => Some(HostValues::F16(&values[range])),
            Elements::Mapped(rows) => rows.values(rows.of_slot(slot)),
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
            (values, _) => values.unwrap_or(HostValues::F32(&[])).widened(scratch),
        }
    }

    /// Elements of scratch memory that [`row`](Self::row) needs: none where rows lie as f32.
    pub(crate) fn scratch_len(&self) -> usize {
        let is_wide = match &self.elements {
            Elements::F32(_) => true,
            Elements::F16(_) => false,
            Elements::Mapped(rows) => rows.elements == ElementKind::F32 && rows.is_aligned(),
        };
        if is_wide { 0 } else { self.dim }
    }

    /// Neighbouring rows, `[slots, dim]`, in f32.
    pub(crate) fn widened<'a>(&'a self, slots: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        let range = slots.start * self.dim..slots.end * self.dim;
        match &self.elements {
            Elements::F32(values) => &values[range],
            Elements::F16(values) => HostValues::F16(&values[range]).widened_in(scratch),
            Elements::Mapped(rows) => {
                self.announce(slots.clone());
                if let Some(neighbours) = rows.neighbours(slots.clone()) {
                    return neighbours;
                }
                scratch.resize(range.len(), 0.0);
                let mut wide = vec![0.0; self.scratch_len()];
                for (slot, place) in slots.zip(scratch.chunks_exact_mut(self.dim)) {
                    place.copy_from_slice(self.row(slot, &mut wide));
                }
                scratch
            }
        }
    }

    /// The bytes of the row in a slot, as it is stored.
    pub(crate) fn bytes(&self, slot: usize) -> &[u8] {
        match &self.elements {
            Elements::Mapped(rows) => rows.bytes(rows.of_slot(slot)),
            _ => self.elements(slot).map_or(&[], HostValues::bytes),
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
        match &self.elements {
            Elements::F32(_) => ElementKind::F32,
            Elements::F16(_) => ElementKind::F16,
            Elements::Mapped(rows) => rows.elements,
        }
    }

    /// Writes a row into a slot.
    pub(crate) fn write(&mut self, slot: usize, row: HostValues<'_>, squared: f64) {
        let range = slot * self.dim..(slot + 1) * self.dim;
        match (&mut self.elements, row) {
            (Elements::F32(values), HostValues::F32(row)) => {
                Arc::make_mut(values)[range].copy_from_slice(row);
            }
            (Elements::F32(values), HostValues::F16(row)) => widen(row, &mut Arc::make_mut(values)[range]),
            (Elements::F16(values), HostValues::F16(row)) => values[range].copy_from_slice(row),
            // Never taken: an index of f16 refuses f32 rows at its door.
            (Elements::F16(values), HostValues::F32(row)) => {
                values[range].iter_mut().zip(row).for_each(|(value, &x)| *value = f16::from_f32(x));
            }
            // Never taken: a change that writes rows is refused before.
            (Elements::Mapped(_), _) => {}
        }
        self.squared[slot] = squared;
    }

    /// Appends rows of the element type that is stored, for which memory was reserved. Threads share the work: the memory is fresh, and its
    /// pages take longer than the copy.
    pub(crate) fn append(&mut self, rows: HostVectors<'_>, squared: &[f64]) {
        match (&mut self.elements, rows) {
            (Elements::F32(values), HostVectors::F32(rows)) => extend(Arc::make_mut(values), rows.values()),
            (Elements::F16(values), HostVectors::F16(rows)) => extend(values, rows.values()),
            // Never taken: other rows are written one by one.
            _ => {}
        }
        self.squared.extend_from_slice(squared);
    }

    pub(crate) fn resize(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        match &mut self.elements {
            Elements::F32(values) => memory::resize(Arc::make_mut(values), len, 0.0)?,
            Elements::F16(values) => memory::resize(values, len, f16::ZERO)?,
            Elements::Mapped(_) => {}
        }
        memory::resize(&mut self.squared, slots, 0.0)
    }

    /// Reserves memory for the slots below `slots`, and for no more.
    pub(crate) fn reserve(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        of_either!(mut &mut self.elements, values => memory::reserve_exact(values, len)?);
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
        let (start, end) = (from * self.dim, (from + 1) * self.dim);
        of_either!(mut &mut self.elements, values => values.copy_within(start..end, to * self.dim));
        self.squared[to] = self.squared[from];
    }

    /// Drops the slots from `end` on.
    pub(crate) fn truncate(&mut self, end: usize) {
        of_either!(mut &mut self.elements, values => values.truncate(end * self.dim));
        self.squared.truncate(end);
    }

    /// Frees memory beyond that of `slots` slots.
    pub(crate) fn shrink(&mut self, slots: usize) {
        of_either!(mut &mut self.elements, values => values.shrink_to(slots.saturating_mul(self.dim)));
        self.squared.shrink_to(slots);
    }

    /// The bytes that the elements take in memory, with the room for others.
    pub(super) fn capacity_bytes(&self) -> u64 {
        let elements = of_either!(&self.elements, values => values.capacity(), _mapped => 0);
        (elements * self.kind().size()) as u64
    }

    /// Where the elements lie in memory, and for how many there is room.
    #[cfg(test)]
    pub(super) fn allocation(&self) -> (usize, usize) {
        of_either!(&self.elements, values => (values.as_ptr() as usize, values.capacity()), _mapped => (0, 0))
    }
}
