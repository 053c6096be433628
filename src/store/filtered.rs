//! What a filter says about ids, as bits over slots.

use super::RowStore;
use super::ids::Ids;
use crate::bits::Bits;
use crate::engine::Allowed;
use crate::filter::{Filter, Kind};

impl RowStore {
    /// The rows that a filter lets pass.
    pub(crate) fn allowed(&self, filter: &Filter<'_>) -> Allowed {
        let end = self.rows.end() as usize;
        let mut bits = match (filter.kind, &self.ids) {
            (Kind::Ids(ids), _) => {
                let mut bits = Bits::zeros(end);
                let slots = ids.iter().filter_map(|&id| self.slot_of(id));
                slots.for_each(|slot| bits.set(slot as usize, true));
                bits
            }
            (Kind::Bits(words), Ids::Slots) => Bits::of_words(words, end),
            // The id of a slot without a row lies behind all bits.
            (Kind::Bits(words), Ids::Table { ids, .. }) => Bits::from_fn(end, |slot| {
                let id = ids[slot];
                words.get((id / 64) as usize).is_some_and(|word| word >> (id % 64) & 1 == 1)
            }),
            (Kind::By(is_allowed), ids) => {
                let alive = self.rows.alive();
                Bits::from_fn(end, |slot| {
                    alive.is_none_or(|bits| bits.get(slot)) && is_allowed(ids.of(slot as u32))
                })
            }
        };
        if let Some(alive) = self.rows.alive() {
            bits.and(alive);
        }
        Allowed::new(bits)
    }
}
