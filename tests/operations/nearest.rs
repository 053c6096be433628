//! `Device::nearest` against f64 and against `Flat`, on an adapter and on the host engine.

use crate::common::Engine;
use nearfield::{Device, Error, Flat, MatrixView, Metric, Neighbors};
use nearfield_testing::{Random, rounded, view};
use test_case::test_case;

fn flat(device: &Device, rows: MatrixView<'_, f32>, metric: Metric) -> Flat {
    let mut index = Flat::builder(device, metric, rows.dim()).build().expect("an index");
    index.add(rows).expect("good rows");
    index
}

#[test_case(Engine::Adapter => ignore["nightly"])]
#[test_case(Engine::Host)]
fn the_nearest_rows_are_those_of_a_flat_bit_for_bit(engine: Engine) {
    for device in engine.devices() {
        for (dim, count, whole) in [
            (3, 1, false),
            (5, 40, false),
            (20, 127, false),
            (96, 9001, false),
            (33, 4097, false),
            // Few distinct rows: ties go to the smaller number.
            (6, 5000, true),
        ] {
            let mut random = Random::new(dim as u64);
            let [rows, queries] = [count, 50].map(|count| match whole {
                true => random.integers(count * dim, 1),
                false => random.adversarial(count, dim),
            });
            let (rows, queries) = (view(&rows, dim), view(&queries, dim));
            let there = device.upload(rows).expect("good rows");
            let queries_there = device.upload(queries).expect("good queries");
            for metric in Metric::ALL {
                let index = flat(device, rows, metric);
                for (asked, k) in [(1, 1), (3, 10), (50, 100)] {
                    let asked = queries.slice(0..asked);
                    let wanted = index.search(asked, k).expect("an answer");
                    let found = device.nearest(asked, &there, metric, k).expect("an answer");
                    assert_eq!(found, wanted, "{metric}, {count} x {dim}, k = {k}, {}", device.describe());
                }
                let wanted = index.search(queries, 7).expect("an answer");
                let found = device.nearest(&queries_there, &there, metric, 7).expect("an answer");
                assert_eq!(found, wanted, "queries on the device");
                let found = device.nearest(queries, rows, metric, 7).expect("an answer");
                assert_eq!(found, wanted, "rows on the host");
            }
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn a_small_budget_changes_no_answer(engine: Engine) {
    let (Some(device), Some(small)) = (engine.device(), engine.confined(u64::MAX, 1 << 20)) else { return };
    let dim = 24;
    let mut random = Random::new(24);
    let (rows, queries) = (random.floats(9001 * dim), random.floats(70 * dim));
    let (rows, queries) = (view(&rows, dim), view(&queries, dim));
    let wanted = device.nearest(queries, rows, Metric::Cosine, 12).expect("an answer");
    assert_eq!(small.nearest(queries, rows, Metric::Cosine, 12).expect("an answer"), wanted);
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn vectors_of_f16_are_widened(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let dim = 10;
    let (halves, widened) = rounded(&Random::new(10).floats(300 * dim));
    let nearest = |queries, rows| device.nearest(queries, rows, Metric::L2, 4).expect("an answer");
    let wanted: Neighbors = nearest(view(&widened, dim), view(&widened, dim));
    let found = device.nearest(view(&halves, dim), view(&halves, dim), Metric::L2, 4).expect("an answer");
    assert_eq!(found, wanted);
    assert!(wanted.iter().enumerate().all(|(row, hits)| hits[0].id == row as u64 && hits[0].distance == 0.0));
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn no_rows_give_empty_answers_and_bad_arguments_are_named(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (two, none, wide) = (view(&[1.0f32, 2.0], 1), view::<f32>(&[], 1), view(&[1.0f32, 2.0], 2));
    let found = device.nearest(two, none, Metric::L2, 3).expect("empty answers");
    assert_eq!((found.queries(), found.row(0).len(), found.row(1).len()), (2, 0, 0));
    assert_eq!(device.nearest(none, two, Metric::L2, 3).expect("no answers").queries(), 0);
    let refused = |queries, rows, k| device.nearest(queries, rows, Metric::L2, k).expect_err("it is refused");
    assert!(matches!(refused(two, two, 0), Error::Argument { argument: "k", .. }));
    assert!(matches!(refused(two, wide, 1), Error::Argument { argument: "queries", .. }));
    let bad = [1.0, f32::NAN];
    assert!(matches!(refused(view(&bad, 1), two, 1), Error::NotFinite { argument: "queries", row: 1 }));
    assert!(matches!(refused(two, view(&bad, 1), 1), Error::NotFinite { argument: "rows", row: 1 }));
}

#[test]
fn futures_find_the_same() {
    let Some(device) = Engine::Adapter.device() else { return };
    let rows = Random::new(3).floats(500 * 8);
    let rows = view(&rows, 8);
    let wanted = device.nearest(rows, rows, Metric::Cosine, 5).expect("an answer");
    let found = pollster::block_on(device.nearest_async(rows, rows, Metric::Cosine, 5)).expect("an answer");
    assert_eq!(found, wanted);
}
