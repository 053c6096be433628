//! Rows that come and go: both copies change together, or neither does.

use nearfield::{AddOptions, Device, ElementKind, Error, Flat, Metric, Residency, SearchOptions};
use test_case::test_matrix;

use super::{Twins, clustered};
use crate::common::Engine::Adapter;
use crate::support::numbered;
use nearfield_testing::{Random, view};

// Changes depend on the metric in the centre alone. `ways.rs` searches by every metric.
#[test_matrix([Metric::Cosine])]
#[test_matrix([Metric::L2Squared, Metric::InnerProduct] => ignore["nightly"])]
fn after_any_changes_answers_are_those_of_the_host_engine(metric: Metric) {
    let (dim, mut random) = (24, Random::new(21));
    // Small segments, and staging in pieces.
    let Some(device) = Adapter.confined(1024 * 32, 1 << 20) else { return };
    let mut twins = Twins::on(&device, metric, dim, ElementKind::F32, |builder| builder);
    let queries = clustered(&mut random, 70, dim);
    let mut ids: Vec<u64> = vec![];
    // The centre moves a dozen times, first with every row.
    for (round, count) in [1, 1, 2, 5, 300, 40, 2500, 3000, 1, 4000].into_iter().enumerate() {
        let rows = clustered(&mut random, count, dim);
        let new: Vec<u64> = (0..count as u64).map(|row| 10_000 * round as u64 + 3 * row).collect();
        let options = AddOptions::new().ids(&new);
        if round % 2 == 0 {
            twins.hybrid.add_with(view(&rows, dim), &options).expect("good rows");
        } else {
            twins
                .hybrid
                .add_with(&device.upload(view(&rows, dim)).expect("fits"), &options)
                .expect("good rows");
        }
        twins.host.add_with(view(&rows, dim), &options).expect("good rows");
        ids.extend(&new);
        let mut bad = clustered(&mut random, 2000, dim);
        bad[(100 * round + 99) * dim] = f32::INFINITY;
        let bad = view(&bad, dim);
        let error = twins.hybrid.add(bad).expect_err("a bad row");
        assert!(matches!(error, Error::NotFinite { row, .. } if row == 100 * round as u64 + 99), "{error}");
        let error = twins.hybrid.update(&ids[..1], bad.row(100 * round + 99)).expect_err("a bad row");
        assert!(matches!(error, Error::NotFinite { row: 0, .. }), "{error}");
        assert!(matches!(twins.hybrid.remove(&[ids[0], 5]), Err(Error::UnknownId { id: 5 })));
        let changed: Vec<u64> =
            ids.iter().copied().filter(|id| id % 7 == round as u64 % 7).take(200).collect();
        let other = clustered(&mut random, changed.len(), dim);
        let gone: Vec<u64> = ids.iter().copied().filter(|id| id % 11 == round as u64 % 5).collect();
        twins.change(|index| index.update(&changed, view(&other, dim)));
        twins.change(|index| index.remove(&gone));
        if round % 3 == 2 {
            twins.change(Flat::compact);
        }
        ids.retain(|id| !gone.contains(id));
        assert_eq!(twins.hybrid.ids().expect("memory"), twins.host.ids().expect("memory"));
        assert_eq!(twins.hybrid.get(&ids).expect("there"), twins.host.get(&ids).expect("there"));
        for count in [1, 70] {
            twins.search(view(&queries[..count * dim], dim), &SearchOptions::new(10));
        }
    }
    assert!(!twins.search(view(&queries, dim), &SearchOptions::new(10)).statistics.on_host);
    let mut other = Flat::builder(&device, metric, dim).build().expect("an index");
    other.add_with(view(&queries, dim), &AddOptions::new().ids(&numbered(70))).expect("good rows");
    twins.change(|index| index.merge(&other));
    // Most rows go, so that the index compacts itself.
    let gone: Vec<u64> = ids.iter().copied().filter(|id| id % 4 > 0).collect();
    twins.change(|index| index.remove(&gone));
    let queries = view(&queries, dim);
    twins.search(queries, &SearchOptions::new(10));
    twins.within(queries, twins.host.search(queries.row(0), 9).expect("rows").row(0)[8].distance);
    // Saved and loaded to the same place, and copied to the host.
    let bytes = twins.hybrid.to_bytes().expect("bytes");
    assert!(bytes == twins.host.to_bytes().expect("bytes"), "saved alike");
    let host = twins.hybrid.clone_to(&Device::host()).expect("a copy");
    let loaded = Flat::loader(&device).residency(Residency::Host).load_bytes(&bytes);
    Twins { hybrid: loaded.expect("loaded"), host }.search(queries, &SearchOptions::new(10));
}

#[test]
fn dropped_changes_leave_the_index_as_it_was() {
    let Some(mut twins) = Twins::new(Metric::Cosine, 32, ElementKind::F32) else { return };
    let mut random = Random::new(23);
    twins.add(&random.floats(700 * 32), None);
    let more = random.floats(5000 * 32);
    let queries = random.floats(10 * 32);
    for polls in 0..6 {
        let mut adding = Box::pin(twins.hybrid.add_async(view(&more, 32)));
        let waker = std::task::Waker::noop();
        let mut is_done = false;
        for _ in 0..polls {
            let context = &mut std::task::Context::from_waker(waker);
            is_done |= !is_done && adding.as_mut().poll(context).is_ready();
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        drop(adding);
        match twins.hybrid.len() {
            700 => {}
            len => {
                assert_eq!(len, 5700, "all rows or none");
                let added = twins.hybrid.ids().expect("memory").split_off(700);
                twins.hybrid.remove(&added).expect("there");
            }
        }
        twins.search(view(&queries, 32), &SearchOptions::new(5));
    }
}
