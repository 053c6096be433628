//! The quantised copy of an index's rows: small integers in groups of 16, and the terms of each row.

use crate::parallel::*;

use crate::elements::{ElementKind, HostVectors, with_view};
use crate::error::Result;
use crate::host::integers::packed::{GROUP, Line, PackedRows, set_lane};
use crate::host::rows::group::GroupTerms;
use crate::host::rows::quantizer::Quantizer;
use crate::host::rows::values::RowValues;
use crate::memory;
use crate::metric::Metric;
use crate::screen::certificate::Margin;

/// Rows as integers in groups of 16, with their terms.
#[derive(Debug)]
pub(crate) struct QuantizedRows {
    pub(crate) quantizer: Quantizer,
    /// None where rows are their own codes.
    pub(crate) copy: Option<PackedRows>,
    pub(crate) terms: Vec<GroupTerms>,
}

/// Fewer groups are not worth waking other threads.
const FEW_GROUPS: usize = 8;

impl QuantizedRows {
    pub(crate) fn new(metric: Metric, dim: usize) -> Self {
        Self { quantizer: Quantizer::new(metric, dim), copy: Some(PackedRows::new(dim)), terms: vec![] }
    }

    /// The terms of rows that are their own codes.
    pub(crate) fn of_codes(metric: Metric, elements: ElementKind, dim: usize) -> Self {
        Self { quantizer: Quantizer::of_codes(metric, elements, dim), copy: None, terms: vec![] }
    }

    /// Counts new rows towards the centre. Returns true when the centre has moved, and all rows must be quantised anew.
    pub(crate) fn count(&mut self, rows: HostVectors<'_>) -> Result<bool> {
        let Quantizer { centre, form, margin, .. } = &mut self.quantizer;
        let is_moved = with_view!(rows, rows => centre.count(rows));
        if is_moved {
            *margin = Margin::around(*form, centre.values());
        }
        Ok(is_moved)
    }

    /// Resizes to `rows` rows.
    pub(crate) fn resize(&mut self, rows: usize) -> Result<()> {
        memory::resize(&mut self.terms, rows.div_ceil(GROUP), GroupTerms::default())?;
        self.copy.as_mut().map_or(Ok(()), |copy| copy.resize(rows))
    }

    /// Reserves memory for `rows` rows in all, and for no more.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        memory::reserve_exact(&mut self.terms, rows.div_ceil(GROUP))?;
        self.copy.as_mut().map_or(Ok(()), |copy| copy.reserve(rows))
    }

    /// The bytes that this many rows take.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        let terms = rows.div_ceil(GROUP as u64).saturating_mul(size_of::<GroupTerms>() as u64);
        terms.saturating_add(self.copy.as_ref().map_or(0, |copy| copy.bytes_of(rows)))
    }

    /// Drops the rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.terms.truncate(rows.div_ceil(GROUP));
        self.copy.iter_mut().for_each(|copy| copy.truncate(rows));
    }

    /// Quantises the rows of the groups whose flag is set. `end` is one past the last slot.
    pub(crate) fn quantize_groups(&mut self, is_changed: &[bool], values: &RowValues, end: usize) {
        let Self { quantizer, copy, terms } = self;
        let quantize = |(group, (lines, terms)): (usize, (&mut [_], &mut GroupTerms))| {
            if !is_changed[group] {
                return;
            }
            let (mut scratch, mut integers) = (vec![0.0; values.dim], vec![0; values.dim]);
            for slot in group * GROUP..end.min((group + 1) * GROUP) {
                let row = values.row(slot, &mut scratch);
                let of_row = quantizer.quantize_row(row, values.squared[slot], &mut integers);
                // Without a copy there are no lines to write to.
                set_lane(lines, slot % GROUP, &integers);
                terms.set(slot % GROUP, quantizer.form, quantizer.margin, of_row);
            }
        };
        let is_short = is_changed.iter().filter(|changed| **changed).count() < FEW_GROUPS;
        match copy {
            Some(copy) if is_short => copy.groups_mut().zip(terms).enumerate().for_each(quantize),
            Some(copy) => copy.par_groups_mut().zip(terms.par_iter_mut()).enumerate().for_each(quantize),
            None if is_short => terms.iter_mut().map(without_lines).enumerate().for_each(quantize),
            None => terms.par_iter_mut().map(without_lines).enumerate().for_each(quantize),
        }
    }

    /// Quantises rows into these slots of a copy. Rows of a file are not read for it again.
    pub(crate) fn quantize_rows(
        &mut self,
        slots: &[u32],
        vectors: HostVectors<'_>,
        squared: &[f64],
    ) -> Result<()> {
        let Self { quantizer, copy: Some(rows), terms } = self else { return Ok(()) };
        let mut places: Vec<(u32, usize)> = memory::collect(slots.iter().copied().zip(0..slots.len()))?;
        places.par_sort_unstable();
        let in_groups: Vec<_> = places.chunk_by(|a, b| a.0 / GROUP as u32 == b.0 / GROUP as u32).collect();
        let quantize = |(group, (lines, terms)): (usize, (&mut [_], &mut GroupTerms))| {
            let of_group = |of: &&[(u32, usize)]| of[0].0 as usize / GROUP;
            let Ok(place) = in_groups.binary_search_by_key(&group, of_group) else { return };
            let (mut scratch, mut integers) = (vec![], vec![0; vectors.dim()]);
            for &(slot, row) in in_groups[place] {
                let values = vectors.row(row).widened_in(&mut scratch);
                let of_row = quantizer.quantize(values, squared[row], &mut integers);
                set_lane(lines, slot as usize % GROUP, &integers);
                terms.set(slot as usize % GROUP, quantizer.form, quantizer.margin, of_row);
            }
        };
        rows.par_groups_mut().zip(terms.par_iter_mut()).enumerate().for_each(quantize);
        Ok(())
    }

    /// Sets the row in a slot.
    pub(crate) fn set(&mut self, slot: usize, row: &[f32], squared: f64) {
        let mut integers = vec![0; row.len()];
        let Self { quantizer, copy, terms } = self;
        let of_row = quantizer.quantize_row(row, squared, &mut integers);
        if let Some(lines) = copy.as_mut().and_then(|copy| copy.group_mut(slot / GROUP)) {
            set_lane(lines, slot % GROUP, &integers);
        }
        terms[slot / GROUP].set(slot % GROUP, quantizer.form, quantizer.margin, of_row);
    }

    /// Copies the row in slot `from` to slot `to`.
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        self.copy.iter_mut().for_each(|copy| copy.relocate(from, to));
        let lane = self.terms[from / GROUP].lane(from % GROUP);
        self.terms[to / GROUP].put(to % GROUP, lane);
    }

    /// Frees memory beyond that of `rows` rows.
    pub(crate) fn shrink(&mut self, rows: usize) {
        self.copy.iter_mut().for_each(|copy| copy.shrink(rows));
        memory::shrink(&mut self.terms, rows.div_ceil(GROUP));
    }
}

/// A group of rows that are their own codes.
fn without_lines(terms: &mut GroupTerms) -> (&mut [Line], &mut GroupTerms) {
    (&mut [], terms)
}
