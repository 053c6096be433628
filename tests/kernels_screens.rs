//! The kernels that nominate, dispatched one by one: `distance_scan`, `distance_tile`, `collect` and `tighten`.

mod common;

use std::collections::BTreeMap;

use common::bench::{Bench, GUARD, floats_of};
use common::{Random, gpu, padded, rounded, view, without_subgroups};
use nearfield::kernels::collect::{self, Form, Margin};
use nearfield::kernels::{BLOCK_ROWS, Part, distance_scan, distance_tile, key_of, norms, tighten, value_of};
use nearfield::{BufferSlice, Element};

const BLOCK: usize = BLOCK_ROWS as usize;

/// Parts of a segment of 7 blocks: all of it; every third block; behind columns of another part; one block.
const PARTS: [Part; 4] = [
    Part { segment: 0, block_first: 0, block_step: 1, blocks: 7, column_first: 0 },
    Part { segment: 0, block_first: 1, block_step: 3, blocks: 2, column_first: 0 },
    Part { segment: 0, block_first: 0, block_step: 2, blocks: 4, column_first: 256 },
    Part { segment: 0, block_first: 6, block_step: 5, blocks: 1, column_first: 128 },
];

/// The rows that the columns of a part stand for.
fn columns_of(part: &Part) -> impl Iterator<Item = (usize, usize)> {
    let part = *part;
    (0..part.blocks).flat_map(move |block| {
        let row = ((part.block_first + block * part.block_step) * BLOCK_ROWS) as usize;
        let column = (part.column_first + block * BLOCK_ROWS) as usize;
        (0..BLOCK).map(move |place| (column + place, row + place))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Scan { direct: bool },
    Tile,
}

/// Scores of a part, `[queries, columns]`, checked to be written nowhere else.
fn scores<T: Element>(
    bench: Bench<'_>,
    kernel: Kernel,
    queries: &[f32],
    rows: &[T],
    dim: usize,
    part: &Part,
    workgroups: u32,
) -> Vec<f32> {
    let count = queries.len() / dim;
    let room = count.next_multiple_of(if kernel == Kernel::Tile { 128 } else { 4 });
    let columns = (part.column_first + part.blocks * BLOCK_ROWS + 128) as usize;
    let mut query_values = padded(queries, dim);
    query_values.resize(room * dim.next_multiple_of(4), 0.0);
    let (query_buffer, row_buffer) = (bench.input(&query_values), bench.input(&padded(rows, dim)));
    let found = bench.output(room * columns);
    let buffers: [BufferSlice<'_>; 3] = [(&query_buffer).into(), (&row_buffer).into(), found.slice()];
    let vectors = dim.div_ceil(4) as u32;
    let Part { block_first, block_step, column_first, .. } = *part;
    let columns_u32 = columns as u32;
    bench.run(|recorder| match kernel {
        Kernel::Scan { direct } => {
            let at_once = [1, 1, 2, 4][count.min(3)];
            let part_columns = part.blocks * BLOCK_ROWS;
            let params = distance_scan::Params {
                vectors,
                columns: columns_u32,
                part_columns,
                column_first,
                block_first,
                block_step,
            };
            let grid = [workgroups, (count as u32).div_ceil(at_once)];
            recorder.dispatch(
                &distance_scan::KERNEL,
                T::KIND,
                &[direct.into(), at_once],
                &params,
                &buffers,
                grid,
            )
        }
        Kernel::Tile => {
            let params = distance_tile::Params {
                vectors,
                columns: columns_u32,
                column_first,
                block_first,
                block_step,
            };
            let grid = [(count as u32).div_ceil(128), part.blocks];
            recorder.dispatch(&distance_tile::KERNEL, T::KIND, &[], &params, &buffers, grid)
        }
    });
    let found = bench.read(&found);
    let used: Vec<usize> = columns_of(part).map(|(column, _)| column).collect();
    let mut is_used = vec![false; columns];
    used.iter().for_each(|&column| is_used[column] = true);
    for (query, words) in found.chunks_exact(columns).enumerate() {
        let stray = (0..columns).find(|&column| !is_used[column] && words[column] != GUARD);
        assert_eq!(stray, None, "dim {dim}, {part:?}: written at query {query} in a column of nobody");
    }
    let mut picked = vec![];
    for query in 0..count {
        picked.extend(used.iter().map(|column| found[query * columns + column]));
    }
    floats_of(&picked)
}

fn check<T: Element>(
    bench: Bench<'_>,
    kernel: Kernel,
    queries: &[f32],
    rows: &[T],
    dim: usize,
    part: &Part,
    whole: bool,
) {
    let direct = kernel == Kernel::Scan { direct: true };
    let want = distance_scan::reference(view(queries, dim), view(rows, dim), direct);
    let row_count = rows.len() / dim;
    let query_norms: Vec<f64> =
        norms::reference(view(queries, dim)).iter().map(|one| one[0].sqrt()).collect();
    let row_norms: Vec<f64> = norms::reference(view(rows, dim)).iter().map(|one| one[0].sqrt()).collect();
    for workgroups in if kernel == Kernel::Tile { [1, 1] } else { [1, part.blocks * 4] } {
        let found = scores(bench, kernel, queries, rows, dim, part, workgroups);
        let places =
            (0..queries.len() / dim).flat_map(|query| columns_of(part).map(move |(_, row)| (query, row)));
        for ((query, row), found) in places.zip(found) {
            let (exact, found) = (want[query * row_count + row], f64::from(found));
            let said = || format!("dim {dim}, {part:?}, query {query}, row {row}: {found:e}, not {exact:e}");
            if whole {
                assert!(found == exact, "{}", said());
                continue;
            }
            let scale = if direct { exact } else { query_norms[query] * row_norms[row] };
            let bound = (dim as f64 + 8.0) * 2f64.powi(-23) * scale + dim as f64 * 2f64.powi(-126);
            assert!((found - exact).abs() <= bound, "{}", said());
        }
    }
}

fn check_all(kernels: &[Kernel], counts: &[usize], dims: &[usize]) {
    let (Some(device), Some(plain)) = (gpu(), without_subgroups()) else { return };
    for (turn, &dim) in dims.iter().enumerate() {
        for device in [device, plain] {
            let bench = Bench::new(device);
            for &count in counts {
                let mut random = Random::new((dim + count) as u64);
                let part = &PARTS[(turn + count) % 4];
                let (queries, rows) = (random.integers(count * dim, 4), random.integers(7 * BLOCK * dim, 4));
                let (float_queries, float_rows) =
                    (random.floats(count * dim), random.floats(7 * BLOCK * dim));
                for &kernel in kernels {
                    check(bench, kernel, &queries, &rows, dim, part, true);
                    check(bench, kernel, &queries, &rounded(&rows).0, dim, part, true);
                    check(bench, kernel, &float_queries, &float_rows, dim, part, false);
                    check(bench, kernel, &float_queries, &rounded(&float_rows).0, dim, part, false);
                }
            }
        }
    }
}

#[test]
fn scans_score_every_part_with_and_without_subgroups() {
    let kernels = [Kernel::Scan { direct: false }, Kernel::Scan { direct: true }];
    check_all(&kernels, &[1, 2, 3, 4, 9], &[1, 3, 4, 5, 17, 33, 129]);
    check_all(&kernels, &[3], &[768, 2049]);
}

#[test]
fn tiles_score_every_part() {
    check_all(&[Kernel::Tile], &[1, 130], &[1, 3, 4, 5, 9, 17]);
    check_all(&[Kernel::Tile], &[128], &[8]);
    check_all(&[Kernel::Tile], &[3], &[384, 2049]);
}

/// Scores on which `collect` decides, and what it needs to know of queries and rows.
struct Scored {
    form: Form,
    queries: usize,
    rows: usize,
    /// Of queries and rows.
    squared: [Vec<f32>; 2],
    part: Part,
    columns: usize,
    scores: Vec<f32>,
    first_slot: u32,
    margin: Margin,
}

impl Scored {
    fn new(form: Form, part: Part, queries: usize, rows: usize, margin: Margin) -> Self {
        let mut random = Random::new(form as u64 + 1);
        let columns = (part.column_first + part.blocks * BLOCK_ROWS) as usize;
        let mut norms = |count: usize| (0..count).map(|_| random.below(90) as f32).collect::<Vec<f32>>();
        let squared = [norms(queries), norms(rows.next_multiple_of(BLOCK))];
        let scores = (0..queries * columns).map(|_| random.below(4000) as f32 / 40.0).collect();
        Self { form, queries, rows, squared, part, columns, scores, first_slot: 70, margin }
    }

    fn interval(&self, query: usize, column: usize, row: usize) -> [f64; 2] {
        let score = self.scores[query * self.columns + column];
        let [q, x] = [self.squared[0][query], self.squared[1][row]];
        collect::reference(self.form, self.margin, score.into(), q.into(), x.into())
    }

    /// One round; counts, and the lists as `(slot, lower, upper)`.
    fn run(
        &self,
        bench: Bench<'_>,
        thresholds: &[u32],
        allowed: Option<&[u32]>,
        capacity: u32,
        round: [u32; 2],
        counts: &[u32],
    ) -> (Vec<u32>, Vec<Vec<[u32; 3]>>) {
        let with_inverse = |squared: &[f32]| -> Vec<[f32; 2]> {
            squared.iter().map(|&x| [x, if x > 0.0 { 1.0 / x.sqrt() } else { 0.0 }]).collect()
        };
        let [queries, rows] = [0, 1].map(|which| bench.input(&with_inverse(&self.squared[which])));
        let (scores, limits) = (bench.input(&self.scores), bench.input(thresholds));
        let bits = bench.input(allowed.unwrap_or(&[0]));
        let plane = self.queries as u32 * capacity;
        let (counts, lists) = (bench.filled(counts), bench.output(3 * plane as usize));
        let [round_step, round_skip] = round;
        let number = self.part.column_first / BLOCK_ROWS;
        let params = collect::Params {
            queries: self.queries as u32,
            columns: self.columns as u32,
            column_first: self.part.column_first,
            blocks: self.part.blocks,
            block_first: self.part.block_first,
            block_step: self.part.block_step,
            rows: self.rows as u32,
            first_slot: self.first_slot,
            round_start: number.next_multiple_of(round_step) - number,
            round_step,
            round_skip,
            capacity,
            plane,
            margin: self.margin.relative,
            margin_floor: self.margin.floor,
        };
        let buffers: [BufferSlice<'_>; 7] = [
            (&scores).into(),
            (&rows).into(),
            (&queries).into(),
            (&limits).into(),
            (&bits).into(),
            counts.slice(),
            lists.slice(),
        ];
        let grid = [self.part.blocks.div_ceil(8), (self.queries as u32).div_ceil(32)];
        bench.run(|recorder| {
            let constants = [self.form as u32, allowed.is_some().into()];
            recorder.dispatch(&collect::KERNEL, f32::KIND, &constants, &params, &buffers, grid)
        });
        let (counts, words) = (bench.read(&counts), bench.read(&lists));
        let entry = |place: usize| [0, 1, 2].map(|which| words[which * plane as usize + place]);
        let lists = (0..self.queries)
            .map(|query| {
                (0..counts[query].min(capacity) as usize)
                    .map(|place| entry(query * capacity as usize + place))
                    .collect()
            })
            .collect();
        (counts, lists)
    }
}

#[test]
fn who_survives_is_decided_by_the_interval() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    // So wide that the interval matters, and the f64 reference is not told apart from f32 by rounding.
    let margin = Margin { relative: 0.03, floor: 0.25 };
    for form in [Form::Direct, Form::L2, Form::InnerProduct, Form::Cosine] {
        for part in PARTS {
            let scored = Scored::new(form, part, 37, 7 * BLOCK - 50, margin);
            let limit = match form {
                Form::Direct => 30.0,
                Form::L2 => -40.0,
                Form::InnerProduct => -70.0,
                Form::Cosine => 0.3,
            };
            let thresholds: Vec<u32> =
                (0..37).map(|query| key_of(limit * (1.0 + query as f32 * 0.01))).collect();
            let words: Vec<u32> = (0..40u32).map(|word| word.wrapping_mul(0x9e37_79b9) | 0x1010).collect();
            for allowed in [None, Some(&words[..])] {
                let (counts, lists) = scored.run(bench, &thresholds, allowed, 900, [1, 0], &[0; 37]);
                for query in 0..37 {
                    let found: BTreeMap<u32, [u32; 3]> =
                        lists[query].iter().map(|entry| (entry[0], *entry)).collect();
                    assert_eq!(found.len(), counts[query] as usize, "each row once");
                    let limit = f64::from(value_of(thresholds[query]));
                    let (mut kept, mut dropped) = (0, 0);
                    for (column, row) in columns_of(&part) {
                        let slot = scored.first_slot + row as u32;
                        let bit =
                            allowed.is_none_or(|words| words[slot as usize / 32] >> (slot % 32) & 1 == 1);
                        if row >= scored.rows || !bit {
                            assert!(!found.contains_key(&slot), "{form:?}, slot {slot} is not there");
                            continue;
                        }
                        let interval = scored.interval(query, column, row);
                        let scale = interval[0].abs().max(interval[1].abs()).max(1.0) * 1e-5;
                        match found.get(&slot) {
                            Some(entry) => {
                                kept += 1;
                                assert!(
                                    interval[0] <= limit + scale,
                                    "{form:?}, slot {slot}: {interval:?} over {limit}"
                                );
                                for (key, want) in entry[1..].iter().zip(interval) {
                                    assert!(
                                        (f64::from(value_of(*key)) - want).abs() <= scale,
                                        "{form:?}, slot {slot}"
                                    );
                                }
                            }
                            None => {
                                dropped += 1;
                                assert!(
                                    interval[0] >= limit - scale,
                                    "{form:?}, slot {slot}: {interval:?} under {limit}"
                                );
                            }
                        }
                    }
                    assert!(kept + dropped > 20, "the case decides something");
                }
                assert!(counts.iter().any(|&count| count > 0), "{form:?}: somebody survives");
            }
        }
    }
}

#[test]
fn rounds_look_at_every_block_once() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let margin = Margin { relative: 0.0, floor: 0.0 };
    for part in PARTS {
        let scored = Scored::new(Form::Direct, part, 3, 7 * BLOCK, margin);
        let all = vec![key_of(f32::MAX); 3];
        let (_, whole) = scored.run(bench, &all, None, 1000, [1, 0], &[0; 3]);
        let mut together: Vec<Vec<u32>> = vec![vec![]; 3];
        for round in [[8, 0], [2, 8], [1, 2]] {
            let (_, lists) = scored.run(bench, &all, None, 1000, round, &[0; 3]);
            for (query, list) in lists.iter().enumerate() {
                together[query].extend(list.iter().map(|entry| entry[0]));
            }
        }
        for (mut together, whole) in together.into_iter().zip(whole) {
            let mut whole: Vec<u32> = whole.iter().map(|entry| entry[0]).collect();
            whole.sort_unstable();
            together.sort_unstable();
            assert_eq!(together, whole, "{part:?}");
        }
    }
}

#[test]
fn a_list_that_overflows_is_counted_on_and_flagged() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let margin = Margin { relative: 0.0, floor: 0.0 };
    let scored = Scored::new(Form::Direct, PARTS[0], 5, 7 * BLOCK, margin);
    let mut thresholds = vec![key_of(f32::MAX); 5];
    thresholds[3] = key_of(-1.0);
    // The last query's list has 5 entries already.
    let (counts, lists) = scored.run(bench, &thresholds, None, 64, [1, 0], &[0, 0, 0, 0, 5]);
    assert_eq!(counts, [896, 896, 896, 0, 901]);
    assert!(
        lists[..3].iter().flatten().all(|entry| (70..70 + 896).contains(&entry[0])),
        "real rows all the same"
    );
    assert_eq!(lists[4][..5], [[GUARD; 3]; 5], "entries from before stay");
    let tightened = tightened(bench, &thresholds, &[896, 64, 0, 65, 3], &[GUARD; 3 * 5 * 64], 10, 64);
    assert_eq!(tightened.3, [1, 0, 0, 1, 0]);
}

/// Thresholds, counts, lists and flags after `tighten`.
fn tightened(
    bench: Bench<'_>,
    thresholds: &[u32],
    counts: &[u32],
    lists: &[u32],
    k: u32,
    capacity: u32,
) -> (Vec<u32>, Vec<u32>, Vec<u32>, Vec<u32>) {
    let queries = counts.len() as u32;
    let (limits, counts, lists) = (bench.filled(thresholds), bench.filled(counts), bench.filled(lists));
    let flags = bench.filled(&vec![0u32; queries as usize]);
    let params = tighten::Params { queries, k, capacity, plane: queries * capacity };
    let buffers = [limits.slice(), counts.slice(), lists.slice(), flags.slice()];
    bench
        .run(|recorder| recorder.dispatch(&tighten::KERNEL, f32::KIND, &[], &params, &buffers, [queries, 1]));
    (bench.read(&limits), bench.read(&counts), bench.read(&lists), bench.read(&flags))
}

#[test]
fn thresholds_become_the_kth_upper_bound_and_lists_are_thinned() {
    let Some(device) = gpu() else { return };
    let lengths = [0usize, 1, 9, 10, 11, 255, 256, 257, 700, 1000];
    let capacity = 1000;
    let mut random = Random::new(21);
    for (k, spread) in [(1, 1000), (10, 1000), (10, 3), (256, 50), (1000, 1 << 20)] {
        let plane = lengths.len() * capacity;
        let mut words = vec![GUARD; 3 * plane];
        let mut lists: Vec<Vec<(u32, u32, u32)>> = vec![];
        for (query, &length) in lengths.iter().enumerate() {
            let mut list = vec![];
            for place in 0..length {
                let middle = (random.below(spread) as f32 - spread as f32 / 3.0) * 0.5;
                let width = random.below(4) as f32;
                let entry = (place as u32 * 3 + 1, key_of(middle - width), key_of(middle + width));
                let at = query * capacity + place;
                (words[at], words[plane + at], words[2 * plane + at]) = entry;
                list.push(entry);
            }
            lists.push(list);
        }
        // Some thresholds are lower than what the lists say.
        let thresholds: Vec<u32> =
            (0..lengths.len()).map(|query| key_of(if query % 3 == 2 { 1.0 } else { f32::MAX })).collect();
        let counts: Vec<u32> = lengths.iter().map(|&length| length as u32).collect();
        let bench = Bench::new(device);
        let (limits, counts, words, flags) =
            tightened(bench, &thresholds, &counts, &words, k, capacity as u32);
        assert_eq!(flags, [0; 10]);
        for (query, list) in lists.iter().enumerate() {
            let (limit, stays) = tighten::reference(thresholds[query], list, k as usize);
            let said = format!("k {k}, list {query} of {}", list.len());
            assert_eq!(limits[query], limit, "{said}");
            assert_eq!(counts[query] as usize, stays.len(), "{said}");
            let mut found: Vec<(u32, u32, u32)> = (query * capacity..query * capacity + stays.len())
                .map(|at| (words[at], words[plane + at], words[2 * plane + at]))
                .collect();
            found.sort_unstable();
            let want: Vec<_> = list.iter().filter(|entry| stays.contains(&entry.0)).copied().collect();
            assert_eq!(found, want, "{said}");
        }
    }
}
