//! The sizes of a graph's lists and batches, and the schedule: which blocks each batch scores, and when lists are tightened.

use std::iter::successors;
use std::ops::Range;

use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::{QuantizedRows, TERMS_BYTES};
use crate::engine::screens::score::ScoreKernel;
use crate::engine::search::batch::{Candidate, Room, SearchBuffers};
use crate::engine::search::graph::sample::Sample;
use crate::engine::search::plan::Route;
use crate::engine::search::request::SearchRequest;
use crate::gpu::usable;
use crate::kernels::BLOCK_ROWS;

/// Candidates that a list holds where memory allows it: this many for each neighbour, within these limits.
const MOST_EACH: u64 = 16;
const CAPACITY: [u64; 2] = [256, 2048];

/// Candidates that a list holds at least for each neighbour.
const LEAST_EACH: u64 = 4;

/// Rows that a list meets before it is tightened, at most, in quarters of the rows that its threshold was taken from. With sixteen, lists of rows in
/// close groups overflow: the rows that were then searched for alone took a quarter of a graph's time (docs/lessons.md).
const QUARTERS: u32 = 4;

/// Batches of many rows, at least, and the rows of the largest. Each batch also meets itself, twice.
const BATCHES: u32 = 24;
const BATCH: u32 = 8192;

/// How the pairs of rows are collected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) kernel: &'static ScoreKernel,
    pub(super) rows: u32,
    /// Rows that the first thresholds are taken from.
    sampled: u32,
    k: u32,
    /// Rows of a batch of queries, a multiple of a block.
    pub(super) batch: u32,
    capacity: u32,
}

impl Shape {
    /// None where the lists of all rows do not fit.
    pub(super) fn new(
        of: (&GpuRows, &QuantizedRows),
        sample: &Sample<'_>,
        [rows, k]: [usize; 2],
    ) -> Option<Self> {
        let most = (rows as u32 / BATCHES).min(BATCH).max(sample.plan.batch);
        let (batch, request) = (most.next_multiple_of(BLOCK_ROWS), sample.request);
        let Route::Screened { chunk_blocks, .. } = sample.plan.route else { return None };
        of.0.in_order(rows as u64, request.budget)?;
        let most = of.0.gpu.adapter.capabilities.max_binding_bytes;
        let least = (LEAST_EACH * k as u64).max(32);
        let most_candidates = (MOST_EACH * k as u64).clamp(CAPACITY[0], CAPACITY[1]).max(least);
        // The largest that fits, down to the least.
        let capacities =
            successors(Some(most_candidates), |&more| (more > least).then(|| (more - 16).max(least)));
        let shape = |capacity| Self {
            kernel: sample.kernel,
            rows: rows as u32,
            sampled: chunk_blocks * BLOCK_ROWS,
            k: k as u32,
            batch,
            capacity: capacity as u32,
        };
        let fits = |shape: &Self| {
            let bytes: Vec<u64> = shape.bytes(of, request).requests().map(|request| request.bytes).collect();
            bytes.iter().sum::<u64>() <= usable(request.budget) && bytes.iter().all(|&bytes| bytes <= most)
        };
        capacities.map(shape).find(fits)
    }

    pub(super) fn room(&self) -> Room {
        let (queries, candidate) = (u64::from(self.batch), Candidate { bytes: 12, words: 2 });
        let padded = self.kernel.padded(queries);
        Room { queries, padded, k: self.k, capacity: self.capacity, candidate }
    }

    pub(super) fn bytes(
        &self,
        (rows, codes): (&GpuRows, &QuantizedRows),
        request: &SearchRequest<'_>,
    ) -> SearchBuffers<u64> {
        let (room, lists) = (self.room(), u64::from(self.rows));
        SearchBuffers {
            allowed: lists * 4,
            gathered: codes.plane_bytes(lists),
            gathered_terms: lists.next_multiple_of(BLOCK_ROWS.into()) * TERMS_BYTES,
            counts: lists * 4,
            thresholds: lists * 4,
            overflowed: lists * 4,
            candidates: lists * u64::from(self.capacity) * room.candidate.bytes,
            quantized: u64::from(self.kernel.planes(room.queries)) * codes.plane_bytes(room.padded),
            query_terms: room.padded * TERMS_BYTES,
            ..SearchBuffers::of(rows, request, room)
        }
    }

    /// The schedule of all batches. `passing` counts the candidates that the sample left, summed over all rows. None if lists would overflow before
    /// they could be tightened.
    pub(super) fn steps(&self, passing: u64) -> Option<Vec<Step>> {
        // A tightened list keeps as many candidates as the sample left, and up to half as many more where rows lie closer. Scoring as many rows
        // again as its threshold was taken from adds about the same number.
        let kept = 3 * (passing / u64::from(self.rows)).max(self.k.into()) as u32;
        let quarters = (8 * self.capacity / kept).saturating_sub(4);
        (quarters > 0).then(|| steps(self.rows, self.batch, self.sampled, quarters.min(QUARTERS)))
    }
}

/// The work of one batch of queries.
#[derive(Debug)]
pub(super) struct Step {
    /// Whether the batch first tightens the lists of all rows from its first query on.
    pub(super) tightens: bool,
    /// Ranges of blocks to score, in order. The queries' lists are tightened after each range.
    pub(super) blocks: Vec<Range<u32>>,
}

/// The schedule. Between two tightenings, a list meets at most `quarters / 4` times as many rows as its threshold was taken from, or one batch.
fn steps(rows: u32, batch: u32, sampled: u32, quarters: u32) -> Vec<Step> {
    let room_behind = |known: u32| (u64::from(known) * u64::from(quarters) / 4).min(u32::MAX.into()) as u32;
    // The number of rows that thresholds were taken from, and how many rows the lists had met when they were last tightened.
    let (mut known, mut tightened) = (sampled, 0);
    let of_batch = |first: u32| {
        let tightens = first + batch - tightened > room_behind(known) && first > tightened;
        if tightens {
            (known, tightened) = (known.max(first), first);
        }
        let (mut known, mut seen, mut since) = (known, first, tightened);
        let mut blocks = vec![];
        while seen < rows {
            let room = room_behind(known).saturating_sub(seen - since).max(batch);
            let end = seen.saturating_add(room).next_multiple_of(BLOCK_ROWS).min(rows);
            blocks.push(seen / BLOCK_ROWS..end.div_ceil(BLOCK_ROWS));
            (known, seen, since) = (known.max(end), end, end);
        }
        Step { tightens, blocks }
    };
    (0..rows).step_by(batch as usize).map(of_batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_meets_each_row_behind_it_once_before_lists_are_full() {
        for (rows, batch, sampled, quarters) in
            [(1000, 128, 128, 4), (100_000, 2048, 6272, 1), (70_001, 1024, 8192, 3), (128, 128, 128, 4)]
        {
            let steps = steps(rows, batch, sampled, quarters);
            assert_eq!(steps.len(), rows.div_ceil(batch) as usize);
            let (mut known, mut tightened) = (sampled, 0);
            for (first, step) in (0..rows).step_by(batch as usize).zip(&steps) {
                if step.tightens {
                    (known, tightened) = (known.max(first), first);
                }
                let mut seen = first / BLOCK_ROWS;
                for blocks in &step.blocks {
                    assert_eq!(blocks.start, seen, "{rows} {batch}: {first}");
                    seen = blocks.end;
                }
                assert_eq!(seen, rows.div_ceil(BLOCK_ROWS));
                // What rows behind the batch have on their lists.
                let met = first + batch - tightened;
                assert!(
                    met <= (quarters * known / 4).max(batch),
                    "{rows} {batch} {quarters}: {met} of {known}"
                );
            }
        }
    }
}
