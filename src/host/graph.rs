//! The k nearest other rows of every row. A pair of rows is scored once, and its interval serves both of them.
//!
//! Threads take chunks of rows as queries and go through the rows behind them, block by block. The candidates of the rows in a block are
//! locked while a thread sifts its scores; those of its own queries it keeps to itself, and merges them in the end.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bits::Bits;
use crate::elements::MatrixView;
use crate::error::Result;
use crate::host::integers::packed::GROUP;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::Batch;
use crate::host::search::candidates::Candidates;
use crate::host::search::intervals::sift_pairs;
use crate::host::search::request::{Hits, HostRequest};
use crate::host::search::schedule::{BATCH, GROUPS, QUERIES};
use crate::host::search::scorer::{Scorer, Scores};
use crate::interrupt::{self, Stop};
use crate::lock::lock;
use crate::memory;
use crate::parallel::*;

/// Slots of a block: as many as are scored at a time.
const BLOCK: usize = GROUPS * GROUP;

/// Chunks of queries for each thread between two reports of progress, at least. Behind each report threads wait for the last of them.
const WAVE: usize = 16;

/// Reports of a graph with more chunks.
const WAVES: usize = 8;

/// The rows of a block.
struct Block {
    candidates: Vec<Candidates>,
    /// Their limits. Those of rows that take no part exclude every pair.
    limits: Vec<[f32; GROUP]>,
}

/// The rows of an index, while pairs of them are scored.
struct Pass<'a> {
    rows: &'a HostRows,
    allowed: Option<&'a Bits>,
    blocks: Vec<Mutex<Block>>,
    k: usize,
    /// Groups that are scored at a time.
    groups: usize,
}

impl HostRows {
    /// The k nearest other rows of every row that may be found, slot by slot; none where the candidates of all rows, or the queries
    /// of all threads, would exceed the budget.
    pub(crate) fn graph(&self, k: usize, request: &HostRequest<'_>) -> Result<Option<Hits>> {
        let rows = request.eligible(self);
        let mut hits = Hits::with_room(rows)?;
        let k = k.min(rows.saturating_sub(1));
        if k == 0 {
            hits.ends.resize(rows, 0);
            request.progress.iter().for_each(|progress| progress(rows));
            return Ok(Some(hits));
        }
        let bytes =
            (self.end().next_multiple_of(BLOCK) as u64).saturating_mul(Candidates::bytes_of_few(k) as u64);
        let threads = current_num_threads();
        let Some(budget) = request.budget.checked_sub(bytes).filter(|_| memory::check_scratch(bytes).is_ok())
        else {
            return Ok(None);
        };
        let purpose = format!("a graph of {rows} rows");
        // Threads that would have no memory for their own queries leave the graph to searches.
        let Ok(schedule) = self.schedule_with(QUERIES * threads, budget, 0, (k, purpose)) else {
            return Ok(None);
        };
        if schedule.threads < threads || schedule.batch < BATCH.min(QUERIES * threads) {
            return Ok(None);
        }
        let allowed = request.allowed.or(self.alive());
        let pass = Pass::new(self, allowed, k, schedule.groups)?;
        let chunks: Vec<_> =
            (0..self.end()).step_by(QUERIES).map(|first| first..self.end().min(first + QUERIES)).collect();
        for wave in chunks.chunks((WAVE * threads).max(chunks.len() / WAVES)) {
            let pairs = wave.len() * QUERIES * (self.end() - wave[0].start);
            interrupt::watch(pairs.saturating_mul(self.dim()), |stop| {
                wave.par_iter().try_for_each(|chunk| pass.sweep(chunk.clone(), stop))
            })?;
            let (Some(progress), Some(last)) = (request.progress, wave.last()) else { continue };
            progress(allowed.map_or(last.end, |bits| bits.ones_within(0..last.end).count()));
        }
        pass.settle_late();
        for (number, block) in pass.blocks.into_iter().enumerate() {
            let block = block.into_inner().unwrap_or_else(PoisonError::into_inner);
            for (place, mut candidates) in block.candidates.into_iter().enumerate() {
                if is_in(allowed, number * BLOCK + place) {
                    candidates.sort();
                    hits.push(&candidates)?;
                }
            }
        }
        Ok(Some(hits))
    }
}

fn is_in(allowed: Option<&Bits>, slot: usize) -> bool {
    allowed.is_none_or(|bits| bits.get(slot))
}

impl<'a> Pass<'a> {
    fn new(rows: &'a HostRows, allowed: Option<&'a Bits>, k: usize, groups: usize) -> Result<Self> {
        let end = rows.end();
        let block = |first: usize| {
            let slots = first..end.min(first + BLOCK);
            let limit = |slot| {
                if slots.contains(&slot) && is_in(allowed, slot) { f32::INFINITY } else { f32::NEG_INFINITY }
            };
            let limits = (first..first + BLOCK)
                .step_by(GROUP)
                .map(|first| std::array::from_fn(|lane| limit(first + lane)));
            let candidates = memory::collect(slots.clone().map(|_| Candidates::of_few(k)))?;
            Ok(Mutex::new(Block { candidates, limits: limits.collect() }))
        };
        let blocks: Result<Vec<_>> = (0..end).step_by(BLOCK).map(block).collect();
        Ok(Self { rows, allowed, blocks: blocks?, k, groups })
    }

    /// Scores the rows in a chunk of slots with each other and with all rows behind them.
    fn sweep(&self, chunk: Range<usize>, stop: Stop<'_>) -> Result<()> {
        let rows = self.rows;
        let mut slots: Vec<u32> = memory::with_room(chunk.len())?;
        slots.extend(chunk.clone().filter(|&slot| is_in(self.allowed, slot)).map(|slot| slot as u32));
        if slots.is_empty() {
            return Ok(());
        }
        let mut wide = vec![];
        memory::reserve(&mut wide, slots.len() * rows.dim())?;
        let vectors = MatrixView::new(rows.values.chosen(&slots, &mut wide), rows.dim())?;
        let squared = memory::collect(slots.iter().map(|&slot| rows.values.squared[slot as usize]))?;
        let batch = Batch { vectors, squared: &squared };
        let mut scorer = Scorer::new(rows, None, batch, stop)?;
        let chosen = scorer.choose(memory::collect(0..slots.len() as u32)?)?;
        let mut own = memory::collect(slots.iter().map(|_| Candidates::of_few(self.k)))?;
        for (&slot, own) in slots.iter().zip(&mut own) {
            own.limit = self.block_of(slot as usize).candidates[slot as usize % BLOCK].limit;
        }
        let mut limits = memory::collect(own.iter().map(|own| own.limit))?;
        let (mut group, end) = (chunk.start / GROUP, rows.end().div_ceil(GROUP));
        while group < end {
            // Up to the next multiple, so that one block has them all.
            let range = group..end.min((group + 1).next_multiple_of(self.groups));
            let (terms, scores) = scorer.score(range.clone())?;
            let mut block = self.block_of(group * GROUP);
            let Block { candidates, limits: of_rows } = &mut *block;
            let first = group * GROUP;
            let keep = |query: usize, group: usize, lane: usize, lower: f32| {
                let (slot, own_slot) = (first + group * GROUP + lane, slots[query]);
                let own = &mut own[query];
                if slot >= rows.end() || !is_in(self.allowed, slot) {
                    return [own.limit, f32::NEG_INFINITY];
                }
                let row = &mut candidates[slot % BLOCK];
                if slot <= own_slot as usize {
                    return [own.limit, row.limit];
                }
                let upper = chosen.terms[query].upper_end(&terms[group], lane, lower);
                if lower <= own.limit && own.add(lower, upper, slot as u32) {
                    rows.settle(batch, query, own);
                }
                if lower <= row.limit && row.add(lower, upper, own_slot) {
                    rows.settle_row(slot, row);
                }
                [own.limit, row.limit]
            };
            let of_rows = &mut of_rows[group % (BLOCK / GROUP)..];
            match scores {
                Scores::Integers(scores) => {
                    let pitch = [chosen.terms.len() * GROUP, GROUP];
                    sift_pairs(terms, &chosen.terms, (scores, pitch), (&mut limits, of_rows), keep);
                }
                Scores::Floats(scores) => {
                    let pitch = [GROUP, terms.len() * GROUP];
                    sift_pairs(terms, &chosen.terms, (scores, pitch), (&mut limits, of_rows), keep);
                }
            }
            group = range.end;
        }
        for (&slot, own) in slots.iter().zip(own) {
            let (slot, place) = (slot as usize, slot as usize % BLOCK);
            let mut block = self.block_of(slot);
            let candidates = &mut block.candidates[place];
            candidates.merge(own);
            rows.settle_row(slot, candidates);
            block.limits[place / GROUP][place % GROUP] = block.candidates[place].limit;
        }
        Ok(())
    }

    /// Settles rows that took part in pairs after their own turn.
    fn settle_late(&self) {
        self.blocks.par_iter().enumerate().for_each(|(number, block)| {
            let mut block = lock(block);
            let late =
                block.candidates.iter_mut().enumerate().filter(|(_, candidates)| candidates.waiting() > 0);
            late.for_each(|(place, candidates)| self.rows.settle_row(number * BLOCK + place, candidates));
        });
    }

    fn block_of(&self, slot: usize) -> MutexGuard<'_, Block> {
        lock(&self.blocks[slot / BLOCK])
    }
}
