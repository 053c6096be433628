//! How a search fits its scratch memory, and how its work is divided among threads.

use std::ops::Range;

use crate::parallel::*;

use crate::error::{Error, Result};
use crate::host::integers::packed::{GROUP, PANEL};
use crate::host::rows::store::HostRows;
use crate::host::search::candidates::Candidates;
use crate::host::search::request::HostRequest;
use crate::interrupt::{self, Stop};
use crate::memory::{self, out_of_memory};

/// Queries that a thread takes at a time: whole panels, whose integers fit the first-level cache.
pub(crate) const QUERIES: usize = 8 * PANEL;

/// Groups of rows that are scored at a time: their scores fit the second-level cache.
pub(crate) const GROUPS: usize = 16;

/// The most queries of a batch.
pub(crate) const BATCH: usize = 4096;

/// Groups of rows that justify a task of their own.
const GROUPS_PER_TASK: usize = 256;

/// How a search fits its scratch memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// Queries that are searched together.
    pub(crate) batch: usize,
    /// Bytes of scratch memory.
    pub(crate) scratch_bytes: u64,
    pub(crate) threads: usize,
    /// Sets of candidates that fit the memory: one for each query, or for each part that a query's rows are divided into.
    pub(crate) candidate_sets: usize,
    /// Groups of rows that a thread scores at a time.
    pub(crate) groups: usize,
}

impl Schedule {
    /// The schedule of the largest budget, up to this one, whose scratch memory is free now.
    pub(crate) fn of_free_memory(budget: u64, of: impl Fn(u64) -> Result<Self>) -> Result<Self> {
        let mut schedule = of(budget)?;
        while memory::check_scratch(schedule.scratch_bytes).is_err() {
            let bytes = schedule.scratch_bytes;
            schedule = of(bytes / 2).map_err(|_| out_of_memory(bytes))?;
        }
        Ok(schedule)
    }

    /// Limits the parts that each of `queries` is divided into to those whose candidates fit the memory.
    pub(crate) fn limit_parts(&self, parts: usize, queries: usize) -> usize {
        parts.min(self.candidate_sets / queries).max(1)
    }
}

impl HostRows {
    /// The schedule of a search of `eligible` rows.
    pub(crate) fn schedule(
        &self,
        queries: usize,
        request: &HostRequest<'_>,
        eligible: usize,
    ) -> Result<Schedule> {
        let k = request.limit.k_of(eligible);
        self.schedule_with(queries, request.budget, 0, (k, format!("a search of {k} of {eligible} rows")))
    }

    /// The same where each query takes `more` bytes besides. With little memory, threads score fewer rows at a time, then fewer threads
    /// work.
    pub(crate) fn schedule_with(
        &self,
        queries: usize,
        budget: u64,
        more: usize,
        (k, purpose): (usize, String),
    ) -> Result<Schedule> {
        let candidates = Candidates::bytes(k);
        let each = self.dim() * 8 + candidates + more;
        let available = usize::try_from(budget).unwrap_or(usize::MAX);
        // Threads hold scores, and rows where these are widened.
        let row_bytes = if self.is_quantized() { 0 } else { self.dim() * 4 };
        let queries = queries.max(1);
        let own =
            |threads: usize, groups: usize| threads * groups * GROUP * (queries.min(QUERIES) * 4 + row_bytes);
        let (mut threads, mut groups) = (current_num_threads(), GROUPS);
        // Threads leave enough for one query at least.
        let most = (available / 2).min(available.saturating_sub(each));
        while groups > 2 && own(threads, groups) > most {
            groups /= 2;
        }
        while threads > 1 && own(threads, groups) > most {
            threads = threads.div_ceil(2);
        }
        let own = own(threads, groups);
        let batch = available.saturating_sub(own) / each;
        if batch == 0 {
            return Err(Error::Budget { purpose, needed: (own + each) as u64, budget });
        }
        let batch = batch.min(BATCH).min(queries);
        // The rest is for dividing queries into parts, where there are fewer of them than threads.
        let most = batch * parts_of(batch.div_ceil(QUERIES), usize::MAX, threads);
        let candidate_sets = most.min(batch + (available - own - batch * each) / candidates);
        Ok(Schedule {
            batch,
            scratch_bytes: (own + batch * each + (candidate_sets - batch) * candidates) as u64,
            threads,
            candidate_sets,
            groups,
        })
    }
}

/// Whether a single query that is compared with this many rows takes all threads.
pub(crate) fn fills_threads(rows: u64) -> bool {
    rows / (GROUP * GROUPS_PER_TASK) as u64 >= current_num_threads() as u64
}

/// The parts that each chunk of queries is divided into, so that all threads have work: by the number of chunks, and of groups of rows.
pub(crate) fn parts_of(chunks: usize, groups: usize, threads: usize) -> usize {
    if chunks >= 2 * threads || threads == 1 {
        return 1;
    }
    (2 * threads).div_ceil(chunks).min(groups / GROUPS_PER_TASK).max(1)
}

/// Divides queries into chunks and each chunk into parts, runs `work(chunk, part, stop)` on up to `threads` threads, and merges the candidates
/// of each query. All of it takes this many multiply-adds.
pub(crate) fn divide(
    (queries, operations): (usize, usize),
    [chunk, parts]: [usize; 2],
    threads: usize,
    work: impl Fn(Range<usize>, usize, Stop<'_>) -> Result<Vec<Candidates>> + Sync,
) -> Result<Vec<Candidates>> {
    let chunks = (0..queries).step_by(chunk).map(|start| start..queries.min(start + chunk));
    let tasks: Vec<(Range<usize>, usize)> =
        chunks.flat_map(|chunk| (0..parts).map(move |part| (chunk.clone(), part))).collect();
    // Waking a thread costs more than a little work.
    if let [(chunk, part)] = &tasks[..] {
        return work(chunk.clone(), *part, Stop::here());
    }
    let done: Vec<Result<Vec<Candidates>>> = interrupt::watch(operations, |stop| {
        let work = |(chunk, part): &(Range<usize>, usize)| {
            stop.check()?;
            work(chunk.clone(), *part, stop)
        };
        Ok(if threads < current_num_threads() {
            let shares = tasks.par_chunks(tasks.len().div_ceil(threads).max(1));
            shares.flat_map_iter(|tasks| tasks.iter().map(work)).collect()
        } else {
            tasks.par_iter().map(work).collect()
        })
    })?;
    let mut by_query = memory::with_room(queries)?;
    let mut done = done.into_iter();
    while let Some(first) = done.next() {
        let mut first = first?;
        for others in done.by_ref().take(parts - 1) {
            first.iter_mut().zip(others?).for_each(|(one, other)| one.merge(other));
        }
        by_query.extend(first);
    }
    Ok(by_query)
}
