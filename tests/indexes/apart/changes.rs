//! Rows that come and go: both copies change together, or neither does.

use nearfield::{AddOptions, Device, ElementKind, Error, Flat, Index, Metric, RowPlace, SearchOptions};
use test_case::test_matrix;

use super::{Twins, assert_same, clustered};
use crate::common::Engine::Adapter;
use crate::common::gpu;
use nearfield_testing::{Random, view};

#[test_matrix([Metric::L2Squared, Metric::Cosine, Metric::InnerProduct])]
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
        twins.add(&rows, Some(&new));
        ids.extend(&new);
        let changed: Vec<u64> =
            ids.iter().copied().filter(|id| id % 7 == round as u64 % 7).take(200).collect();
        let other = clustered(&mut random, changed.len(), dim);
        let gone: Vec<u64> = ids.iter().copied().filter(|id| id % 11 == round as u64 % 5).collect();
        for index in [&mut twins.apart, &mut twins.host] {
            index.update(&changed, view(&other, dim)).expect("there");
            index.remove(&gone).expect("there");
            if round % 3 == 2 {
                index.compact().expect("compacted");
            }
        }
        ids.retain(|id| !gone.contains(id));
        assert_eq!(twins.apart.ids().expect("memory"), twins.host.ids().expect("memory"));
        assert_eq!(twins.apart.get(&ids).expect("there"), twins.host.get(&ids).expect("there"));
        for count in [1, 70] {
            twins.search(view(&queries[..count * dim], dim), &SearchOptions::new(10));
        }
    }
    assert!(!twins.search(view(&queries, dim), &SearchOptions::new(10)).statistics.on_host);
    // Most rows go, so that the index compacts itself.
    let gone: Vec<u64> = ids.iter().copied().filter(|id| id % 4 > 0).collect();
    for index in [&mut twins.apart, &mut twins.host] {
        index.remove(&gone).expect("there");
    }
    twins.search(view(&queries, dim), &SearchOptions::new(10));
    twins
        .within(view(&queries, dim), twins.host.search(&queries[..dim], 9).expect("rows").row(0)[8].distance);
}

#[test]
fn refused_rows_leave_the_index_as_it_was() {
    let Some(mut twins) = Twins::new(Metric::L2, 16, ElementKind::F32) else { return };
    let mut random = Random::new(22);
    twins.add(&random.floats(1000 * 16), None);
    let mut bad = random.floats(5000 * 16);
    bad[4321 * 16] = f32::INFINITY;
    let queries = random.floats(20 * 16);
    for _ in 0..2 {
        let error = twins.apart.add(view(&bad, 16)).expect_err("a bad row");
        assert!(matches!(error, Error::NotFinite { argument: "rows", row: 4321 }), "{error}");
        let error = twins.apart.update(&[1, 2], view(&bad[4320 * 16..4322 * 16], 16)).expect_err("a bad row");
        assert!(matches!(error, Error::NotFinite { row: 1, .. }), "{error}");
        assert!(matches!(twins.apart.remove(&[5, 5000]), Err(Error::UnknownId { id: 5000 })));
        assert_eq!(twins.apart.len(), 1000);
        twins.search(view(&queries, 16), &SearchOptions::new(10));
    }
    twins.add(&random.floats(9000 * 16), None);
    twins.search(view(&queries, 16), &SearchOptions::new(10));
}

#[test]
fn dropped_changes_leave_the_index_as_it_was() {
    let Some(mut twins) = Twins::new(Metric::Cosine, 32, ElementKind::F32) else { return };
    let mut random = Random::new(23);
    twins.add(&random.floats(700 * 32), None);
    let more = random.floats(5000 * 32);
    let queries = random.floats(10 * 32);
    for polls in 0..6 {
        let mut adding = Box::pin(twins.apart.add_async(view(&more, 32)));
        let waker = std::task::Waker::noop();
        let mut is_done = false;
        for _ in 0..polls {
            let context = &mut std::task::Context::from_waker(waker);
            is_done |= !is_done && adding.as_mut().poll(context).is_ready();
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        drop(adding);
        match twins.apart.len() {
            700 => {}
            len => {
                assert_eq!(len, 5700, "all rows or none");
                twins
                    .apart
                    .remove(
                        &(twins.apart.largest_id().expect("rows") - 4999
                            ..=twins.apart.largest_id().expect("rows"))
                            .collect::<Vec<_>>(),
                    )
                    .expect("there");
            }
        }
        twins.search(view(&queries, 32), &SearchOptions::new(5));
    }
}

#[test]
#[ignore = "nightly"]
fn saved_indexes_are_loaded_to_either_place() {
    let Some(mut twins) = Twins::new(Metric::InnerProduct, 20, ElementKind::F16) else { return };
    let mut random = Random::new(24);
    let ids: Vec<u64> = (0..5000).map(|row| 7 * row + 3).collect();
    twins.add(&clustered(&mut random, 5000, 20), Some(&ids));
    twins.apart.remove(&ids[100..200]).expect("there");
    twins.host.remove(&ids[100..200]).expect("there");
    let queries = clustered(&mut random, 50, 20);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("apart.nf");
    twins.apart.save(&path).expect("saved");
    assert_eq!(twins.apart.to_bytes().expect("bytes"), twins.host.to_bytes().expect("bytes"));
    let device = gpu().expect("an adapter");
    let wanted = twins.host.search(view(&queries, 20), 10).expect("an answer");
    let loaded = Flat::loader(device).rows(RowPlace::Host).load(&path).expect("loaded");
    assert_same(&loaded.search(view(&queries, 20), 10).expect("an answer"), &wanted);
    let loaded =
        Index::loader(device).rows(RowPlace::Host).load_bytes(&twins.host.to_bytes().expect("bytes"));
    assert_same(&loaded.expect("loaded").search(view(&queries, 20), 10).expect("an answer"), &wanted);
    let on_device = Flat::load(device, &path).expect("loaded");
    let found = on_device.search(view(&queries, 20), 10).expect("an answer");
    assert!(found.ids() == wanted.ids() || found.distances() != wanted.distances(), "ties have one order");
    let cloned = twins.apart.clone_to(&Device::host()).expect("a copy");
    assert_same(&cloned.search(view(&queries, 20), 10).expect("an answer"), &wanted);
}

#[test]
fn rows_of_other_indexes_are_merged() {
    let Some(mut twins) = Twins::new(Metric::L2, 16, ElementKind::F32) else { return };
    let mut random = Random::new(25);
    twins.add(&random.floats(3000 * 16), None);
    let device = gpu().expect("an adapter");
    let mut other = Flat::builder(device, Metric::L2, 16).build().expect("an index");
    let ids: Vec<u64> = (50_000..52_000).collect();
    other.add_with(view(&random.floats(2000 * 16), 16), &AddOptions::new().ids(&ids)).expect("good rows");
    twins.apart.merge(&other).expect("merged");
    twins.host.merge(&other).expect("merged");
    let queries = random.floats(20 * 16);
    twins.search(view(&queries, 16), &SearchOptions::new(10));
}
