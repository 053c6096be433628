//! The kernel `winnow`: it keeps the scored rows of a query that cannot be excluded.

use std::collections::{BTreeMap, BTreeSet};

use super::{FORMS, Lists, NONE, WIDE, check_ends, random_terms, slack};
use crate::common::bench::{Bench, Bound, two_rows};
use crate::common::lists::BLOCK;
use nearfield::internals::certificate::Terms;
use nearfield::internals::kernels::winnow::{self, Form, Margin};
use nearfield::internals::kernels::{key_of, value_of};
use nearfield_testing::Random;

/// A row that was scored for a query.
#[derive(Clone, Copy)]
struct Row {
    slot: u32,
    interval: [f64; 2],
}

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
}

impl Winnowing {
    /// Every row scored for every query.
    fn whole(form: Form, queries: usize, rows: usize) -> Self {
        let mut random = Random::new(form as u64 * 1000 + rows as u64);
        let blocks = rows.div_ceil(BLOCK);
        let room = queries + 3;
        let scores = (0..blocks * room * BLOCK).map(|_| random.below(400) as f32 - 150.0).collect();
        let terms = random_terms(&mut random, form, [queries, blocks * BLOCK]);
        Self { form, margin: WIDE, terms, rows, first_slot: 70, room, step: 1, scores }
    }

    /// Every `step`-th block scored.
    fn sampled(form: Form, queries: usize, rows: usize, step: usize) -> Self {
        let mut made = Self { step, ..Self::whole(form, queries, rows) };
        made.scores.truncate(rows.div_ceil(BLOCK).div_ceil(step) * made.room * BLOCK);
        made
    }

    /// Every row scored, with intervals without width: distances are the negated scores.
    fn exact(form: Form, queries: usize, rows: usize) -> Self {
        let one = Terms { scale: 1.0, length: 0.0, residual: 0.0, bias: 0.0 };
        let mut made = Self { margin: NONE, ..Self::whole(form, queries, rows) };
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

    fn row(&self, query: usize, row: usize) -> Row {
        let block = row / BLOCK / self.step;
        let score = self.scores[(block * self.room + query) * BLOCK + row % BLOCK];
        let interval =
            self.margin.interval(self.form, score.into(), self.terms[0][query], self.terms[1][row]);
        Row { slot: self.first_slot + row as u32, interval }
    }

    fn rows_of(&self, query: usize) -> Vec<Row> {
        let scored = (0..self.rows).filter(|row| (row / BLOCK).is_multiple_of(self.step));
        scored.map(|row| self.row(query, row)).collect()
    }

    fn run(&self, bench: Bench<'_>, k: usize, before: &Lists) -> Lists {
        self.with_thresholds(bench, k, before).0
    }

    /// The lists, and the threshold of each query.
    fn with_thresholds(&self, bench: Bench<'_>, k: usize, before: &Lists) -> (Lists, Vec<u32>) {
        let scores = bench.input(&self.scores);
        let [queries, rows] = [0, 1].map(|which| bench.input(&self.terms[which]));
        let (counts, lists) = (bench.filled(&before.counts), bench.filled(&before.words));
        let limits = bench.output(self.queries());
        let capacity = before.capacity as u32;
        let params = winnow::Params {
            queries: self.queries() as u32,
            k: k as u32,
            capacity,
            plane: self.queries() as u32 * capacity,
            room: self.room as u32,
            blocks: self.rows.div_ceil(BLOCK).div_ceil(self.step) as u32,
            block_step: self.step as u32,
            rows: self.rows as u32,
            first_slot: self.first_slot,
            ..winnow::Params::of(self.margin)
        };
        let buffers: [&dyn Bound; 6] = [&scores, &rows, &queries, &counts, &limits, &lists];
        bench.dispatch(&winnow::KERNEL, &[self.form as u32], &params, &buffers, two_rows(self.queries()));
        let lists =
            Lists { counts: bench.read(&counts), words: bench.read(&lists), capacity: before.capacity };
        (lists, bench.read(&limits))
    }

    /// Panics unless the entries belong to these rows and include all that must be kept. Returns how many must be kept.
    fn check(&self, rows: &[Row], found: &[[u32; 3]], k: usize, said: &str) -> usize {
        let form = self.form;
        let by_slot: BTreeMap<u32, Row> = rows.iter().map(|row| (row.slot, *row)).collect();
        let kept: BTreeSet<u32> = found.iter().map(|entry| entry[0]).collect();
        assert_eq!(kept.len(), found.len(), "{form:?}, {said}: each row once");
        for entry in found {
            let row = by_slot.get(&entry[0]);
            let row = row.unwrap_or_else(|| panic!("{form:?}, {said}: slot {} cannot be found", entry[0]));
            check_ends(*entry, row.interval, format_args!("{form:?}, {said}, slot {}", row.slot));
        }
        let intervals: Vec<[f64; 2]> = rows.iter().map(|row| row.interval).collect();
        let must = winnow::reference(&intervals, k);
        let mut uppers: Vec<f64> = intervals.iter().map(|ends| ends[1]).collect();
        uppers.sort_unstable_by(f64::total_cmp);
        for &row in &must {
            let Row { slot, interval } = rows[row];
            let is_close = uppers.len() >= k && interval[0] > uppers[k - 1] - slack(interval);
            assert!(kept.contains(&slot) || is_close, "{form:?}, {said}: slot {slot} must stay");
        }
        // The threshold lies below all dropped rows, above k upper ends, and not below any kept row.
        let lowest = |is_kept: bool| rows.iter().filter(move |row| kept.contains(&row.slot) == is_kept);
        let dropped = lowest(false).map(|row| row.interval[0] + slack(row.interval)).reduce(f64::min);
        if let Some(dropped) = dropped {
            let below = uppers.iter().filter(|&&upper| upper <= dropped).count();
            assert!(below >= k, "{form:?}, {said}: {below} upper ends below the dropped rows, not {k}");
        }
        must.len()
    }
}

const KS: [usize; 4] = [1, 64, 65, 512];

#[test]
fn winnow_keeps_every_row_that_may_be_among_the_nearest_of_all() {
    let Some(bench) = Bench::open() else { return };
    for form in FORMS {
        for rows in [1, 3, 30, 127, 130, 2556, 3200, 5300] {
            let winnowing = Winnowing::whole(form, 5, rows);
            for k in KS {
                let lists = winnowing.run(bench, k, &Lists::new(5, 3300));
                for query in 0..5 {
                    let said = format!("{rows} rows, k {k}, query {query}");
                    let found = lists.of(query);
                    assert_eq!(found.len(), lists.counts[query] as usize);
                    let scored = winnowing.rows_of(query);
                    let must = winnowing.check(&scored, &found, k, &said);
                    if rows <= k {
                        assert_eq!(found.len(), rows, "{said}: all are kept");
                    }
                    // Few more than necessary: with 1.5 k all of them could be kept.
                    if rows > 2000 && k != 512 {
                        let intervals: Vec<_> = scored.iter().map(|row| row.interval).collect();
                        let most = if k == 1 {
                            must + 1
                        } else {
                            winnow::reference(&intervals, k * 3 / 2 + 8).len()
                        };
                        assert!(found.len() <= most, "{form:?}, {said}: {} kept, not {most}", found.len());
                        assert!(k > 65 || most < rows, "the case decides something");
                    }
                }
            }
        }
    }
}

/// The other blocks are compared with the threshold later.
#[test]
fn winnow_of_every_few_blocks_keeps_their_rows_and_writes_the_threshold() {
    let Some(bench) = Bench::open() else { return };
    for form in FORMS {
        for (rows, step) in [(100, 4), (5300, 4), (5300, 7), (20_000, 2)] {
            let winnowing = Winnowing::sampled(form, 5, rows, step);
            for k in KS {
                let (lists, thresholds) = winnowing.with_thresholds(bench, k, &Lists::new(5, rows));
                for (query, &threshold) in thresholds.iter().enumerate() {
                    let said = format!("{rows} rows, step {step}, k {k}, query {query}");
                    let (scored, found) = (winnowing.rows_of(query), lists.of(query));
                    winnowing.check(&scored, &found, k, &said);
                    let limit = f64::from(value_of(threshold));
                    let has_kept = |row: &Row| found.iter().any(|entry| entry[0] == row.slot);
                    for row in &scored {
                        let [lower, near] = [row.interval[0], slack(row.interval)];
                        let is_right =
                            if has_kept(row) { lower <= limit + near } else { lower >= limit - near };
                        assert!(is_right, "{form:?}, {said}: slot {}, {lower} and {limit}", row.slot);
                    }
                    assert!(scored.len() >= k || threshold == key_of(f32::MAX), "{form:?}, {said}");
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
            let lists = winnowing.run(bench, k, &Lists::new(3, 2560));
            for query in 0..3 {
                let scored = winnowing.rows_of(query);
                winnowing.check(&scored, &lists.of(query), k, &format!("k {k}, query {query}"));
                // About 850 rows are at the smallest distance, some for every invocation.
                let intervals: Vec<_> = scored.iter().map(|row| row.interval).collect();
                let mut want: Vec<u32> =
                    winnow::reference(&intervals, k).into_iter().map(|row| scored[row].slot).collect();
                want.sort_unstable();
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
            let lists = winnowing.run(bench, k, &Lists::new(2, 2560));
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
fn winnow_counts_rows_without_room_and_does_not_write_them() {
    let Some(bench) = Bench::open() else { return };
    let winnowing = Winnowing::whole(Form::NarrowedL2, 12, 1500);
    let enough = winnowing.run(bench, 512, &Lists::new(12, 2000));
    for (query, count) in enough.counts.iter().enumerate() {
        assert_eq!(enough.of(query).len(), *count as usize, "none overflows");
    }
    for capacity in [1, 100, 399] {
        let lists = winnowing.run(bench, 512, &Lists::new(12, capacity));
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
