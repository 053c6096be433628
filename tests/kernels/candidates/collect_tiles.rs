//! The kernels that score a tile and collect from it: `collect_tile_i8` and `collect_tile_coop`.

use std::collections::BTreeMap;

use super::{Lists, WIDE, random_terms, slack};
use crate::common::bench::{Bench, Bound};
use crate::common::narrowed::{integers, packed};
use nearfield::Metric;
use nearfield::internals::certificate::{Margin, Narrowing, Terms};
use nearfield::internals::kernels::collect::Form;
use nearfield::internals::kernels::{
    BLOCK_ROWS, Kernel, collect_tile_coop, collect_tile_i8, key_of, narrow, screen_tile_i8, value_of,
};
use nearfield_testing::Random;

const BLOCK: usize = BLOCK_ROWS as usize;
const BLOCKS: usize = 7;
/// The segment's last block is not full.
const ROWS: usize = BLOCKS * BLOCK - 50;
const FIRST_SLOT: u32 = 70;
/// Number of the segment's first block in the index.
const BASE: u32 = 6;

/// The blocks that a dispatch takes: step, ratio, and the numbers of the segment's blocks that follow from them.
const ROUNDS: [(u32, u32, &[usize]); 4] =
    [(1, 0, &[0, 1, 2, 3, 4, 5, 6]), (2, 0, &[0, 2, 4, 6]), (2, 2, &[0, 4]), (1, 4, &[0, 1, 3, 4, 5])];

struct Tiles {
    form: Form,
    granules: u32,
    margin: Margin,
    queries: Vec<Vec<i32>>,
    rows: Vec<Vec<i32>>,
    terms: [Vec<Terms>; 2],
}

impl Tiles {
    fn new(form: Form, dim: usize, queries: usize, margin: Margin) -> Self {
        let mut random = Random::new((dim * 31 + queries) as u64);
        let levels = Narrowing::of(Metric::L2, dim).levels as usize;
        // Small integers, so that intervals of `WIDE` overlap.
        let levels = levels.min(4);
        let [queries, rows] =
            [queries, BLOCKS * BLOCK].map(|count| integers(&mut random, count, dim, levels));
        let terms = [queries.len(), rows.len()]
            .map(|count| (0..count).map(|_| random_terms(&mut random, form)).collect());
        Self { form, granules: narrow::granules(dim), margin, queries, rows, terms }
    }

    fn dispatch(
        &self,
        bench: Bench<'_>,
        kernel: &'static Kernel,
        (step, ratio, blocks): (u32, u32, &[usize]),
        (thresholds, allowed): (&[u32], Option<&[u32]>),
        capacity: usize,
    ) -> Lists {
        let dim = self.rows[0].len();
        let count = self.queries.len();
        let [queries, rows] = [&self.queries, &self.rows].map(|vectors| bench.input(&packed(vectors, dim)));
        let [query_terms, row_terms] = [0, 1].map(|which| bench.input(&self.terms[which]));
        let (limits, bits) = (bench.input(thresholds), bench.input(allowed.unwrap_or(&[0])));
        let lists = Lists { counts: vec![0; count], ..Lists::new(count, capacity) };
        let (counts, candidates) = (bench.filled(&lists.counts), bench.filled(&lists.words));
        // Blocks of the round before the segment's first.
        let first = BASE.div_ceil(step) - if ratio > 0 { BASE.div_ceil(ratio * step) } else { 0 };
        let params = collect_tile_i8::Params {
            granules: self.granules,
            queries: count as u32,
            rows: ROWS as u32,
            first_slot: FIRST_SLOT,
            first,
            step,
            ratio,
            base: BASE,
            capacity: capacity as u32,
            plane: (count * capacity) as u32,
            ..collect_tile_i8::Params::of(self.margin)
        };
        let buffers: [&dyn Bound; 8] =
            [&queries, &rows, &row_terms, &query_terms, &limits, &bits, &counts, &candidates];
        let constants = [self.form as u32, allowed.is_some().into()];
        let grid = [count.div_ceil(BLOCK) as u32, blocks.len() as u32];
        bench.dispatch(kernel, &constants, &params, &buffers, grid);
        Lists { counts: bench.read(&counts), words: bench.read(&candidates), ..lists }
    }

    /// Lower and upper key of each row that may be found, by slot: every usable row of the blocks, with the right interval.
    fn all(
        &self,
        bench: Bench<'_>,
        kernel: &'static Kernel,
        round: (u32, u32, &[usize]),
        allowed: Option<&[u32]>,
    ) -> Vec<BTreeMap<u32, [u32; 2]>> {
        let thresholds = vec![key_of(f32::MAX); self.queries.len()];
        let lists = self.dispatch(bench, kernel, round, (&thresholds, allowed), BLOCKS * BLOCK);
        let of = |query: usize| {
            let found: BTreeMap<u32, [u32; 2]> =
                lists.of(query).iter().map(|&[slot, lower, upper]| (slot, [lower, upper])).collect();
            assert_eq!(found.len(), lists.counts[query] as usize, "each row once");
            let rows = round.2.iter().flat_map(|block| block * BLOCK..(block + 1) * BLOCK);
            let is_usable = |row: &usize| {
                let slot = FIRST_SLOT as usize + row;
                *row < ROWS && allowed.is_none_or(|words| words[slot / 32] >> (slot % 32) & 1 == 1)
            };
            let rows: Vec<usize> = rows.filter(is_usable).collect();
            assert!(found.keys().copied().eq(rows.iter().map(|&row| FIRST_SLOT + row as u32)));
            for (&row, keys) in rows.iter().zip(found.values()) {
                let score = screen_tile_i8::reference(&self.queries[query], &self.rows[row]) as f64;
                let [q, x] = [self.terms[0][query], self.terms[1][row]];
                let interval = self.margin.interval(self.form, score, q, x);
                for (&key, want) in keys.iter().zip(interval) {
                    let found = f64::from(value_of(key));
                    let said = || format!("{:?}, query {query}, row {row}: {found}, not {want}", self.form);
                    assert!((found - want).abs() <= slack(interval), "{}", said());
                }
            }
            found
        };
        (0..self.queries.len()).map(of).collect()
    }

    /// Checks that thresholds drop exactly the rows whose lower end, as the kernel itself computes it, lies above them.
    fn check(
        &self,
        bench: Bench<'_>,
        kernel: &'static Kernel,
        round: (u32, u32, &[usize]),
        allowed: Option<&[u32]>,
    ) {
        let all = self.all(bench, kernel, round, allowed);
        let threshold = |(query, rows): (usize, &BTreeMap<u32, [u32; 2]>)| {
            let mut lowers: Vec<u32> = rows.values().map(|keys| keys[0]).collect();
            lowers.sort_unstable();
            lowers[(lowers.len() - 1) * (query % 5) / 7]
        };
        let thresholds: Vec<u32> = all.iter().enumerate().map(threshold).collect();
        for capacity in [BLOCKS * BLOCK, 9] {
            let lists = self.dispatch(bench, kernel, round, (&thresholds, allowed), capacity);
            for (query, rows) in all.iter().enumerate() {
                let kept = |(_, keys): &(&u32, &[u32; 2])| keys[0] <= thresholds[query];
                let wanted: Vec<[u32; 3]> =
                    rows.iter().filter(kept).map(|(&slot, keys)| [slot, keys[0], keys[1]]).collect();
                assert_eq!(
                    lists.counts[query] as usize,
                    wanted.len(),
                    "a list that is full goes on counting"
                );
                let mut found = lists.of(query);
                found.sort_unstable();
                if capacity > 9 {
                    assert_eq!(found, wanted, "{:?}, query {query}", self.form);
                } else {
                    assert!(
                        found.iter().all(|entry| wanted.contains(entry)),
                        "{:?}, query {query}",
                        self.form
                    );
                }
            }
        }
    }
}

fn check_all(bench: Bench<'_>, kernel: &'static Kernel) {
    let allowed: Vec<u32> = (0..40u32).map(|word| word.wrapping_mul(0x9e37_79b9) | 0x1010).collect();
    let mut turn = 0;
    for form in [Form::NarrowedL2, Form::NarrowedInnerProduct, Form::NarrowedCosine] {
        for (dim, queries) in [(1, 3), (33, 130), (100, 40), (384, 5)] {
            let tiles = Tiles::new(form, dim, queries, WIDE);
            tiles.check(bench, kernel, ROUNDS[turn % 4], None);
            tiles.check(bench, kernel, ROUNDS[(turn + 1) % 4], Some(&allowed));
            turn += 1;
        }
    }
}

/// The kernels that the device runs.
fn kernels(bench: Bench<'_>) -> &'static [&'static Kernel] {
    static ALL: [&Kernel; 2] = [&collect_tile_i8::KERNEL, &collect_tile_coop::KERNEL];
    if bench.device.capabilities().matrix_side().is_some() {
        return &ALL;
    }
    println!("skipped: no cooperative matrices of f16");
    &ALL[..1]
}

#[test]
fn a_tile_keeps_exactly_the_rows_that_thresholds_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    for kernel in kernels(bench) {
        check_all(bench, kernel);
    }
}

/// Lengths and residuals of very different size in one block: the bound that its rows share is far from most of them.
#[test]
fn a_bound_that_rows_share_loses_none_of_them() {
    let Some(bench) = Bench::open() else { return };
    for form in [Form::NarrowedL2, Form::NarrowedInnerProduct, Form::NarrowedCosine] {
        let mut tiles = Tiles::new(form, 64, 20, Margin { relative: 1e-5, ..WIDE });
        for (number, terms) in tiles.terms[1].iter_mut().enumerate() {
            let factor = [1.0, 1e-3, 1e-6, 30.0][number % 4];
            terms.length *= factor;
            terms.residual *= factor;
            terms.scale *= factor;
            if form == Form::NarrowedL2 {
                terms.bias *= factor * factor;
            }
        }
        for &kernel in kernels(bench) {
            tiles.check(bench, kernel, ROUNDS[0], None);
        }
    }
}
