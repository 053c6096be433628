//! The elements of rows as they are stored, and their squared norms, by slot.

use std::ops::Range;
use std::sync::Arc;

use half::f16;

use crate::error::Result;
use crate::host::arithmetic::prefetch::prefetch;
use crate::host::arithmetic::values::HostValues;
use crate::host::arithmetic::widen::widen;
use crate::matrix::{ElementKind, Matrix};
use crate::memory::{self, out_of_memory};

/// Rows by slot, with their squared norms.
#[derive(Debug)]
pub(crate) struct RowValues {
    pub(crate) dim: usize,
    elements: Elements,
    /// The squared norm of each row.
    pub(crate) squared: Vec<f64>,
}

/// `[slots, dim]` in either element type. A matrix may share those of f32; whoever writes to shared ones gets a copy.
#[derive(Debug)]
enum Elements {
    F32(Arc<Vec<f32>>),
    F16(Vec<f16>),
}

/// Runs the same expression on the elements of either type.
macro_rules! of_either {
    ($elements:expr, $values:ident => $work:expr) => {
        match $elements {
            Elements::F32($values) => $work,
            Elements::F16($values) => $work,
        }
    };
    (mut $elements:expr, $values:ident => $work:expr) => {
        match $elements {
            Elements::F32(shared) => {
                let $values = Arc::make_mut(shared);
                $work
            }
            Elements::F16($values) => $work,
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

    fn elements(&self, range: Range<usize>) -> HostValues<'_> {
        match &self.elements {
            Elements::F32(values) => HostValues::F32(&values[range]),
            Elements::F16(values) => HostValues::F16(&values[range]),
        }
    }

    /// The row in a slot, in f32. `scratch` has room for one row.
    pub(crate) fn row<'a>(&'a self, slot: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        self.elements(slot * self.dim..(slot + 1) * self.dim).widened(scratch)
    }

    /// Elements of scratch memory that [`row`](Self::row) needs: none where rows are f32.
    pub(crate) fn scratch_len(&self) -> usize {
        match self.elements {
            Elements::F32(_) => 0,
            _ => self.dim,
        }
    }

    /// Neighbouring rows, in f32.
    pub(crate) fn widened<'a>(&'a self, slots: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        self.elements(slots.start * self.dim..slots.end * self.dim).widened_in(scratch)
    }

    /// The bytes of the row in a slot, as it is stored.
    pub(crate) fn bytes(&self, slot: usize) -> &[u8] {
        self.elements(slot * self.dim..(slot + 1) * self.dim).bytes()
    }

    /// Starts to load the row in a slot into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, slot: usize) {
        prefetch(self.bytes(slot));
    }

    /// Copies of the rows in these slots, one after another.
    pub(crate) fn gathered(&self, slots: &[u32]) -> Result<Matrix> {
        let len = slots.len() * self.dim;
        let ranges = slots.iter().map(|&slot| slot as usize * self.dim..(slot as usize + 1) * self.dim);
        Ok(match &self.elements {
            Elements::F32(values) => {
                let mut copy = memory::with_room(len)?;
                ranges.for_each(|range| copy.extend_from_slice(&values[range]));
                Matrix::F32(copy, self.dim)
            }
            Elements::F16(values) => {
                let mut copy = memory::with_room(len)?;
                ranges.for_each(|range| copy.extend_from_slice(&values[range]));
                Matrix::F16(copy, self.dim)
            }
        })
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
        }
        self.squared[slot] = squared;
    }

    pub(crate) fn resize(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        match &mut self.elements {
            Elements::F32(values) => memory::resize(Arc::make_mut(values), len, 0.0)?,
            Elements::F16(values) => memory::resize(values, len, f16::ZERO)?,
        }
        memory::resize(&mut self.squared, slots, 0.0)
    }

    pub(crate) fn reserve(&mut self, slots: usize) -> Result<()> {
        let len = self.len_of(slots)?;
        of_either!(mut &mut self.elements, values => memory::reserve(values, len)?);
        memory::reserve(&mut self.squared, slots)
    }

    fn len_of(&self, slots: usize) -> Result<usize> {
        slots.checked_mul(self.dim).ok_or_else(|| out_of_memory(u64::MAX))
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

    /// The bytes that the elements take, with the room for others.
    pub(super) fn capacity_bytes(&self) -> u64 {
        of_either!(&self.elements, values => values.capacity() as u64) * self.kind_bytes()
    }

    fn kind_bytes(&self) -> u64 {
        match self.elements {
            Elements::F32(_) => 4,
            Elements::F16(_) => 2,
        }
    }

    /// Where the elements lie in memory, and for how many there is room.
    #[cfg(test)]
    pub(super) fn allocation(&self) -> (usize, usize) {
        of_either!(&self.elements, values => (values.as_ptr() as usize, values.capacity()))
    }
}
