//! The rows that a filter allows, side by side: a search takes them alone, however they are spread over the index.

use crate::bits::Bits;
use crate::host::integers::packed::{GROUP, PackedRows};
use crate::host::rows::group::GroupTerms;
use crate::host::rows::store::HostRows;
use crate::memory;
use crate::parallel::*;

/// Rows are gathered where at most one in this many is allowed, for few queries and for many.
const SHARES: [usize; 2] = [4, 2];

/// For fewer queries than this, codes stay where they are: copying those of a row takes as long as scoring it for some queries.
pub(crate) const FEW: usize = 8;

/// One query computes the distances of the allowed rows, without scores, if there are fewer than 3 for every 2 groups of 16 that have one:
/// the scores of a group that is read alone take about as long as two distances.
const DENSE: [usize; 2] = [3, 2];

/// The slots of rows, in the order in which they are taken, and copies of their codes. Rows that are not quantised are scored as they lie.
pub(crate) struct Gathered {
    pub(crate) slots: Vec<u32>,
    pub(crate) codes: Option<Codes>,
    /// Whether rows are scored. Otherwise their distances are computed at once.
    pub(crate) is_scored: bool,
}

/// Quantised rows, and their terms.
pub(crate) struct Codes {
    pub(crate) rows: PackedRows,
    pub(crate) terms: Vec<GroupTerms>,
}

impl Gathered {
    /// The bytes that this many rows take.
    fn bytes_of(rows: usize, dim: usize, has_codes: bool) -> u64 {
        let codes = dim.next_multiple_of(4) * GROUP + size_of::<GroupTerms>();
        let each = GROUP * size_of::<u32>() + if has_codes { codes } else { 0 };
        rows.div_ceil(GROUP) as u64 * each as u64
    }

    /// The bytes that the rows take.
    pub(crate) fn bytes(&self, dim: usize) -> u64 {
        Self::bytes_of(self.slots.len(), dim, self.codes.is_some())
    }
}

impl HostRows {
    /// Lists the allowed rows, given by their slots in any order, and copies their codes where enough queries score each. None where scoring
    /// rows in place takes less time, or where a quarter of the budget or the memory does not hold them.
    pub(crate) fn gathered(
        &self,
        allowed: &Bits,
        (eligible, queries): (usize, usize),
        budget: u64,
        slots: impl Iterator<Item = usize>,
    ) -> Option<Gathered> {
        let is_few = queries < FEW;
        let is_short = eligible <= self.end() / SHARES[usize::from(!is_few)];
        let has_codes = self.is_quantized() && !is_few;
        let is_listed = match self.is_quantized() && is_few {
            // A row that is its own code lies in as many lines of memory as its group: its distance takes as long as the group's scores.
            true if self.values.codes().is_some() => false,
            true => eligible * queries * DENSE[1] < Self::groups_with(allowed) * DENSE[0],
            false => is_short,
        };
        if !is_listed || Gathered::bytes_of(eligible, self.dim(), has_codes) > budget / 4 {
            return None;
        }
        let mut list = memory::with_room(eligible).ok()?;
        list.extend(slots.map(|slot| slot as u32));
        let codes = if has_codes { Some(self.codes_of(&list)?) } else { None };
        let is_scored = has_codes || !self.is_quantized();
        Some(Gathered { slots: list, codes, is_scored })
    }

    /// The number of groups with an allowed row.
    pub(crate) fn groups_with(allowed: &Bits) -> usize {
        const { assert!(GROUP == 16, "a word has the bits of two groups") };
        let words = allowed.words().iter();
        words.map(|&word| usize::from(word as u16 != 0) + usize::from(word >> 16 != 0)).sum()
    }

    /// Copies of the codes of rows; none where there is no memory for them.
    fn codes_of(&self, slots: &[u32]) -> Option<Codes> {
        let (own, own_terms) = self.codes()?;
        let mut rows = PackedRows::new(self.dim());
        rows.resize(slots.len()).ok()?;
        let mut terms = memory::filled(slots.len().div_ceil(GROUP), GroupTerms::default()).ok()?;
        let groups = rows.par_groups_mut().zip(terms.par_iter_mut()).zip(slots.par_chunks(GROUP));
        groups.for_each(|((lines, terms), slots)| {
            for (lane, &slot) in slots.iter().enumerate() {
                let slot = slot as usize;
                own.copy_lane(slot, lines, lane);
                terms.put(lane, own_terms[slot / GROUP].lane(slot % GROUP));
            }
        });
        Some(Codes { rows, terms })
    }
}
