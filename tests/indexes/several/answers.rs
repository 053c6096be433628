//! Answers, plans, statistics and errors of indexes on several devices.

use std::sync::atomic::{AtomicUsize, Ordering};

use nearfield::{
    AddOptions, Distribution, Flat, Index, MatrixView, Metric, Quantization, Residency, SearchOptions,
};
use test_case::test_matrix;

use crate::common::Engine::{self, Adapter, Host};
use crate::support::devices;
use nearfield_testing::living::bits;
use nearfield_testing::{Random, view};

const DIM: usize = 24;
const ROWS: usize = 3000;

/// Rows, whose values are such that many distances are equal, and queries.
fn data() -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(0xd1);
    (random.integers(ROWS * DIM, 2), random.integers(100 * DIM, 2))
}

#[test_matrix([Adapter, Host], [Distribution::Sharded, Distribution::Replicated])]
fn every_metric_and_k_has_the_answers_of_one_device(engine: Engine, distribution: Distribution) {
    let Some(three) = devices(engine, 3) else { return };
    let (rows, queries) = data();
    let queries = view(&queries, DIM);
    for metric in Metric::ALL {
        let [mut one, mut several] = [&three[..1], &three[..]].map(|devices| {
            let builder = Flat::builder(devices, metric, DIM)
                .quantization(Quantization::Int8)
                .distribution(distribution);
            builder.build().expect("an index")
        });
        for index in [&mut one, &mut several] {
            index.add(view(&rows[..2000 * DIM], DIM)).expect("good rows");
            index.add(view(&rows[2000 * DIM..], DIM)).expect("good rows");
        }
        let few = MatrixView::new(&queries.values()[..2 * DIM], DIM).expect("two queries");
        // Software drivers sort thousands of rows for seconds.
        for (k, queries) in [(1, queries), (10, queries), (700, few), (5000, few)] {
            let [want, found] = [&one, &several].map(|index| index.search(queries, k).expect("an answer"));
            assert_eq!(bits(&found), bits(&want), "{metric}, k = {k}");
        }
        let there = three[0].upload(few).expect("good queries");
        let want = bits(&one.search(few, 10).expect("an answer"));
        let later = pollster::block_on(several.search_async(few, 10));
        for found in [several.search(few, 10), several.search(&there, 10), later] {
            assert_eq!(bits(&found.expect("an answer")), want, "{metric}, two queries");
        }
        let radius = one.search(queries, 40).expect("an answer").row(0)[39].distance;
        let [want, found] = [&one, &several].map(|index| {
            index.search_with(queries, &SearchOptions::within(radius)).expect("an answer").neighbors
        });
        assert!(want.hits().len() > 1000);
        assert_eq!(bits(&found), bits(&want), "{metric}, within {radius}");
    }
}

/// A root of f32 is the same for squares that differ: the order is that of the squares.
#[test_matrix([Adapter, Host])]
fn roots_that_are_equal_stay_in_the_order_of_their_squares(engine: Engine) {
    let Some(two) = devices(engine, 2) else { return };
    let step = 2.0f32.powi(-12);
    // Squares next to each other: 1 + 2n * 2^-24 and so on.
    let rows: Vec<f32> = (0..600).map(|row| 1.0 + step * ((600 - row) / 3) as f32 * step).collect();
    let found: Vec<_> = [&two[..1], &two[..]]
        .map(|devices| {
            let mut index = Flat::builder(devices, Metric::L2, 1).build().expect("an index");
            index.add(view(&rows, 1)).expect("good rows");
            bits(&index.search(&[0.0f32], 600).expect("an answer"))
        })
        .into();
    assert_eq!(found[0], found[1]);
}

#[test_matrix([Adapter, Host], [Distribution::Sharded, Distribution::Replicated])]
fn plans_statistics_memory_and_progress_tell_of_all_devices(engine: Engine, distribution: Distribution) {
    let Some(two) = devices(engine, 2) else { return };
    let (rows, queries) = data();
    let mut index =
        Flat::builder(&two, Metric::L2, DIM).distribution(distribution).build().expect("an index");
    let sent = AtomicUsize::new(0);
    let note = |rows| sent.store(rows, Ordering::Relaxed);
    index.add_with(view(&rows, DIM), &AddOptions::new().progress(&note)).expect("good rows");
    assert_eq!(sent.load(Ordering::Relaxed), ROWS);
    let answered = AtomicUsize::new(0);
    let note = |queries| answered.store(queries, Ordering::Relaxed);
    let options = SearchOptions::new(3).progress(&note);
    let found = index.search_with(view(&queries, DIM), &options).expect("an answer");
    assert_eq!(answered.load(Ordering::Relaxed), 100);
    assert_eq!((found.statistics.devices, found.statistics.scored), (2, 100 * ROWS as u64));
    let plan = index.plan(100, 3).expect("a plan");
    assert_eq!((plan.devices, plan.distribution), (2, Some(distribution)));
    let parts = if distribution == Distribution::Sharded { "shards" } else { "replicas" };
    assert!(plan.to_string().starts_with(&format!("2 {parts}, each with ")), "{plan}");
    assert_eq!(index.devices().len(), 2);
    let place = if engine == Host { Residency::Host } else { Residency::Device };
    let copies = if distribution == Distribution::Sharded { 1 } else { 2 };
    assert!(index.memory().at(place) >= (copies * ROWS * DIM * 4) as u64);
    let half = index.memory().at(place) as f64 / (ROWS * DIM * 4) as f64;
    assert!(half < 2.0 * copies as f64, "{half} times the rows");
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn one_file_is_loaded_on_any_number_of_devices(engine: Engine) {
    let Some(three) = devices(engine, 3) else { return };
    let (rows, queries) = data();
    let queries = view(&queries, DIM);
    let mut index = Flat::builder(&three[..2], Metric::Cosine, DIM).build().expect("an index");
    index.add(view(&rows, DIM)).expect("good rows");
    index.remove(&[5, 6, 7, 2900]).expect("they are there");
    let want = bits(&index.search(queries, 9).expect("an answer"));
    let file = index.to_bytes().expect("memory");
    for count in 1..=3 {
        for distribution in [Distribution::Sharded, Distribution::Replicated] {
            let loader = Index::loader(&three[..count]).distribution(distribution);
            let loaded = loader.load_bytes(&file).expect("it is loaded");
            assert_eq!(loaded.to_bytes().expect("memory"), file);
            let found = loaded.search_with(queries, &SearchOptions::new(9)).expect("an answer");
            assert_eq!(bits(&found.neighbors), want, "{count} {distribution}");
        }
    }
    assert_eq!(index.get(&[2999, 0, 1500]).expect("they are there"), {
        let row = |row: usize| rows[row * DIM..(row + 1) * DIM].to_vec();
        [row(2999), row(0), row(1500)].concat()
    });
}
