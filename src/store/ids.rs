//! The ids of the slots.

use std::collections::HashMap;

/// In the place of the id of a slot without a row.
const FREE: u64 = u64::MAX;

/// Which slot has which id.
#[derive(Debug)]
pub(super) enum Ids {
    /// The id of every row is the number of its slot: rows with insertion numbers, of which none was moved. No table is kept.
    Slots,
    /// Any ids.
    Table {
        /// By slot, FREE for a gap.
        ids: Vec<u64>,
        slots: HashMap<u64, u32>,
    },
}

impl Ids {
    /// The id of each slot, but for `slots`, which have `new` ones.
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

    /// In these slots are the rows with these ids.
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

    /// There is no row any more with the ids of these slots.
    pub(super) fn forget(&mut self, gone: &[u32]) {
        let Self::Table { ids, slots } = self else { return };
        for &slot in gone {
            slots.remove(&ids[slot as usize]);
        }
    }

    /// These slots have no row any more, nor has any from slot `end` on.
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
