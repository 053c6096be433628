//! Rows whose 8-bit copy does not fit the device: searches send it window by window, and answer as the host engine does, bit for bit.

use nearfield::{
    Device, Distribution, ElementKind, Error, Filter, Flat, Index, Ivf, Metric, Quantization, Residency,
    SearchOptions,
};
use test_case::test_case;

use super::{Twins, assert_same, clustered};
use crate::support::{Limited, few_iterations, limited};
use nearfield_testing::{Random, view};

/// Bytes of a row of dim 32 in 8-bit integers, with its terms.
const QUANTIZED: u64 = 32 + 16;

/// A GPU whose rows may hold the 8-bit copies of 4,096 rows: two windows of 16 blocks.
fn device() -> Option<Limited> {
    limited(4096 * QUANTIZED)
}

/// The same index streamed on a device, and on the host engine.
fn twins(device: &Device, metric: Metric, elements: ElementKind, place: Residency) -> Twins {
    let builder = |device: &Device| {
        Flat::builder(device, metric, 32).elements(elements).quantization(Quantization::Int8)
    };
    let hybrid = builder(device).residency(place).build().expect("an index");
    Twins { hybrid, host: builder(&Device::host()).build().expect("an index") }
}

fn streamed(device: &Device) -> Twins {
    twins(device, Metric::L2, ElementKind::F32, Residency::Streamed)
}

#[test_case(Metric::L2, ElementKind::F32)]
#[test_case(Metric::L2Squared, ElementKind::F16)]
#[test_case(Metric::Cosine, ElementKind::F32)]
#[test_case(Metric::InnerProduct, ElementKind::F16)]
fn windows_find_what_the_host_finds(metric: Metric, elements: ElementKind) {
    let Some(device) = device() else { return };
    let mut twins = twins(&device, metric, elements, Residency::Streamed);
    let mut random = Random::new(1);
    twins.add(&clustered(&mut random, 11_000, 32), None);
    let queries = clustered(&mut random, 40, 32);
    for (count, k) in [(1, 1), (40, 10), (3, 100), (2, 3000)] {
        let found = twins.search(view(&queries[..count * 32], 32), &SearchOptions::new(k));
        let statistics = found.statistics;
        // The first 1,920 rows are too few for one query. For many neighbours, the host computes all distances until it has as many.
        let windows =
            [(1, 5), (3000, 4)].iter().find(|(other, _)| *other == k).map_or(6, |(_, windows)| *windows);
        assert_eq!((statistics.windows, statistics.on_host), (windows, false), "k = {k}: {statistics:?}");
        assert_eq!(statistics.searched_exhaustively, 0, "k = {k}: {statistics:?}");
        assert_eq!(statistics.rows, Residency::Host);
        if k == 10 {
            let nearly_all = 40 * 11_000 / 4;
            assert!(statistics.refined < nearly_all, "a screen excludes rows: {statistics:?}");
        }
    }
    let nearest = twins.host.search(view(&queries, 32), 50).expect("an answer");
    let radius = nearest.row(0)[49].distance;
    let within = twins.within(view(&queries, 32), radius);
    assert!(within.neighbors.row(0).len() >= 49 && within.statistics.windows == 6, "{:?}", within.statistics);
    let plan = twins.hybrid.plan(40, 10).expect("a plan");
    assert_eq!((plan.windows, plan.reports_on_host, plan.rows), (6, true, Residency::Host));
    assert!(plan.to_string().contains("; rows in the host's memory, streamed in 6 windows; "), "{plan}");
}

/// Bytes of quantised rows that the host keeps.
fn integers_on_host(twins: &Twins) -> u64 {
    let memory = twins.hybrid.memory();
    let parts = memory.parts().iter();
    let on_host = parts.filter(|part| (part.name, part.residency) == ("integers", Residency::Host));
    on_host.map(|part| part.bytes).sum()
}

/// Searches send again what was quantised, until rows change.
#[test]
fn what_was_quantized_is_kept_until_rows_change() {
    let Some(device) = device() else { return };
    let mut twins = streamed(&device);
    let mut random = Random::new(8);
    let queries = clustered(&mut random, 40, 32);
    let twice = |twins: &Twins, rows: u64| {
        assert_eq!(integers_on_host(twins), 0);
        let found = [0, 1].map(|_| twins.search(view(&queries, 32), &SearchOptions::new(5)).neighbors);
        assert_eq!(found[0], found[1]);
        assert_eq!(integers_on_host(twins), rows * QUANTIZED);
    };
    twins.add(&clustered(&mut random, 8192, 32), None);
    twice(&twins, 8192);
    twins.add(&clustered(&mut random, 2048, 32), None);
    twice(&twins, 10_240);
    let other = clustered(&mut random, 2, 32);
    twins.change(|index| index.update(&[3, 5000], view(&other, 32)));
    // They lie in a block of their own.
    twice(&twins, 10_240 + 128);
    // The rows that stay move together.
    let gone: Vec<u64> = (0..10_240).filter(|id| id % 10 < 6).collect();
    twins.change(|index| index.remove(&gone));
    twice(&twins, 4096);
}

/// Windows of fewer rows begin elsewhere.
#[test]
fn what_was_quantized_goes_when_its_rows_are_divided_otherwise() {
    let Some(device) = device() else { return };
    let mut twins = streamed(&device);
    let mut random = Random::new(13);
    twins.add(&clustered(&mut random, 8192, 32), None);
    let queries = clustered(&mut random, 40, 32);
    for (end, rows) in [(8192, 8192), (7000, 7040), (6200, 6272)] {
        twins.change(|index| {
            index.remove(&(end..8192).filter(|id| index.contains(*id)).collect::<Vec<u64>>())
        });
        for _ in 0..2 {
            twins.search(view(&queries, 32), &SearchOptions::new(5));
        }
        assert_eq!(integers_on_host(&twins), rows * QUANTIZED, "{end} rows");
    }
}

#[test]
fn rows_at_one_distance_are_ordered_by_their_ids_across_windows() {
    let Some(device) = device() else { return };
    let mut twins = streamed(&device);
    // Each row is there four times, in four windows, with ids that descend.
    let values = Random::new(2).floats(2048 * 32).repeat(4);
    let ids: Vec<u64> = (0..8192).rev().collect();
    twins.add(&values, Some(&ids));
    let found = twins.search(view(&values[..20 * 32], 32), &SearchOptions::new(3));
    for hits in &found.neighbors {
        assert!(hits[0].distance == hits[2].distance && hits[0].id + 2048 == hits[1].id, "{hits:?}");
    }
}

#[test]
fn filters_and_removed_rows_leave_windows_out() {
    let Some(device) = device() else { return };
    let mut twins = streamed(&device);
    let mut random = Random::new(3);
    twins.add(&clustered(&mut random, 9000, 32), None);
    let queries = clustered(&mut random, 10, 32);
    let removed: Vec<u64> =
        (0..9000).filter(|id| (1920..3840).contains(id) || *id > 8500 || id % 7 == 0).collect();
    twins.change(|index| index.remove(&removed));
    let found = twins.search(view(&queries, 32), &SearchOptions::new(10));
    assert_eq!(found.statistics.windows, 3, "one has no rows, and one has few: {:?}", found.statistics);
    twins.within(view(&queries, 32), 4.0);
    for share in [2, 5, 100, 4000] {
        let allowed: Vec<u64> = (0..9000).filter(|id| id % share == 1).collect();
        let filter = Filter::ids(&allowed);
        twins.search(view(&queries, 32), &SearchOptions::new(10).filter(filter));
    }
    // Rows of one window.
    let few: Vec<u64> = (5800..7600).collect();
    let found = twins.search(view(&queries, 32), &SearchOptions::new(10).filter(Filter::ids(&few)));
    assert_eq!(found.statistics.windows, 1, "{:?}", found.statistics);
    let values = clustered(&mut random, 500, 32);
    let ids: Vec<u64> = (4100..8000).filter(|id| id % 7 != 0).take(500).collect();
    twins.change(|index| index.update(&ids, view(&values, 32)));
    twins.change(Flat::compact);
    twins.search(view(&queries, 32), &SearchOptions::new(10));
}

#[test]
fn stages_are_timed_and_progress_rises_with_every_window() {
    let Some(device) = device() else { return };
    let mut twins = streamed(&device);
    let mut random = Random::new(11);
    twins.add(&clustered(&mut random, 8192, 32), None);
    let queries = clustered(&mut random, 40, 32);
    let told = std::sync::Mutex::new(vec![]);
    let note = |answered| told.lock().expect("no panic").push(answered);
    let options = SearchOptions::new(5).progress(&note).profile(true);
    let found = twins.hybrid.search_with(view(&queries, 32), &options).expect("an answer");
    assert_eq!(*told.lock().expect("no panic"), [8, 16, 24, 32, 40]);
    let stages: Vec<&str> = found.statistics.stages.iter().map(|stage| stage.stage).collect();
    assert!(!device.adapter().capabilities.timestamps || stages.contains(&"collect"), "{stages:?}");
}

#[test]
fn queries_with_too_many_candidates_are_answered_by_the_host() {
    let Some(device) = limited(18_750 * QUANTIZED) else { return };
    let mut twins = streamed(&device);
    // Scratch memory for short lists alone.
    let builder = Flat::builder(&*device, Metric::L2, 32).quantization(Quantization::Int8).budget(1 << 20);
    twins.hybrid = builder.residency(Residency::Streamed).build().expect("an index");
    // Rows at nearly one distance of each other: a screen excludes none.
    let mut random = Random::new(4);
    let mut values = vec![1.0; 24_576 * 32];
    values.iter_mut().for_each(|x| *x += 1e-6 * random.floats(1)[0]);
    values[..32].fill(1000.0);
    twins.add(&values, None);
    let found = twins.search(view(&values[32..96], 32), &SearchOptions::new(5));
    let statistics = found.statistics;
    assert_eq!((statistics.searched_exhaustively, statistics.on_host), (2, false), "{statistics:?}");
}

#[test]
fn a_growing_index_goes_from_the_device_to_the_host_to_windows() {
    // Room for 1,024 rows with their copy, and for four times as many copies alone.
    let Some(device) = device() else { return };
    let mut twins = twins(&device, Metric::L2, ElementKind::F32, Residency::Auto);
    let mut random = Random::new(5);
    let queries = clustered(&mut random, 10, 32);
    let mut places = vec![];
    for _ in 0..6 {
        twins.add(&clustered(&mut random, 890, 32), None);
        places.push((twins.hybrid.residency(), twins.hybrid.plan(10, 10).expect("a plan").windows > 0));
        if twins.hybrid.residency() == Residency::Host {
            twins.search(view(&queries, 32), &SearchOptions::new(10));
        }
    }
    let (device_has, hybrid) = ((Residency::Device, false), (Residency::Host, false));
    assert_eq!(places[..2], [device_has, hybrid], "{places:?}");
    assert_eq!(places[5], (Residency::Host, true), "{places:?}");
    assert!(twins.hybrid.memory().at(Residency::Device) <= 4096 * QUANTIZED, "{}", twins.hybrid.memory());
    // In one step, from a file that is loaded or mapped.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("streamed.nf");
    twins.hybrid.save(&path).expect("saved");
    let Twins { host, hybrid } = twins;
    drop(hybrid);
    let wanted = host.search(view(&queries, 32), 10).expect("an answer");
    let mapped =
        Flat::builder(&*device, Metric::L2, 32).quantization(Quantization::Int8).mapped(path.clone());
    let loaded = |place| Index::loader(&*device).residency(place).load(&path);
    let all: [(&dyn Fn() -> Result<Index, Error>, _); 3] = [
        (&|| loaded(Residency::Auto), Residency::Host),
        (&|| loaded(Residency::Streamed), Residency::Host),
        (&|| mapped.clone().build().map(Index::from), Residency::Mapped),
    ];
    for (index, place) in all {
        let index = index().expect("an index");
        let found = index.search_with(view(&queries, 32), &SearchOptions::new(10)).expect("an answer");
        assert_eq!((found.statistics.windows, found.statistics.rows), (3, place));
        assert_same(&found.neighbors, &wanted);
    }
}

#[test]
fn searches_of_several_threads_take_turns() {
    let Some(device) = device() else { return };
    let mut twins = streamed(&device);
    let mut random = Random::new(7);
    twins.add(&clustered(&mut random, 5000, 32), None);
    let queries = clustered(&mut random, 8, 32);
    std::thread::scope(|scope| {
        for query in queries.chunks(64) {
            let twins = &twins;
            scope.spawn(move || twins.search(view(query, 32), &SearchOptions::new(7)));
        }
    });
}

#[test_case(Distribution::Sharded)]
#[test_case(Distribution::Replicated)]
fn several_devices_stream_as_one(distribution: Distribution) {
    let (Some(one), Some(other)) = (device(), limited(4096 * QUANTIZED + 1)) else { return };
    let builder =
        Flat::builder(&[one.clone(), other.clone()], Metric::L2, 32).quantization(Quantization::Int8);
    let hybrid = builder.distribution(distribution).residency(Residency::Streamed).build().expect("an index");
    let mut twins = Twins { hybrid, ..streamed(&one) };
    let mut random = Random::new(12);
    for rows in [9000, 3000] {
        twins.add(&clustered(&mut random, rows, 32), None);
        let queries = clustered(&mut random, 70, 32);
        let found = twins.search(view(&queries, 32), &SearchOptions::new(10));
        assert!(found.statistics.windows >= 4 && found.statistics.devices == 2, "{:?}", found.statistics);
        twins.within(view(&queries, 32), 3.0);
    }
}

/// One block is enough, and one window then.
#[test]
fn a_window_may_have_a_single_block() {
    let Some(device) = limited(128 * QUANTIZED) else { return };
    let mut twins = streamed(&device);
    let mut random = Random::new(9);
    twins.add(&clustered(&mut random, 300, 32), None);
    twins.search(view(&clustered(&mut random, 5, 32), 32), &SearchOptions::new(4));
    assert_eq!(twins.hybrid.memory().at(Residency::Device), 128 * QUANTIZED);
}

#[test]
fn lists_are_not_streamed() {
    let Some(device) = device() else { return };
    let values = Random::new(10).floats(6000 * 32);
    let builder = || {
        Ivf::builder(&*device, Metric::L2, 32)
            .lists(8)
            .kmeans(few_iterations)
            .quantization(Quantization::Int8)
    };
    let error = builder().residency(Residency::Streamed).train(view(&values, 32)).expect_err("a Flat alone");
    assert!(matches!(error, Error::Argument { argument: "residency", .. }), "{error}");
    let mut index = builder().residency(Residency::Auto).train(view(&values[..640], 32)).expect("an index");
    let error = index.add(view(&values, 32)).expect_err("no room for the copy");
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
}
