//! The ids of the slots.

use std::collections::HashMap;

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
        slots: HashMap<u64, u32>,
    },
}

impl Ids {
    /// A table of the ids before, except that `slots` have `new` ones.
    pub(super) fn table(before: impl Iterator<Item = Option<u64>>, new: &[u64], slots: &[u32]) -> Self {
        let mut ids: Vec<u64> = before.map(|id| id.unwrap_or(FREE)).collect();
        for (&id, &slot) in new.iter().zip(slots) {
            ids[slot as usize] = id;
        }
        let entries = (0..).zip(&ids).filter(|&(_, &id)| id != FREE);
        let slots = entries.map(|(slot, &id)| (id, slot)).collect();
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
        slots.reserve(new.len());
        for (&id, &slot) in new.iter().zip(new_slots) {
            ids[slot as usize] = id;
            slots.insert(id, slot);
        }
    }

    /// Forgets the ids of these slots.
    pub(super) fn forget(&mut self, gone: &[u32]) {
        let Self::Table { ids, slots } = self else { return };
        for &slot in gone {
            slots.remove(&ids[slot as usize]);
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
