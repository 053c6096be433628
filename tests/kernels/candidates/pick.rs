//! The kernel `pick`: thresholds from the best interval of each block, and the rows that they do not exclude.

use super::{Lists, NONE, bitset, has};
use crate::common::bench::Bench;
use nearfield::internals::certificate::{Form, Terms};
use nearfield::internals::kernels::{ABSENT, BLOCK_ROWS, key_of, pick};
use nearfield_testing::Random;

const BLOCK: usize = BLOCK_ROWS as usize;
const FORM: Form = Form::QuantizedInnerProduct;

/// A row of a block of scores: its slot, and the keys of its interval.
type Row = (u32, u32, u32);

/// Scores of a chunk whose blocks lie in two segments. All numbers are small integers, so intervals are exact.
struct Chunk {
    queries: usize,
    /// Blocks of each segment's part.
    blocks: [usize; 2],
    rows: [usize; 2],
    terms: [Vec<Terms>; 3],
    scores: Vec<f32>,
    allowed: Vec<u32>,
}

const ROOM: usize = 8;
const FIRST_SLOTS: [u32; 2] = [70, 4000];
/// Parts take every second block of a segment, from this one on.
const BLOCK_FIRST: [usize; 2] = [0, 1];

impl Chunk {
    fn new(random: &mut Random, queries: usize, blocks: [usize; 2]) -> Self {
        let rows = [2 * blocks[0] * BLOCK - 140, 2 * blocks[1] * BLOCK - 50];
        let mut terms = |count: usize| -> Vec<Terms> {
            let mut of = |most: usize| random.below(most) as f32;
            (0..count).map(|_| Terms { scale: 1.0, length: of(4), residual: of(3), bias: of(10) }).collect()
        };
        let terms = [terms(queries), terms(2 * blocks[0] * BLOCK), terms(2 * blocks[1] * BLOCK)];
        let columns = (blocks[0] + blocks[1]) * BLOCK;
        let scores = (0..columns * ROOM).map(|_| random.below(4000) as f32).collect();
        Self { queries, blocks, rows, terms, scores, allowed: bitset(9000) }
    }

    /// The usable rows of each block of a part.
    fn part(&self, query: usize, part: usize, has_bits: bool) -> Vec<Vec<Row>> {
        let column_first = part * self.blocks[0];
        let of_block = |number: usize| {
            let usable = (0..BLOCK).filter_map(|within| {
                let row = (BLOCK_FIRST[part] + 2 * number) * BLOCK + within;
                let slot = FIRST_SLOTS[part] + row as u32;
                (row < self.rows[part] && (!has_bits || has(&self.allowed, slot))).then(|| {
                    let score = self.scores[((column_first + number) * ROOM + query) * BLOCK + within];
                    let [q, x] = [self.terms[0][query], self.terms[1 + part][row]];
                    let ends = NONE.interval(FORM, score.into(), q, x).map(|end| key_of(end as f32));
                    (slot, ends[0], ends[1])
                })
            });
            usable.collect()
        };
        (0..self.blocks[part]).map(of_block).collect()
    }

    /// Runs the kernel for both parts; returns the thresholds and the lists.
    fn run(
        &self,
        bench: Bench<'_>,
        k: usize,
        has_bits: bool,
        limits: &[u32],
        lists: Lists,
    ) -> (Vec<u32>, Lists) {
        let (all, capacity) = (self.blocks[0] + self.blocks[1], lists.capacity);
        let parts = (0..self.queries).flat_map(|query| [0, 1].map(|part| self.part(query, part, has_bits)));
        let least = |keys: &mut dyn Iterator<Item = u32>| keys.min().unwrap_or(ABSENT);
        let best = parts
            .flatten()
            .map(|rows| [least(&mut rows.iter().map(|row| row.1)), least(&mut rows.iter().map(|row| row.2))]);
        let best: Vec<[u32; 2]> = best.collect();
        let (scores, best) = (bench.input(&self.scores), bench.input(&best));
        let (query_terms, allowed) = (bench.input(&self.terms[0]), bench.input(&self.allowed));
        let (thresholds, counts) = (bench.filled(limits), bench.filled(&lists.counts));
        let candidates = bench.filled(&lists.words);
        for part in 0..2 {
            let row_terms = bench.input(&self.terms[1 + part]);
            let params = pick::Params {
                queries: self.queries as u32,
                room: ROOM as u32,
                k: k as u32,
                column_first: (part * self.blocks[0] * BLOCK) as u32,
                block_first: BLOCK_FIRST[part] as u32,
                block_step: 2,
                part_blocks: self.blocks[part] as u32,
                blocks: all as u32,
                rows: self.rows[part] as u32,
                first_slot: FIRST_SLOTS[part],
                capacity: capacity as u32,
                plane: (self.queries * capacity) as u32,
                ..pick::Params::of(NONE)
            };
            let buffers =
                [&scores, &best, &row_terms, &query_terms, &allowed, &thresholds, &counts, &candidates];
            let constants = [FORM as u32, has_bits.into(), (k > 64).into()];
            bench.dispatch(&pick::KERNEL, &constants, &params, &buffers, [3, self.queries as u32]);
        }
        let lists = Lists { counts: bench.read(&counts), words: bench.read(&candidates), ..lists };
        (bench.read(&thresholds), lists)
    }

    fn check(&self, bench: Bench<'_>, k: usize, has_bits: bool) {
        for (capacity, before) in [(40_000, 0), (40_000, 2), (7, 0), (7, 2)] {
            let mut limits = vec![key_of(f32::MAX); self.queries];
            let mut lists = Lists::empty(self.queries, capacity);
            if before > 0 {
                (0..self.queries).for_each(|query| lists.put(query, &vec![[1, 2, 3]; before]));
                // One of the queries has a threshold already that is lower than any that follows from these blocks.
                limits[0] = key_of(-3500.0);
            }
            let (found, lists) = self.run(bench, k, has_bits, &limits, lists);
            for query in 0..self.queries {
                let blocks = [0, 1].map(|part| self.part(query, part, has_bits)).concat();
                let (limit, mut slots) = pick::reference(limits[query], &blocks, k);
                let said = format!("k {k}, query {query}, capacity {capacity}, {before} before");
                assert_eq!(found[query], limit, "{said}");
                slots.extend(vec![1; before]);
                slots.sort_unstable();
                assert_eq!(lists.counts[query] as usize, slots.len(), "{said}");
                if capacity > slots.len() {
                    assert_eq!(lists.slots(query), slots, "{said}");
                }
                for entry in lists.of(query) {
                    let mut rows = blocks.iter().flatten();
                    assert!(entry == [1, 2, 3] || rows.any(|&row| entry == [row.0, row.1, row.2]), "{said}");
                }
            }
        }
    }
}

#[test]
fn rows_are_picked_that_the_best_of_k_blocks_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(77);
    for (queries, blocks) in [(1, [3, 2]), (5, [40, 7]), (3, [1, 1100])] {
        let chunk = Chunk::new(&mut random, queries, blocks);
        for k in [1, 5, 47, 65, 200] {
            chunk.check(bench, k, k == 5);
        }
    }
}
