//! Search on the host: every row is scored, what cannot be excluded is held against each other by its distance.
//!
//! Threads share queries out among them, and where those are few rows too.

use std::ops::Range;

use rayon::prelude::*;

use super::distances::{self, distance};
use super::integers::{GROUP, PANEL};
use super::intervals::sift;
use super::nominees::Nominees;
use super::norms;
use super::rows::HostRows;
use super::scorer::{Batch, Scorer, Scores};
use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::kernels::key_of;
use crate::matrix::{Element, ElementKind, MatrixView};

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) wanted: Wanted,
    /// Bytes of scratch memory.
    pub(crate) budget: u64,
    /// A bit a slot: those that may be found, all of which have a row. None for all that have one.
    pub(crate) allowed: Option<&'a Bits>,
    /// Called with the number of queries that are answered.
    pub(crate) progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
}

/// How a search fits its scratch memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Queries that are searched together.
    pub(crate) batch: usize,
    /// Scratch bytes that takes.
    pub(crate) bytes: u64,
    threads: usize,
    /// Groups of rows that a thread scores at a time.
    groups: usize,
}

/// Which rows are wanted.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// So many of the nearest.
    Nearest(usize),
    /// All whose distance, of L2 the square, is not above this; some more may be found.
    Within(f32),
}

/// The rows that were found for each query, nearest first: keys of distances, of L2 of their squares, and ids.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<(u32, u64)>>,
    /// Rows that were scored, over all queries, and those of which the distance was computed.
    pub(crate) scored: u64,
    pub(crate) rescored: u64,
}

/// Queries that a thread takes at a time: whole panels, whose integers fit its fastest memory.
const QUERIES: usize = 8 * PANEL;

/// Groups of rows that are scored at a time at most: their scores fit the second fastest.
const GROUPS: usize = 16;

/// Groups that are worth a thread.
const GROUPS_A_THREAD: usize = 64;

/// Queries of a batch at most.
const BATCH: usize = 4096;

/// Where fewer than one in so many rows are allowed, their distances are computed without scoring the others.
const SELECTIVE: usize = 32;

impl HostRows {
    pub(crate) fn search<T: Element>(&self, queries: MatrixView<'_, T>, asked: &Asked<'_>) -> Result<Answer> {
        let squared = norms::checked("queries", queries)?;
        let found = asked.allowed.map_or(self.len(), Bits::count_ones);
        let mut answer = Answer::default();
        if found == 0 {
            answer.rows.resize(queries.rows(), vec![]);
            return Ok(answer);
        }
        let room = self.room(queries.rows(), asked, found)?;
        for start in (0..queries.rows()).step_by(room.batch) {
            let range = start..queries.rows().min(start + room.batch);
            let part = queries.slice(range.clone());
            let space: Vec<f32>;
            let values: &[f32] = match T::KIND {
                ElementKind::F32 => bytemuck::cast_slice(part.values()),
                ElementKind::F16 => {
                    space = part.values().iter().map(|x| x.widen()).collect();
                    &space
                }
            };
            let batch =
                Batch { vectors: MatrixView::new(values, self.dim)?, squared: &squared[range.clone()] };
            self.search_batch(batch, asked, (found, room), &mut answer);
            if let Some(progress) = asked.progress {
                progress(range.end);
            }
        }
        Ok(answer)
    }

    /// What a search of so many rows does at a time: in little memory less, and that by fewer threads.
    pub(crate) fn room(&self, queries: usize, asked: &Asked<'_>, found: usize) -> Result<Room> {
        let k = match asked.wanted {
            Wanted::Nearest(k) => k.min(found),
            Wanted::Within(_) => 0,
        };
        // What threads have of scores, and of rows where they are widened.
        let own = |threads: usize, groups: usize| threads * groups * GROUP * (QUERIES * 4 + self.dim * 4);
        let each = self.dim * 8 + Nominees::bytes(k) * 2;
        let room = usize::try_from(asked.budget).unwrap_or(usize::MAX);
        let (mut threads, mut groups) = (rayon::current_num_threads(), GROUPS);
        while groups > 2 && own(threads, groups) > room / 2 {
            groups /= 2;
        }
        while threads > 1 && own(threads, groups) > room / 2 {
            threads = threads.div_ceil(2);
        }
        let own = own(threads, groups);
        let batch = room.saturating_sub(own) / each;
        if batch == 0 {
            let purpose = format!("a search of {k} of {found} rows");
            return Err(Error::Budget { purpose, needed: (own + each) as u64, budget: asked.budget });
        }
        let batch = batch.min(BATCH).min(queries.max(1));
        Ok(Room { batch, bytes: (own + batch * each) as u64, threads, groups })
    }

    fn search_batch(
        &self,
        batch: Batch<'_>,
        asked: &Asked<'_>,
        (found, room): (usize, Room),
        answer: &mut Answer,
    ) {
        let fresh = || match asked.wanted {
            Wanted::Nearest(k) => Nominees::nearest(k.min(found)),
            Wanted::Within(limit) => Nominees::within(limit),
        };
        let count = batch.vectors.rows();
        let listed = asked.allowed.filter(|_| found * SELECTIVE < self.end());
        let chunks: Vec<Range<usize>> =
            (0..count).step_by(QUERIES).map(|start| start..count.min(start + QUERIES)).collect();
        let threads = room.threads;
        let groups = self.end().div_ceil(GROUP);
        let parts = (2 * threads).div_ceil(chunks.len()).min(groups / GROUPS_A_THREAD).max(1);
        let parts = if chunks.len() >= 2 * threads || threads == 1 { 1 } else { parts };
        let each = groups.div_ceil(parts).next_multiple_of(2);
        let tasks: Vec<(Range<usize>, Range<usize>)> = (chunks.iter())
            .flat_map(|chunk| {
                (0..parts).map(|part| (chunk.clone(), part * each..groups.min((part + 1) * each)))
            })
            .collect();
        let work = |(chunk, groups): &(Range<usize>, Range<usize>)| {
            let mut nominees: Vec<Nominees> = chunk.clone().map(|_| fresh()).collect();
            let queries = batch.slice(chunk.clone());
            match listed {
                Some(allowed) if groups.start == 0 => self.take_all(queries, allowed, &mut nominees),
                Some(_) => {}
                None => self.scan(queries, (groups.clone(), room.groups), asked.allowed, &mut nominees),
            }
            nominees
        };
        // A thread that is woken costs more than little work.
        let done: Vec<Vec<Nominees>> = match &tasks[..] {
            [task] => vec![work(task)],
            tasks if threads == rayon::current_num_threads() => tasks.par_iter().map(work).collect(),
            tasks => {
                let shares = tasks.par_chunks(tasks.len().div_ceil(threads));
                shares.flat_map_iter(|tasks| tasks.iter().map(&work)).collect()
            }
        };
        let mut by_query: Vec<Nominees> = Vec::with_capacity(count);
        let mut done = done.into_iter();
        for _ in &chunks {
            let mut first: Vec<Nominees> = done.next().unwrap_or_default();
            for _ in 1..parts {
                let others = done.next().unwrap_or_default();
                first.iter_mut().zip(others).for_each(|(one, other)| one.merge(other));
            }
            by_query.extend(first);
        }
        let finish = |(query, nominees): (usize, Nominees)| nominees.finish(self.reported(batch, query));
        let finished: Vec<(Vec<(u32, u64)>, u64)> = if count < 8 {
            by_query.into_iter().enumerate().map(finish).collect()
        } else {
            by_query.into_par_iter().enumerate().map(finish).collect()
        };
        answer.scored += (count * if listed.is_some() { found } else { self.end() }) as u64;
        for (row, rescored) in finished {
            answer.rescored += rescored;
            answer.rows.push(row);
        }
    }

    /// Computes the key of the reported distance of a query to the row in a slot, and gives the row's id.
    fn reported<'a>(&'a self, batch: Batch<'a>, query: usize) -> impl FnMut(u32) -> (u32, u64) + 'a {
        let mut space = vec![0.0; self.dim];
        let side = distances::Side { vector: batch.vectors.row(query), squared: batch.squared[query] };
        move |slot| {
            let slot = slot as usize;
            let row = distances::Side { vector: self.row(slot, &mut space), squared: self.squared[slot] };
            (key_of(distance(self.metric, side, row)), self.ids[slot])
        }
    }

    /// Every allowed row is a nominee.
    fn take_all(&self, queries: Batch<'_>, allowed: &Bits, nominees: &mut [Nominees]) {
        for (query, nominees) in nominees.iter_mut().enumerate() {
            let mut reported = self.reported(queries, query);
            for slot in allowed.ones_in_order() {
                if nominees.add(f32::NEG_INFINITY, f32::INFINITY, slot as u32) {
                    nominees.settle(&mut reported);
                }
            }
        }
    }

    /// Scores groups of rows, `step` at a time, and adds those that cannot be excluded.
    fn scan(
        &self,
        queries: Batch<'_>,
        (groups, step): (Range<usize>, usize),
        allowed: Option<&Bits>,
        nominees: &mut [Nominees],
    ) {
        let mut scorer = Scorer::new(self, queries);
        let sides = std::mem::take(&mut scorer.sides);
        let mut limits: Vec<f32> = nominees.iter().map(|one| one.limit).collect();
        let allowed = allowed.or(self.alive());
        for start in groups.clone().step_by(step) {
            let range = start..groups.end.min(start + step);
            let slots = range.start * GROUP..self.end().min(range.end * GROUP);
            if allowed.is_some_and(|bits| !bits.has_any(slots.clone())) {
                continue;
            }
            let (terms, scores) = scorer.score(range);
            let take = |query: usize, group: usize, lane: usize, lower: f32| {
                let slot = (start + group) * GROUP + lane;
                let one = &mut nominees[query];
                if slot < slots.end && allowed.is_none_or(|bits| bits.get(slot)) {
                    let upper = sides[query].upper_end(&terms[group], lane, lower);
                    if one.add(lower, upper, slot as u32) {
                        one.settle(self.reported(queries, query));
                    }
                }
                one.limit
            };
            match scores {
                Scores::Integers(scores) => {
                    sift(terms, &sides, (scores, [sides.len() * GROUP, GROUP]), &mut limits, take);
                }
                Scores::Floats(scores) => {
                    sift(terms, &sides, (scores, [GROUP, terms.len() * GROUP]), &mut limits, take);
                }
            }
        }
    }
}
