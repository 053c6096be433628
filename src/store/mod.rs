//! The row store: maps ids to slots of the engine's rows.
//!
//! The index that keeps the store chooses the slots of new rows: `Flat` takes [`RowStore::vacant`] ones.

mod checks;
pub(crate) mod documents;
mod filtered;
mod ids;

use std::borrow::Cow;

use crate::bits::Bits;
use crate::engine::{
    Device, Edit, Placing, Recovered, RowSource, Rows, SearchRequest, SearchResult, Vectors, change,
    search_rows,
};
use crate::error::{Error, Result};
use crate::future::{Boxed, RowProgress};
use crate::memory;
pub(crate) use crate::options::ids::ID_LIMIT;
use crate::usage::Memory;
pub(crate) use checks::{MAX_DIM, budget_of, check_dim, check_k};
use ids::{Ids, check_new};

/// Indexes with fewer slots do not compact themselves.
const SPARSE_SLOTS: u64 = 4096;

/// Rows with their ids.
#[derive(Debug)]
pub(crate) struct RowStore {
    pub(crate) rows: Box<dyn Rows>,
    ids: Ids,
    /// The next insertion number, or [`ID_LIMIT`] when there are no more. It never decreases.
    next: u64,
}

impl RowStore {
    pub(crate) fn new(rows: Box<dyn Rows>) -> Self {
        Self { rows, ids: Ids::Slots, next: 0 }
    }

    /// The rows with these ids in these slots, which the engine has already.
    pub(crate) fn of_rows(rows: Box<dyn Rows>, (given, slots): (&[u64], &[u32]), next: u64) -> Result<Self> {
        if let Some(&id) = given.iter().find(|&&id| id >= ID_LIMIT) {
            return Err(Error::IdTooLarge { id });
        }
        let mut ids = Ids::Slots;
        if ids.needs_table(given, slots) {
            let mut sorted = memory::copied(given)?;
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::DuplicateId { id: pair[0] });
            }
            ids = Ids::table(0, |_| false)?;
            ids.reserve(given, slots)?;
            ids.note(given, slots);
        }
        Ok(Self { rows, ids, next })
    }

    /// Searches for checked queries.
    pub(crate) fn search<'f>(
        &'f self,
        queries: &'f Vectors<'f>,
        request: &'f SearchRequest<'f>,
    ) -> Boxed<'f, SearchResult> {
        search_rows(&*self.rows, queries, request)
    }

    /// Copies the rows of a lost device to another one: from a store of the same ids, from a copy on the host, or from a replica.
    pub(crate) fn recovered<'f>(
        &'f self,
        device: &'f Device,
        other: Option<&'f Self>,
    ) -> Boxed<'f, Recovered> {
        Box::pin(async move {
            let id_of = |slot| self.ids.of(slot);
            let in_other = |slot| {
                let id = self.ids.of(slot);
                other.and_then(|other| other.slot_of(id)).ok_or(Error::UnknownId { id })
            };
            let source = other.map(|other| RowSource { rows: &*other.rows, slot_of: &in_other });
            self.rows.recovered(device, source, &id_of).await
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows.len()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Continues with insertion number `next`, or with its own if that is larger.
    pub(crate) fn go_on_with(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// The first of `count` successive insertion numbers, the next ones that are the id of no row.
    fn numbers(&self, count: usize) -> Result<u64> {
        Ids::free_numbers(self.next, count, |id| self.contains(id))
    }

    /// The slots that have a row, ascending.
    pub(crate) fn slots(&self) -> Result<Vec<u32>> {
        Bits::slots(self.rows.alive(), self.rows.end() as usize)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.slot_of(id).is_some()
    }

    pub(crate) fn slot_of(&self, id: u64) -> Option<u32> {
        self.ids.slot_of(id, (self.rows.alive(), self.rows.end() as usize))
    }

    pub(crate) fn id_of(&self, slot: u32) -> Option<u64> {
        self.rows.has_row()(slot).then(|| self.ids.of(slot))
    }

    pub(crate) fn ids(&self) -> Result<Vec<u64>> {
        let mut ids = memory::with_room(self.len() as usize)?;
        match (&self.ids, self.rows.alive()) {
            (Ids::Slots, None) => ids.extend(0..self.rows.end()),
            (Ids::Slots, Some(bits)) => ids.extend(bits.ones_in_order().map(|slot| slot as u64)),
            (Ids::Table { slots, .. }, _) => {
                ids.extend(slots.ids());
                ids.sort_unstable();
            }
        }
        Ok(ids)
    }

    pub(crate) fn largest_id(&self) -> Option<u64> {
        match (&self.ids, self.rows.alive()) {
            (Ids::Slots, None) => self.rows.end().checked_sub(1),
            (Ids::Slots, Some(bits)) => bits.last_one().map(|slot| slot as u64),
            (Ids::Table { slots, .. }, _) => slots.ids().max(),
        }
    }

    /// The smallest slots without a row: tombstones first, then slots behind the end.
    pub(crate) fn vacant(&self, count: usize) -> Result<Vec<u32>> {
        let mut slots: Vec<u32> = memory::with_room(count)?;
        if let Some(bits) = self.rows.alive() {
            slots.extend(bits.zeros_in_order().take(count).map(|slot| slot as u32));
        }
        let first = self.rows.end();
        let end = first + (count - slots.len()) as u64;
        Error::check_slots(end)?;
        slots.extend(first as u32..end as u32);
        Ok(slots)
    }

    /// Adds rows in slots without one, with the given ids or with insertion numbers; all of them or, after an error, none.
    pub(crate) async fn add_at(
        &mut self,
        rows: Vectors<'_>,
        ids: Option<&[u64]>,
        slots: &[u32],
        progress: RowProgress<'_>,
    ) -> Result<()> {
        let (ids, next) = self.numbered(ids, rows.rows())?;
        let ids = &*ids;
        let table = self.room_for(ids, slots)?;
        change(&mut self.rows, Edit::put(rows, &Placing { slots, ids, freed: &[] }), progress).await?;
        self.note(table, ids, slots);
        self.next = next;
        Ok(())
    }

    /// The ids of `count` new rows, the given ones or insertion numbers, and the insertion number of the row after them.
    pub(crate) fn numbered<'i>(&self, ids: Option<&'i [u64]>, count: usize) -> Result<(Cow<'i, [u64]>, u64)> {
        let (ids, first) = match ids {
            Some(ids) => {
                check_new(ids, count, |id| self.contains(id))?;
                (ids.into(), self.next)
            }
            None => {
                let first = self.numbers(count)?;
                (memory::collect((0..count).map(|row| first + row as u64))?.into(), first)
            }
        };
        // Rows with ids of their own count as well, and no file holds a larger number.
        Ok((ids, (first + count as u64).min(ID_LIMIT)))
    }

    /// Removes rows; all of them or, after an error, none. An id may occur twice.
    pub(crate) async fn remove(&mut self, ids: &[u64]) -> Result<()> {
        let mut slots = self.slots_of(ids)?;
        slots.sort_unstable();
        slots.dedup();
        if slots.is_empty() {
            return Ok(());
        }
        change(&mut self.rows, Edit::release(&slots), &mut |_| ()).await?;
        self.ids.forget(&slots);
        self.ids.vacate(&slots, self.rows.end());
        Ok(())
    }

    /// Replaces the rows with these ids, each once. The new ones get slots without a row, so that the old ones are there until
    /// the new ones are in.
    pub(crate) async fn update_at(&mut self, ids: &[u64], rows: Vectors<'_>, slots: &[u32]) -> Result<()> {
        let old = self.slots_of(ids)?;
        let table = self.room_for(ids, slots)?;
        let edit = Edit::put(rows, &Placing { slots, ids, freed: &old });
        change(&mut self.rows, edit, &mut |_| ()).await?;
        self.note(table, ids, slots);
        self.ids.vacate(&old, self.rows.end());
        Ok(())
    }

    pub(crate) fn get<'f>(&'f self, ids: &'f [u64]) -> Boxed<'f, Vec<f32>> {
        Box::pin(async move {
            let slots = self.slots_of(ids)?;
            self.rows.fetch(&slots).await
        })
    }

    pub(crate) fn slots_of(&self, ids: &[u64]) -> Result<Vec<u32>> {
        let mut slots = memory::with_room(ids.len())?;
        for &id in ids {
            slots.push(self.slot_of(id).ok_or(Error::UnknownId { id })?);
        }
        Ok(slots)
    }

    /// Whether more than 30% of the slots are tombstones, so that an index compacts itself.
    pub(crate) fn is_sparse(&self) -> bool {
        let (slots, tombstones) = self.rows.sparsest();
        slots >= SPARSE_SLOTS && tombstones * 10 > slots * 3
    }

    /// Moves the last rows into the tombstones and frees the memory behind the end.
    pub(crate) async fn compact(&mut self) -> Result<()> {
        if self.rows.alive().is_some() {
            let (from, to) = self.rows.moves()?;
            self.relocate(&from, &to).await?;
        }
        self.rows.shrink()
    }

    pub(crate) async fn relocate(&mut self, from: &[u32], to: &[u32]) -> Result<()> {
        let ids = memory::collect(from.iter().map(|&slot| self.ids.of(slot)))?;
        let table = self.room_for(&ids, to)?;
        change(&mut self.rows, Edit::relocate(from, to), &mut |_| ()).await?;
        self.note(table, &ids, to);
        self.ids.vacate(from, self.rows.end());
        Ok(())
    }

    /// Takes the memory of noting these ids, before the engine gets the rows: a table, if one replaces that of this store.
    fn room_for(&mut self, ids: &[u64], slots: &[u32]) -> Result<Option<Ids>> {
        if self.ids.needs_table(ids, slots) {
            let mut table = Ids::table(self.rows.end() as u32, self.rows.has_row())?;
            table.reserve(ids, slots)?;
            return Ok(Some(table));
        }
        self.ids.reserve(ids, slots)?;
        Ok(None)
    }

    /// Notes which ids lie in which slots, with the memory of [`RowStore::room_for`]. The engine has the rows already.
    fn note(&mut self, table: Option<Ids>, ids: &[u64], slots: &[u32]) {
        if let Some(table) = table {
            self.ids = table;
        }
        self.ids.note(ids, slots);
    }

    /// Adds the memory of the rows and of the tables of ids.
    pub(crate) fn measure(&self, memory: &mut Memory) {
        self.rows.measure(memory);
        self.ids.measure(memory);
    }
}
