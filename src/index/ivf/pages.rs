//! Assigns pages of slots to lists, and slots to new rows.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::engine::PAGE;
use crate::error::{Error, Result};
use crate::index::grouped::Grouped;
use crate::memory;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// Stands for the list of a page without rows.
const NONE: u32 = u32::MAX;

/// Tells of any slot whether it has a row.
type HasRow<'a> = &'a dyn Fn(u32) -> bool;

/// Tells of any slot which device it lies on.
type DeviceOf<'a> = &'a dyn Fn(u32) -> usize;

fn slots_of(page: u32) -> Range<u32> {
    page * PAGE..(page + 1) * PAGE
}

/// The pages of every list. A page holds rows of one list only.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The pages of each list, ascending.
    pub(crate) of_list: Vec<Vec<u32>>,
    /// The number of rows of each list.
    pub(crate) sizes: Vec<u32>,
    /// The list of each page; NONE for a page without rows.
    list_of: Vec<u32>,
    free: BTreeSet<u32>,
}

impl Pages {
    pub(crate) fn new(lists: usize) -> Self {
        Self { of_list: vec![vec![]; lists], sizes: vec![0; lists], list_of: vec![], free: BTreeSet::new() }
    }

    pub(crate) fn copied(&self) -> Result<Self> {
        let mut of_list = memory::with_room(self.of_list.len())?;
        for own in &self.of_list {
            of_list.push(memory::copied(own)?);
        }
        let (sizes, list_of) = (memory::copied(&self.sizes)?, memory::copied(&self.list_of)?);
        Ok(Self { of_list, sizes, list_of, free: self.free.clone() })
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        self.of_list.iter().for_each(|pages| memory.add_vec("lists", pages));
        memory.add_vec("lists", &self.of_list);
        memory.add_vec("lists", &self.sizes);
        memory.add_vec("lists", &self.list_of);
        memory.add("lists", Residency::Host, (self.free.len() * size_of::<u32>()) as u64);
    }

    /// The slots of all rows, list after list, and where each list starts among them.
    pub(crate) fn in_order(&self, has_row: HasRow<'_>) -> Result<(Vec<u32>, Vec<u64>)> {
        let rows = self.sizes.iter().map(|&size| size as usize).sum();
        let (mut slots, mut offsets) = (memory::with_room(rows)?, memory::with_room(self.sizes.len() + 1)?);
        offsets.push(0);
        for own in &self.of_list {
            slots.extend(own.iter().copied().flat_map(slots_of).filter(|&slot| has_row(slot)));
            offsets.push(slots.len() as u64);
        }
        Ok((slots, offsets))
    }

    fn list_of(&self, slot: u32) -> Option<u32> {
        self.list_of.get((slot / PAGE) as usize).copied().filter(|&list| list != NONE)
    }

    /// Assigns a slot to each row, given its list: first the free ones in the list's pages, then new pages, as close together as
    /// possible.
    pub(crate) fn place(&mut self, lists: &[u32], has_row: HasRow<'_>) -> Result<Vec<u32>> {
        let mut slots = memory::filled(lists.len(), 0)?;
        let grouped = Grouped::new(lists.iter().copied(), self.of_list.len())?;
        for list in 0..self.of_list.len() as u32 {
            let rows = grouped.rows(list as usize);
            if rows.is_empty() {
                continue;
            }
            let own = &self.of_list[list as usize];
            let room = own.len() as u32 * PAGE - self.sizes[list as usize];
            let mut vacant: Vec<u32> = memory::with_room(rows.len())?;
            if room > 0 {
                let all = own.iter().copied().flat_map(slots_of);
                vacant.extend(all.filter(|&slot| !has_row(slot)).take(rows.len()));
            }
            while vacant.len() < rows.len() {
                let page = self.take(list)?;
                let wanted = (rows.len() - vacant.len()).min(PAGE as usize) as u32;
                vacant.extend(page * PAGE..page * PAGE + wanted);
            }
            rows.iter().zip(vacant).for_each(|(&row, slot)| slots[row as usize] = slot);
            self.sizes[list as usize] += rows.len() as u32;
        }
        Ok(slots)
    }

    fn take(&mut self, list: u32) -> Result<u32> {
        let page = match self.free.pop_first() {
            Some(page) => page,
            None => {
                let page = self.list_of.len() as u32;
                Error::check_slots(u64::from(page + 1) * u64::from(PAGE))?;
                memory::resize(&mut self.list_of, page as usize + 1, NONE)?;
                page
            }
        };
        self.list_of[page as usize] = list;
        let own = &mut self.of_list[list as usize];
        let place = own.partition_point(|&other| other < page);
        memory::reserve(own, own.len() + 1)?;
        own.insert(place, page);
        Ok(page)
    }

    /// Notes that rows left these slots, of which `has_row` is no longer true.
    pub(crate) fn leave(&mut self, slots: &[u32], has_row: HasRow<'_>) {
        for &slot in slots {
            if let Some(list) = self.list_of(slot) {
                self.sizes[list as usize] -= 1;
            }
        }
        for &slot in slots {
            let page = slot / PAGE;
            let Some(list) = self.list_of(slot) else { continue };
            if !slots_of(page).any(has_row) {
                self.of_list[list as usize].retain(|&other| other != page);
                self.list_of[page as usize] = NONE;
                self.free.insert(page);
            }
        }
    }

    /// Whether moving rows is worth it: more than 30% of at least 128 pages are not needed.
    pub(crate) fn is_sparse(&self) -> bool {
        let needed: u64 = self.sizes.iter().map(|&size| u64::from(size.div_ceil(PAGE))).sum();
        let there = self.list_of.len() as u64;
        there >= 128 && (there - needed) * 10 > there * 3
    }

    /// Moves rows of emptier pages into the tombstones of fuller ones, so that lists have no more pages on a device than they need.
    pub(crate) fn consolidated(&self, has_row: HasRow<'_>, device_of: DeviceOf<'_>) -> Result<Moves> {
        let tombstones = |page: u32| slots_of(page).filter(|&slot| !has_row(slot)).count() as u32;
        let mut moves = Moves { pages: self.copied()?, from: vec![], to: vec![] };
        for (list, all) in self.of_list.iter().enumerate() {
            let mut kept = vec![];
            for own in by_device(all.iter().copied(), device_of) {
                let mut by_tombstones: Vec<(u32, u32)> =
                    own.iter().map(|&page| (tombstones(page), page)).collect();
                by_tombstones.sort_unstable();
                let rows: u32 = by_tombstones.iter().map(|(tombstones, _)| PAGE - tombstones).sum();
                let mut fullest: Vec<u32> = by_tombstones.into_iter().map(|(_, page)| page).collect();
                let given_up = fullest.split_off(rows.div_ceil(PAGE) as usize);
                fullest.sort_unstable();
                let moving = given_up.iter().copied().flat_map(slots_of).filter(|&slot| has_row(slot));
                let before = moves.from.len();
                let most = before + given_up.len() * PAGE as usize;
                memory::reserve(&mut moves.from, most)?;
                memory::reserve(&mut moves.to, most)?;
                moves.from.extend(moving);
                let vacant = fullest.iter().copied().flat_map(slots_of).filter(|&slot| !has_row(slot));
                moves.to.extend(vacant.take(moves.from.len() - before));
                for page in given_up {
                    moves.pages.list_of[page as usize] = NONE;
                    moves.pages.free.insert(page);
                }
                kept.extend(fullest);
            }
            kept.sort_unstable();
            moves.pages.of_list[list] = kept;
        }
        Ok(moves)
    }

    /// Moves the last pages of each device into the places of its free ones, until none before them is free.
    pub(crate) fn lowered(&self, has_row: HasRow<'_>, device_of: DeviceOf<'_>) -> Result<Moves> {
        let mut pages = self.copied()?;
        let most = self.free.len() * PAGE as usize;
        let (mut from, mut to) = (memory::with_room(most)?, memory::with_room(most)?);
        for own in by_device(0..self.list_of.len() as u32, device_of) {
            let is_used = |page: &&u32| self.list_of[**page as usize] != NONE;
            let (first, last) = own.split_at(own.iter().filter(is_used).count());
            let places = first.iter().filter(|page| !is_used(page));
            for (&page, &place) in last.iter().filter(is_used).zip(places) {
                let list = self.list_of[page as usize];
                let rows = (0..PAGE).filter(|within| has_row(page * PAGE + within));
                for within in rows {
                    from.push(page * PAGE + within);
                    to.push(place * PAGE + within);
                }
                pages.list_of[place as usize] = list;
                pages.list_of[page as usize] = NONE;
                let own = &mut pages.of_list[list as usize];
                own.retain(|&other| other != page);
                let at = own.partition_point(|&other| other < place);
                own.insert(at, place);
            }
        }
        let end = pages.list_of.iter().rposition(|&list| list != NONE).map_or(0, |last| last + 1);
        pages.list_of.truncate(end);
        pages.free = (0..end as u32).filter(|&page| pages.list_of[page as usize] == NONE).collect();
        Ok(Moves { pages, from, to })
    }
}

/// Pages by the device that they lie on: rows do not move from one to another.
fn by_device(pages: impl Iterator<Item = u32>, device_of: DeviceOf<'_>) -> Vec<Vec<u32>> {
    let mut own: Vec<Vec<u32>> = vec![];
    for page in pages {
        let device = device_of(page * PAGE);
        own.resize_with(own.len().max(device + 1), Vec::new);
        own[device].push(page);
    }
    own
}

/// Rows to move from slots to as many vacant ones, and the pages afterwards.
pub(crate) struct Moves {
    pub(crate) pages: Pages,
    pub(crate) from: Vec<u32>,
    pub(crate) to: Vec<u32>,
}
