//! Search on the host: every row is scored, what cannot be excluded is held against each other by its distance.
//!
//! Threads share queries out among them, and where those are few rows too.

use std::ops::Range;

use rayon::prelude::*;

use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::host::integers::{GROUP, PANEL};
use crate::host::rows::norms;
use crate::host::rows::store::HostRows;
use crate::host::search::distances::{self, distance};
use crate::host::search::intervals::sift;
use crate::host::search::nominees::Nominees;
use crate::host::search::scorer::{Batch, Chosen, Scorer, Scores};
use crate::host::search::sharing::{by_batch, parts_of, shared_out};
use crate::kernels::key_of;
use crate::matrix::{Element, MatrixView};

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
pub(crate) const QUERIES: usize = 8 * PANEL;

/// Groups of rows that are scored at a time: their scores fit the second fastest.
const GROUPS: usize = 16;

/// So few queries are finished by the thread that asks: to wake others takes longer.
const FEW: usize = 64;

/// Queries of a batch at most.
const BATCH: usize = 4096;

/// Where fewer than one in so many rows are allowed, their distances are computed without scoring the others.
const SELECTIVE: usize = 32;

/// How a search fits its scratch memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Queries that are searched together.
    pub(crate) batch: usize,
    /// Scratch bytes that takes.
    pub(crate) bytes: u64,
    pub(crate) threads: usize,
    /// Lists of nominees there is room for: one a query, or one for each part that a query is searched in.
    pub(crate) lists: usize,
    /// Groups of rows that a thread scores at a time.
    pub(crate) groups: usize,
}

impl Room {
    /// No more parts for so many queries than there is room for.
    pub(crate) fn parts(&self, parts: usize, queries: usize) -> usize {
        parts.min(self.lists / queries).max(1)
    }
}

impl Asked<'_> {
    /// What is known of a query's rows before any was seen, where so many can be found.
    pub(crate) fn nominees(&self, found: usize) -> Nominees {
        match self.wanted {
            Wanted::Nearest(k) => Nominees::nearest(k.min(found)),
            Wanted::Within(limit) => Nominees::within(limit),
        }
    }

    /// How many of these rows can be found.
    pub(crate) fn found(&self, rows: &HostRows) -> usize {
        self.allowed.map_or(rows.len(), Bits::count_ones)
    }
}

impl HostRows {
    pub(crate) fn search<T: Element>(&self, queries: MatrixView<'_, T>, asked: &Asked<'_>) -> Result<Answer> {
        let squared = norms::checked("queries", queries)?;
        self.search_known((queries, &squared), asked)
    }

    /// The same for queries that were looked at before, with their squared norms.
    pub(crate) fn search_known<T: Element>(
        &self,
        (queries, squared): (MatrixView<'_, T>, &[f64]),
        asked: &Asked<'_>,
    ) -> Result<Answer> {
        let found = asked.found(self);
        let mut answer = Answer::default();
        if found == 0 {
            answer.rows.resize(queries.rows(), vec![]);
            return Ok(answer);
        }
        let room = self.room(queries.rows(), asked, found)?;
        by_batch((queries, squared), room.batch, asked, |batch| {
            self.search_batch(batch, asked, (found, room), &mut answer);
            Ok(())
        })?;
        Ok(answer)
    }

    /// What a search of so many rows does at a time.
    pub(crate) fn room(&self, queries: usize, asked: &Asked<'_>, found: usize) -> Result<Room> {
        let k = match asked.wanted {
            Wanted::Nearest(k) => k.min(found),
            Wanted::Within(_) => 0,
        };
        self.room_with(queries, asked.budget, 0, (k, format!("a search of {k} of {found} rows")))
    }

    /// The same, where a query takes some more bytes. In little memory it is less, and that by fewer threads.
    pub(crate) fn room_with(
        &self,
        queries: usize,
        budget: u64,
        more: usize,
        (k, purpose): (usize, String),
    ) -> Result<Room> {
        let list = Nominees::bytes(k);
        let each = self.dim * 8 + list + more;
        let room = usize::try_from(budget).unwrap_or(usize::MAX);
        // What threads have of scores, and of rows where they are widened.
        let row_bytes = if self.is_narrowed() { 0 } else { self.dim * 4 };
        let queries = queries.max(1);
        let own =
            |threads: usize, groups: usize| threads * groups * GROUP * (queries.min(QUERIES) * 4 + row_bytes);
        let (mut threads, mut groups) = (rayon::current_num_threads(), GROUPS);
        // No more than leaves enough for one query.
        let most = (room / 2).min(room.saturating_sub(each));
        while groups > 2 && own(threads, groups) > most {
            groups /= 2;
        }
        while threads > 1 && own(threads, groups) > most {
            threads = threads.div_ceil(2);
        }
        let own = own(threads, groups);
        let batch = room.saturating_sub(own) / each;
        if batch == 0 {
            return Err(Error::Budget { purpose, needed: (own + each) as u64, budget });
        }
        let batch = batch.min(BATCH).min(queries);
        // What is left is for parts of queries, where these are too few for all threads.
        let most = batch * parts_of(batch.div_ceil(QUERIES), usize::MAX, threads);
        let lists = most.min(batch + (room - own - batch * each) / list);
        Ok(Room {
            batch,
            bytes: (own + batch * each + (lists - batch) * list) as u64,
            threads,
            lists,
            groups,
        })
    }

    fn search_batch(
        &self,
        batch: Batch<'_>,
        asked: &Asked<'_>,
        (found, room): (usize, Room),
        answer: &mut Answer,
    ) {
        let count = batch.vectors.rows();
        let listed = asked.allowed.filter(|_| found * SELECTIVE < self.end());
        let groups = self.end().div_ceil(GROUP);
        let parts =
            if listed.is_some() { 1 } else { parts_of(count.div_ceil(QUERIES), groups, room.threads) };
        let parts = room.parts(parts, count);
        let each = groups.div_ceil(parts).next_multiple_of(2);
        let by_query = shared_out(count, [QUERIES, parts], room.threads, |chunk, part| {
            let queries = batch.slice(chunk.clone());
            let mut nominees: Vec<Nominees> = chunk.map(|_| asked.nominees(found)).collect();
            match listed {
                Some(allowed) => self.take_all(queries, allowed, &mut nominees),
                None => {
                    let mut scorer = Scorer::new(self, queries);
                    let chosen = scorer.choose_all();
                    let groups = part * each..groups.min((part + 1) * each);
                    self.scan(&mut scorer, &chosen, (groups, room.groups), asked.allowed, &mut nominees);
                }
            }
            nominees
        });
        answer.scored += (count * if listed.is_some() { found } else { self.end() }) as u64;
        self.finish(batch, by_query, answer);
    }

    /// Adds what was found for each query to an answer.
    pub(crate) fn finish(&self, batch: Batch<'_>, by_query: Vec<Nominees>, answer: &mut Answer) {
        let finish = |(query, nominees): (usize, Nominees)| nominees.finish(self.reported(batch, query));
        let finished: Vec<(Vec<(u32, u64)>, u64)> = if by_query.len() < FEW {
            by_query.into_iter().enumerate().map(finish).collect()
        } else {
            by_query.into_par_iter().enumerate().map(finish).collect()
        };
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

    /// Scores groups of rows, `step` at a time, for the queries that were chosen of `nominees`, and adds those that cannot be excluded.
    pub(crate) fn scan(
        &self,
        scorer: &mut Scorer<'_>,
        chosen: &Chosen,
        (groups, step): (Range<usize>, usize),
        allowed: Option<&Bits>,
        nominees: &mut [Nominees],
    ) {
        let queries = scorer.queries;
        let Chosen { places, sides } = chosen;
        let mut limits: Vec<f32> = places.iter().map(|&place| nominees[place as usize].limit).collect();
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
                let place = places[query] as usize;
                let one = &mut nominees[place];
                if slot < slots.end && allowed.is_none_or(|bits| bits.get(slot)) {
                    let upper = sides[query].upper_end(&terms[group], lane, lower);
                    if one.add(lower, upper, slot as u32) {
                        one.settle(self.reported(queries, place));
                    }
                }
                one.limit
            };
            match scores {
                Scores::Integers(scores) => {
                    sift(terms, sides, (scores, [sides.len() * GROUP, GROUP]), &mut limits, take);
                }
                Scores::Floats(scores) => {
                    sift(terms, sides, (scores, [GROUP, terms.len() * GROUP]), &mut limits, take);
                }
            }
        }
    }
}
