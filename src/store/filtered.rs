//! Turns a filter, which names ids, into bits over slots.

use super::RowStore;
use super::ids::Ids;
use crate::bits::Bits;
use crate::engine::Allowed;
use crate::error::Result;
use crate::interrupt;
use crate::memory;
use crate::options::filter::{Filter, Kind};
use crate::parallel::*;

/// Calls of a filter's function between two looks at whether to stop.
const CALLS: usize = 64;

impl RowStore {
    pub(crate) fn allowed(&self, filter: &Filter<'_>) -> Result<Allowed> {
        self.ids.allowed(filter, (self.rows.alive(), self.rows.end() as usize)).map(Allowed::new)
    }
}

impl Ids {
    /// A bit for each place below the end: 1 where it is alive and its id passes a filter.
    pub(super) fn allowed(&self, filter: &Filter<'_>, (alive, end): (Option<&Bits>, usize)) -> Result<Bits> {
        let mut bits = match (filter.kind, self) {
            (Kind::Ids(ids), _) => self.bits_of_ids(ids, (alive, end))?,
            (Kind::Set(ids), _) => self.bits_of_ids(ids, (alive, end))?,
            (Kind::Bits(words), Ids::Slots) => Bits::of_words(words, end)?,
            (Kind::Bits(words), Ids::Table { ids, .. }) => Bits::from_words(bits_of(ids, words)?, end),
            (Kind::By(is_allowed), ids) => {
                let mut checked = Ok(());
                let bits = Bits::from_fn(end, |slot| {
                    if slot % CALLS == 0 && checked.is_ok() {
                        checked = interrupt::check();
                    }
                    let is_asked = checked.is_ok() && alive.is_none_or(|bits| bits.get(slot));
                    is_asked && is_allowed(ids.of(slot as u32))
                })?;
                checked?;
                bits
            }
        };
        if let Some(alive) = alive {
            bits.and(alive);
        }
        Ok(bits)
    }

    /// Sets the bits of the slots of these ids.
    fn bits_of_ids<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a u64>,
        (alive, end): (Option<&Bits>, usize),
    ) -> Result<Bits> {
        let mut bits = Bits::zeros(end)?;
        let slots = ids.into_iter().filter_map(|&id| self.slot_of(id, (alive, end)));
        slots.for_each(|slot| bits.set(slot as usize, true));
        Ok(bits)
    }
}

/// A thread looks up this many ids at least.
const IDS_A_THREAD: usize = 1 << 17;

/// A bit for each id, from `words`. The id of a slot without a row is beyond all words.
fn bits_of(ids: &[u64], words: &[u64]) -> Result<Vec<u32>> {
    let bit = |id: u64| {
        let place = (id / 64) as usize;
        let word = if place < words.len() { words[place] } else { 0 };
        (word >> (id % 64)) as u32 & 1
    };
    let fill = |(bits, ids): (&mut u32, &[u64])| {
        *bits = ids.iter().rev().fold(0, |word, &id| word << 1 | bit(id));
    };
    let mut bits = memory::filled(ids.len().div_ceil(32), 0)?;
    match ids.len() < 2 * IDS_A_THREAD {
        true => bits.iter_mut().zip(ids.chunks(32)).for_each(fill),
        false => bits.par_iter_mut().zip(ids.par_chunks(32)).with_min_len(IDS_A_THREAD / 32).for_each(fill),
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::bits_of;
    use crate::bits::Bits;
    use crate::error::Result;

    #[test]
    fn bits_of_any_ids_are_those_of_the_words() -> Result<()> {
        let words: Vec<u64> = (0..9000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for len in [0, 1, 31, 33, 1000, 262_143, 262_144, 700_001] {
            let ids: Vec<u64> = (0..len as u64)
                .map(|i| if i % 11 == 3 { u64::MAX - i } else { i.wrapping_mul(7919) % 600_000 })
                .collect();
            let is_set =
                |id: u64| words.get((id / 64) as usize).is_some_and(|word| word >> (id % 64) & 1 == 1);
            let want = Bits::from_fn(len, |slot| is_set(ids[slot]))?;
            assert_eq!(Bits::from_words(bits_of(&ids, &words)?, len), want, "{len} ids");
        }
        Ok(())
    }
}
