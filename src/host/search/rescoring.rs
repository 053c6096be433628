//! Distances of rows that another engine could not exclude: the host reports them where it keeps the rows of an index on a GPU.

use std::sync::LazyLock;

use crate::error::{Error, Result};
use crate::host::rows::store::HostRows;
use crate::host::search::nominees::Hit;
use crate::host::search::pair::{NormedVector, distance};
use crate::host::search::request::{Hits, SearchLimit};
use crate::kernels::key_of;
use crate::matrix::ElementKind;
use crate::memory;
use crate::parallel::{ThreadPool, current_num_threads, current_thread_index, thread_pool};
use crate::vectors::HostVectors;

/// The threads of all devices. Nothing that waits runs on them. The caller holds scratch memory of a GPU: on the pool that everybody
/// shares, all threads may be in searches that wait for it.
static THREADS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let threads = current_num_threads();
    thread_pool(threads, "nearfield rescore").filter(|_| threads > 1)
});

/// Elements of a task at least: they take a thread longer than waking it does.
const TASK: usize = 1 << 17;

/// Tasks for each thread, so that no thread waits long for the last one.
const TASKS_PER_THREAD: usize = 4;

/// Rows that are on their way to the caches while one is compared.
const AHEAD: usize = 2;

/// The rows to compare with a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shortlist<'a> {
    /// The query's number.
    pub(crate) query: usize,
    pub(crate) slots: &'a [u32],
}

/// Queries with their rows, and places for what they find.
struct Task<'a, 'h> {
    shortlists: &'a [Shortlist<'a>],
    found: &'h mut [Hit],
    /// Room for a query and a row in f32, where they are f16.
    wide: [Vec<f32>; 2],
}

impl HostRows {
    /// The nearest of the rows on each shortlist, with the bits that a search on the host reports. Queries were checked before, and are
    /// given with their squared norms.
    pub(crate) fn rescored(
        &self,
        queries: (HostVectors<'_>, &[f64]),
        shortlists: &[Shortlist<'_>],
        limit: SearchLimit,
    ) -> Result<Hits> {
        let is_there = |&slot: &u32| (slot as usize) < self.end();
        if !shortlists.iter().all(|shortlist| shortlist.slots.iter().all(is_there)) {
            return Err(Error::internal("a candidate lies behind the last row"));
        }
        let rows: usize = shortlists.iter().map(|shortlist| shortlist.slots.len()).sum();
        let mut found = memory::filled(rows, (0, 0))?;
        // A thread of another pool would take up work of that pool while it waits.
        let is_shared = rows * self.dim() >= 2 * TASK && current_thread_index().is_none();
        match THREADS.as_ref().filter(|_| is_shared) {
            None => self.rescore(queries, self.task(queries.0, shortlists, &mut found)?, limit),
            Some(threads) => {
                let tasks = self.tasks(queries.0, shortlists, &mut found)?;
                threads.scope(|scope| {
                    for task in tasks {
                        scope.spawn(move |_| self.rescore(queries, task, limit));
                    }
                });
            }
        }
        let kept = |shortlist: &Shortlist<'_>| match limit {
            SearchLimit::Nearest(k) => k.min(shortlist.slots.len()),
            SearchLimit::Within(_) => shortlist.slots.len(),
        };
        let mut hits = Hits::with_room(shortlists.len())?;
        memory::reserve(&mut hits.rows, shortlists.iter().map(kept).sum())?;
        let mut rest = &found[..];
        for shortlist in shortlists {
            let (own, others) = rest.split_at(shortlist.slots.len());
            hits.rows.extend_from_slice(&own[..kept(shortlist)]);
            hits.ends.push(hits.rows.len());
            rest = others;
        }
        hits.rescored = rows as u64;
        Ok(hits)
    }

    fn task<'a, 'h>(
        &self,
        queries: HostVectors<'_>,
        shortlists: &'a [Shortlist<'a>],
        found: &'h mut [Hit],
    ) -> Result<Task<'a, 'h>> {
        let wide_query = if queries.kind() == ElementKind::F16 { self.dim() } else { 0 };
        let wide = [memory::filled(wide_query, 0.0)?, memory::filled(self.values.scratch_len(), 0.0)?];
        Ok(Task { shortlists, found, wide })
    }

    /// Divides shortlists into tasks of about the same number of rows.
    fn tasks<'a, 'h>(
        &self,
        queries: HostVectors<'_>,
        mut shortlists: &'a [Shortlist<'a>],
        mut found: &'h mut [Hit],
    ) -> Result<Vec<Task<'a, 'h>>> {
        let share = (found.len() / (TASKS_PER_THREAD * current_num_threads())).max(TASK / self.dim()).max(1);
        let mut tasks = vec![];
        while !shortlists.is_empty() {
            let (mut queries_here, mut rows) = (0, 0);
            while queries_here < shortlists.len() && rows < share {
                rows += shortlists[queries_here].slots.len();
                queries_here += 1;
            }
            let (own, others) = shortlists.split_at(queries_here);
            let (own_found, other_found) = found.split_at_mut(rows);
            tasks.push(self.task(queries, own, own_found)?);
            (shortlists, found) = (others, other_found);
        }
        Ok(tasks)
    }

    /// Computes the distances of a task, and puts the nearest rows of each query first, in order.
    fn rescore(&self, (queries, squared): (HostVectors<'_>, &[f64]), task: Task<'_, '_>, limit: SearchLimit) {
        let Task { shortlists, mut found, wide: [mut wide_query, mut wide_row] } = task;
        self.values.announce(shortlists.iter().flat_map(|one| one.slots).map(|&slot| slot as usize));
        for &Shortlist { query: number, slots } in shortlists {
            let (own, others) = std::mem::take(&mut found).split_at_mut(slots.len());
            found = others;
            let values = queries.row(number).widened(&mut wide_query);
            let query = NormedVector { values, squared: squared[number] };
            slots.iter().take(AHEAD).for_each(|&slot| self.values.prefetch(slot as usize));
            for (place, (&slot, hit)) in slots.iter().zip(&mut *own).enumerate() {
                if let Some(&next) = slots.get(place + AHEAD) {
                    self.values.prefetch(next as usize);
                }
                let slot = slot as usize;
                let values = self.values.row(slot, &mut wide_row);
                let row = NormedVector { values, squared: self.values.squared[slot] };
                *hit = (key_of(distance(self.metric, query, row)), self.ids[slot]);
            }
            let wanted = match limit {
                SearchLimit::Nearest(k) if k < own.len() => {
                    own.select_nth_unstable(k);
                    k
                }
                _ => own.len(),
            };
            own[..wanted].sort_unstable();
        }
    }
}
