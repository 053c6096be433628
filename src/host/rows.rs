//! Rows of an index in the host's memory: what a row store writes, reads and moves.

use std::sync::Arc;

use super::integers::GROUP;
use super::narrowed::NarrowedRows;
use super::{Host, norms};
use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::metric::Metric;

/// Rows of an index on the host engine, by their slots.
#[derive(Debug)]
pub(crate) struct HostRows {
    pub(super) host: Arc<Host>,
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) values: Stored,
    /// The squared norm of each row.
    pub(super) squared: Vec<f64>,
    pub(super) ids: Vec<u64>,
    /// Which slots have a row, where not all do.
    pub(super) alive: Option<Bits>,
    pub(super) narrowed: Option<NarrowedRows>,
}

/// Rows as they are stored, `[slots, dim]`.
#[derive(Debug)]
pub(super) enum Stored {
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
    pub(super) fn write<T: Element>(&mut self, at: usize, row: &[T]) {
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

    fn shrink(&mut self) {
        match self {
            Self::F32(values) => values.shrink_to_fit(),
            Self::F16(values) => values.shrink_to_fit(),
        }
    }
}

/// So many values, or an error where there is no memory for them.
pub(super) fn resize<T: Clone>(values: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    if len > values.len() {
        values.try_reserve(len - values.len()).map_err(|_| Error::OutOfMemory {
            purpose: "rows".to_owned(),
            bytes: (len * size_of::<T>()) as u64,
        })?;
    }
    values.resize(len, value);
    Ok(())
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
        Self { host, metric, dim, values, squared: vec![], ids: vec![], alive: None, narrowed }
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
    pub(super) fn row<'a>(&'a self, slot: usize, space: &'a mut [f32]) -> &'a [f32] {
        let range = slot * self.dim..(slot + 1) * self.dim;
        match &self.values {
            Stored::F32(values) => &values[range],
            Stored::F16(values) => super::widened(&values[range], space),
        }
    }

    /// Neighbouring rows, widened where they are not f32.
    pub(super) fn widened<'a>(&'a self, slots: std::ops::Range<usize>, space: &'a mut Vec<f32>) -> &'a [f32] {
        let range = slots.start * self.dim..slots.end * self.dim;
        match &self.values {
            Stored::F32(values) => &values[range],
            Stored::F16(values) => {
                space.resize(range.len(), 0.0);
                super::widened(&values[range], space)
            }
        }
    }

    /// Puts rows into slots that have none, and takes those of `freed` ones out; all of them or, after an error, none.
    pub(crate) fn put<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        (slots, ids, freed): (&[u32], &[u64], &[u32]),
        progress: impl FnOnce(usize),
    ) -> Result<()> {
        let squared = norms::checked("rows", rows)?;
        let (end, alive) = Bits::after(self.alive.as_ref(), self.end(), slots, freed);
        let most = slots.iter().max().map_or(self.end(), |&slot| self.end().max(slot as usize + 1));
        let before = self.end();
        if let Err(error) = self.resize(most) {
            self.cut(before);
            return Err(error);
        }
        for (row, (&slot, &id)) in slots.iter().zip(ids).enumerate() {
            let slot = slot as usize;
            self.values.write(slot * self.dim, rows.row(row));
            self.squared[slot] = squared[row];
            self.ids[slot] = id;
        }
        self.narrow(rows, slots);
        self.cut(end);
        self.alive = alive;
        progress(rows.rows());
        Ok(())
    }

    /// Room for slots up to this one.
    pub(crate) fn reserve(&mut self, end: usize) -> Result<()> {
        let before = self.end();
        let done = self.resize(end.max(before));
        self.cut(before);
        done
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

    /// Gives up memory behind the end.
    pub(crate) fn shrink(&mut self) {
        self.values.shrink();
        self.squared.shrink_to_fit();
        self.ids.shrink_to_fit();
        if let Some(narrowed) = &mut self.narrowed {
            narrowed.shrink();
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
    pub(super) fn resize(&mut self, slots: usize) -> Result<()> {
        let Some(values) = slots.checked_mul(self.dim) else {
            return Err(Error::OutOfMemory { purpose: "rows".to_owned(), bytes: u64::MAX });
        };
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

    /// Narrows rows that were put into slots, or all rows where they moved the centre.
    fn narrow<T: Element>(&mut self, rows: MatrixView<'_, T>, slots: &[u32]) {
        let Some(mut narrowed) = self.narrowed.take() else { return };
        let mut is_named = vec![narrowed.count(rows); self.end().div_ceil(GROUP)];
        slots.iter().for_each(|&slot| is_named[slot as usize / GROUP] = true);
        narrowed.fill(&is_named, self);
        self.narrowed = Some(narrowed);
    }
}
