//! The rows that a search may find, as bits or as lists of slots for kernels.

use crate::bits::Bits;
use crate::engine::rows::segments::GpuRows;
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, usable};
use crate::kernels::refine::Candidates;

/// Rows that pass a filter and are in the index.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    /// A bit for each slot; 0 for tombstones.
    pub(crate) bits: Bits,
    pub(crate) count: u64,
}

impl Allowed {
    pub(crate) fn new(bits: Bits) -> Self {
        let count = bits.count_ones() as u64;
        Self { bits, count }
    }
}

/// The limits of a search: its scratch memory, and the rows it may find. Telling kernels which rows are allowed takes some of the
/// memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) budget: u64,
    /// None if every row is allowed.
    pub(crate) allowed: Option<&'a Allowed>,
}

impl Scope<'_> {
    /// How many rows can be found.
    pub(crate) fn found(self, rows: &GpuRows) -> u64 {
        self.allowed.map_or(rows.len(), |allowed| allowed.count)
    }

    pub(crate) fn bits_bytes(self) -> u64 {
        self.allowed.map_or(0, |allowed| allowed.bits.words().len() as u64 * 4)
    }

    /// Usable scratch bytes, without those of the bits.
    pub(crate) fn usable(self) -> u64 {
        usable(self.budget).saturating_sub(self.bits_bytes())
    }

    /// Copies the bits of allowed slots to a scratch buffer.
    pub(crate) async fn upload_bits(self, rows: &GpuRows, buffer: &Buffer) -> Result<()> {
        match self.allowed {
            Some(allowed) => {
                rows.gpu.upload_bytes(buffer, 0, bytemuck::cast_slice(allowed.bits.words())).await
            }
            None => Ok(()),
        }
    }

    /// The length of the list of allowed slots, if an exhaustive search uses one: if it is much shorter than all slots and leaves enough
    /// memory.
    pub(crate) fn listed(self) -> Option<u64> {
        let Allowed { bits, count } = self.allowed?;
        let is_short = 2 * count <= bits.len() as u64 && 4 * count <= usable(self.budget) / 4;
        is_short.then_some(*count)
    }

    /// How many slots an exhaustive search visits.
    pub(crate) fn visited(self, rows: &GpuRows) -> u64 {
        self.listed().unwrap_or(rows.end())
    }

    /// Bytes of the list or of the bits, whichever an exhaustive search uses.
    pub(crate) fn list_bytes(self) -> u64 {
        self.listed().map_or(self.bits_bytes(), |count| count * 4)
    }
}

/// The slots that an exhaustive search visits.
pub(crate) struct Visited<'a> {
    rows: &'a GpuRows,
    /// The allowed slots, ascending. None if all slots are visited, with or without bits.
    list: Option<Vec<u32>>,
    scope: Scope<'a>,
}

/// Neighbouring slots of a segment, or neighbours on the list of allowed slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// Number of the segment.
    pub(crate) segment: usize,
    first: u32,
    pub(crate) count: u32,
}

impl<'a> Visited<'a> {
    pub(crate) fn new(rows: &'a GpuRows, scope: Scope<'a>) -> Self {
        let list = scope.allowed.filter(|_| scope.listed().is_some());
        let slots = |allowed: &Allowed| allowed.bits.ones_in_order().map(|slot| slot as u32).collect();
        Self { rows, list: list.map(slots), scope }
    }

    /// Copies the list or the bits to a scratch buffer of [`Scope::list_bytes`].
    pub(crate) async fn upload(&self, scratch: &Buffer) -> Result<()> {
        match &self.list {
            Some(list) => self.rows.gpu.upload_bytes(scratch, 0, bytemuck::cast_slice(list)).await,
            None => self.scope.upload_bits(self.rows, scratch).await,
        }
    }

    /// All visited slots in stretches of up to `most`, each within one segment.
    pub(crate) fn stretches(&self, most: u32) -> Vec<Stretch> {
        let mut stretches = vec![];
        for (number, segment) in self.rows.segments.iter().enumerate() {
            let slots = segment.first_slot..segment.first_slot + segment.len;
            let range = match &self.list {
                None => slots,
                Some(list) => {
                    let position = |end: u32| list.partition_point(|&slot| slot < end) as u32;
                    position(slots.start)..position(slots.end)
                }
            };
            for first in range.clone().step_by(most as usize) {
                stretches.push(Stretch { segment: number, first, count: most.min(range.end - first) });
            }
        }
        stretches
    }

    /// The rows of a stretch as candidates of every query. Results of query `q` start at `q * found_pitch + found_first`.
    pub(crate) fn candidates<'b>(
        &'b self,
        stretch: Stretch,
        [found_pitch, found_first]: [u32; 2],
        scratch: &'b Buffer,
    ) -> Candidates<'b> {
        let Stretch { first, count, .. } = stretch;
        if self.list.is_some() {
            let slots = BufferSlice::all(scratch);
            return Candidates::Shared { slots, first, count, found_pitch, found_first };
        }
        let allowed = self.scope.allowed.map(|_| scratch).or(self.rows.alive_buffer()).map(BufferSlice::all);
        Candidates::Dense { first, count, found_pitch, found_first, allowed }
    }
}
