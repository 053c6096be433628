//! `Flat` compared with the truth: whole numbers bit for bit, floats within the promised bounds.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::truth::Truth;
use crate::common::{DIMS, Random, has_kernels, rounded, row_counts, view};
use half::f16;
use nearfield::{
    AddOptions, Device, ElementKind, Flat, MatrixView, Metric, Neighbors, SearchOptions, SearchResult,
};
use test_case::test_matrix;

const K: usize = 10;

fn numbered(rows: usize) -> Vec<u64> {
    (0..rows as u64).collect()
}

fn index(device: &Device, metric: Metric, rows: MatrixView<'_, f32>) -> Flat {
    let mut index = Flat::builder(device, metric, rows.dim()).build().expect("an index");
    index.add(rows).expect("good rows");
    index
}

fn index_of_f16(device: &Device, metric: Metric, rows: MatrixView<'_, f16>) -> Flat {
    let mut index =
        Flat::builder(device, metric, rows.dim()).elements(ElementKind::F16).build().expect("an index");
    index.add(rows).expect("good rows");
    index
}

/// Every row count at a dim, on whole numbers that f16 holds too: both element types, both forms of lanes, both
/// nominating kernels. Large cells take the forms in turn.
fn whole_numbers(engine: Engine, dims: &[usize]) {
    let (Some(device), Some(plain)) = (engine.device(), engine.without_subgroups()) else { return };
    let mut turn = 0;
    for &dim in dims {
        let mut random = Random::new(0xd1 + dim as u64);
        for rows in row_counts(K) {
            // Few distinct values make ties; large dims keep sums below 2^24.
            let values = random.integers(rows * dim, if dim < 5 { 20 } else { 4 });
            let (halves, _) = rounded(&values);
            let most = [40, 17, 3].into_iter().find(|most| most * rows * dim <= 16_000_000).unwrap_or(1);
            let queries = random.integers(most * dim, 4);
            let truth = Truth::new(view(&queries, dim), view(&values, dim));
            let small = rows * dim <= 60_000;
            for metric in Metric::ALL {
                for form in 0..4 {
                    if !small && form != turn % 4 {
                        continue;
                    }
                    let device = if form % 2 == 0 { device } else { plain };
                    let index = if form < 2 {
                        index(device, metric, view(&values, dim))
                    } else {
                        index_of_f16(device, metric, view(&halves, dim))
                    };
                    for count in [1, 3, 17, 40].into_iter().filter(|&count| count <= most) {
                        if count != most && count != [1, 3, 17][(turn + form) % 3] {
                            continue;
                        }
                        let found = index.search(view(&queries[..count * dim], dim), K).expect("an answer");
                        assert_eq!(found.queries(), count);
                        let verdict = truth.judge_exact(metric, &numbered(rows), K, &found);
                        assert_eq!(verdict, Ok(()), "dim {dim}, {rows} rows, {count} queries, form {form}");
                    }
                }
                turn += 1;
            }
            turn += 1;
        }
    }
}

#[test_matrix([Adapter, Host])]
fn whole_numbers_are_answered_bit_for_bit_at_small_dims(engine: Engine) {
    whole_numbers(engine, &DIMS[..5]);
}

#[test_matrix([Adapter, Host])]
fn whole_numbers_are_answered_bit_for_bit_at_dims_384_and_768(engine: Engine) {
    whole_numbers(engine, &DIMS[5..7]);
}

#[test_matrix([Adapter, Host])]
fn whole_numbers_are_answered_bit_for_bit_at_dims_1536_and_2049(engine: Engine) {
    whole_numbers(engine, &DIMS[7..]);
}

fn floats(engine: Engine, make: impl Fn(&mut Random, usize, usize) -> Vec<f32>, seed: u64) {
    let (Some(device), Some(plain)) = (engine.device(), engine.without_subgroups()) else { return };
    for (dim, rows, count) in
        [(1, 6000, 20), (3, 5000, 4), (5, 300, 9), (17, 9000, 30), (100, 5001, 3), (768, 4500, 17)]
    {
        let mut random = Random::new(seed ^ dim as u64);
        let values = make(&mut random, rows, dim);
        let queries = make(&mut random, count, dim);
        let truth = Truth::new(view(&queries, dim), view(&values, dim));
        for (metric, device) in Metric::ALL.into_iter().zip([device, plain, plain, device]) {
            let found =
                index(device, metric, view(&values, dim)).search(view(&queries, dim), K).expect("an answer");
            let verdict = truth.judge(metric, &numbered(rows), K, &found);
            assert_eq!(verdict, Ok(()), "dim {dim}, {rows} rows, {count} queries");
        }
    }
}

#[test_matrix([Adapter, Host])]
fn random_floats_are_answered_within_the_bounds(engine: Engine) {
    floats(engine, |random, rows, dim| random.floats(rows * dim), 0xf1);
}

#[test_matrix([Adapter, Host])]
fn adversarial_floats_are_answered_within_the_bounds(engine: Engine) {
    floats(engine, |random, rows, dim| random.adversarial(rows, dim), 0xf2);
}

#[test_matrix([Adapter, Host])]
fn f16_and_f32_storage_of_the_same_values_answer_alike(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (dim, rows, count) in [(7, 700, 5), (20, 6000, 3), (33, 6000, 20)] {
        let mut random = Random::new(0x16);
        // Some values are subnormal in f16.
        let mut values = random.floats(rows * dim);
        values.iter_mut().step_by(13).for_each(|x| *x *= 2f32.powi(-20));
        let (halves, widened) = rounded(&values);
        let queries = random.floats(count * dim);
        let (query_halves, query_floats) = rounded(&queries);
        let truth = Truth::new(view(&query_floats, dim), view(&widened, dim));
        for metric in Metric::ALL {
            let whole = index(device, metric, view(&widened, dim));
            let half = index_of_f16(device, metric, view(&halves, dim));
            let mut mixed = Flat::builder(device, metric, dim).build().expect("an index");
            mixed.add(view(&halves, dim)).expect("f16 rows in f32 storage");
            let found = whole.search(view(&query_floats, dim), K).expect("an answer");
            assert_eq!(truth.judge(metric, &numbered(rows), K, &found), Ok(()));
            assert_eq!(
                found,
                half.search(view(&query_floats, dim), K).expect("an answer"),
                "{metric}: f16 rows"
            );
            assert_eq!(
                found,
                mixed.search(view(&query_floats, dim), K).expect("an answer"),
                "{metric}: mixed"
            );
            assert_eq!(
                found,
                half.search(view(&query_halves, dim), K).expect("an answer"),
                "{metric}: f16 queries"
            );
        }
    }
}

/// Rows far from the origin and close to each other, where distances from dot products and norms lose every digit.
#[test_matrix([Adapter, Host])]
fn near_rows_far_from_the_origin_are_told_apart(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (rows, count) in [(100, 25), (6000, 3), (6000, 25)] {
        let mut random = Random::new(0x7e57);
        let mut values: Vec<f32> = (0..rows * 4).map(|_| random.unit().abs()).collect();
        values.iter_mut().step_by(4).enumerate().for_each(|(row, x)| *x = 12_345.0 + row as f32);
        let queries: Vec<f32> = values[..count * 4].iter().map(|x| x + 0.3).collect();
        let truth = Truth::new(view(&queries, 4), view(&values, 4));
        for metric in [Metric::L2, Metric::L2Squared] {
            let found =
                index(device, metric, view(&values, 4)).search(view(&queries, 4), 1).expect("an answer");
            assert_eq!(
                truth.judge(metric, &numbered(rows), 1, &found),
                Ok(()),
                "{rows} rows, {count} queries"
            );
            let exact = |query: usize| {
                let distance = |row: &usize| truth.distance(metric, query, *row);
                (0..rows).min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|row| row as u64)
            };
            for query in 0..count {
                assert_eq!(
                    found.row(query).first().map(|hit| hit.id),
                    exact(query),
                    "{rows} rows, query {query}"
                );
            }
        }
    }
}

fn search_and_count(index: &Flat, queries: MatrixView<'_, f32>, k: usize) -> (Neighbors, u64) {
    let SearchResult { neighbors: found, statistics, .. } =
        index.search_with(queries, &SearchOptions::new(k)).expect("an answer");
    (found, statistics.searched_again)
}

#[test_matrix([Adapter, Host])]
fn of_equally_near_rows_the_smaller_ids_are_found(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (rows, count) in [(500, 3), (6000, 3), (6000, 20)] {
        let mut random = Random::new(0x71e5);
        let values = random.integers(rows * 3, 2);
        let queries = random.integers(count * 3, 2);
        // Descending, and beyond 32 bits, where the low word alone would order otherwise.
        let ids: Vec<u64> =
            (0..rows as u64).map(|row| (rows as u64 - row) * 0x7fff_ffff + (row % 3)).collect();
        let truth = Truth::new(view(&queries, 3), view(&values, 3));
        for metric in Metric::ALL {
            let mut index = Flat::builder(device, metric, 3).build().expect("an index");
            index.add_with(view(&values, 3), &AddOptions::new().ids(&ids)).expect("good rows");
            for k in [1, 7, 90] {
                let found = index.search(view(&queries, 3), k).expect("an answer");
                let verdict = truth.judge_exact(metric, &ids, k, &found);
                assert_eq!(verdict, Ok(()), "{rows} rows, {count} queries, k {k}");
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
    for count in [2, 20] {
        let queries = Random::new(0xa11).integers(count * 3, 3);
        let truth = Truth::new(view(&queries, 3), view(&values, 3));
        for metric in Metric::ALL {
            let mut index = Flat::builder(device, metric, 3).build().expect("an index");
            index.add_with(view(&values, 3), &AddOptions::new().ids(&ids)).expect("good rows");
            let (found, searched_again) = search_and_count(&index, view(&queries, 3), K);
            let overflowed = if has_kernels(device) { count as u64 } else { 0 };
            assert_eq!(searched_again, overflowed, "{metric}: every list overflows, where there are lists");
            assert_eq!(truth.judge_exact(metric, &ids, K, &found), Ok(()));
        }
    }
}

/// Rows in the order of their distance from about where the queries are.
fn sorted_rows(engine: Engine, nearest_first: bool) {
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
        let index = index(device, Metric::L2Squared, view(&values, 4));
        let (found, searched_again) = search_and_count(&index, view(&queries, 4), K);
        assert_eq!(truth.judge(Metric::L2Squared, &numbered(rows), K, &found), Ok(()), "{count} queries");
        assert_eq!(searched_again, 0, "{count} queries");
    }
}

#[test_matrix([Adapter, Host])]
fn rows_inserted_nearest_first_are_screened(engine: Engine) {
    sorted_rows(engine, true);
}

#[test_matrix([Adapter, Host])]
fn rows_inserted_nearest_last_are_screened(engine: Engine) {
    sorted_rows(engine, false);
}

#[test_matrix([Adapter, Host])]
fn any_k_is_answered(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = 20_000;
    let mut random = Random::new(0x6b);
    let values = random.integers(rows * 3, 30);
    let queries = random.integers(18 * 3, 30);
    let truth = Truth::new(view(&queries, 3), view(&values, 3));
    for metric in [Metric::L2Squared, Metric::InnerProduct] {
        let index = index(device, metric, view(&values, 3));
        for (k, count) in [
            (1, 18),
            (1023, 2),
            (1024, 2),
            (1025, 18),
            (1250, 2),
            (1251, 2),
            (rows, 2),
            (rows + 1, 1),
            (usize::MAX, 1),
        ] {
            let found = index.search(view(&queries[..count * 3], 3), k).expect("an answer");
            assert_eq!(found.queries(), count);
            assert_eq!(truth.judge_exact(metric, &numbered(rows), k, &found), Ok(()), "k {k}");
        }
    }
}

#[test_matrix([Adapter, Host])]
fn no_queries_are_answered_by_nothing(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for rows in [0, 10, 5000] {
        let index = index(device, Metric::L2Squared, view(&vec![1.0; rows * 3], 3));
        let found = index.search(MatrixView::<f32>::new(&[], 3).expect("no rows"), K).expect("an answer");
        assert_eq!(found.queries(), 0, "{rows} rows");
    }
}
