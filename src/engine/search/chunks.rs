//! Chunks of rows, the rounds in which their scores are collected, and the size of submissions.

use crate::engine::rows::segments::{GpuRows, Segment};
use crate::engine::screens::score::ScoreKernel;
use crate::gpu::AdapterKind;
use crate::kernels::collect::{GROUP, Round};
use crate::kernels::collect_tile_i8::RoundPart;
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::{BLOCK_ROWS, Part};

/// Rows that the first threshold is taken from: at least, and at most if lists hold more.
const SAMPLE: [u64; 2] = [2048, 8192];

/// The largest number of operations of one submission: about 100 ms on a weak adapter of its kind, because systems kill programs
/// whose submissions run for seconds. They do not kill software adapters.
pub(crate) fn submission_flops(kind: AdapterKind) -> u64 {
    match kind {
        AdapterKind::Software => 20_000_000_000,
        AdapterKind::Discrete => 400_000_000_000,
        _ => 40_000_000_000,
    }
}

/// Blocks whose scores one submission computes: no more than a grid has workgroups.
pub(crate) fn chunk_limit(rows: &GpuRows, kernel: &ScoreKernel, batch: u64) -> u64 {
    let block_flops = 2 * batch * u64::from(BLOCK_ROWS) * rows.layout.stride as u64;
    (submission_flops(rows.gpu.adapter.kind) * kernel.speed / block_flops)
        .clamp(8, rows.gpu.adapter.capabilities.max_workgroups.into())
}

/// Chunk number `chunk` of `chunks`: every `chunks`-th block of all segments, so that the rows of all chunks are alike in any order
/// of insertion.
pub(crate) fn chunk_parts(segments: &[Segment], chunk: u32, chunks: u32) -> Vec<Part> {
    let mut parts = vec![];
    let mut first_block = 0u64;
    let mut column_first = 0;
    for (index, segment) in segments.iter().enumerate() {
        let block_first = ((u64::from(chunk) + u64::from(chunks) - first_block % u64::from(chunks))
            % u64::from(chunks)) as u32;
        let blocks = segment.blocks().saturating_sub(block_first).div_ceil(chunks);
        if blocks > 0 {
            parts.push(Part { segment: index, block_first, block_step: chunks, blocks, column_first });
            column_first += blocks * BLOCK_ROWS;
        }
        first_block += u64::from(segment.blocks());
    }
    parts
}

/// Chunk number `chunk` of `chunks`: neighbouring blocks, about as many in each. Rows of chunks may differ, so each needs a threshold of its
/// own. There are fewer parts than in [`chunk_parts`], which has one for each segment, and their blocks lie side by side in memory.
pub(crate) fn neighbouring_parts(segments: &[Segment], chunk: u32, chunks: u32) -> Vec<Part> {
    let counts: Vec<u64> = segments.iter().map(|segment| segment.blocks().into()).collect();
    neighbours(&counts, chunk, chunks)
}

/// The same, given the number of blocks in each segment.
fn neighbours(counts: &[u64], chunk: u32, chunks: u32) -> Vec<Part> {
    let all: u64 = counts.iter().sum();
    let [start, end] = [chunk, chunk + 1].map(|number| all * u64::from(number) / u64::from(chunks));
    let (mut parts, mut before, mut column_first) = (vec![], 0, 0);
    for (segment, &count) in counts.iter().enumerate() {
        let [first, last] = [start, end].map(|place| (place.clamp(before, before + count) - before) as u32);
        let (block_first, blocks) = (first, last - first);
        if blocks > 0 {
            parts.push(Part { segment, block_first, block_step: 1, blocks, column_first });
            column_first += blocks * BLOCK_ROWS;
        }
        before += count;
    }
    parts
}

/// The rounds of a chunk of `blocks` blocks, when the threshold was taken from `seen` rows. Each round is as large as the threshold
/// permits without overflowing the lists of candidates.
///
/// A threshold that was taken from some rows lets `spread` times k of as many other rows pass.
pub(crate) fn rounds(blocks: u32, seen: u64, k: u32, capacity: u32, spread: u32) -> Vec<Round> {
    // Rows that were inserted in the order of their distance lie in neighbouring groups. A round of g times as many groups as were
    // seen may then keep all rows of g - 1 groups, on either side of the query.
    let growth = (u64::from(capacity) / (u64::from(spread) * u64::from(k)).max(u64::from(2 * GROUP))).max(2);
    let growth_step = (growth + 1).next_power_of_two() / 2;
    let rows = u64::from(blocks) * u64::from(BLOCK_ROWS);
    // Without a threshold all rows are kept. The sample is large enough that one round can take all other rows; steps are powers of
    // two.
    let sample = (2 * rows / growth).clamp(SAMPLE[0], SAMPLE[1]).max(4 * u64::from(k)).min(capacity.into());
    let mut allowed = if seen == 0 { sample } else { seen * growth };
    let most = rows / u64::from(GROUP);
    let mut step = 1;
    while rows.div_ceil(step) + u64::from(GROUP) > allowed && step < most {
        step *= 2;
    }
    let mut rounds = vec![Round { step: step as u32, skip: 0 }];
    while step > 1 {
        // After this round, 1 / step of the chunk has been seen.
        allowed = (seen + rows.div_ceil(step)) * growth;
        let mut next = step;
        while next > 1 && rows / (next / 2) <= allowed {
            next /= 2;
        }
        let next = if next == step { (step / growth_step.max(2)).max(1) } else { next };
        rounds.push(Round { step: next as u32, skip: step as u32 });
        step = next;
    }
    rounds
}

/// The rounds over all blocks of an index that follow a first threshold, which was taken from every `sampled`-th block (a power of
/// two). Their rows are collected as they are scored.
///
/// As in [`rounds`], rows that were inserted in the order of their distance lie in neighbouring blocks, and a round of g times as many
/// blocks as were seen may keep g - 1 of them on either side of the query.
pub(crate) fn block_rounds(sampled: u32, k: u32, capacity: u32, spread: u32, queries: u64) -> Vec<Round> {
    let passing = (u64::from(spread) * u64::from(k)).max(u64::from(2 * BLOCK_ROWS));
    let growth = (u64::from(capacity) / passing + 1).next_power_of_two() / 2;
    // A row that passes costs as much as many that do not: more rounds, with tighter thresholds, are faster. For few queries, a round
    // costs more than the rows.
    let most = if queries <= TILE_QUERIES.into() { 128 } else { 4 };
    let growth = growth.clamp(2, most) as u32;
    let mut rounds = vec![];
    let mut skip = sampled;
    while skip > 1 {
        let step = (skip / growth).max(1);
        rounds.push(Round { step, skip });
        skip = step;
    }
    rounds
}

/// The blocks of a round in each segment, at most `most` at a time.
pub(crate) fn round_parts(segments: &[Segment], round: Round, most: u32) -> Vec<RoundPart> {
    // Blocks of the round among the first `blocks` of the index.
    let before = |blocks: u32| {
        blocks.div_ceil(round.step) - if round.skip > 0 { blocks.div_ceil(round.skip) } else { 0 }
    };
    let mut parts = vec![];
    let mut base = 0;
    for (segment, one) in segments.iter().enumerate() {
        let end = before(base + one.blocks());
        for first in (before(base)..end).step_by(most as usize) {
            parts.push(RoundPart { segment, round, base, first, blocks: most.min(end - first) });
        }
        base += one.blocks();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_parts_have_every_block_once() {
        for counts in [&[5][..], &[3, 0, 4], &[100, 1, 50, 50], &[0], &[]] {
            let all: u64 = counts.iter().sum();
            for chunks in [1, 2, 3, 7, 12] {
                let (mut seen, mut sizes) = (vec![], vec![]);
                for chunk in 0..chunks {
                    let parts = neighbours(counts, chunk, chunks);
                    let mut columns = 0;
                    for part in &parts {
                        assert_eq!((part.block_step, part.column_first), (1, columns * BLOCK_ROWS));
                        columns += part.blocks;
                        let before: u64 = counts[..part.segment].iter().sum();
                        seen.extend(
                            (0..part.blocks).map(|block| before + u64::from(part.block_first + block)),
                        );
                    }
                    sizes.push(columns);
                }
                assert_eq!(seen, (0..all).collect::<Vec<_>>(), "{counts:?} in {chunks}");
                let [least, most] = [sizes.iter().min(), sizes.iter().max()];
                assert!(most.copied() <= least.map(|least| least + 1), "{counts:?}: {sizes:?}");
            }
        }
    }

    #[test]
    fn rounds_visit_every_group_once() {
        for blocks in [1, 2, 7, 8, 9, 100, 391, 5000] {
            for (seen, k, capacity) in [
                (0, 1, 1024),
                (0, 10, 1024),
                (0, 10, 16_384),
                (0, 128, 2048),
                (4096, 10, 1024),
                (1 << 30, 10, 1024),
            ] {
                let rounds = rounds(blocks, seen, k, capacity, if k == 10 { 16 } else { 4 });
                let groups = blocks * (BLOCK_ROWS / GROUP);
                for group in 0..groups {
                    let visits = rounds.iter().filter(|round| {
                        group % round.step == 0 && (round.skip == 0 || group % round.skip != 0)
                    });
                    assert_eq!(visits.count(), 1, "group {group} of {groups}, {rounds:?}");
                }
                if seen == 0 {
                    let first = u64::from(groups.div_ceil(rounds[0].step)) * u64::from(GROUP);
                    assert!(
                        first <= u64::from(capacity),
                        "{blocks} {rounds:?}: without a threshold all rows are kept"
                    );
                }
            }
        }
    }
}
