//! Limits of adapters and arguments at their edges: sizes between size classes, tiny budgets, numbers that would overflow.

use crate::common::{confined, gpu, with_bindings_of};
use crate::support::{flat, numbered};
use nearfield::{
    Device, Error, Flat, MatrixView, Metric, Quantization, Route, ScreenKernel, SearchOptions, SearchResult,
};
use nearfield_testing::truth::Truth;
use nearfield_testing::{Random, view};

fn index(device: &Device, rows: MatrixView<'_, f32>) -> Flat {
    flat(device, Metric::L2Squared, rows, Quantization::None)
}

#[test]
#[ignore = "nightly"]
fn scores_up_to_a_binding_that_is_no_size_class_are_searched() {
    let Some(device) = with_bindings_of(1_000_000) else { return };
    let mut random = Random::new(0x11);
    let (rows, queries) = (random.integers(70_000 * 4, 20), random.integers(5 * 4, 20));
    let (rows, queries) = (view(&rows, 4), view(&queries, 4));
    let index = index(&device, rows);
    let plan = index.plan(4, 10).expect("a plan");
    assert!(
        matches!(plan.route(), Route::Screened { chunk_blocks, chunks: 2.., .. } if chunk_blocks > 250),
        "{plan}: the scores of a chunk nearly fill a binding"
    );
    let truth = Truth::new(queries, rows);
    let found = index.search(queries, 10).expect("an answer");
    truth.judge_exact(Metric::L2Squared, &numbered(rows.rows()), 10, &found).expect("the truth");
    // A row of values that nearly fills a binding, too.
    let values = random.integers(249_000, 1000);
    let smallest = device.top_k(view(&values, 249_000), 3).expect("an answer");
    assert_eq!(smallest.row(0).len(), 3);
}

/// Of which a larger budget would not be a cure.
#[test]
#[ignore = "nightly"]
fn what_exceeds_a_binding_is_refused_as_such() {
    let Some(device) = with_bindings_of(1_000_000) else { return };
    let rows: Vec<f32> = (0..300_000).map(|i| i as f32 + 1.0).collect();
    let index = index(&device, view(&rows, 2));
    let query = view(&rows[..2], 2);
    let long = view(&rows, 300_000);
    let results = [index.search(query, 140_000), device.top_k(long, 3), device.top_k(query, 1)];
    assert!(matches!(&results, [Err(_), Err(_), Ok(_)]), "{results:?}");
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("binding") && error.to_string().contains("1000000"), "{error}");
    }
    // k results of 8 bytes, of a row that fits.
    let error = device.top_k(view(&rows[..200_000], 200_000), 150_000).expect_err("no such binding");
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn a_budget_too_small_for_tiles_scans() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(0x22);
    let (rows, queries) = (random.floats(30_000 * 8), random.floats(40 * 8));
    let (rows, queries) = (view(&rows, 8), view(&queries, 8));
    let builder =
        Flat::builder(device, Metric::L2Squared, 8).quantization(Quantization::None).budget(3 << 20);
    let mut small = builder.build().expect("an index");
    small.add(rows).expect("good rows");
    let plan = small.plan(40, 10).expect("a plan");
    assert!(matches!(plan.route(), Route::Screened { kernel: ScreenKernel::Scan, .. }), "{plan}");
    let found = small.search(queries, 10).expect("an answer");
    assert_eq!(found, index(device, rows).search(queries, 10).expect("an answer"));
}

#[test]
fn any_expected_number_of_rows_is_taken() {
    let Some(device) = confined(1 << 16, 1 << 24) else { return };
    let rows: Vec<f32> = (0..5000 * 4).map(|i| (i as f32).sin()).collect();
    let want = index(&device, view(&rows, 4)).search(view(&rows[..4], 4), 3).expect("an answer");
    for capacity in [1, 5000, 1_000_000, usize::MAX] {
        let mut index =
            Flat::builder(&device, Metric::L2Squared, 4).capacity(capacity).build().expect("an index");
        index.add(view(&rows, 4)).expect("good rows");
        assert_eq!(index.search(view(&rows[..4], 4), 3).expect("an answer"), want, "{capacity}");
    }
}

#[test]
fn a_dim_beyond_all_bounds_is_refused() {
    let Some(device) = gpu() else { return };
    for dim in [0, (1 << 20) + 1, 1 << 60, usize::MAX] {
        let error = Flat::builder(device, Metric::L2, dim).build().expect_err("no such vectors");
        assert!(matches!(error, Error::Argument { argument: "dim", .. }), "{error}");
        assert!(error.to_string().contains("1048576"), "{error}");
    }
}

#[test]
fn rows_of_many_segments_are_each_looked_at_once() {
    // Seven blocks a segment: no segment starts where a round does.
    let Some(device) = confined(7 * 128 * 16, 1 << 26) else { return };
    let mut random = Random::new(0x33);
    let (rows, queries) = (random.floats(20_000 * 4), random.floats(20 * 4));
    let (rows, queries) = (view(&rows, 4), view(&queries, 4));
    let index = index(&device, rows);
    let truth = Truth::new(queries, rows);
    for count in [3, 20] {
        let SearchResult { neighbors: found, statistics, .. } =
            index.search_with(queries.slice(0..count), &SearchOptions::new(10)).expect("an answer");
        truth.judge(Metric::L2Squared, &numbered(rows.rows()), 10, &found).expect("the truth");
        // A block that is looked at twice fills the lists, or puts its rows on them twice.
        assert_eq!(statistics.searched_again, 0, "{count} queries");
        assert!(statistics.refined < 100 * count as u64, "{} rows for {count} queries", statistics.refined);
    }
}

#[test]
fn more_hits_than_memory_holds_are_an_error_and_not_an_abort() {
    let Some(device) = gpu() else { return };
    let rows: Vec<f32> = (0..200_000).map(|row| row as f32).collect();
    let mut index = Flat::builder(device, Metric::L2Squared, 1).budget(1 << 20).build().expect("an index");
    index.add(view(&rows, 1)).expect("good rows");
    let refused = index.search(view(&rows, 1), rows.len());
    assert!(matches!(refused, Err(Error::Budget { .. })), "{:?}", refused.err());
}
