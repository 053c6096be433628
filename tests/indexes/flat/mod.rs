//! `Flat` compared with the truth: whole numbers bit for bit, floats within the promised bounds.

mod bits;
mod density;
mod documents;
mod dynamic;
mod fewer_bits;
mod graph;
mod integers;
mod pairwise;
mod paths;
mod screen;
mod slots;

use crate::common::Engine::{self, Adapter, Host};
use crate::common::{DIMS, has_kernels, row_counts};
use crate::support::{flat, flat_with_ids, numbered};
use half::f16;
use nearfield::{Device, ElementKind, Flat, MatrixView, Metric, Quantization, SearchOptions, SearchResult};
use nearfield_testing::truth::Truth;
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

const K: usize = 10;

fn flat_of_f16(device: &Device, metric: Metric, rows: MatrixView<'_, f16>) -> Flat {
    let mut index =
        Flat::builder(device, metric, rows.dim()).elements(ElementKind::F16).build().expect("an index");
    index.add(rows).expect("good rows");
    index
}

/// Every row count at a dim, on whole numbers that f16 holds too. Two metrics a cell, the element types
/// and both forms of lanes take turns.
#[test_matrix([Adapter, Host], [&DIMS[..5], &DIMS[5..7], &DIMS[7..]])]
fn whole_numbers_are_answered_bit_for_bit(engine: Engine, dims: &[usize]) {
    let (Some(device), Some(plain)) = (engine.device(), engine.without_subgroups()) else { return };
    let mut turn = 0;
    for &dim in dims {
        let mut random = Random::new(0xd1 + dim as u64);
        let counts = row_counts(K).into_iter().filter(|&rows| rows <= 4097 || dim <= 384);
        // Few distinct values make ties; large dims keep sums below 2^24.
        let all = random.integers(counts.clone().max().unwrap_or(0) * dim, if dim < 5 { 20 } else { 4 });
        let (halves, _) = rounded(&all);
        for rows in counts {
            let (values, halves) = (&all[..rows * dim], &halves[..rows * dim]);
            let most = if rows * dim <= 300_000 { 40 } else { 3 };
            let queries = random.integers(most * dim, 4);
            let truth = Truth::new(view(&queries, dim), view(values, dim));
            for step in 0..2 {
                let (metric, form) = (Metric::ALL[(turn + 2 * step) % 4], (turn / 4 + step) % 4);
                let device = if form % 2 == 0 { device } else { plain };
                let index = if form < 2 {
                    flat(device, metric, view(values, dim), Quantization::None)
                } else {
                    flat_of_f16(device, metric, view(halves, dim))
                };
                for count in [most, [1, 3, 17][turn % 3].min(most)] {
                    let found = index.search(view(&queries[..count * dim], dim), K).expect("an answer");
                    assert_eq!(found.queries(), count);
                    let verdict = truth.judge_exact(metric, &numbered(rows), K, &found);
                    assert_eq!(verdict, Ok(()), "dim {dim}, {rows} rows, {count} queries, form {form}");
                }
            }
            turn += 1;
        }
        // The next dim has the other metrics at each row count.
        turn += 1;
    }
}

#[test_matrix([Adapter, Host])]
fn f16_and_f32_storage_of_the_same_values_answer_alike(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (turn, (dim, rows, count)) in [(7, 700, 5), (20, 6000, 3), (33, 6000, 20)].into_iter().enumerate() {
        let mut random = Random::new(0x16);
        // Some values are subnormal in f16.
        let mut values = random.floats(rows * dim);
        values.iter_mut().step_by(13).for_each(|x| *x *= 2f32.powi(-20));
        let (halves, widened) = rounded(&values);
        let queries = random.floats(count * dim);
        let (query_halves, query_floats) = rounded(&queries);
        let truth = Truth::new(view(&query_floats, dim), view(&widened, dim));
        for metric in Metric::ALL.into_iter().skip(turn % 2).step_by(2) {
            let whole = flat(device, metric, view(&widened, dim), Quantization::None);
            let half = flat_of_f16(device, metric, view(&halves, dim));
            let mut mixed = Flat::builder(device, metric, dim).build().expect("an index");
            mixed.add(view(&halves, dim)).expect("f16 rows in f32 storage");
            let floats = view(&query_floats, dim);
            let found = whole.search(floats, K).expect("an answer");
            assert_eq!(truth.judge(metric, &numbered(rows), K, &found), Ok(()));
            let others = [
                ("f16 rows", half.search(floats, K)),
                ("mixed", mixed.search(floats, K)),
                ("f16 queries", half.search(view(&query_halves, dim), K)),
            ];
            for (name, other) in others {
                assert_eq!(found, other.expect("an answer"), "{metric}: {name}");
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn equal_rows_overflow_the_lists_and_are_answered_all_the_same(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // More than the longest list holds.
    let rows = 40_000;
    let values = [3.0, -1.0, 2.0].repeat(rows);
    let ids: Vec<u64> = (0..rows as u64).map(|row| 100_000 - row).collect();
    for (count, metric) in
        [(2, Metric::L2Squared), (2, Metric::Cosine), (17, Metric::InnerProduct), (17, Metric::L2Squared)]
    {
        let queries = Random::new(0xa11).integers(count * 3, 3);
        let truth = Truth::new(view(&queries, 3), view(&values, 3));
        let index = flat_with_ids(device, metric, view(&values, 3), Quantization::None, &ids);
        let SearchResult { neighbors: found, statistics, .. } =
            index.search_with(view(&queries, 3), &SearchOptions::new(K)).expect("an answer");
        let overflowed = if has_kernels(device) { count as u64 } else { 0 };
        assert_eq!(statistics.searched_again, overflowed, "{metric}: every list overflows");
        assert_eq!(truth.judge_exact(metric, &ids, K, &found), Ok(()));
    }
}

/// Rows in the order of their distance from about where the queries are.
#[test_matrix([Adapter, Host], [true, false])]
fn rows_inserted_in_the_order_of_their_distance_are_screened(engine: Engine, nearest_first: bool) {
    let Some(device) = engine.device() else { return };
    let rows = 20_000;
    for count in [2, 18] {
        let mut random = Random::new(0x50e7);
        let queries: Vec<f32> = (0..count * 4).map(|_| random.unit() * 0.01).collect();
        let mut sorted: Vec<Vec<f32>> = (0..rows).map(|_| random.floats(4)).collect();
        let squared = |row: &Vec<f32>| row.iter().map(|x| x * x).sum::<f32>();
        sorted.sort_by(|a, b| squared(a).total_cmp(&squared(b)));
        if !nearest_first {
            sorted.reverse();
        }
        let values = sorted.concat();
        let truth = Truth::new(view(&queries, 4), view(&values, 4));
        let index = flat(device, Metric::L2Squared, view(&values, 4), Quantization::None);
        let SearchResult { neighbors: found, statistics, .. } =
            index.search_with(view(&queries, 4), &SearchOptions::new(K)).expect("an answer");
        assert_eq!(truth.judge(Metric::L2Squared, &numbered(rows), K, &found), Ok(()), "{count} queries");
        assert_eq!(statistics.searched_again, 0, "{count} queries");
    }
}

/// Of equally near rows, those of smaller ids are found. Any k is answered, and no queries by nothing.
#[test_matrix([Adapter, Host])]
fn any_k_is_answered_in_the_order_of_ids(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (rows, metrics) in [(500, &Metric::ALL[..]), (20_000, &[Metric::L2Squared, Metric::InnerProduct])] {
        let mut random = Random::new(0x6b);
        let (values, queries) = (random.integers(rows * 3, 5), random.integers(18 * 3, 5));
        let queries = view(&queries, 3);
        // Descending, and beyond 32 bits, where the low word alone would order otherwise.
        let ids: Vec<u64> =
            (0..rows as u64).map(|row| (rows as u64 - row) * 0x7fff_ffff + (row % 3)).collect();
        let truth = Truth::new(queries, view(&values, 3));
        for &metric in metrics {
            let index = flat_with_ids(device, metric, view(&values, 3), Quantization::None, &ids);
            for (k, count) in [
                (1, 18),
                (7, 3),
                (90, 18),
                (1023, 2),
                (1024, 2),
                (1025, 18),
                (1250, 2),
                (1251, 2),
                (rows, 2),
                (rows + 1, 1),
                (usize::MAX, 1),
                (10, 0),
            ] {
                let found = index.search(queries.slice(0..count), k).expect("an answer");
                assert_eq!(found.queries(), count);
                let verdict = truth.judge_exact(metric, &ids, k, &found);
                assert_eq!(verdict.is_ok(), count > 0, "{rows} rows, k {k}: {verdict:?}");
            }
        }
    }
}
