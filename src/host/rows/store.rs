//! Rows of an index in the host's memory: what a row store writes, reads and moves.

use std::sync::Arc;

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::host::integers::GROUP;
use crate::host::rows::narrowed::NarrowedRows;
use crate::host::rows::norms;
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::metric::Metric;

/// Rows of an index on the host engine, by their slots.
#[derive(Debug)]
pub(crate) struct HostRows {
    pub(crate) host: Arc<Host>,
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) values: Stored,
    /// The squared norm of each row.
    pub(crate) squared: Vec<f64>,
    pub(crate) ids: Vec<u64>,
    /// Which slots have a row, where not all do.
    pub(crate) alive: Option<Bits>,
    pub(crate) narrowed: Option<NarrowedRows>,
    /// Rows that there is room for in any case.
    expected: usize,
}

/// Pieces that many rows are put in, each told when it is there.
const PIECES: usize = 64;
/// Fewer rows are put at once.
const PIECE: usize = 4096;

/// Rows as they are stored, `[slots, dim]`.
#[derive(Debug)]
pub(crate) enum Stored {
    F32(Vec<f32>),
    F16(Vec<half::f16>),
}

impl Stored {
    fn new(elements: ElementKind) -> Self {
        match elements {
            ElementKind::F32 => Self::F32(vec![]),
            ElementKind::F16 => Self::F16(vec![]),
        }
    }

    fn resize(&mut self, len: usize) -> Result<()> {
        match self {
            Self::F32(values) => resize(values, len, 0.0),
            Self::F16(values) => resize(values, len, half::f16::ZERO),
        }
    }

    /// Values from place `at` on.
    pub(crate) fn write<T: Element>(&mut self, at: usize, row: &[T]) {
        match self {
            Self::F32(values) => {
                values[at..at + row.len()].iter_mut().zip(row).for_each(|(to, x)| *to = x.widen());
            }
            // f32 rows were refused before.
            Self::F16(values) => values[at..at + row.len()].copy_from_slice(bytemuck::cast_slice(row)),
        }
    }

    fn relocate(&mut self, from: usize, to: usize, len: usize) {
        match self {
            Self::F32(values) => values.copy_within(from..from + len, to),
            Self::F16(values) => values.copy_within(from..from + len, to),
        }
    }

    fn reserve(&mut self, len: usize) -> Result<()> {
        match self {
            Self::F32(values) => reserve(values, len),
            Self::F16(values) => reserve(values, len),
        }
    }

    fn shrink(&mut self, len: usize) {
        match self {
            Self::F32(values) => values.shrink_to(len),
            Self::F16(values) => values.shrink_to(len),
        }
    }
}

/// So many values, or an error where there is no memory for them.
pub(crate) fn resize<T: Clone>(values: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    reserve(values, len)?;
    values.resize(len, value);
    Ok(())
}

/// Room for so many values, and for more where they do not fit what there is, so that those to come need not all move.
pub(crate) fn reserve<T>(values: &mut Vec<T>, len: usize) -> Result<()> {
    let more = len.saturating_sub(values.len());
    // The room of an empty one is what is asked for, as a capacity is.
    let reserved = match values.is_empty() {
        true => values.try_reserve_exact(more),
        false => values.try_reserve(more).or_else(|_| values.try_reserve_exact(more)),
    };
    reserved.map_err(|_| out_of_memory((len as u64).saturating_mul(size_of::<T>() as u64)))
}

fn out_of_memory(bytes: u64) -> Error {
    Error::OutOfMemory { purpose: "rows".to_owned(), bytes: Some(bytes) }
}

impl HostRows {
    pub(crate) fn new(
        host: Arc<Host>,
        metric: Metric,
        elements: ElementKind,
        dim: usize,
        is_narrowed: bool,
    ) -> Self {
        let values = Stored::new(elements);
        let narrowed = is_narrowed.then(|| NarrowedRows::new(metric, dim));
        let (squared, ids) = (vec![], vec![]);
        Self { host, metric, dim, values, squared, ids, alive: None, narrowed, expected: 0 }
    }

    /// The same with room for as many rows as are expected.
    pub(crate) fn expecting(mut self, rows: u64) -> Result<Self> {
        self.expected = usize::try_from(rows).unwrap_or(usize::MAX);
        self.reserve(self.expected)?;
        Ok(self)
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// One past the last slot that has a row.
    pub(crate) fn end(&self) -> usize {
        self.ids.len()
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.alive.as_ref().map_or(self.end(), Bits::count_ones)
    }

    pub(crate) fn alive(&self) -> Option<&Bits> {
        self.alive.as_ref()
    }

    pub(crate) fn is_narrowed(&self) -> bool {
        self.narrowed.is_some()
    }

    /// The row in a slot, widened where it is not f32. `space` has room for one.
    pub(crate) fn row<'a>(&'a self, slot: usize, space: &'a mut [f32]) -> &'a [f32] {
        let range = slot * self.dim..(slot + 1) * self.dim;
        match &self.values {
            Stored::F32(values) => &values[range],
            Stored::F16(values) => crate::host::widened(&values[range], space),
        }
    }

    /// Neighbouring rows, widened where they are not f32.
    pub(crate) fn widened<'a>(&'a self, slots: std::ops::Range<usize>, space: &'a mut Vec<f32>) -> &'a [f32] {
        let range = slots.start * self.dim..slots.end * self.dim;
        match &self.values {
            Stored::F32(values) => &values[range],
            Stored::F16(values) => {
                space.resize(range.len(), 0.0);
                crate::host::widened(&values[range], space)
            }
        }
    }

    /// Puts rows into slots that have none, and takes those of `freed` ones out; all of them or, after an error, none.
    pub(crate) fn put<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        (slots, ids, freed): (&[u32], &[u64], &[u32]),
        mut progress: impl FnMut(usize),
    ) -> Result<()> {
        let squared = norms::checked("rows", rows)?;
        let (end, alive) = Bits::after(self.alive.as_ref(), self.end(), slots, freed);
        let most = slots.iter().max().map_or(self.end(), |&slot| self.end().max(slot as usize + 1));
        let before = self.end();
        if let Err(error) = self.resize(most) {
            self.cut(before);
            return Err(error);
        }
        let is_moved = self.narrowed.as_mut().is_some_and(|narrowed| narrowed.count(rows));
        let piece = rows.rows().div_ceil(PIECES).max(PIECE);
        for start in (0..rows.rows()).step_by(piece) {
            let range = start..rows.rows().min(start + piece);
            for row in range.clone() {
                let slot = slots[row] as usize;
                self.values.write(slot * self.dim, rows.row(row));
                self.squared[slot] = squared[row];
                self.ids[slot] = ids[row];
            }
            if !is_moved {
                self.narrow(|is_named| {
                    slots[range.clone()].iter().for_each(|&slot| is_named[slot as usize / GROUP] = true);
                });
            }
            progress(range.end);
        }
        if is_moved {
            self.narrow(|is_named| is_named.fill(true));
        }
        self.cut(end);
        self.alive = alive;
        Ok(())
    }

    /// Room for slots up to this one, whatever lies there.
    pub(crate) fn reserve(&mut self, end: usize) -> Result<()> {
        let values = end.checked_mul(self.dim).ok_or_else(|| out_of_memory(u64::MAX))?;
        self.values.reserve(values)?;
        reserve(&mut self.squared, end)?;
        if let Some(narrowed) = &mut self.narrowed {
            narrowed.reserve(end)?;
        }
        reserve(&mut self.ids, end)
    }

    /// Takes the rows out of slots that have one; the end may come nearer.
    pub(crate) fn release(&mut self, freed: &[u32]) {
        let (end, alive) = Bits::after(self.alive.as_ref(), self.end(), &[], freed);
        self.cut(end);
        self.alive = alive;
    }

    /// Moves rows, with their ids, from slots to as many that have none.
    pub(crate) fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        let (end, alive) = Bits::after(self.alive.as_ref(), self.end(), to, from);
        let most = to.iter().max().map_or(self.end(), |&slot| self.end().max(slot as usize + 1));
        let before = self.end();
        if let Err(error) = self.resize(most) {
            self.cut(before);
            return Err(error);
        }
        for (&from, &to) in from.iter().zip(to) {
            let (from, to) = (from as usize, to as usize);
            self.values.relocate(from * self.dim, to * self.dim, self.dim);
            self.squared[to] = self.squared[from];
            self.ids[to] = self.ids[from];
            if let Some(narrowed) = &mut self.narrowed {
                narrowed.relocate(from, to);
            }
        }
        self.cut(end);
        self.alive = alive;
        Ok(())
    }

    /// Gives up memory behind the end that is not for rows that are expected.
    pub(crate) fn shrink(&mut self) {
        self.values.shrink(self.expected.saturating_mul(self.dim));
        self.squared.shrink_to(self.expected);
        self.ids.shrink_to(self.expected);
        if let Some(narrowed) = &mut self.narrowed {
            narrowed.shrink(self.expected);
        }
    }

    /// The rows in these slots, `[slots, dim]`, widened to f32.
    pub(crate) fn fetch(&self, slots: &[u32]) -> Vec<f32> {
        let mut space = vec![0.0; self.dim];
        let mut found = Vec::with_capacity(slots.len() * self.dim);
        slots.iter().for_each(|&slot| found.extend_from_slice(self.row(slot as usize, &mut space)));
        found
    }

    /// The rows in these slots, `[slots, dim]`: their bytes as they are stored.
    pub(crate) fn fetch_bytes(&self, slots: &[u32]) -> Vec<u8> {
        let range = |slot: u32| slot as usize * self.dim..(slot as usize + 1) * self.dim;
        let of = |slot: &u32| match &self.values {
            Stored::F32(values) => bytemuck::cast_slice(&values[range(*slot)]),
            Stored::F16(values) => bytemuck::cast_slice::<_, u8>(&values[range(*slot)]),
        };
        slots.iter().flat_map(of).copied().collect()
    }

    /// Lets the slots end here; those that are new have no row yet.
    pub(crate) fn resize(&mut self, slots: usize) -> Result<()> {
        let values = slots.checked_mul(self.dim).ok_or_else(|| out_of_memory(u64::MAX))?;
        self.values.resize(values)?;
        resize(&mut self.squared, slots, 0.0)?;
        if let Some(narrowed) = &mut self.narrowed {
            narrowed.resize(slots)?;
        }
        resize(&mut self.ids, slots, 0)
    }

    /// Lets the slots end here.
    fn cut(&mut self, end: usize) {
        match &mut self.values {
            Stored::F32(values) => values.truncate(end * self.dim),
            Stored::F16(values) => values.truncate(end * self.dim),
        }
        self.squared.truncate(end);
        self.ids.truncate(end);
        if let Some(narrowed) = &mut self.narrowed {
            narrowed.cut(end);
        }
    }

    /// Narrows the rows of the groups that `name` names.
    fn narrow(&mut self, name: impl FnOnce(&mut [bool])) {
        let Some(mut narrowed) = self.narrowed.take() else { return };
        let mut is_named = vec![false; self.end().div_ceil(GROUP)];
        name(&mut is_named);
        narrowed.fill(&is_named, self);
        self.narrowed = Some(narrowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_options::DeviceOptions;

    #[test]
    fn rows_that_are_expected_do_not_move_and_keep_their_room() {
        let host = Arc::new(Host::new(DeviceOptions::default()));
        let rows = HostRows::new(host, Metric::L2, ElementKind::F32, 4, true);
        let mut rows = rows.expecting(1000).expect("memory");
        let place = |rows: &HostRows| match &rows.values {
            Stored::F32(values) => (values.as_ptr(), values.capacity()),
            Stored::F16(_) => panic!("f32 is stored"),
        };
        let before = place(&rows);
        assert!(before.1 >= 4000 && rows.end() == 0);
        for slot in 0..1000u32 {
            let row = [slot as f32; 4];
            let view = MatrixView::new(&row, 4).expect("a row");
            rows.put(view, (&[slot], &[slot.into()], &[]), |_| ()).expect("memory");
        }
        rows.release(&(10..1000).collect::<Vec<u32>>());
        rows.shrink();
        assert_eq!((place(&rows), rows.len()), (before, 10));
    }
}
