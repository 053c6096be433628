//! Searches for a recall probe as many lists as it needs, and measure again when the index has changed.

use super::{ivf, numbers};
use crate::common::Engine::{self, Adapter, Host};
use crate::support::flat;
use nearfield::{Error, Index, Ivf, MatrixView, Metric, Neighbors, Quantization, SearchOptions};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

fn share(found: &Neighbors, truth: &Neighbors) -> f64 {
    let shared = |(found, truth): (&[nearfield::Neighbor], &[nearfield::Neighbor])| {
        truth.iter().filter(|one| found.iter().any(|hit| hit.id == one.id)).count()
    };
    found.iter().zip(truth).map(shared).sum::<usize>() as f64 / truth.hits().len() as f64
}

fn found(index: &Ivf, queries: MatrixView<'_, f32>, k: usize, recall: f64) -> Neighbors {
    index.search_with(queries, &SearchOptions::new(k).recall(recall)).expect("an answer").neighbors
}

#[test_matrix([Adapter, Host])]
fn a_recall_is_reached_by_queries_together_and_one_at_a_time(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(3);
    let (rows, queries) = (random.floats(9000 * 8), random.floats(400 * 8));
    let (rows, queries) = (view(&rows, 8), view(&queries, 8));
    let index = ivf(device, Metric::L2, rows, 64, Quantization::Auto);
    let truth = flat(device, Metric::L2, rows, Quantization::Auto).search(queries, 10).expect("the truth");
    for recall in [0.5, 0.9] {
        let together = found(&index, queries, 10, recall);
        assert!(share(&together, &truth) >= recall, "{recall}");
        let probes = index.probes_for_recall(queries, 10, recall).expect("probes");
        let probed = index.search_with(queries, &SearchOptions::new(10).probes(probes)).expect("an answer");
        assert_eq!(together, probed.neighbors, "{probes} probes for {recall}");
        assert!(probes < 64, "{probes} probes for {recall}");
    }
    // Whoever asks for 0.9 next asks for another recall than before.
    found(&index, queries.slice(0..1), 10, 0.5);
    let there = device.upload(queries.slice(0..50)).expect("memory");
    let on_device = index.search_with(&there, &SearchOptions::new(10).recall(0.9)).expect("an answer");
    let mut hits: Vec<_> = on_device.neighbors.iter().map(<[_]>::to_vec).collect();
    hits.extend((50..400).map(|one| found(&index, queries.slice(one..one + 1), 10, 0.9).row(0).to_vec()));
    let shared = |(hits, truth): (&Vec<nearfield::Neighbor>, &[nearfield::Neighbor])| {
        truth.iter().filter(|one| hits.iter().any(|hit| hit.id == one.id)).count()
    };
    assert!(hits.iter().zip(&truth).map(shared).sum::<usize>() as f64 >= 0.9 * 4000.0);
}

#[test_matrix([Adapter, Host])]
fn a_recall_is_measured_again_after_a_change(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Thirty rows in each of 64 places: the five nearest to a query are at one. Of those one is left, and the nearest are at five.
    let rows: Vec<f32> = (0..64 * 30).map(|row| (row % 64) as f32 * 3.0 + (row / 64) as f32 * 0.01).collect();
    let queries: Vec<f32> = (0..64).map(|place| place as f32 * 3.0 + 0.1).collect();
    let (rows, queries) = (view(&rows, 1), view(&queries, 1));
    let mut index = ivf(device, Metric::L2, rows, 64, Quantization::Auto);
    let mut exact = flat(device, Metric::L2, rows, Quantization::Auto);
    let before = index.probes_for_recall(queries, 5, 1.0).expect("probes");
    assert_eq!(found(&index, queries, 5, 1.0), exact.search(queries, 5).expect("an answer"));
    let others: Vec<u64> = (64..64 * 30).collect();
    index.remove(&others).expect("rows");
    exact.remove(&others).expect("rows");
    let after = index.probes_for_recall(queries, 5, 1.0).expect("probes");
    assert!(after > before || !device.adapter().kind.eq(&nearfield::AdapterKind::Host), "{before}, {after}");
    assert_eq!(found(&index, queries, 5, 1.0), exact.search(queries, 5).expect("an answer"));
    // The rows are back, with twice as many lists to look at for as many neighbours.
    index.add(rows).expect("rows");
    exact.add(rows).expect("rows");
    assert_eq!(found(&index, queries, 70, 1.0), exact.search(queries, 70).expect("an answer"));
}

#[test_matrix([Adapter, Host])]
fn odd_recalls_are_refused_and_indexes_without_lists_ignore_good_ones(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = numbers(300, 8, 5);
    let rows = view(&values, 8);
    let exact = flat(device, Metric::L2, rows, Quantization::Auto);
    let wanted = exact.search(rows, 3).expect("an answer");
    for index in [Index::from(exact), ivf(device, Metric::L2, rows, 8, Quantization::Auto).into()] {
        for (recall, given) in [(-0.1, "given -0.1"), (1.1, "given 1.1"), (f64::NAN, "given NaN")] {
            let refused = index.search_with(rows, &SearchOptions::new(3).recall(recall));
            let said = refused.expect_err("no recall").to_string();
            assert!(
                said.starts_with("recall: needed a number from 0 to 1") && said.ends_with(given),
                "{said}"
            );
        }
        let both = index.search_with(rows, &SearchOptions::new(3).recall(0.9).probes(1));
        assert_eq!(both.expect_err("both").to_string(), "recall: needed probes or a recall, given both");
        let found = index.search_with(rows, &SearchOptions::new(3).recall(1.0)).expect("an answer");
        assert_eq!(found.neighbors, wanted);
        let within = SearchOptions::within(f32::INFINITY).recall(0.1);
        let all = index.search_with(rows, &within).expect("all rows").neighbors;
        assert_eq!(all.hits().len(), 300 * 300);
        let none =
            index.search_with(rows.slice(0..0), &SearchOptions::new(3).recall(0.9)).expect("no queries");
        assert_eq!(none.neighbors.queries(), 0);
        // The numbers of queries are those of the search, whatever was seen before.
        let bad = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN];
        let refused = index.search_with(view(&bad, 8), &SearchOptions::new(3).recall(1.0));
        assert!(matches!(refused, Err(Error::NotFinite { row: 0, .. })), "{refused:?}");
    }
}
