//! The quantised copy of an index's rows: small integers in groups of 16, and the terms of each row.

use crate::parallel::*;

use crate::elements::{HostVectors, with_view};
use crate::error::Result;
use crate::host::integers::packed::{GROUP, PackedRows, set_lane};
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
    pub(crate) rows: PackedRows,
    pub(crate) terms: Vec<GroupTerms>,
}

/// Fewer groups are not worth waking other threads.
const FEW_GROUPS: usize = 8;

impl QuantizedRows {
    pub(crate) fn new(metric: Metric, dim: usize) -> Self {
        Self { quantizer: Quantizer::new(metric, dim), rows: PackedRows::new(dim), terms: vec![] }
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
        self.rows.resize(rows)
    }

    /// Reserves memory for `rows` rows in all, and for no more.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        memory::reserve_exact(&mut self.terms, rows.div_ceil(GROUP))?;
        self.rows.reserve(rows)
    }

    /// The bytes that this many rows take.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        let group = size_of::<GroupTerms>() as u64 + self.rows.group_bytes();
        rows.div_ceil(GROUP as u64).saturating_mul(group)
    }

    /// Drops the rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.terms.truncate(rows.div_ceil(GROUP));
        self.rows.truncate(rows);
    }

    /// Quantises the rows of the groups whose flag is set. `end` is one past the last slot.
    pub(crate) fn quantize_groups(&mut self, is_changed: &[bool], values: &RowValues, end: usize) {
        let Self { quantizer, rows, terms } = self;
        let quantize = |(group, (lines, terms)): (usize, (&mut [_], &mut GroupTerms))| {
            if !is_changed[group] {
                return;
            }
            let (mut scratch, mut integers) = (vec![0.0; values.dim], vec![0; values.dim]);
            for slot in group * GROUP..end.min((group + 1) * GROUP) {
                let of_row =
                    quantizer.quantize(values.row(slot, &mut scratch), values.squared[slot], &mut integers);
                set_lane(lines, slot % GROUP, &integers);
                terms.set(slot % GROUP, quantizer.form, quantizer.margin, of_row);
            }
        };
        if is_changed.iter().filter(|changed| **changed).count() < FEW_GROUPS {
            rows.groups_mut().zip(terms).enumerate().for_each(quantize);
        } else {
            rows.par_groups_mut().zip(terms.par_iter_mut()).enumerate().for_each(quantize);
        }
    }

    /// Quantises rows into these slots. Rows of a file are not read for it again.
    pub(crate) fn quantize_rows(
        &mut self,
        slots: &[u32],
        vectors: HostVectors<'_>,
        squared: &[f64],
    ) -> Result<()> {
        let Self { quantizer, rows, terms } = self;
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
        let Self { quantizer, rows, terms } = self;
        let of_row = quantizer.quantize(row, squared, &mut integers);
        if let Some(lines) = rows.groups_mut().nth(slot / GROUP) {
            set_lane(lines, slot % GROUP, &integers);
        }
        terms[slot / GROUP].set(slot % GROUP, quantizer.form, quantizer.margin, of_row);
    }

    /// Copies the row in slot `from` to slot `to`.
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        self.rows.relocate(from, to);
        let lane = self.terms[from / GROUP].lane(from % GROUP);
        self.terms[to / GROUP].put(to % GROUP, lane);
    }

    /// Frees memory beyond that of `rows` rows.
    pub(crate) fn shrink(&mut self, rows: usize) {
        self.rows.shrink(rows);
        memory::shrink(&mut self.terms, rows.div_ceil(GROUP));
    }
}
