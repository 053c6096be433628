//! The ids of the slots.

use std::collections::{HashMap, HashSet};

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::memory;
use crate::options::ids::ID_LIMIT;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// Ids that are looked up between two looks at whether to stop.
const AT_ONCE: usize = 1 << 16;

/// Stands for the id of a slot without a row.
const FREE: u64 = u64::MAX;

/// The ids of slots, and the slots of ids.
#[derive(Debug)]
pub(super) enum Ids {
    /// The id of every row is the number of its slot: rows have insertion numbers and never moved.
    Slots,
    /// Any ids.
    Table {
        /// By slot; FREE in a tombstone.
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

    fn measure(&self, memory: &mut Memory) {
        memory.add_vec("ids", &self.near);
        let entry = size_of::<(u64, u32)>() + 1;
        memory.add("ids", Residency::Host, (self.far.capacity() * entry) as u64);
    }

    /// All ids, in any order.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        let near = (0..).zip(&self.near).filter(|&(_, &slot)| slot != NONE).map(|(id, _)| id);
        near.chain(self.far.keys().copied())
    }

    /// The places of ids that are not large, when these are noted in an index with `end` slots.
    fn places(&self, end: usize, ids: &[u64]) -> usize {
        let limit = 2 * end as u64;
        let most = ids.iter().filter(|&&id| id < limit).max().map_or(0, |&id| id as usize + 1);
        self.near.len().max(most)
    }

    /// Reserves the memory that [`note`](Self::note) takes for the same ids.
    fn reserve(&mut self, end: usize, ids: &[u64]) -> Result<()> {
        let places = self.places(end, ids);
        memory::reserve(&mut self.near, places)?;
        let more = ids.iter().filter(|&&id| id >= places as u64 && !self.far.contains_key(&id)).count();
        let bytes = (self.far.len() + more) * size_of::<(u64, u32)>();
        memory::granted(self.far.try_reserve(more), bytes as u64)
    }

    /// Notes the slots of ids, of an index with `end` slots.
    fn note(&mut self, end: usize, ids: &[u64], slots: &[u32]) {
        self.near.resize(self.places(end, ids), NONE);
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
    /// A table of `end` slots, in which the id of a row is the number of its slot.
    pub(super) fn table(end: u32, has_row: impl Fn(u32) -> bool) -> Result<Self> {
        let ids = memory::collect((0..end).map(|slot| if has_row(slot) { slot.into() } else { FREE }))?;
        let near = memory::collect((0..end).map(|slot| if has_row(slot) { slot } else { NONE }))?;
        Ok(Self::Table { ids, slots: SlotsOf { near, far: HashMap::new() } })
    }

    /// Whether noting these ids needs a table in place of [`Ids::Slots`].
    pub(super) fn needs_table(&self, ids: &[u64], slots: &[u32]) -> bool {
        let is_slot = |(&id, &slot): (&u64, &u32)| id == u64::from(slot);
        matches!(self, Self::Slots) && !ids.iter().zip(slots).all(is_slot)
    }

    /// The slot of an id, among those below the end that are alive.
    pub(super) fn slot_of(&self, id: u64, (alive, end): (Option<&Bits>, usize)) -> Option<u32> {
        let is_there =
            |&slot: &u32| (slot as usize) < end && alive.is_none_or(|bits| bits.get(slot as usize));
        match self {
            Self::Slots => u32::try_from(id).ok().filter(is_there),
            Self::Table { slots, .. } => slots.get(id),
        }
    }

    /// The first of `count` successive numbers from `next` on that are no ids. Ids stay below the limit.
    pub(super) fn free_numbers(next: u64, count: usize, contains: impl Fn(u64) -> bool) -> Result<u64> {
        let (mut first, mut number) = (next, next);
        while number - first < count as u64 {
            if contains(number) {
                first = number + 1;
            }
            number += 1;
        }
        match number > ID_LIMIT {
            true => Err(Error::IdTooLarge { id: ID_LIMIT }),
            false => Ok(first),
        }
    }

    /// The id of a slot that has a row.
    pub(super) fn of(&self, slot: u32) -> u64 {
        match self {
            Self::Slots => slot.into(),
            Self::Table { ids, .. } => ids[slot as usize],
        }
    }

    /// Reserves the memory that [`note`](Self::note) takes for the same ids and slots.
    pub(super) fn reserve(&mut self, new: &[u64], new_slots: &[u32]) -> Result<()> {
        let Self::Table { ids, slots } = self else { return Ok(()) };
        let end = end_with(ids, new_slots);
        memory::reserve(ids, end)?;
        slots.reserve(end, new)
    }

    /// Notes that rows with these ids lie in these slots.
    pub(super) fn note(&mut self, new: &[u64], new_slots: &[u32]) {
        let Self::Table { ids, slots } = self else { return };
        ids.resize(end_with(ids, new_slots), FREE);
        for (&id, &slot) in new.iter().zip(new_slots) {
            ids[slot as usize] = id;
        }
        slots.note(ids.len(), new, new_slots);
    }

    pub(super) fn measure(&self, memory: &mut Memory) {
        let Self::Table { ids, slots } = self else { return };
        memory.add_vec("ids", ids);
        slots.measure(memory);
    }

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

/// Checks the ids of `count` new rows or documents.
pub(super) fn check_new(ids: &[u64], count: usize, contains: impl Fn(u64) -> bool) -> Result<()> {
    if ids.len() != count {
        return Err(Error::argument("ids", format!("{count} ids, one for each"), ids.len()));
    }
    if let Some(&id) = ids.iter().find(|&&id| id >= ID_LIMIT) {
        return Err(Error::IdTooLarge { id });
    }
    let mut seen = HashSet::new();
    memory::granted(seen.try_reserve(count), count as u64 * size_of::<u64>() as u64)?;
    for ids in ids.chunks(AT_ONCE) {
        interrupt::check()?;
        if let Some(&id) = ids.iter().find(|&&id| contains(id) || !seen.insert(id)) {
            return Err(Error::DuplicateId { id });
        }
    }
    Ok(())
}

/// The end of the slots that have these ids, with new ones.
fn end_with(ids: &[u64], slots: &[u32]) -> usize {
    slots.iter().max().map_or(0, |&slot| slot as usize + 1).max(ids.len())
}

#[cfg(test)]
mod tests {
    use super::{Ids, SlotsOf};

    #[test]
    fn noting_takes_no_memory_that_was_not_reserved() {
        let mut ids = Ids::table(1000, |slot| slot % 3 > 0).expect("memory");
        let capacities = |ids: &Ids| match ids {
            Ids::Slots => [0; 3],
            Ids::Table { ids, slots } => [ids.capacity(), slots.near.capacity(), slots.far.capacity()],
        };
        for first in [1000u32, 5000, 20_000] {
            let slots: Vec<u32> = (first..2 * first).collect();
            let new: Vec<u64> = slots
                .iter()
                .map(|&slot| if slot % 2 == 0 { slot.into() } else { 1 << 40 | u64::from(slot) })
                .collect();
            ids.reserve(&new, &slots).expect("memory");
            let reserved = capacities(&ids);
            ids.note(&new, &slots);
            assert_eq!(capacities(&ids), reserved);
            assert_eq!(ids.of(2 * first - 1), new[first as usize - 1]);
        }
    }

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
