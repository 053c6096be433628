//! Which rows a search may find, and how the device is told.

use crate::bits::Bits;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::plan::usable;
use crate::error::Result;
use crate::gpu::{BufferSlice, Request};
use crate::kernels::rescore::Candidates;

/// Rows that a search may find: those of a filter that are there.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    /// By slot; no gap among them.
    bits: Bits,
    count: u64,
}

impl Allowed {
    pub(crate) fn new(bits: Bits) -> Self {
        let count = bits.count_ones() as u64;
        Self { bits, count }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn bits(&self) -> &Bits {
        &self.bits
    }

    pub(crate) fn words(&self) -> &[u32] {
        self.bits.words()
    }
}

/// The scratch memory of a search, some of which goes to what says which rows are allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'a> {
    pub(crate) budget: u64,
    pub(crate) allowed: Option<&'a Allowed>,
}

impl Room<'_> {
    /// How many rows can be found.
    pub(crate) fn found(self, rows: &GpuRows) -> u64 {
        self.allowed.map_or(rows.len(), Allowed::count)
    }

    /// Bytes of a bit a slot.
    pub(crate) fn bits_bytes(self) -> u64 {
        self.allowed.map_or(0, |allowed| allowed.words().len() as u64 * 4)
    }

    /// Whether an exhaustive search goes through a list of the allowed slots: where it is much shorter than all of them, and
    /// leaves enough memory.
    fn is_listed(self) -> bool {
        self.allowed.is_some_and(|allowed| {
            2 * allowed.count <= allowed.bits.len() as u64 && 4 * allowed.count <= usable(self.budget) / 4
        })
    }

    /// How long the list is, where there is one.
    pub(crate) fn listed(self) -> Option<u64> {
        self.allowed.filter(|_| self.is_listed()).map(Allowed::count)
    }

    /// How many slots an exhaustive search looks at.
    pub(crate) fn looked_at(self, rows: &GpuRows) -> u64 {
        self.listed().unwrap_or(rows.end())
    }

    /// Bytes of the list, or of a bit a slot.
    pub(crate) fn list_bytes(self) -> u64 {
        self.listed().map_or(self.bits_bytes(), |count| count * 4)
    }
}

/// The slots that an exhaustive search looks at.
pub(crate) struct Looked<'a> {
    rows: &'a GpuRows,
    /// Those that are allowed, ascending, where there is a list of them.
    list: Option<Vec<u32>>,
    room: Room<'a>,
}

/// Neighbouring slots of a segment, or neighbouring ones on the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// Number of the segment.
    pub(crate) segment: usize,
    first: u32,
    pub(crate) count: u32,
}

impl<'a> Looked<'a> {
    pub(crate) fn new(rows: &'a GpuRows, room: Room<'a>) -> Self {
        let list = room.allowed.filter(|_| room.is_listed());
        let slots = |allowed: &Allowed| allowed.bits.ones_in_order().map(|slot| slot as u32).collect();
        Self { rows, list: list.map(slots), room }
    }

    /// What it takes of scratch memory.
    pub(crate) fn request(&self) -> Request {
        Request { purpose: "allowed", bytes: self.room.list_bytes() }
    }

    /// Copies it there.
    pub(crate) async fn upload(&self, scratch: &wgpu::Buffer) -> Result<()> {
        let words = match (&self.list, self.room.allowed) {
            (Some(list), _) => list,
            (None, Some(allowed)) => allowed.words(),
            (None, None) => return Ok(()),
        };
        self.rows.gpu.upload_bytes(scratch, 0, bytemuck::cast_slice(words)).await
    }

    /// All of them, up to `most` at a time, none of which lie in two segments.
    pub(crate) fn stretches(&self, most: u32) -> Vec<Stretch> {
        let mut stretches = vec![];
        for (number, segment) in self.rows.segments.iter().enumerate() {
            let slots = segment.first_slot..segment.first_slot + segment.len;
            let range = match &self.list {
                None => slots,
                Some(list) => {
                    let place = |end: u32| list.partition_point(|&slot| slot < end) as u32;
                    place(slots.start)..place(slots.end)
                }
            };
            for first in range.clone().step_by(most as usize) {
                stretches.push(Stretch { segment: number, first, count: most.min(range.end - first) });
            }
        }
        stretches
    }

    /// Their rows, for every query. Results of query `q` start at `q * found_pitch + found_first`.
    pub(crate) fn candidates<'b>(
        &'b self,
        stretch: Stretch,
        [found_pitch, found_first]: [u32; 2],
        scratch: &'b wgpu::Buffer,
    ) -> Candidates<'b> {
        let Stretch { first, count, .. } = stretch;
        if self.list.is_some() {
            let slots = BufferSlice::all(scratch);
            return Candidates::Shared { slots, first, count, found_pitch, found_first };
        }
        let allowed = self.room.allowed.map(|_| scratch).or(self.rows.alive_buffer()).map(BufferSlice::all);
        Candidates::Dense { first, count, found_pitch, found_first, allowed }
    }
}
