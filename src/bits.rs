//! Bit sets with one bit per slot, in the words that kernels read.
//!
//! No crate does this in less: `fixedbitset` cannot fail for want of memory and has words of a target's own size; `bitvec` needs all of the
//! constructors below, leaves bits behind the end undefined, and brings four crates.

use std::ops::Range;

use crate::error::Result;
use crate::memory;

const WORD: usize = 32;

/// A set of `len` bits. Unused bits of the last word are 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u32>,
    len: usize,
}

impl Bits {
    pub(crate) fn zeros(len: usize) -> Result<Self> {
        Ok(Self { words: memory::filled(len.div_ceil(WORD), 0)?, len })
    }

    pub(crate) fn ones(len: usize) -> Result<Self> {
        let mut bits = Self { words: memory::filled(len.div_ceil(WORD), u32::MAX)?, len };
        bits.clear_behind();
        Ok(bits)
    }

    /// The first `len` bits of 64-bit words, from the lowest bit. Missing bits are 0.
    pub(crate) fn of_words(words: &[u64], len: usize) -> Result<Self> {
        let wanted = len.div_ceil(2 * WORD).min(words.len());
        let mut bits = Self { words: memory::with_room(2 * len.div_ceil(2 * WORD))?, len };
        bits.words.extend(words[..wanted].iter().flat_map(|&word| [word as u32, (word >> 32) as u32]));
        bits.words.resize(len.div_ceil(WORD), 0);
        bits.clear_behind();
        Ok(bits)
    }

    /// Takes words whose unused bits are 0.
    pub(crate) fn from_words(words: Vec<u32>, len: usize) -> Self {
        debug_assert_eq!(words.len(), len.div_ceil(WORD));
        Self { words, len }
    }

    /// Sets bit `i` to `bit_of(i)`.
    pub(crate) fn from_fn(len: usize, mut bit_of: impl FnMut(usize) -> bool) -> Result<Self> {
        let word = |first: usize| {
            let bits = first..len.min(first + WORD);
            bits.fold(0, |word, i| word | u32::from(bit_of(i)) << (i - first))
        };
        Ok(Self { words: memory::collect((0..len).step_by(WORD).map(word))?, len })
    }

    fn clear_behind(&mut self) {
        if let (Some(last), used @ 1..) = (self.words.last_mut(), self.len % WORD) {
            *last &= (1 << used) - 1;
        }
    }

    pub(crate) fn copied(&self) -> Result<Self> {
        Ok(Self { words: memory::copied(&self.words)?, len: self.len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether bit `i` is set. Bits past the end are not.
    pub(crate) fn get(&self, i: usize) -> bool {
        i < self.len && self.words[i / WORD] >> (i % WORD) & 1 == 1
    }

    /// Whether any bit of a range is set.
    pub(crate) fn has_any(&self, range: Range<usize>) -> bool {
        let end = range.end.min(self.len);
        (range.start / WORD..end.div_ceil(WORD)).any(|word| {
            let first = range.start.saturating_sub(word * WORD);
            let behind = WORD - (end - word * WORD).min(WORD);
            self.words[word] & (u32::MAX << first) & (u32::MAX >> behind) != 0
        })
    }

    pub(crate) fn set(&mut self, i: usize, bit: bool) {
        let mask = 1 << (i % WORD);
        if bit {
            self.words[i / WORD] |= mask;
        } else {
            self.words[i / WORD] &= !mask;
        }
    }

    /// Truncates, or appends zeros.
    pub(crate) fn resize(&mut self, len: usize) -> Result<()> {
        memory::resize(&mut self.words, len.div_ceil(WORD), 0)?;
        self.len = len;
        self.clear_behind();
        Ok(())
    }

    /// Drops the bits from bit `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.words.truncate(len.div_ceil(WORD));
        self.len = len.min(self.len);
        self.clear_behind();
    }

    pub(crate) fn and(&mut self, other: &Self) {
        for (i, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(i).copied().unwrap_or(0);
        }
    }

    pub(crate) fn count_ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The end and the alive slots after filling the `filled` slots and then freeing the `freed` ones. `None` means that all
    /// slots are alive, both in the result and in `before`, where the slots are those below `end`.
    pub(crate) fn after(
        before: Option<&Self>,
        end: usize,
        filled: &[u32],
        freed: &[u32],
    ) -> Result<(usize, Option<Self>)> {
        let most = filled.iter().max().map_or(end, |&slot| end.max(slot as usize + 1));
        let is_appended = filled.iter().zip(end as u32..).all(|(&slot, next)| slot == next);
        if before.is_none() && freed.is_empty() && is_appended {
            return Ok((most, None));
        }
        let mut bits = match before {
            Some(before) => before.copied()?,
            None => Self::ones(end)?,
        };
        bits.resize(most)?;
        filled.iter().for_each(|&slot| bits.set(slot as usize, true));
        freed.iter().for_each(|&slot| bits.set(slot as usize, false));
        let end = bits.last_one().map_or(0, |slot| slot + 1);
        bits.resize(end)?;
        let has_tombstones = bits.count_ones() < end;
        Ok((end, has_tombstones.then_some(bits)))
    }

    /// The numbers of the set bits; those of all places below the end without bits.
    pub(crate) fn slots(bits: Option<&Self>, end: usize) -> Result<Vec<u32>> {
        let Some(bits) = bits else { return memory::collect(0..end as u32) };
        let mut slots = memory::with_room(bits.count_ones())?;
        slots.extend(bits.ones_in_order().map(|slot| slot as u32));
        Ok(slots)
    }

    pub(crate) fn last_one(&self) -> Option<usize> {
        let word = self.words.iter().rposition(|&word| word != 0)?;
        Some(word * WORD + WORD - 1 - self.words[word].leading_zeros() as usize)
    }

    /// The indices of the set bits, ascending.
    pub(crate) fn ones_in_order(&self) -> impl Iterator<Item = usize> + '_ {
        places(self.words.iter().copied())
    }

    /// The first set bit from bit `i` on.
    pub(crate) fn next_one(&self, i: usize) -> Option<usize> {
        let first = i / WORD;
        let own = self.words.get(first)? & (u32::MAX << (i % WORD));
        let behind = self.words[first + 1..].iter().copied();
        let (place, word) = [own].into_iter().chain(behind).enumerate().find(|&(_, word)| word != 0)?;
        Some((first + place) * WORD + word.trailing_zeros() as usize)
    }

    /// The set bits of a range, ascending.
    pub(crate) fn ones_within(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let first = range.start / WORD;
        let words = self.words.get(first..range.end.div_ceil(WORD).min(self.words.len())).unwrap_or_default();
        places(words.iter().copied()).map(move |i| first * WORD + i).filter(move |i| range.contains(i))
    }

    /// The indices of the bits that are not set, ascending.
    pub(crate) fn zeros_in_order(&self) -> impl Iterator<Item = usize> + '_ {
        places(self.words.iter().map(|word| !word)).take_while(|&i| i < self.len)
    }
}

/// The indices of the set bits in these words.
fn places(words: impl Iterator<Item = u32>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(number, mut word)| {
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            word &= word.checked_sub(1)?;
            Some(number * WORD + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_make_bits_sets_the_same_ones() -> Result<()> {
        for len in [0, 1, 31, 32, 33, 63, 64, 65, 1000] {
            let is_set = |i: usize| (i * i) % 7 < 3;
            let bits = Bits::from_fn(len, is_set)?;
            let ones: Vec<usize> = (0..len).filter(|&i| is_set(i)).collect();
            assert!(bits.ones_in_order().eq(ones.iter().copied()), "{len}");
            assert!(bits.zeros_in_order().eq((0..len).filter(|&i| !is_set(i))), "{len}");
            assert_eq!((bits.count_ones(), bits.last_one()), (ones.len(), ones.last().copied()));
            let next = |i: usize| ones.iter().copied().find(|&one| one >= i);
            assert!((0..len + 99).all(|i| bits.next_one(i) == next(i)), "{len}");
            for range in [0..0, 0..1, 3..17, 16..32, 31..33, 32..64, 5..999, 64..200, 70..70, 900..2000] {
                let within = bits.ones_within(range.clone());
                assert!(within.eq(ones.iter().copied().filter(|i| range.contains(i))), "{len} {range:?}");
                let has_any = ones.iter().any(|i| range.contains(i));
                assert_eq!(bits.has_any(range.clone()), has_any, "{len} {range:?}");
            }
            assert!((0..len + 99).all(|i| bits.get(i) == (i < len && is_set(i))));
            assert_eq!(Bits::ones(len)?.count_ones(), len);
            let mut both = Bits::ones(len)?;
            both.and(&bits);
            assert_eq!(both, bits);
            let mut set = Bits::zeros(len)?;
            ones.iter().for_each(|&i| set.set(i, true));
            assert_eq!(set, bits);
            let words: Vec<u64> = (0..16)
                .map(|w| (0..64).fold(0, |word, i| word | u64::from(is_set(w * 64 + i)) << i))
                .collect();
            assert_eq!(Bits::of_words(&words, len)?, bits);
            let mut cut = Bits::of_words(&words, 1000)?;
            cut.resize(len)?;
            assert_eq!(cut, bits);
            cut.resize(1000)?;
            assert_eq!(cut.count_ones(), ones.len(), "zeros are appended");
        }
        assert_eq!(Bits::of_words(&[u64::MAX], 200)?.count_ones(), 64);
        Ok(())
    }
}
