//! The memory of rows on the host: reserved before a change, so that the change cannot fail, and counted towards the limit.

use crate::error::Result;
use crate::host::integers::packed::PackedRows;
use crate::host::rows::store::HostRows;
use crate::memory;
use crate::options::residency::Residency;
use crate::usage::Memory;

impl HostRows {
    /// Reserves memory for the slots below `end`, and for more where rows have to move anyway and there is room for it.
    pub(super) fn reserve(&mut self, end: usize) -> Result<()> {
        let room = self.room;
        if end <= room {
            return Ok(());
        }
        // The first reservation is exact. Later ones double the room; near the limit they add a sixteenth, then what is needed.
        let more = [2 * room, end + room / 16].into_iter().filter(|&more| room > 0 && more > end);
        let reserved = more.map(|more| self.reserve_exact(more)).find(Result::is_ok);
        reserved.unwrap_or_else(|| self.reserve_exact(end))
    }

    fn reserve_exact(&mut self, room: usize) -> Result<()> {
        let what = if self.values.file().is_some() { "" } else { "rows, " };
        let copies = if self.values.codes().is_some() { "terms" } else { "8-bit copies" };
        let purpose = || format!("{what}norms, ids and {copies} of {room} rows");
        let before = self.share.bytes();
        self.share.resize(purpose, self.bytes_of(room as u64))?;
        let reserved = self.reserve_parts(room);
        match reserved {
            Ok(()) => self.room = room,
            Err(_) => {
                self.shrink_parts(self.room);
                self.share.resize(String::new, before)?;
            }
        }
        reserved
    }

    fn reserve_parts(&mut self, room: usize) -> Result<()> {
        self.values.reserve(room)?;
        if let Some(quantized) = &mut self.quantized {
            quantized.reserve(room)?;
        }
        memory::reserve_exact(&mut self.ids, room)
    }

    fn shrink_parts(&mut self, room: usize) {
        self.values.shrink(room);
        self.ids.shrink_to(room);
        if let Some(quantized) = &mut self.quantized {
            quantized.shrink(room);
        }
    }

    /// Bytes of this many rows in memory, with their norms, ids and 8-bit copies.
    fn bytes_of(&self, rows: u64) -> u64 {
        let values = if self.values.file().is_some() { 0 } else { self.values.bytes_of(rows) };
        let quantized = self.quantized.as_ref().map_or(0, |quantized| quantized.bytes_of(rows));
        values.saturating_add(quantized).saturating_add(rows.saturating_mul(16))
    }

    /// Frees memory behind the end, except that of expected rows.
    pub(crate) fn shrink(&mut self) {
        self.shrink_parts(self.expected);
        self.room = self.end().max(self.expected);
        let bytes = self.bytes_of(self.room as u64).min(self.share.bytes());
        // Fewer bytes are never refused.
        self.share.resize(String::new, bytes).ok();
    }

    /// Resizes to `slots` slots; new ones hold no row yet. The limit counts reserved memory alone, so callers reserve first.
    pub(crate) fn resize(&mut self, slots: usize) -> Result<()> {
        self.values.resize(slots)?;
        if let Some(quantized) = &mut self.quantized {
            quantized.resize(slots)?;
        }
        memory::resize(&mut self.ids, slots, 0)
    }

    /// Drops the slots from `end` on.
    pub(super) fn truncate(&mut self, end: usize) {
        self.values.truncate(end);
        self.ids.truncate(end);
        if let Some(quantized) = &mut self.quantized {
            quantized.truncate(end);
        }
    }

    /// Adds the memory of the rows.
    pub(crate) fn measure(&self, memory: &mut Memory) {
        memory.add("rows", Residency::Host, self.values.capacity_bytes());
        if let Some(mapped) = self.values.file() {
            mapped.measure(memory);
        }
        memory.add_vec("norms", &self.values.squared);
        memory.add_vec("ids", &self.ids);
        if let Some(alive) = &self.alive {
            memory.add("tombstones", Residency::Host, 4 * alive.words().len() as u64);
        }
        if let Some(quantized) = &self.quantized {
            let copy = quantized.copy.as_ref().map_or(0, PackedRows::capacity_bytes);
            memory.add("integers", Residency::Host, copy);
            memory.add_vec("integers", &quantized.terms);
        }
    }
}
