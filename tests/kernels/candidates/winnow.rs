//! The kernel `winnow`: it keeps the scored rows of a query that cannot be excluded.

use std::collections::{BTreeMap, BTreeSet};

use super::{FORMS, Lists, NONE, WIDE, check_ends, random_terms, slack};
use crate::common::bench::{Bench, two_rows};
use crate::common::lists::BLOCK;
use nearfield::internals::certificate::Terms;
use nearfield::internals::kernels::winnow::{self, Form, Margin};
use nearfield::internals::kernels::{key_of, value_of};
use nearfield_testing::Random;

/// The slot and the interval of a row that was scored for a query.
type Row = (u32, [f64; 2]);

struct Winnowing {
    form: Form,
    margin: Margin,
    terms: [Vec<Terms>; 2],
    rows: usize,
    first_slot: u32,
    /// Queries of a block.
    room: usize,
    /// One block in this many was scored.
    step: usize,
    /// `[blocks / step, room, 128]`.
    scores: Vec<f32>,
    /// A bit for each slot, where only rows may be found whose bit is 1.
    allowed: Option<Vec<u32>>,
}

impl Winnowing {
    /// Every `step`-th block scored for every query.
    fn new(form: Form, queries: usize, rows: usize, step: usize) -> Self {
        let place = FORMS.iter().position(|one| *one == form).map_or(0, |place| place as u64 + 4);
        let mut random = Random::new(place * 1000 + rows as u64);
        let (blocks, room) = (rows.div_ceil(BLOCK), queries + 3);
        let scores = (0..blocks.div_ceil(step) * room * BLOCK).map(|_| random.below(400) as f32 - 150.0);
        let scores = scores.collect();
        let terms = random_terms(&mut random, form, [queries, blocks * BLOCK]);
        Self { form, margin: WIDE, terms, rows, first_slot: 70, room, step, scores, allowed: None }
    }

    /// Every row scored, with intervals without width: distances are the negated scores.
    fn exact(form: Form, queries: usize, rows: usize) -> Self {
        let one = Terms { scale: 1.0, length: 0.0, residual: 0.0, bias: 0.0 };
        let mut made = Self { margin: NONE, ..Self::new(form, queries, rows, 1) };
        made.terms.iter_mut().for_each(|terms| terms.fill(one));
        made
    }

    /// Sets the score of a query and a row, where every row was scored.
    fn set(&mut self, query: usize, row: usize, score: f32) {
        self.scores[(row / BLOCK * self.room + query) * BLOCK + row % BLOCK] = score;
    }

    fn queries(&self) -> usize {
        self.terms[0].len()
    }

    fn rows_of(&self, query: usize) -> Vec<Row> {
        let is_allowed = |row: usize| {
            let slot = self.first_slot as usize + row;
            self.allowed.as_ref().is_none_or(|bits| bits[slot / 32] >> (slot % 32) & 1 == 1)
        };
        let scored = (0..self.rows).filter(|row| (row / BLOCK).is_multiple_of(self.step) && is_allowed(*row));
        let of_row = |row: usize| {
            let block = row / BLOCK / self.step;
            let score = self.scores[(block * self.room + query) * BLOCK + row % BLOCK];
            let [query, x] = [self.terms[0][query], self.terms[1][row]];
            (self.first_slot + row as u32, self.margin.interval(self.form, score.into(), query, x))
        };
        scored.map(of_row).collect()
    }

    /// The lists, and the threshold of each query.
    fn run(&self, bench: Bench<'_>, k: usize, before: &Lists) -> (Lists, Vec<u32>) {
        self.run_parts(bench, k, before, &[self.rows.div_ceil(BLOCK).div_ceil(self.step)])
    }

    /// The same for several parts, given the blocks of each.
    fn run_parts(&self, bench: Bench<'_>, k: usize, before: &Lists, parts: &[usize]) -> (Lists, Vec<u32>) {
        let scores = bench.input(&self.scores);
        let [queries, rows] = [0, 1].map(|which| bench.input(&self.terms[which]));
        let (counts, lists) = (bench.filled(&before.counts), bench.filled(&before.words));
        let limits = bench.output(self.queries());
        let capacity = before.capacity as u32;
        let allowed = bench.input(self.allowed.as_deref().unwrap_or(&[]));
        let mut first = 0;
        for &blocks in parts {
            let params = winnow::Params {
                queries: self.queries() as u32,
                k: k as u32,
                capacity,
                plane: self.queries() as u32 * capacity,
                room: self.room as u32,
                part_blocks: blocks as u32,
                column_first: (first * BLOCK) as u32,
                block_first: (first * self.step) as u32,
                is_first: u32::from(first == 0),
                block_step: self.step as u32,
                rows: self.rows as u32,
                first_slot: self.first_slot,
                ..winnow::Params::of(self.margin)
            };
            let buffers = [&scores, &rows, &queries, &counts, &limits, &lists, &allowed];
            let constants = [self.form as u32, self.allowed.is_some().into(), (k > 64).into()];
            bench.dispatch(&winnow::KERNEL, &constants, &params, &buffers, two_rows(self.queries()));
            first += blocks;
        }
        let lists =
            Lists { counts: bench.read(&counts), words: bench.read(&lists), capacity: before.capacity };
        (lists, bench.read(&limits))
    }

    /// Panics unless the list holds rows that were scored, and all that must be kept. Returns them, and the rows that must be kept.
    fn check(&self, lists: &Lists, query: usize, k: usize, said: &str) -> (Vec<Row>, Vec<usize>) {
        let rows = self.rows_of(query);
        let kept = lists.by_slot(query);
        let by_slot: BTreeMap<u32, [f64; 2]> = rows.iter().copied().collect();
        for (slot, entry) in &kept {
            let interval = by_slot.get(slot).unwrap_or_else(|| panic!("{said}: slot {slot} was not scored"));
            check_ends(*entry, *interval, format_args!("{said}, slot {slot}"));
        }
        let intervals: Vec<[f64; 2]> = rows.iter().map(|row| row.1).collect();
        let must = winnow::reference(&intervals, k);
        let mut uppers: Vec<f64> = intervals.iter().map(|ends| ends[1]).collect();
        uppers.sort_unstable_by(f64::total_cmp);
        for &row in &must {
            let (slot, interval) = rows[row];
            let is_close = uppers.len() >= k && interval[0] > uppers[k - 1] - slack(interval);
            assert!(kept.contains_key(&slot) || is_close, "{said}: slot {slot} must stay");
        }
        // The threshold lies below all dropped rows, and above k upper ends.
        let dropped = rows.iter().filter(|row| !kept.contains_key(&row.0));
        if let Some(dropped) = dropped.map(|row| row.1[0] + slack(row.1)).reduce(f64::min) {
            let below = uppers.iter().filter(|&&upper| upper <= dropped).count();
            assert!(below >= k, "{said}: {below} upper ends below the dropped rows, not {k}");
        }
        (rows, must)
    }
}

const KS: [usize; 4] = [1, 64, 65, 512];

/// Blocks that are not scored are compared with the threshold later.
#[test]
fn winnow_keeps_every_row_that_may_be_among_the_nearest_and_writes_the_threshold() {
    let Some(bench) = Bench::open() else { return };
    let whole = [1, 3, 30, 127, 130, 2556, 3200, 5300].map(|rows| (rows, 1, 3300));
    let sampled = [(100, 4, 100), (5300, 4, 5300), (5300, 7, 5300), (20_000, 2, 20_000)];
    for form in FORMS {
        for (rows, step, capacity) in whole.into_iter().chain(sampled) {
            let winnowing = Winnowing::new(form, 5, rows, step);
            for k in KS {
                let (lists, thresholds) = winnowing.run(bench, k, &Lists::new(5, capacity));
                for (query, &threshold) in thresholds.iter().enumerate() {
                    let said = format!("{form:?}, {rows} rows, step {step}, k {k}, query {query}");
                    let (scored, must) = winnowing.check(&lists, query, k, &said);
                    let (kept, limit) = (lists.slots(query), f64::from(value_of(threshold)));
                    for &(slot, interval) in &scored {
                        let (lower, near) = (interval[0], slack(interval));
                        let is_kept = kept.binary_search(&slot).is_ok();
                        let is_right = if is_kept { lower <= limit + near } else { lower >= limit - near };
                        assert!(is_right, "{said}: slot {slot}, {lower} and {limit}");
                    }
                    assert!(scored.len() >= k || threshold == key_of(f32::MAX), "{said}");
                    assert!(scored.len() > k || kept.len() == scored.len(), "{said}: all are kept");
                    // Few more than necessary: with 1.5 k all of them could be kept.
                    if step == 1 && rows > 2000 && k != 512 {
                        let intervals: Vec<_> = scored.iter().map(|row| row.1).collect();
                        let more = winnow::reference(&intervals, k * 3 / 2 + 8).len();
                        let most = if k == 1 { must.len() + 1 } else { more };
                        assert!(kept.len() <= most, "{said}: {} kept, not {most}", kept.len());
                        assert!(k > 65 || most < rows, "the case decides something");
                    }
                }
            }
        }
    }
}

/// Intervals without width, a third of them nearest: the threshold is their distance.
#[test]
fn winnow_keeps_rows_at_the_threshold_and_drops_those_just_above() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(5);
    for form in FORMS {
        for k in KS {
            let mut winnowing = Winnowing::exact(form, 3, 2560);
            for query in 0..3 {
                (0..2560).for_each(|row| winnowing.set(query, row, -8.0 - random.below(3) as f32));
            }
            let lists = winnowing.run(bench, k, &Lists::new(3, 2560)).0;
            for query in 0..3 {
                let (scored, must) = winnowing.check(&lists, query, k, &format!("k {k}, query {query}"));
                // About 850 rows are at the smallest distance, some for every invocation.
                let want: Vec<u32> = must.into_iter().map(|row| scored[row].0).collect();
                assert_eq!(lists.slots(query), want, "{form:?}, k {k}: ties are kept, and nothing above");
            }
        }
    }
}

/// An invocation takes four neighbouring rows of every eighth block, in two turns. If the nearest rows never meet in one of its
/// places, the threshold is the k-th smallest upper end of all.
#[test]
fn winnow_keeps_k_rows_where_the_nearest_are_scattered() {
    let Some(bench) = Bench::open() else { return };
    for form in FORMS {
        for k in [1, 2, 63, 64, 65, 66, 511, 512] {
            let mut winnowing = Winnowing::exact(form, 2, 2560);
            let blocks = if k <= 64 { 8 } else { 16 };
            let nearest = |number: usize| {
                let (block, row) = (number % blocks, number / blocks * 4 + number % 4);
                // The second query's nearest rows lie in other lanes.
                [block * BLOCK + row, (blocks - 1 - block) * BLOCK + BLOCK - 1 - row]
            };
            for number in 0..blocks * 32 {
                for (query, row) in nearest(number).into_iter().enumerate() {
                    winnowing.set(query, row, 2000.0 - number as f32);
                }
            }
            let lists = winnowing.run(bench, k, &Lists::new(2, 2560)).0;
            for query in 0..2 {
                let mut want: Vec<u32> =
                    (0..k).map(|number| winnowing.first_slot + nearest(number)[query] as u32).collect();
                want.sort_unstable();
                assert_eq!(lists.slots(query), want, "{form:?}, k {k}: the k nearest and no others");
            }
        }
    }
}

#[test]
fn winnow_goes_on_with_the_next_part_and_leaves_out_rows_without_a_bit() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(9);
    for form in FORMS {
        for (step, parts) in [(1, [30, 12]), (1, [1, 41]), (4, [6, 5])] {
            let mut winnowing = Winnowing::new(form, 5, 5300, step);
            for has_bits in [false, true] {
                winnowing.allowed =
                    has_bits.then(|| (0..200).map(|_| random.below(1 << 16) as u32 * 65_537).collect());
                for k in KS {
                    let (lists, _) = winnowing.run_parts(bench, k, &Lists::new(5, 5300), &parts);
                    for query in 0..5 {
                        let said = format!("{form:?}, step {step}, {parts:?}, k {k}, query {query}");
                        let (_, must) = winnowing.check(&lists, query, k, &said);
                        let kept = lists.slots(query).len();
                        assert!(k > 65 || kept < must.len() + 6 * k + 60, "{said}: {kept} of {}", must.len());
                    }
                }
            }
        }
    }
}

#[test]
fn winnow_counts_rows_without_room_and_does_not_write_them() {
    let Some(bench) = Bench::open() else { return };
    let winnowing = Winnowing::new(Form::QuantizedL2, 12, 1500, 1);
    let (enough, _) = winnowing.run(bench, 512, &Lists::new(12, 2000));
    assert!(enough.counts.iter().all(|&count| count <= 2000), "none overflows");
    for capacity in [1, 100, 399] {
        let (lists, _) = winnowing.run(bench, 512, &Lists::new(12, capacity));
        assert!(lists.counts.iter().any(|&count| count as usize > capacity));
        for query in 0..12 {
            assert_eq!(lists.counts[query], enough.counts[query]);
            let (all, found) = (enough.of(query), lists.of(query));
            let all: BTreeSet<&[u32; 3]> = all.iter().collect();
            let different: BTreeSet<&[u32; 3]> = found.iter().collect();
            assert!(different.len() == found.len() && different.is_subset(&all), "query {query}");
        }
    }
}
