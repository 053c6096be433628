//! The candidates of a query: rows that intervals cannot exclude from a query's result, and the nearest of those already refined.

use std::collections::BinaryHeap;
use std::mem;

use crate::error::Result;
use crate::kernels::{key_of, value_of};
use crate::memory::{self, out_of_memory};

/// A found row: the key of its distance (for L2 of its square), and its id.
pub(crate) type Hit = (u32, u64);

/// Rows are refined together once at least this many wait.
const MIN_WAITING: usize = 512;

/// The same where every row of an index has candidates.
const FEW_WAITING: usize = 32;

/// Rows that are on their way to the caches while one is refined.
const AHEAD: usize = 2;

/// The state of a query while its rows are scored. The limit only falls: a row whose lower end lies above it comes after k others.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// The number of rows to find; none for all within the limit.
    k: Option<usize>,
    /// Rows that wait until some are refined, at least.
    most_waiting: usize,
    pub(crate) limit: f32,
    /// Keys of the k smallest upper ends.
    uppers: BinaryHeap<u32>,
    /// Rows to be refined: lower ends and slots.
    waiting: Vec<(f32, u32)>,
    /// The nearest rows refined so far, in order: k at most, if only k are to be found.
    best: Vec<Hit>,
    /// Rows refined so far.
    pub(crate) refined: u64,
    /// Some rows were dropped because there was no memory for them, so there is no result.
    is_incomplete: bool,
}

impl Candidates {
    /// For the k nearest of `rows` rows, k > 0.
    pub(crate) fn nearest(k: usize, rows: usize) -> Result<Self> {
        let at_once = rows.min(2 * MIN_WAITING);
        let uppers = BinaryHeap::from(memory::with_room(k.min(at_once))?);
        Ok(Self { uppers, ..Self::new(Some(k), f32::INFINITY, at_once)? })
    }

    /// For the k nearest, k > 0, in little memory. None of it is taken yet.
    pub(crate) fn of_few(k: usize) -> Self {
        let (uppers, waiting, best) = (BinaryHeap::new(), vec![], vec![]);
        let (k, limit, most_waiting) = (Some(k), f32::INFINITY, FEW_WAITING);
        Self { k, most_waiting, limit, uppers, waiting, best, refined: 0, is_incomplete: false }
    }

    /// Bytes that those take between two rows that are added.
    pub(crate) fn bytes_of_few(k: usize) -> usize {
        // Vectors grow to powers of two.
        let waiting = 2 * Self::settled_at(FEW_WAITING, k).next_power_of_two();
        let uppers = k.next_power_of_two() * size_of::<u32>();
        size_of::<Self>() + waiting * size_of::<(f32, u32)>() + uppers + k * size_of::<Hit>()
    }

    /// For all of `rows` rows within a limit.
    pub(crate) fn within(limit: f32, rows: usize) -> Result<Self> {
        Self::new(None, limit, rows.min(MIN_WAITING))
    }

    /// Takes memory for this many waiting rows at once, enough for most searches. A vector that grows step by step goes through
    /// the allocator a dozen times, and glibc locks the arena of a chunk that grows: 16 threads then waited for two thirds of a
    /// search.
    fn new(k: Option<usize>, limit: f32, waiting: usize) -> Result<Self> {
        let (uppers, waiting) = (BinaryHeap::new(), memory::with_room(waiting)?);
        let most_waiting = MIN_WAITING;
        Ok(Self { k, most_waiting, limit, uppers, waiting, best: vec![], refined: 0, is_incomplete: false })
    }

    /// Bytes that the candidates of a query take. Vectors exist twice while they grow, and waiting rows lie beside their refined copies.
    pub(crate) fn bytes(k: usize) -> usize {
        let waiting = 2 * Self::settled_at(MIN_WAITING, k);
        2 * (waiting * size_of::<(f32, u32)>() + k * size_of::<u32>()) + (waiting + k) * size_of::<Hit>()
    }

    /// When twice this many rows wait, those above the limit are dropped. If this many are left, they are settled.
    fn settled_at(most_waiting: usize, k: usize) -> usize {
        most_waiting.max(k.saturating_mul(2))
    }

    /// Rows that are still to be refined.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a row by its interval. Returns whether the waiting rows must be settled.
    pub(crate) fn add(&mut self, lower: f32, upper: f32, slot: u32) -> bool {
        if self.is_incomplete || memory::reserve_more(&mut self.waiting, 1).is_err() {
            self.give_up();
            return false;
        }
        self.waiting.push((lower, slot));
        let Some(k) = self.k else { return self.waiting.len() >= self.most_waiting };
        self.add_upper(k, key_of(upper));
        self.lower_limit(k);
        let settled_at = Self::settled_at(self.most_waiting, k);
        if self.waiting.len() < 2 * settled_at {
            return false;
        }
        self.waiting.retain(|&(lower, _)| lower <= self.limit);
        self.waiting.len() >= settled_at
    }

    /// Notes that memory ran out. The limit excludes every later row, so the scan ends soon.
    pub(crate) fn give_up(&mut self) {
        self.is_incomplete = true;
        self.limit = f32::NEG_INFINITY;
        self.waiting.clear();
    }

    /// Keeps the key of an upper end if it is among the k smallest.
    fn add_upper(&mut self, k: usize, key: u32) {
        if self.uppers.len() < k {
            match self.uppers.try_reserve(1) {
                Ok(()) => self.uppers.push(key),
                Err(_) => self.give_up(),
            }
        } else if let Some(mut largest) = self.uppers.peek_mut()
            && key < *largest
        {
            *largest = key;
        }
    }

    /// Lowers the limit to the k-th smallest upper end, if there are k.
    fn lower_limit(&mut self, k: usize) {
        if self.uppers.len() == k {
            self.limit = self.uppers.peek().map_or(self.limit, |&largest| self.limit.min(value_of(largest)));
        }
    }

    /// Refines the waiting rows and keeps the nearest. `refine` is also told a slot that follows soon.
    pub(crate) fn settle(&mut self, mut refine: impl FnMut(u32, Option<u32>) -> Hit) {
        let limit = self.limit;
        self.waiting.retain(|&(lower, _)| lower <= limit);
        // Doubling would exceed what `bytes` counts.
        let reserved = match self.k {
            Some(_) => self.best.try_reserve_exact(self.waiting.len()).map_err(|_| out_of_memory(0)),
            None => memory::reserve_more(&mut self.best, self.waiting.len()),
        };
        if reserved.is_err() {
            return self.give_up();
        }
        self.refined += self.waiting.len() as u64;
        let mut waiting = mem::take(&mut self.waiting);
        let soon = |place: usize| waiting.get(place + AHEAD).map(|&(_, slot)| slot);
        let hits = waiting.iter().enumerate().map(|(place, &(_, slot))| refine(slot, soon(place)));
        // The interval of a row that is too far may reach the limit.
        let most = if self.k.is_none() { key_of(limit) } else { u32::MAX };
        self.best.extend(hits.filter(|&(key, _)| key <= most));
        waiting.clear();
        self.waiting = waiting;
        let Some(k) = self.k else { return };
        self.best.sort_unstable();
        self.best.truncate(k);
        if self.most_waiting == FEW_WAITING {
            // Every row of an index has these.
            self.best.shrink_to(k);
            self.waiting.shrink_to(2 * Self::settled_at(FEW_WAITING, k));
        }
        if let (Some(&(key, _)), true) = (self.best.last(), self.best.len() == k) {
            self.limit = limit.min(value_of(key));
        }
    }

    /// Adds what `other` knows of other rows for the same query.
    pub(crate) fn merge(&mut self, other: Self) {
        self.limit = self.limit.min(other.limit);
        self.refined += other.refined;
        let reserved = memory::reserve_more(&mut self.waiting, other.waiting.len())
            .and_then(|()| memory::reserve_more(&mut self.best, other.best.len()));
        if reserved.is_err() || other.is_incomplete {
            return self.give_up();
        }
        self.waiting.extend(other.waiting);
        self.best.extend(other.best);
        let Some(k) = self.k else { return };
        other.uppers.into_iter().for_each(|key| self.add_upper(k, key));
        self.lower_limit(k);
    }

    /// Orders the rows that were found, once none waits.
    pub(crate) fn sort(&mut self) {
        self.best.sort_unstable();
    }

    /// The rows found, nearest first after [`sort`](Self::sort).
    pub(crate) fn found(&self) -> Result<&[Hit]> {
        match self.is_incomplete {
            true => Err(out_of_memory(Self::bytes(self.k.unwrap_or(self.best.len())) as u64)),
            false => Ok(&self.best),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are held now.
    fn held(candidates: &Candidates) -> usize {
        let Candidates { uppers, waiting, best, .. } = candidates;
        uppers.capacity() * size_of::<u32>()
            + waiting.capacity() * size_of::<(f32, u32)>()
            + best.capacity() * size_of::<Hit>()
    }

    #[test]
    fn candidates_of_every_row_hold_what_is_counted_between_rows() {
        for k in [1, 15, 100] {
            let refine = |slot: u32, _: Option<u32>| (slot.wrapping_mul(2_654_435_761) >> 8, u64::from(slot));
            let (mut row, mut own) = (Candidates::of_few(k), Candidates::of_few(k));
            for slot in 0..20_000 {
                let key = refine(slot, None).0;
                let distance = value_of(key);
                for candidates in [&mut row, &mut own] {
                    if distance - 1.0 <= candidates.limit
                        && candidates.add(distance - 1.0, distance + 1.0, slot)
                    {
                        candidates.settle(refine);
                    }
                    let (held, counted) =
                        (held(candidates) + size_of::<Candidates>(), Candidates::bytes_of_few(k));
                    assert!(held <= counted, "k {k}, row {slot}: {held} bytes, {counted} are counted");
                }
            }
            row.merge(own);
            row.settle(refine);
            assert!(held(&row) + size_of::<Candidates>() <= Candidates::bytes_of_few(k), "k {k}, merged");
        }
    }

    #[test]
    fn memory_stays_within_what_is_counted_when_no_row_can_be_excluded() {
        for k in [1, 10, 300, 5000] {
            let rows = 20 * k as u32 + 5000;
            let refine = |slot, _: Option<u32>| (rows - slot, u64::from(slot));
            let mut candidates = Candidates::nearest(k, rows as usize).expect("memory");
            for slot in 0..rows {
                if candidates.add(f32::NEG_INFINITY, f32::INFINITY, slot) {
                    candidates.settle(refine);
                }
                let (held, counted) = (held(&candidates), Candidates::bytes(k));
                assert!(held <= counted, "k {k}, row {slot}: {held} bytes, {counted} are counted");
            }
            candidates.settle(refine);
            candidates.sort();
            let found = candidates.found().expect("memory");
            let expected = (k, (1, u64::from(rows) - 1), u64::from(rows));
            assert_eq!((found.len(), found[0], candidates.refined), expected);
        }
    }
}
