//! Which slots of an index lie on which device.

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::kernels::BLOCK_ROWS;
use crate::memory;

/// Slots that are given out together: at least a block, and a 64th of all slots, so that rows that come one by one make few extents.
const PART_OF_ALL: u64 = 64;
const MOST_AT_ONCE: u64 = 1 << 16;

/// The end of all slots: a block less than u32 counts.
const MOST_SLOTS: u64 = (1 << 32) - BLOCK_ROWS as u64;

/// Neighbouring slots of one device, whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    /// The first slot of the index, and where it lies on the device.
    first: u32,
    first_there: u32,
    len: u32,
    device: usize,
}

impl Extent {
    fn end(&self) -> u64 {
        u64::from(self.first) + u64::from(self.len)
    }
}

/// Slots in extents. Slots keep their places; new ones are given out in proportion to the devices' shares.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    extents: Vec<Extent>,
    /// Slots that each device has got.
    given: Vec<u64>,
    /// The part of all slots that each device is to have. They sum to 1.
    shares: Vec<f64>,
}

/// The slots of a list that lie on one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Picked {
    /// Their places on the list, ascending.
    pub(super) places: Vec<usize>,
    /// Where they lie on the device.
    pub(super) slots: Vec<u32>,
}

impl Layout {
    pub(super) fn new(shares: Vec<f64>) -> Self {
        let sum: f64 = shares.iter().sum();
        let shares: Vec<f64> = shares.into_iter().map(|share| share / sum).collect();
        Self { extents: vec![], given: vec![0; shares.len()], shares }
    }

    fn covered(&self) -> u64 {
        self.extents.last().map_or(0, Extent::end)
    }

    /// Gives out slots up to `end`, which is below the limit of an index.
    pub(super) fn reach(&mut self, end: u64) {
        let covered = self.covered();
        if end <= covered {
            return;
        }
        let block = u64::from(BLOCK_ROWS);
        let unit = self.unit();
        let size = (end - covered).max(unit).next_multiple_of(block).min(MOST_SLOTS - covered);
        let behind = self.behind(size);
        if size <= unit {
            return self.give(first_of_most(&behind), size);
        }
        let sum: f64 = behind.iter().map(|one| one.max(0.0)).sum();
        let (mut done, mut wanted) = (0, 0.0);
        for (device, one) in behind.iter().enumerate() {
            wanted += one.max(0.0) / sum;
            let is_last = device + 1 == behind.len();
            let until =
                if is_last { size } else { ((size as f64 * wanted) as u64).min(size) / block * block };
            self.give(device, until - done);
            done = until;
        }
    }

    /// The slots that are given out together.
    fn unit(&self) -> u64 {
        let block = u64::from(BLOCK_ROWS);
        (self.covered() / PART_OF_ALL).clamp(block, MOST_AT_ONCE) / block * block
    }

    /// How far each device will be behind its share when this many slots more are given out.
    fn behind(&self, size: u64) -> Vec<f64> {
        let all = (self.covered() + size) as f64;
        self.given.iter().zip(&self.shares).map(|(&given, share)| all * share - given as f64).collect()
    }

    /// The first slots of documents with these numbers of tokens, from slot `start` on, each on one device. Gives out the slots that lack.
    pub(super) fn place_documents(&mut self, start: u32, lengths: &[usize]) -> Result<Vec<u32>> {
        let tokens: u64 = lengths.iter().map(|&length| length as u64).sum();
        Error::check_slots(u64::from(start) + tokens)?;
        self.reach(u64::from(start) + tokens);
        let (mut starts, mut next) = (memory::with_room(lengths.len())?, start);
        for &length in lengths {
            let start = self.run(next, length as u64)?;
            starts.push(start);
            next = start + length as u32;
        }
        Ok(starts)
    }

    /// The first of this many neighbouring slots of one device, from slot `start` on.
    fn run(&mut self, start: u32, length: u64) -> Result<u32> {
        let from = self.extents.partition_point(|extent| extent.end() <= u64::from(start));
        let first_of = |extent: &Extent| start.max(extent.first);
        let fits = |extent: &&Extent| u64::from(first_of(extent)) + length <= extent.end();
        if let Some(extent) = self.extents[from..].iter().find(fits) {
            return Ok(first_of(extent));
        }
        let size = length.max(self.unit()).next_multiple_of(BLOCK_ROWS.into());
        Error::check_slots(self.covered() + size)?;
        self.give(first_of_most(&self.behind(size)), size);
        self.run(start, length)
    }

    fn give(&mut self, device: usize, len: u64) {
        if len == 0 {
            return;
        }
        let (first, there) = (self.covered() as u32, self.given[device] as u32);
        self.given[device] += len;
        match self.extents.last_mut() {
            Some(last) if last.device == device => last.len += len as u32,
            _ => self.extents.push(Extent { first, first_there: there, len: len as u32, device }),
        }
    }

    /// One past the last of the slots that lie beside this one on its device.
    pub(super) fn run_end(&self, slot: u32) -> u32 {
        let after = self.extents.partition_point(|extent| extent.first <= slot);
        after.checked_sub(1).map_or(u32::MAX, |number| self.extents[number].end() as u32)
    }

    /// The device of a slot, and where it lies there.
    pub(super) fn place(&self, slot: u32) -> (usize, u32) {
        let next = self.extents.partition_point(|extent| extent.first <= slot);
        let Some(extent) = next.checked_sub(1).map(|place| self.extents[place]) else { return (0, slot) };
        (extent.device, extent.first_there + (slot - extent.first))
    }

    /// Divides a list of slots among the devices.
    pub(super) fn picked(&self, slots: &[u32]) -> Vec<Picked> {
        let mut picked = vec![Picked::default(); self.given.len()];
        for (place, &slot) in slots.iter().enumerate() {
            let (device, there) = self.place(slot);
            picked[device].places.push(place);
            picked[device].slots.push(there);
        }
        picked
    }

    /// The bits of each device's slots. Extents are whole words.
    pub(super) fn split(&self, bits: &Bits) -> Result<Vec<Bits>> {
        let mut words = vec![vec![]; self.given.len()];
        let mut lens = vec![0; self.given.len()];
        for extent in &self.extents {
            let first = extent.first as usize;
            if first >= bits.len() {
                break;
            }
            let len = (extent.len as usize).min(bits.len() - first);
            let own = first / 32..(first + len).div_ceil(32);
            let Extent { device, first_there, .. } = *extent;
            memory::resize(&mut words[device], first_there as usize / 32, 0)?;
            words[device].extend_from_slice(&bits.words()[own]);
            lens[device] = first_there as usize + len;
        }
        Ok(words.into_iter().zip(lens).map(|(words, len)| Bits::from_words(words, len)).collect())
    }

    /// The slots of the index that lie on a device, in the order in which they lie there.
    pub(super) fn slots_of(&self, device: usize) -> impl Iterator<Item = u32> + '_ {
        let own = self.extents.iter().filter(move |extent| extent.device == device);
        own.flat_map(|extent| extent.first..extent.first + extent.len)
    }
}

/// The place of the largest number, the first of equal ones.
fn first_of_most(numbers: &[f64]) -> usize {
    let most = numbers.iter().copied().fold(f64::MIN, f64::max);
    numbers.iter().position(|&one| one == most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_at_once_are_divided_by_the_shares_and_later_ones_even_out() {
        let mut layout = Layout::new(vec![2.0, 1.0, 1.0]);
        layout.reach(1_000_000);
        assert_eq!(layout.extents.len(), 3);
        let part = |layout: &Layout, device: usize| layout.given[device] as f64 / layout.covered() as f64;
        for (device, share) in [0.5, 0.25, 0.25].into_iter().enumerate() {
            assert!((part(&layout, device) - share).abs() < 1e-3, "{:?}", layout.given);
        }
        for end in (1_000_000..1_400_000).step_by(777) {
            layout.reach(end);
        }
        for (device, share) in [0.5, 0.25, 0.25].into_iter().enumerate() {
            assert!((part(&layout, device) - share).abs() < 0.03, "{:?}", layout.given);
        }
        assert!(layout.extents.len() < 40, "{} extents", layout.extents.len());
    }

    #[test]
    fn rows_one_by_one_make_few_extents() {
        let mut layout = Layout::new(vec![1.0; 2]);
        for end in 1..=100_000 {
            layout.reach(end);
        }
        assert!(layout.extents.len() < 500, "{} extents", layout.extents.len());
        assert!(layout.given[0].abs_diff(layout.given[1]) <= 100_000 / PART_OF_ALL + 128);
    }

    #[test]
    fn every_slot_has_one_place_and_keeps_it() {
        let mut layout = Layout::new(vec![1.0, 3.0]);
        let mut before: Vec<(usize, u32)> = vec![];
        for end in [1, 100, 129, 5000, 5001, 60_000] {
            layout.reach(end);
            let places: Vec<_> = (0..end as u32).map(|slot| layout.place(slot)).collect();
            assert_eq!(places[..before.len()], before);
            let distinct: std::collections::HashSet<_> = places.iter().collect();
            assert_eq!(distinct.len(), places.len());
            before = places;
        }
        for device in 0..2 {
            let own: Vec<u32> = layout.slots_of(device).collect();
            assert!(own.iter().zip(0..).all(|(&slot, there)| layout.place(slot) == (device, there)));
        }
    }

    #[test]
    fn bits_and_lists_of_slots_are_divided_alike() -> Result<()> {
        let mut layout = Layout::new(vec![1.0; 3]);
        for end in [200, 900, 20_000] {
            layout.reach(end);
        }
        for len in [0, 1, 127, 128, 150, 900, 19_999] {
            let bits = Bits::from_fn(len, |slot| slot % 7 == 3)?;
            let ones: Vec<u32> = bits.ones_in_order().map(|slot| slot as u32).collect();
            let split = layout.split(&bits)?;
            for (own, picked) in split.iter().zip(layout.picked(&ones)) {
                let mut slots = picked.slots;
                slots.sort_unstable();
                assert!(own.ones_in_order().eq(slots.into_iter().map(|slot| slot as usize)), "{len}");
            }
        }
        Ok(())
    }

    #[test]
    fn every_document_lies_on_one_device() -> Result<()> {
        let mut layout = Layout::new(vec![1.0; 3]);
        let mut end = 0;
        for (batch, count) in [1, 700, 3, 1, 50].into_iter().enumerate() {
            let lengths: Vec<usize> =
                (0..count).map(|number| (number * 37 + batch * 411) % 600 + 1).collect();
            for (start, length) in layout.place_documents(end, &lengths)?.into_iter().zip(lengths) {
                assert!(start >= end, "{start} behind {end}");
                end = start + length as u32;
                let ((device, first), last) = (layout.place(start), layout.place(end - 1));
                assert_eq!(last, (device, first + length as u32 - 1));
                assert!(layout.run_end(start) >= end);
            }
        }
        let tokens = layout.given.iter().max().zip(layout.given.iter().min());
        assert!(tokens.is_some_and(|(most, least)| most - least < u64::from(end) / 10), "{:?}", layout.given);
        assert!(layout.place_documents(u32::MAX - 200, &[100; 9]).is_err());
        Ok(())
    }

    #[test]
    fn the_last_slots_of_an_index_can_be_given_out() {
        let mut layout = Layout::new(vec![1.0; 2]);
        layout.reach(4_000_000_000);
        layout.reach(u64::from(u32::MAX) - 127);
        assert_eq!(layout.covered(), MOST_SLOTS);
        assert_eq!(layout.given.iter().sum::<u64>(), MOST_SLOTS);
    }
}
