//! The documents of an index: which slots the tokens of each lie in, and under which id.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::bits::Bits;
use crate::engine::Rows;
use crate::error::{Error, Result};
use crate::host::documents::slots_of;
use crate::memory;
use crate::options::filter::Filter;
use crate::options::residency::Residency;
use crate::store::ids::{Ids, check_new};
use crate::usage::Memory;

/// Indexes with fewer tokens do not compact themselves.
const SPARSE_TOKENS: u64 = 4096;

/// Documents by place. The tokens of a place lie in neighbouring slots, those of one place behind those of the place before it.
#[derive(Debug)]
pub(crate) struct DocumentTable {
    /// One past the last slot of each place.
    ends: Vec<u32>,
    /// The places that have a document: the tokens of the others were removed.
    alive: Bits,
    ids: Ids,
    /// The insertion number of the next document.
    next: u64,
    documents: usize,
    /// Tokens of documents.
    tokens: u64,
}

/// Documents that are about to be added.
#[derive(Debug)]
pub(crate) struct NewDocuments {
    /// The slots of their tokens, ascending.
    pub(crate) slots: Vec<u32>,
    ids: Vec<u64>,
    places: Vec<u32>,
    /// One past the last slot of each new place: also of those between two documents on different devices.
    ends: Vec<u32>,
    table: Option<Ids>,
    next: u64,
}

/// A step of moving documents: the slots of tokens, where they go, and the table behind it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) from: Vec<u32>,
    pub(crate) to: Vec<u32>,
    pub(crate) table: DocumentTable,
}

impl Default for DocumentTable {
    fn default() -> Self {
        Self { ends: vec![], alive: Bits::default(), ids: Ids::Slots, next: 0, documents: 0, tokens: 0 }
    }
}

impl DocumentTable {
    pub(crate) fn len(&self) -> usize {
        self.documents
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    pub(crate) fn go_on_with(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// One past the last slot of each place.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// One past the last slot.
    fn end(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The places that have a document, ascending.
    pub(crate) fn places(&self) -> Result<Vec<u32>> {
        Bits::slots(Some(&self.alive), self.ends.len())
    }

    /// The places of the documents that pass a filter, ascending.
    pub(crate) fn allowed(&self, filter: &Filter<'_>) -> Result<Vec<u32>> {
        let bits = self.ids.allowed(filter, (Some(&self.alive), self.ends.len()))?;
        Bits::slots(Some(&bits), self.ends.len())
    }

    pub(crate) fn slots(&self, place: u32) -> Range<u32> {
        slots_of(&self.ends, place)
    }

    /// The place of the document that has a token in this slot.
    pub(crate) fn place_at(&self, slot: u32) -> u32 {
        self.ends.partition_point(|&end| end <= slot) as u32
    }

    pub(crate) fn id_of(&self, place: u32) -> u64 {
        self.ids.of(place)
    }

    pub(crate) fn place_of(&self, id: u64) -> Option<u32> {
        self.ids.slot_of(id, (Some(&self.alive), self.ends.len()))
    }

    /// The places of these ids.
    pub(crate) fn places_of(&self, ids: &[u64]) -> Result<Vec<u32>> {
        let mut places = memory::with_room(ids.len())?;
        for &id in ids {
            places.push(self.place_of(id).ok_or(Error::UnknownId { id })?);
        }
        Ok(places)
    }

    /// Makes room for documents of these lengths behind the last place, under ids of the caller's or under insertion numbers.
    pub(crate) fn reserve(
        &mut self,
        rows: &mut dyn Rows,
        lengths: &[usize],
        ids: Option<&[u64]>,
    ) -> Result<NewDocuments> {
        let count = lengths.len();
        let (ids, first) = match ids {
            Some(ids) => {
                check_new(ids, count, |id| self.place_of(id).is_some())?;
                (memory::copied(ids)?, self.next)
            }
            None => {
                let first = Ids::free_numbers(self.next, count, |id| self.place_of(id).is_some())?;
                (memory::collect((0..count).map(|number| first + number as u64))?, first)
            }
        };
        let next = (first + count as u64).min(crate::store::ID_LIMIT);
        self.placed(rows, lengths, ids, next)
    }

    /// Makes room for new contents of documents, which keep their ids.
    pub(crate) fn reserve_again(
        &mut self,
        rows: &mut dyn Rows,
        lengths: &[usize],
        ids: &[u64],
    ) -> Result<NewDocuments> {
        self.placed(rows, lengths, memory::copied(ids)?, self.next)
    }

    fn placed(
        &mut self,
        rows: &mut dyn Rows,
        lengths: &[usize],
        ids: Vec<u64>,
        next: u64,
    ) -> Result<NewDocuments> {
        let starts = rows.place_documents(self.end(), lengths)?;
        let (mut places, mut ends) = (memory::with_room(lengths.len())?, memory::with_room(lengths.len())?);
        let mut slots = memory::with_room(lengths.iter().sum())?;
        let mut end = self.end();
        for (&start, &length) in starts.iter().zip(lengths) {
            if start > end {
                memory::reserve_more(&mut ends, 2)?;
                ends.push(start);
            }
            end = start + length as u32;
            places.push((self.ends.len() + ends.len()) as u32);
            ends.push(end);
            slots.extend(start..end);
        }
        let mut table = None;
        if self.ids.needs_table(&ids, &places) {
            let has_document = |place| self.alive.get(place as usize);
            table = Some(Ids::table(self.ends.len() as u32, has_document)?);
        }
        table.as_mut().unwrap_or(&mut self.ids).reserve(&ids, &places)?;
        memory::reserve_more(&mut self.ends, ends.len())?;
        let len = self.alive.len();
        self.alive.resize(len + ends.len())?;
        self.alive.resize(len)?;
        Ok(NewDocuments { slots, ids, places, ends, table, next })
    }

    /// Notes documents whose tokens lie in their slots by now, with the memory that was reserved for them.
    pub(crate) fn note(&mut self, new: NewDocuments) -> Result<()> {
        if let Some(table) = new.table {
            self.ids = table;
        }
        self.documents += new.places.len();
        self.tokens += new.slots.len() as u64;
        self.ids.note(&new.ids, &new.places);
        self.ends.extend_from_slice(&new.ends);
        self.alive.resize(self.ends.len())?;
        new.places.iter().for_each(|&place| self.alive.set(place as usize, true));
        self.next = new.next;
        Ok(())
    }

    /// Forgets the documents of these places, whose tokens are gone.
    pub(crate) fn forget(&mut self, places: &[u32]) {
        self.ids.forget(places);
        self.vacate(places);
    }

    /// Forgets places whose documents have others by now.
    pub(crate) fn vacate(&mut self, places: &[u32]) {
        self.documents -= places.len();
        self.tokens -= places.iter().map(|&place| self.slots(place).len() as u64).sum::<u64>();
        places.iter().for_each(|&place| self.alive.set(place as usize, false));
        // The rows end where the last document does.
        let end = self.alive.last_one().map_or(0, |place| place + 1);
        self.ends.truncate(end);
        self.alive.truncate(end);
        self.ids.vacate(places, end as u64);
    }

    /// Whether more than 30% of the slots have no token, so that an index compacts itself.
    pub(crate) fn is_sparse(&self) -> bool {
        let slots = u64::from(self.end());
        slots >= SPARSE_TOKENS && (slots - self.tokens) * 10 > slots * 3
    }

    /// The next step of moving documents to the front: the last ones go to the smallest gaps of their devices that they fit. None when no
    /// document fits a gap before it.
    pub(crate) fn next_move(&self, rows: &dyn Rows) -> Result<Option<Step>> {
        let places = self.places()?;
        let mut gaps = BTreeSet::new();
        let mut end = 0;
        for &place in &places {
            let slots = self.slots(place);
            while end < slots.start {
                let until = rows.run_end(end).min(slots.start);
                gaps.insert((rows.device_of(end), until - end, end));
                end = until;
            }
            end = slots.end;
        }
        let (mut from, mut to) = (vec![], vec![]);
        let mut placed: Vec<(u64, u32, u32)> = memory::with_room(places.len())?;
        for &place in places.iter().rev() {
            let slots = self.slots(place);
            let length = slots.len() as u32;
            let device = rows.device_of(slots.start);
            let gap = gaps.range((device, length, 0)..(device + 1, 0, 0)).next().copied();
            let mut own = slots.start;
            if let Some((_, room, start)) = gap.filter(|&(_, _, start)| start < slots.start) {
                gaps.remove(&(device, room, start));
                if room > length {
                    gaps.insert((device, room - length, start + length));
                }
                own = start;
                memory::reserve_more(&mut from, slots.len())?;
                memory::reserve_more(&mut to, slots.len())?;
                to.extend(start..start + length);
                from.extend(slots);
            }
            placed.push((self.id_of(place), own, length));
        }
        if from.is_empty() {
            return Ok(None);
        }
        placed.sort_unstable_by_key(|&(_, start, _)| start);
        Ok(Some(Step { from, to, table: self.of_placed(&placed)? }))
    }

    /// A table of documents with these ids, first slots and lengths, ascending. Gaps are places without a document.
    fn of_placed(&self, placed: &[(u64, u32, u32)]) -> Result<Self> {
        let (mut ids, mut places) = (memory::with_room(placed.len())?, memory::with_room(placed.len())?);
        let mut ends: Vec<u32> = memory::with_room(2 * placed.len())?;
        for &(id, start, length) in placed {
            if start > ends.last().copied().unwrap_or(0) {
                ends.push(start);
            }
            ids.push(id);
            places.push(ends.len() as u32);
            ends.push(start + length);
        }
        let mut alive = Bits::zeros(ends.len())?;
        places.iter().for_each(|&place| alive.set(place as usize, true));
        let mut table = Ids::Slots;
        if table.needs_table(&ids, &places) {
            table = Ids::table(0, |_| false)?;
            table.reserve(&ids, &places)?;
            table.note(&ids, &places);
        }
        let &Self { next, documents, tokens, .. } = self;
        Ok(Self { ends, alive, ids: table, next, documents, tokens })
    }

    pub(crate) fn ids(&self) -> Result<Vec<u64>> {
        let mut ids = memory::collect(self.places()?.into_iter().map(|place| self.id_of(place)))?;
        ids.sort_unstable();
        Ok(ids)
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        memory.add_vec("documents", &self.ends);
        memory.add("documents", Residency::Host, self.alive.words().len() as u64 * 4);
        self.ids.measure(memory);
    }
}
