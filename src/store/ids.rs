//! The ids of the slots.

use std::collections::HashMap;

use crate::memory::{Memory, MemoryPlace};

/// Stands for the id of a slot without a row.
const FREE: u64 = u64::MAX;

/// The ids of slots, and the slots of ids.
#[derive(Debug)]
pub(super) enum Ids {
    /// The id of every row is the number of its slot: rows have insertion numbers and never moved.
    Slots,
    /// Any ids.
    Table {
        /// By slot; FREE in a gap.
        ids: Vec<u64>,
        slots: SlotsOf,
    },
}

/// The slot of each id. Most indexes have insertion numbers, and a place for each number takes less time and memory than a map.
#[derive(Debug, Default)]
pub(super) struct SlotsOf {
    /// By id; NONE for an id that is not here.
    near: Vec<u32>,
    /// Ids that are large beside the number of slots.
    far: HashMap<u64, u32>,
}

/// Stands for the slot of an id that no row has.
const NONE: u32 = u32::MAX;

impl SlotsOf {
    pub(super) fn get(&self, id: u64) -> Option<u32> {
        match self.near.get(id as usize).filter(|_| id < self.near.len() as u64) {
            Some(&slot) if slot != NONE => Some(slot),
            _ => self.far.get(&id).copied(),
        }
    }

    /// Adds the memory of the table.
    pub(super) fn measure(&self, memory: &mut Memory) {
        memory.add_vec("ids", &self.near);
        let entry = size_of::<(u64, u32)>() + 1;
        memory.add("ids", MemoryPlace::Host, (self.far.capacity() * entry) as u64);
    }

    /// All ids, in any order.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        let near = (0..).zip(&self.near).filter(|&(_, &slot)| slot != NONE).map(|(id, _)| id);
        near.chain(self.far.keys().copied())
    }

    /// Notes the slots of ids, of an index with `end` slots.
    fn note(&mut self, end: usize, ids: &[u64], slots: &[u32]) {
        let limit = 2 * end as u64;
        let most = ids.iter().filter(|&&id| id < limit).max().map_or(0, |&id| id as usize + 1);
        self.near.resize(self.near.len().max(most), NONE);
        for (&id, &slot) in ids.iter().zip(slots) {
            if id < self.near.len() as u64 {
                self.near[id as usize] = slot;
                self.forget_far(id);
            } else {
                self.far.insert(id, slot);
            }
        }
    }

    fn forget(&mut self, id: u64) {
        if id < self.near.len() as u64 {
            self.near[id as usize] = NONE;
        }
        self.forget_far(id);
    }

    fn forget_far(&mut self, id: u64) {
        // An empty map would compute the hash of each id as well.
        if !self.far.is_empty() {
            self.far.remove(&id);
        }
    }
}

impl Ids {
    /// A table of the ids before, except that `slots` have `new` ones.
    pub(super) fn table(before: impl Iterator<Item = Option<u64>>, new: &[u64], slots: &[u32]) -> Self {
        let mut ids: Vec<u64> = before.map(|id| id.unwrap_or(FREE)).collect();
        for (&id, &slot) in new.iter().zip(slots) {
            ids[slot as usize] = id;
        }
        let entries = ids.iter().copied().zip(0..).filter(|&(id, _)| id != FREE);
        let (all, all_slots): (Vec<u64>, Vec<u32>) = entries.unzip();
        let mut slots = SlotsOf::default();
        slots.note(ids.len(), &all, &all_slots);
        Self::Table { ids, slots }
    }

    /// The id of a slot that has a row.
    pub(super) fn of(&self, slot: u32) -> u64 {
        match self {
            Self::Slots => slot.into(),
            Self::Table { ids, .. } => ids[slot as usize],
        }
    }

    /// Notes that rows with these ids lie in these slots.
    pub(super) fn note(&mut self, new: &[u64], new_slots: &[u32]) {
        let Self::Table { ids, slots } = self else { return };
        let end = new_slots.iter().max().map_or(0, |&slot| slot as usize + 1);
        ids.resize(ids.len().max(end), FREE);
        for (&id, &slot) in new.iter().zip(new_slots) {
            ids[slot as usize] = id;
        }
        slots.note(ids.len(), new, new_slots);
    }

    /// Forgets the ids of these slots.
    pub(super) fn forget(&mut self, gone: &[u32]) {
        let Self::Table { ids, slots } = self else { return };
        for &slot in gone {
            slots.forget(ids[slot as usize]);
        }
    }

    /// Marks these slots, and all from slot `end` on, as free.
    pub(super) fn vacate(&mut self, gone: &[u32], end: u64) {
        let Self::Table { ids, .. } = self else { return };
        ids.truncate(end as usize);
        for &slot in gone {
            if let Some(place) = ids.get_mut(slot as usize) {
                *place = FREE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SlotsOf;

    #[test]
    fn an_id_has_its_last_slot_whether_it_was_large_or_not() {
        let mut slots = SlotsOf::default();
        slots.note(2, &[9, 1], &[0, 1]);
        assert_eq!([0, 1, 9, 1 << 40].map(|id| slots.get(id)), [None, Some(1), Some(0), None]);
        // Among ten slots, 9 is not large any more.
        slots.note(10, &[9, 12, 1 << 40], &[4, 5, 6]);
        assert_eq!([1, 9, 12, 1 << 40].map(|id| slots.get(id)), [Some(1), Some(4), Some(5), Some(6)]);
        slots.forget(9);
        slots.forget(1 << 40);
        assert_eq!([9, 1 << 40].map(|id| slots.get(id)), [None; 2]);
        assert_eq!(slots.ids().collect::<Vec<_>>(), [1, 12]);
    }
}
