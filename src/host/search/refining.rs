//! Distances of rows that another engine could not exclude: the host reports them where it keeps the rows of an index on a GPU.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::elements::HostVectors;
use crate::error::{Error, Result};
use crate::host::rows::store::HostRows;
use crate::host::search::candidates::Hit;
use crate::host::search::pair::{NormedVector, distance};
use crate::host::search::request::{Hits, SearchLimit};
use crate::interrupt;
use crate::kernels::key_of;
use crate::memory;
use crate::parallel::{ThreadPool, current_num_threads, current_thread_index, thread_pool};

/// The threads of all devices. Nothing that waits runs on them. The caller holds scratch memory of a GPU: on the pool that everybody
/// shares, all threads may be in searches that wait for it.
pub(super) static THREADS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let threads = current_num_threads();
    thread_pool(threads, "nearfield refine").filter(|_| threads > 1)
});

/// Elements of a task at least: they take a thread longer than waking it does.
const TASK: usize = 1 << 17;

/// Elements of a task at most: between two looks at whether to stop, each thread computes a few tasks.
const LARGEST: usize = 1 << 24;
const WAVE: usize = 8;

/// Tasks for each thread, so that no thread waits long for the last one.
const TASKS_PER_THREAD: usize = 4;

/// Rows that are on their way to the caches while one is compared.
const AHEAD: usize = 2;

/// The rows to compare with a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shortlist<'a> {
    /// The query's number.
    pub(crate) query: usize,
    pub(crate) candidates: Candidates<'a>,
}

/// The slots of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Candidates<'a> {
    Slots(&'a [u32]),
    /// Each with a key that the row's distance is not below.
    Bounded(&'a [[u32; 2]]),
}

impl<'a> Candidates<'a> {
    fn len(self) -> usize {
        match self {
            Self::Slots(slots) => slots.len(),
            Self::Bounded(pairs) => pairs.len(),
        }
    }

    fn get(self, place: usize) -> Option<u32> {
        match self {
            Self::Slots(slots) => slots.get(place).copied(),
            Self::Bounded(pairs) => pairs.get(place).map(|&[slot, _]| slot),
        }
    }

    fn slots(self) -> impl Iterator<Item = usize> + 'a {
        (0..self.len()).filter_map(move |place| self.get(place)).map(|slot| slot as usize)
    }

    fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Slots(slots) => Self::Slots(&slots[range]),
            Self::Bounded(pairs) => Self::Bounded(&pairs[range]),
        }
    }
}

/// Rows of a shortlist, and places for their distances.
struct Piece<'a, 'h> {
    query: usize,
    candidates: Candidates<'a>,
    found: &'h mut [Hit],
    /// How many of the distances were computed: the nearest rows are among them.
    computed: Option<&'h mut usize>,
    /// Whether these are all rows of the shortlist.
    is_whole: bool,
}

/// What a thread computes at a time.
struct Task<'a, 'h> {
    pieces: Vec<Piece<'a, 'h>>,
    rows: usize,
    /// Room for a query and a row in f32, where they are of another type.
    wide: [Vec<f32>; 2],
}

impl HostRows {
    /// The nearest of the rows on each shortlist, with the bits that a search on the host reports. Queries were checked before, and are
    /// given with their squared norms. Where lower bounds are known, rows are compared in their order until the rest is too far.
    pub(crate) fn refined(
        &self,
        queries: (HostVectors<'_>, &[f64]),
        shortlists: &[Shortlist<'_>],
        limit: SearchLimit,
    ) -> Result<Hits> {
        let rows: usize = shortlists.iter().map(|shortlist| shortlist.candidates.len()).sum();
        let mut found = memory::filled(rows, (0, 0))?;
        let mut computed = memory::filled(shortlists.len(), 0)?;
        // A thread of another pool would take up work of that pool while it waits.
        let is_shared = rows * self.dim() >= 2 * TASK && current_thread_index().is_none();
        let threads = THREADS.as_ref().filter(|_| is_shared);
        let share = (rows / (TASKS_PER_THREAD * current_num_threads())).min(LARGEST / self.dim());
        let share = share.max(TASK / self.dim()).max(1);
        let mut tasks = self.tasks(queries.0, (shortlists, share), (&mut found, &mut computed))?.into_iter();
        let is_behind = AtomicBool::new(false);
        loop {
            interrupt::check()?;
            let mut some = tasks.by_ref().take(WAVE * current_num_threads()).peekable();
            if some.peek().is_none() {
                break;
            }
            let is_behind = &is_behind;
            let refine = |task| {
                if !self.refine(queries, task, limit) {
                    is_behind.store(true, Ordering::Relaxed);
                }
            };
            match threads {
                None => some.for_each(refine),
                Some(threads) => threads.scope(|scope| {
                    some.for_each(|task| scope.spawn(move |_| refine(task)));
                }),
            }
        }
        if is_behind.into_inner() {
            return Err(Error::internal("a candidate lies behind the last row"));
        }
        let mut hits = Hits::with_room(shortlists.len())?;
        memory::reserve(
            &mut hits.rows,
            shortlists.iter().map(|one| kept(one.candidates.len(), limit)).sum(),
        )?;
        let mut rest = &mut found[..];
        for (shortlist, computed) in shortlists.iter().zip(computed) {
            let (own, others) = rest.split_at_mut(shortlist.candidates.len());
            hits.refined += if own.len() > share { own.len() } else { computed } as u64;
            if own.len() > share {
                order(own, limit);
            }
            hits.rows.extend_from_slice(&own[..kept(own.len(), limit)]);
            hits.ends.push(hits.rows.len());
            rest = others;
        }
        Ok(hits)
    }

    /// Divides shortlists into tasks of about `share` rows.
    fn tasks<'a, 'h>(
        &self,
        queries: HostVectors<'_>,
        (shortlists, share): (&[Shortlist<'a>], usize),
        (mut found, computed): (&'h mut [Hit], &'h mut [usize]),
    ) -> Result<Vec<Task<'a, 'h>>> {
        let wide_query = if queries.kind().is_wide() { 0 } else { self.dim() };
        let mut tasks: Vec<Task<'a, 'h>> = vec![];
        for (&Shortlist { query, candidates: all }, computed) in shortlists.iter().zip(computed) {
            let is_whole = all.len() <= share;
            let mut computed = Some(computed).filter(|_| is_whole);
            for first in (0..all.len()).step_by(share) {
                let candidates = all.part(first..all.len().min(first + share));
                let (own, others) = found.split_at_mut(candidates.len());
                found = others;
                let piece = Piece { query, candidates, found: own, computed: computed.take(), is_whole };
                match tasks.last_mut().filter(|task| task.rows < share) {
                    Some(task) => {
                        memory::reserve_more(&mut task.pieces, 1)?;
                        task.rows += candidates.len();
                        task.pieces.push(piece);
                    }
                    None => {
                        let wide = [wide_query, self.values.scratch_len()];
                        let [query, row] = wide.map(|elements| memory::filled(elements, 0.0));
                        memory::reserve_more(&mut tasks, 1)?;
                        tasks.push(Task {
                            pieces: vec![piece],
                            rows: candidates.len(),
                            wide: [query?, row?],
                        });
                    }
                }
            }
        }
        Ok(tasks)
    }

    /// Computes the distances of a task, and orders those of whole shortlists. Says whether all candidates are rows.
    fn refine(
        &self,
        (queries, squared): (HostVectors<'_>, &[f64]),
        task: Task<'_, '_>,
        limit: SearchLimit,
    ) -> bool {
        let Task { pieces, wide: [mut wide_query, mut wide_row], .. } = task;
        if !pieces.iter().all(|piece| piece.candidates.slots().all(|slot| slot < self.end())) {
            return false;
        }
        self.values.announce(pieces.iter().flat_map(|piece| piece.candidates.slots()));
        let mut nearest_first: Vec<(u32, u32)> = vec![];
        let mut best: BinaryHeap<Hit> = BinaryHeap::new();
        for Piece { query: number, candidates, found, computed, is_whole } in pieces {
            let values = queries.row(number).widened(&mut wide_query);
            let query = NormedVector { values, squared: squared[number] };
            let mut hit_of = |slot: u32| {
                let slot = slot as usize;
                let values = self.values.row(slot, &mut wide_row);
                let row = NormedVector { values, squared: self.values.squared[slot] };
                (key_of(distance(self.metric, query, row)), self.ids[slot])
            };
            // Only of a whole list does the nearest so far tell which rows are too far.
            if let (SearchLimit::Nearest(k), Candidates::Bounded(pairs)) = (limit, candidates)
                && is_whole
                && k < pairs.len()
            {
                nearest_first.clear();
                nearest_first.extend(pairs.iter().map(|&[slot, lower]| (lower, slot)));
                nearest_first.sort_unstable();
                nearest_first.iter().take(AHEAD).for_each(|&(_, slot)| self.values.prefetch(slot as usize));
                best.clear();
                let mut done = 0;
                for &(lower, slot) in &nearest_first {
                    // A row at the same distance may have a smaller id.
                    if best.len() == k && best.peek().is_some_and(|&(key, _)| lower > key) {
                        break;
                    }
                    if let Some(&(_, next)) = nearest_first.get(done + AHEAD) {
                        self.values.prefetch(next as usize);
                    }
                    done += 1;
                    best.push(hit_of(slot));
                    if best.len() > k {
                        best.pop();
                    }
                }
                // The heap gives the farthest first.
                let places = found[..k].iter_mut().rev();
                places.zip(std::iter::from_fn(|| best.pop())).for_each(|(place, hit)| *place = hit);
                computed.into_iter().for_each(|computed| *computed = done);
                continue;
            }
            candidates.slots().take(AHEAD).for_each(|slot| self.values.prefetch(slot));
            for (place, (slot, hit)) in candidates.slots().zip(&mut *found).enumerate() {
                if let Some(next) = candidates.get(place + AHEAD) {
                    self.values.prefetch(next as usize);
                }
                *hit = hit_of(slot as u32);
            }
            computed.into_iter().for_each(|computed| *computed = found.len());
            if is_whole {
                order(found, limit);
            }
        }
        true
    }
}

/// How many of a query's rows are kept.
fn kept(rows: usize, limit: SearchLimit) -> usize {
    match limit {
        SearchLimit::Nearest(k) => k.min(rows),
        SearchLimit::Within(_) => rows,
    }
}

/// Puts the nearest rows of a query first, in order.
fn order(found: &mut [Hit], limit: SearchLimit) {
    let wanted = kept(found.len(), limit);
    if wanted < found.len() {
        found.select_nth_unstable(wanted);
    }
    found[..wanted].sort_unstable();
}
