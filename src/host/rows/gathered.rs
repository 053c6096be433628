//! The rows that a filter allows, side by side: a search scores them alone, however they are spread over the index.

use crate::bits::Bits;
use crate::host::integers::packed::{GROUP, PackedRows};
use crate::host::rows::group::GroupTerms;
use crate::host::rows::store::HostRows;
use crate::memory;
use crate::parallel::*;

/// Rows are gathered where at most one in this many is allowed.
const SHARE: usize = 2;

/// Quantised rows, their terms, and the slots that they come from.
pub(crate) struct Gathered {
    pub(crate) rows: PackedRows,
    pub(crate) terms: Vec<GroupTerms>,
    pub(crate) slots: Vec<u32>,
}

impl Gathered {
    /// The bytes that this many rows take.
    fn bytes_of(rows: usize, dim: usize) -> u64 {
        let groups = rows.div_ceil(GROUP) as u64;
        groups * (dim.next_multiple_of(4) * GROUP + size_of::<GroupTerms>() + GROUP * size_of::<u32>()) as u64
    }

    /// The bytes that the rows take.
    pub(crate) fn bytes(&self, dim: usize) -> u64 {
        Self::bytes_of(self.slots.len(), dim)
    }
}

impl HostRows {
    /// Copies the allowed rows side by side. Returns none where more than half of the rows are allowed, or where a quarter of the budget or
    /// the memory does not hold them: a search then scores the rows where they are.
    pub(crate) fn gathered(&self, allowed: &Bits, eligible: usize, budget: u64) -> Option<Gathered> {
        let quantized = self.quantized.as_ref()?;
        if eligible > self.end() / SHARE || Gathered::bytes_of(eligible, self.dim()) > budget / 4 {
            return None;
        }
        let mut rows = PackedRows::new(self.dim());
        rows.resize(eligible).ok()?;
        let mut terms = memory::filled(eligible.div_ceil(GROUP), GroupTerms::default()).ok()?;
        let mut slots = memory::with_room(eligible).ok()?;
        slots.extend(allowed.ones_in_order().map(|slot| slot as u32));
        let groups = rows.par_groups_mut().zip(terms.par_iter_mut()).zip(slots.par_chunks(GROUP));
        groups.for_each(|((lines, terms), slots)| {
            for (lane, &slot) in slots.iter().enumerate() {
                let slot = slot as usize;
                quantized.rows.copy_lane(slot, lines, lane);
                terms.put(lane, quantized.terms[slot / GROUP].lane(slot % GROUP));
            }
        });
        Some(Gathered { rows, terms, slots })
    }
}
