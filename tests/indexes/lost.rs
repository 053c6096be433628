//! GPUs that are lost: errors, what stands in for them, and indexes that recover.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nearfield::{
    Device, Distribution, Error, Flat, Index, Ivf, Metric, Quantization, Residency, SearchOptions,
    SearchResult, Vectors,
};
use test_case::test_matrix;

use crate::common::Engine::Adapter;
use crate::support::{devices, few_iterations, flat, own_gpu};
use nearfield_testing::living::{Kind, bits};
use nearfield_testing::{Random, view};

const DIM: usize = 32;
const LISTS: usize = 16;

/// Devices that a test may destroy.
fn own(count: usize) -> Option<Vec<Device>> {
    (0..count).map(|_| own_gpu()).collect()
}

/// A device that is not lost, and has no rows of the tests below.
fn another() -> Device {
    devices(Adapter, 2).expect("the adapter is there").remove(1)
}

fn destroy(device: &Device) {
    device.wgpu_device().expect("a GPU").destroy();
}

fn is_lost<T>(done: Result<T, Error>) -> String {
    let error = done.map(drop).expect_err("a device is lost");
    assert!(matches!(error, Error::DeviceLost { .. }), "{error:?}");
    error.to_string()
}

/// Rows of whole numbers, whose distances are the same bits on either engine.
fn rows(count: usize) -> Vec<f32> {
    Random::new(0x105).integers(count * DIM, 3)
}

/// Checks that run after the device is lost.
type Check = Box<dyn FnOnce()>;

/// Makes indexes on a device, and says what is checked once it is lost.
type Scene = fn(&Device) -> Check;

/// The scenes lose one device together, because each device compiles its own kernels.
#[test]
fn a_lost_device_is_an_error_unless_something_stands_in_for_it() {
    let Some(device) = own_gpu() else { return };
    let scenes: [(&str, Scene); 5] = [
        ("copies on the host", copies),
        ("shards", shards),
        ("replicas", replicas),
        ("shards that come back", shards_that_come_back),
        ("a host that answers meanwhile", a_host_that_answers_meanwhile),
    ];
    let checks = scenes.map(|(name, prepare)| (name, prepare(&device)));
    let values = rows(6000);
    let mut index = flat(&device, Metric::L2, view(&values, DIM), Quantization::None);
    index.search(&values[..DIM], 3).expect("an answer");
    destroy(&device);
    for _ in 0..2 {
        is_lost(index.search(&values[..DIM], 3));
        is_lost(index.add(view(&values, DIM)));
    }
    assert_eq!(index.len(), 6000);
    for (name, check) in checks {
        println!("{name}");
        check();
    }
}

#[test]
fn a_device_that_is_lost_while_many_search_gives_each_an_error() {
    let Some(device) = own_gpu() else { return };
    let values = rows(6000);
    let index = flat(&device, Metric::L2, view(&values, DIM), Quantization::None);
    let searches = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (index, searches) = (&index, &searches);
        for query in values.chunks(DIM).take(8) {
            scope.spawn(move || {
                while index.search(query, 10).is_ok() {
                    searches.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while searches.load(Ordering::Relaxed) < 8 {
            thread::yield_now();
        }
        destroy(&device);
    });
}

/// The answers of an index, probing each number of lists.
fn answers<'q>(index: &Index, queries: impl Into<Vectors<'q>>) -> Vec<SearchResult> {
    let queries = queries.into();
    let probes = if index.lists().is_some() { &[Some(1), Some(4), Some(LISTS)][..] } else { &[None] };
    let answer = |&probes: &Option<usize>| {
        let mut options = SearchOptions::new(5);
        options.probes = probes;
        index.search_with(queries, &options).expect("an answer")
    };
    probes.iter().map(answer).collect()
}

/// Indexes whose rows the host has as well, or alone. It stands in for the device where that is asked for.
fn copies(device: &Device) -> Check {
    let values = rows(3000);
    let queries = &values[..700 * DIM];
    let there = device.upload(view(queries, DIM)).expect("fits");
    let mut prepared = vec![];
    for kind in [Kind::Flat, Kind::Ivf] {
        for (place, falls_back) in
            [Residency::Device, Residency::Host].into_iter().flat_map(|place| [(place, true), (place, false)])
        {
            let is_hybrid = matches!(place, Residency::Host);
            let mut index: Index = match kind {
                Kind::Flat => {
                    let builder = Flat::builder(device, Metric::L2, DIM)
                        .quantization(Quantization::Int8)
                        .residency(place);
                    builder.keep_host_copy(true).fallback(falls_back).build().expect("an index").into()
                }
                Kind::Ivf => {
                    let builder = Ivf::builder(device, Metric::L2, DIM)
                        .quantization(Quantization::Int8)
                        .residency(place);
                    let builder = builder.keep_host_copy(true).fallback(falls_back).lists(LISTS);
                    builder.kmeans(few_iterations).train(view(&values, DIM)).expect("trains").into()
                }
            };
            index.add(view(&values, DIM)).expect("good rows");
            let before = answers(&index, &there);
            assert!(before.iter().all(|found| !found.statistics.on_host), "queries on the GPU stay there");
            let bytes = index.to_bytes().expect("memory");
            prepared.push((index, is_hybrid, falls_back, before, bytes));
        }
    }
    Box::new(move || {
        let queries = view(&values[..700 * DIM], DIM);
        for (mut index, is_hybrid, falls_back, before, bytes) in prepared {
            assert_eq!(index.get(&[17]).expect("on the host"), values[17 * DIM..18 * DIM]);
            assert!(index.search(&there, 5).is_err(), "queries on the GPU are lost with it");
            assert!(index.add(view(&values, DIM)).is_err(), "there is no device to add to");
            assert!(index.update(&[3], &values[..DIM]).is_err());
            assert!(index.contains(2999) && index.len() == 3000);
            if !falls_back {
                let lost = index.search(queries, 5).expect_err("nothing stands in");
                assert!(matches!(lost, Error::DeviceLost { .. } | Error::Device { .. }), "{lost}");
                continue;
            }
            let after = answers(&index, queries);
            assert!(after.iter().all(|found| found.statistics.on_host));
            // Of lists whose rows it keeps, the host searches all.
            let searches_all = is_hybrid && index.lists().is_some();
            for (mut wanted, after) in before.iter().zip(&after) {
                if searches_all {
                    wanted = before.last().expect("an answer of all lists");
                    assert_eq!(after.statistics.searched_flat, 700);
                }
                assert_eq!(bits(&after.neighbors), bits(&wanted.neighbors));
            }
            let found =
                index.search_with(&values[..DIM], &SearchOptions::within(0.5)).expect("an answer").neighbors;
            assert_eq!(found.row(0)[0].id, 0);
            // Saved from the copy, lists are the same lists.
            if !is_hybrid && index.lists().is_some() {
                assert!(index.to_bytes().expect("on the host") == bytes);
            }
        }
    })
}

/// A third of the rows is gone.
fn shards(device: &Device) -> Check {
    let [one, other] = [0, 1].map(|place| devices(Adapter, 2).expect("two devices").remove(place));
    let values = rows(2000);
    let mut index = Flat::builder(&[one, device.clone(), other], Metric::L2, DIM).build().expect("an index");
    index.add(view(&values, DIM)).expect("good rows");
    Box::new(move || {
        let text = is_lost(index.search(view(&values, DIM), 5));
        assert!(text.contains("device 1 of 3"), "{text}");
        is_lost(index.add(view(&values, DIM)));
        assert_eq!((index.len(), index.next_id()), (2000, 2000), "as it was");
    })
}

/// Replicas answer as long as one of them is left.
fn replicas(device: &Device) -> Check {
    let others = own(2).expect("two devices");
    let three = [others[0].clone(), device.clone(), others[1].clone()];
    let builder = Flat::builder(&three, Metric::L2, DIM).distribution(Distribution::Replicated);
    let (values, mut index) = (rows(2000), builder.build().expect("an index"));
    index.add(view(&values, DIM)).expect("good rows");
    let answer = move |index: &Flat, values: &[f32]| {
        bits(&index.search(view(&values[..200 * DIM], DIM), 5).expect("some are left"))
    };
    let want = answer(&index, &values);
    Box::new(move || {
        assert_eq!(answer(&index, &values), want);
        index.add(view(&values, DIM)).expect("two are left");
        index.remove(&(2000..4000).collect::<Vec<_>>()).expect("two are left");
        assert_eq!(answer(&index, &values), want);
        destroy(&others[0]);
        assert_eq!(answer(&index, &values), want);
        destroy(&others[1]);
        is_lost(index.search(&values[..DIM], 5));
        is_lost(index.add(view(&values, DIM)));
        is_lost(index.remove(&[1]));
        assert_eq!(index.len(), 2000);
    })
}

/// An index of two devices without some of its rows.
fn on_two(two: &[Device], kind: Kind, distribution: Distribution, has_copy: bool) -> Index {
    let values = rows(1500);
    let mut index: Index = match kind {
        Kind::Flat => {
            let builder =
                Flat::builder(two, Metric::L2, DIM).distribution(distribution).keep_host_copy(has_copy);
            builder.build().expect("an index").into()
        }
        Kind::Ivf => {
            let builder =
                Ivf::builder(two, Metric::L2, DIM).distribution(distribution).keep_host_copy(has_copy);
            builder.lists(20).kmeans(few_iterations).train(view(&values, DIM)).expect("trains").into()
        }
    };
    index.add(view(&values, DIM)).expect("good rows");
    index.remove(&(100..400).collect::<Vec<_>>()).expect("they are there");
    index
}

/// Answers of enough queries for both devices.
fn answered(index: &Index) -> Vec<Vec<(u64, u32)>> {
    answers(index, view(&rows(150), DIM)).iter().flat_map(|found| bits(&found.neighbors)).collect()
}

/// A lost shard is copied from the host, or from a saved index.
fn shards_that_come_back(device: &Device) -> Check {
    let first = Adapter.device().expect("the adapter is there");
    let mut prepared = vec![];
    for (kind, has_copy) in [(Kind::Flat, true), (Kind::Flat, false), (Kind::Ivf, true), (Kind::Ivf, false)] {
        let mut index = on_two(&[first.clone(), device.clone()], kind, Distribution::Sharded, has_copy);
        let refused = index.recover(&another()).expect_err("none is lost");
        assert!(refused.to_string().contains("lost none"), "{refused}");
        prepared.push((answered(&index), index.to_bytes().expect("memory"), has_copy, index));
    }
    Box::new(move || {
        for (want, file, has_copy, mut index) in prepared {
            is_lost(index.add(view(&rows(1000), DIM)));
            if has_copy {
                index.recover(&another()).expect("the copy has the rows");
            } else {
                let refused = index.recover(&another()).expect_err("no rows");
                assert!(refused.to_string().contains("recover_from"), "{refused}");
                let empty = |dim| {
                    Flat::builder(&Device::host(), Metric::L2, dim)
                        .build()
                        .map(Index::from)
                        .expect("an index")
                };
                let refused = index.recover_from(&another(), &empty(DIM + 1)).expect_err("another dim");
                assert!(matches!(refused, Error::Argument { argument: "other", .. }), "{refused}");
                let refused = index.recover_from(&another(), &empty(DIM)).expect_err("no rows");
                assert!(matches!(refused, Error::UnknownId { .. }), "{refused}");
                let saved = Index::loader(&Device::host()).load_bytes(&file).expect("it is loaded");
                let refused = index.recover_from(first, &saved).expect_err("it is there already");
                assert!(matches!(refused, Error::Argument { argument: "devices", .. }), "{refused}");
                index.recover_from(&another(), &saved).expect("it has the rows");
            }
            assert_eq!(answered(&index), want);
            assert_eq!(index.to_bytes().expect("memory"), file);
        }
    })
}

/// An index notes the loss of a device, though the host answers in its place.
fn a_host_that_answers_meanwhile(device: &Device) -> Check {
    let first = Adapter.device().expect("the adapter is there");
    let answer = |index: &Flat| {
        let found =
            index.search_with(view(&rows(150), DIM), &SearchOptions::new(6)).expect("somebody answers");
        (found.statistics.on_host, bits(&found.neighbors))
    };
    let prepared = [Distribution::Sharded, Distribution::Replicated].map(|distribution| {
        let builder =
            Flat::builder(&[first.clone(), device.clone()], Metric::L2, DIM).distribution(distribution);
        let builder = builder.residency(Residency::Host).keep_host_copy(true).fallback(true);
        let mut index = builder.build().expect("an index");
        index.add(view(&rows(3000), DIM)).expect("good rows");
        (answer(&index), index)
    });
    Box::new(move || {
        for ((on_host, want), mut index) in prepared {
            assert!(!on_host);
            assert_eq!(answer(&index), (true, want.clone()));
            index.recover(&another()).expect("it was lost");
            assert_eq!(answer(&index), (false, want));
        }
    })
}

#[test_matrix([Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn a_lost_replica_is_copied_from_the_other(kind: Kind) {
    let Some(two) = own(2) else { return };
    let mut index = on_two(&two, kind, Distribution::Replicated, false);
    let want = answered(&index);
    destroy(&two[1]);
    index.add(view(&rows(1000), DIM)).expect("one is left");
    index.remove(&(1500..2500).collect::<Vec<_>>()).expect("they are there");
    assert_eq!(answered(&index), want);
    index.recover(&another()).expect("there is a replica");
    // What answers is the recovered one.
    destroy(&two[0]);
    assert_eq!(answered(&index), want);
}

#[test_matrix([Distribution::Sharded, Distribution::Replicated], [true, false] => ignore["nightly"])]
fn rows_that_the_host_keeps_are_still_there_when_a_device_is_lost(distribution: Distribution, is_file: bool) {
    let Some(two) = own(2) else { return };
    let mut random = Random::new(0x108);
    let (rows, queries) = (random.integers(3000 * DIM, 3), random.integers(150 * DIM, 3));
    let (rows, queries) = (view(&rows, DIM), view(&queries, DIM));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.nf");
    let builder =
        Flat::builder(&two, Metric::L2, DIM).distribution(distribution).quantization(Quantization::Int8);
    let mut index = match is_file {
        true => {
            let mut saved = Flat::builder(&Device::host(), Metric::L2, DIM).build().expect("an index");
            saved.add(rows).expect("good rows");
            saved.save(&path).expect("saved");
            builder.mapped(path).build().expect("an index")
        }
        false => {
            let mut index = builder.residency(Residency::Host).build().expect("an index");
            index.add(rows).expect("good rows");
            index
        }
    };
    index.remove(&(100..400).collect::<Vec<_>>()).expect("they are there");
    let (want, memory) = (bits(&index.search(queries, 6).expect("an answer")), index.memory());
    destroy(&two[1]);
    let found = index.search(queries, 6);
    match distribution {
        Distribution::Sharded => assert!(matches!(found, Err(Error::DeviceLost { .. })), "{found:?}"),
        _ => {
            assert_eq!(bits(&found.expect("one is left")), want);
            index.remove(&[400]).expect("one is left");
        }
    }
    index.recover(&another()).expect("rows are left");
    let places = [Residency::Mapped, Residency::Device];
    assert_eq!(places.map(|place| index.memory().at(place)), places.map(|place| memory.at(place)));
    let mut left = Flat::builder(&Device::host(), Metric::L2, DIM).build().expect("an index");
    left.add(rows).expect("good rows");
    left.remove(&(100..400 + u64::from(distribution == Distribution::Replicated)).collect::<Vec<_>>())
        .expect("there");
    // What answers is the recovered one.
    if distribution == Distribution::Replicated {
        destroy(&two[0]);
    }
    let found = index.search_with(queries, &SearchOptions::new(6)).expect("an answer");
    assert!(!found.statistics.on_host);
    assert_eq!(bits(&found.neighbors), bits(&left.search(queries, 6).expect("an answer")));
}

#[test]
#[ignore = "nightly"]
fn lists_come_back_when_all_devices_were_lost() {
    let Some(two) = own(2) else { return };
    let mut random = Random::new(0x10a);
    let (rows, queries) = (random.integers(1500 * DIM, 3), random.integers(100 * DIM, 3));
    let builder = Ivf::builder(&two, Metric::L2, DIM).lists(8).kmeans(few_iterations);
    let builder = builder.residency(Residency::Host).quantization(Quantization::Int8);
    let mut index = builder.train(view(&rows, DIM)).expect("trains");
    index.add(view(&rows, DIM)).expect("good rows");
    let options = SearchOptions::new(6).probes(3);
    let answer = |index: &Ivf| Ok(index.search_with(view(&queries, DIM), &options)?.neighbors);
    let (want, bytes) = (answer(&index).expect("an answer"), index.to_bytes().expect("memory"));
    two.iter().for_each(destroy);
    for _ in 0..2 {
        let lost = answer(&index).expect_err("devices are lost");
        assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
        index.recover(&own_gpu().expect("another device")).expect("rows are left");
    }
    assert_eq!(bits(&answer(&index).expect("two are back")), bits(&want));
    assert_eq!(index.to_bytes().expect("memory"), bytes);
}
