//! Every way that a query can take: by each screen, by the host alone, with lists that overflow, under filters and radii.

use half::f16;
use nearfield::{Device, ElementKind, Error, Filter, Flat, Metric, Quantization, Residency, SearchOptions};
use test_case::test_matrix;

use super::{Twins, clustered};
use crate::common::Engine::Adapter;
use crate::common::{gpu, without_subgroups};
use nearfield_testing::{Random, rounded, view};

#[test_matrix([Metric::L2Squared, Metric::Cosine], [ElementKind::F32])]
#[test_matrix([Metric::L2, Metric::InnerProduct], [ElementKind::F16])]
#[test_matrix([Metric::L2Squared, Metric::Cosine], [ElementKind::F16] => ignore["nightly"])]
#[test_matrix([Metric::L2, Metric::InnerProduct], [ElementKind::F32] => ignore["nightly"])]
fn answers_are_those_of_the_host_engine(metric: Metric, elements: ElementKind) {
    let (Some(device), Some(plain)) = (gpu(), without_subgroups()) else { return };
    for (dim, rows, device) in [(16, 6001, device), (100, 2000, plain)] {
        let mut twins = Twins::on(device, metric, dim, elements, |builder| builder);
        let mut random = Random::new(0xa9a + dim as u64);
        twins.add(&clustered(&mut random, rows, dim), None);
        let queries = clustered(&mut random, 150, dim);
        let (halves, _) = rounded(&queries);
        for (count, k) in [(1, 1), (2, 10), (7, 100), (40, 10), (150, 5), (3, rows / 10)] {
            let found = twins.search(view(&queries[..count * dim], dim), &SearchOptions::new(k));
            let is_small = count * rows <= 4096 || k * 16 > rows;
            assert_eq!(found.statistics.on_host, is_small, "{count} queries, k {k}");
        }
        twins.search(view::<f16>(&halves[..40 * dim], dim), &SearchOptions::new(10));
    }
}

#[test]
fn adversarial_rows_lose_no_neighbour() {
    for metric in Metric::ALL {
        for dim in [17, 384] {
            let Some(mut twins) = Twins::new(metric, dim, ElementKind::F32) else { return };
            let mut random = Random::new(0xbad + dim as u64);
            twins.add(&random.adversarial(6000, dim), None);
            let queries = random.adversarial(140, dim);
            for count in [1, 20, 140] {
                twins.search(view(&queries[..count * dim], dim), &SearchOptions::new(10));
            }
        }
    }
}

#[test]
fn filters_allow_few_rows_or_many() {
    let Some(mut twins) = Twins::new(Metric::L2Squared, 32, ElementKind::F32) else { return };
    let mut random = Random::new(9);
    twins.add(&clustered(&mut random, 9000, 32), None);
    let queries = clustered(&mut random, 60, 32);
    for (step, on_host) in [(1, false), (2, false), (5, false), (40, true), (4000, true)] {
        let allowed: Vec<u64> = (0..9000).step_by(step).collect();
        for count in [1, 60] {
            let options = SearchOptions::new(10).filter(&allowed);
            let found = twins.search(view(&queries[..count * 32], 32), &options);
            assert_eq!(found.statistics.on_host, on_host, "one row in {step}, {count} queries");
        }
    }
    let nothing: [u64; 0] = [];
    let found = twins.search(view(&queries, 32), &SearchOptions::new(10).filter(&nothing));
    assert!(found.neighbors.iter().all(<[_]>::is_empty));
    let even = |id: u64| id.is_multiple_of(2);
    twins.search(view(&queries, 32), &SearchOptions::new(3).filter(Filter::by(&even)));
}

#[test_matrix([Metric::Cosine])]
#[test_matrix([Metric::L2, Metric::InnerProduct] => ignore["nightly"])]
fn radii_find_the_same_rows(metric: Metric) {
    // Lists that hold no more than they have to.
    let Some(device) = Adapter.confined(1 << 20, 16 << 20) else { return };
    let mut twins = Twins::on(&device, metric, 24, ElementKind::F32, |builder| builder);
    let mut random = Random::new(10);
    twins.add(&clustered(&mut random, 9000, 24), None);
    let queries = clustered(&mut random, 140, 24);
    let nearest = twins.host.search(&queries[..24], 6000).expect("an answer");
    // From no row to more than a list of candidates holds.
    for rank in [0, 1, 50, 1100, 5999] {
        let radius = nearest.row(0)[rank].distance;
        for count in [1, 30, 140] {
            let found = twins.within(view(&queries[..count * 24], 24), radius);
            assert!(!found.statistics.on_host);
            let overflows = rank == 5999 && count == 140;
            assert!(!overflows || found.statistics.searched_again > 0, "a list overflows");
        }
    }
    let infinite = twins.within(&queries[..24], f32::INFINITY);
    assert_eq!(infinite.neighbors.row(0).len(), 9000);
}

#[test]
fn lists_that_overflow_are_searched_again_on_the_device_or_by_the_host() {
    let Some(mut twins) = Twins::new(Metric::L2Squared, 16, ElementKind::F32) else { return };
    let mut random = Random::new(11);
    // All rows at nearly the same distance from the origin, and much nearer to each other than integers tell.
    let mut values = random.floats(60_000 * 16);
    for row in values.chunks_exact_mut(16) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    }
    twins.add(&values, None);
    let origin = [0.0f32; 16 * 40];
    for count in [1, 40] {
        let found = twins.search(view(&origin[..count * 16], 16), &SearchOptions::new(10));
        assert!(found.statistics.searched_again > 0, "{:?}", found.statistics);
        assert!(found.statistics.searched_exhaustively > 0, "{:?}", found.statistics);
        assert!(!found.statistics.on_host);
    }
    // Some queries of a batch overflow, others do not.
    let mut mixed = values[..64 * 16].to_vec();
    mixed[..16].fill(0.0);
    mixed[40 * 16..41 * 16].fill(0.0);
    let found = twins.search(view(&mixed, 16), &SearchOptions::new(5));
    assert!((2..64).contains(&found.statistics.searched_exhaustively), "{:?}", found.statistics);
}

#[test]
fn longer_lists_hold_what_the_first_ones_do_not() {
    // Lists that hold no more than they have to.
    let Some(device) = Adapter.confined(1 << 20, 16 << 20) else { return };
    let mut twins = Twins::on(&device, Metric::L2Squared, 16, ElementKind::F32, |builder| builder);
    let mut random = Random::new(12);
    let mut values: Vec<f32> = random.floats(40_000 * 16).iter().map(|x| 50.0 + x).collect();
    // Five thousand rows that the screen cannot tell from each other.
    let row: Vec<f32> = random.floats(16);
    for place in (0..40_000).step_by(8) {
        values[place * 16..(place + 1) * 16].copy_from_slice(&row);
    }
    twins.add(&values, None);
    let queries = row.repeat(200);
    let found = twins.search(view(&queries, 16), &SearchOptions::new(10));
    assert!(found.statistics.searched_again > 0, "{:?}", found.statistics);
    assert_eq!(found.statistics.searched_exhaustively, 0, "{:?}", found.statistics);
}

#[test]
fn the_device_has_a_quarter_of_the_bytes() {
    let Some(device) = gpu() else { return };
    let (dim, rows) = (768, 3000);
    let values = Random::new(14).floats(rows * dim);
    let mut index =
        Flat::builder(device, Metric::Cosine, dim).residency(Residency::Host).build().expect("an index");
    index.add(view(&values, dim)).expect("good rows");
    let memory = index.memory();
    let whole = (rows * dim * 4) as f64;
    let [on_device, on_host] = [Residency::Device, Residency::Host].map(|place| memory.at(place) as f64);
    assert!(on_device <= 0.28 * whole, "{memory}: {on_device} of {whole}");
    assert!((whole..1.1 * whole).contains(&on_host), "{memory}");
    let on_device = memory.parts().iter().filter(|part| part.residency == Residency::Device);
    assert_eq!(on_device.map(|part| part.name).collect::<Vec<_>>(), ["integers"]);
    assert!(index.is_quantized(), "even on a software driver");
    let plan = index.plan(1000, 10).expect("a plan").to_string();
    assert!(plan.contains("the host refines"), "{plan}");
}

#[test]
fn dims_that_are_not_screened_are_searched_by_the_host() {
    let Some(mut twins) = Twins::new(Metric::L2, 5, ElementKind::F32) else { return };
    let mut random = Random::new(15);
    twins.add(&random.floats(9000 * 5), None);
    assert!(!twins.hybrid.is_quantized());
    let queries = random.floats(30 * 5);
    assert!(twins.search(view(&queries, 5), &SearchOptions::new(10)).statistics.on_host);
    assert!(twins.within(view(&queries, 5), 0.5).statistics.on_host);
    twins.change(|index| index.remove(&[0, 17]));
    twins.search(view(&queries, 5), &SearchOptions::new(10));
    assert!(twins.hybrid.plan(30, 10).expect("a plan").reports_on_host);
    // A screen that was asked for is there.
    let device = gpu().expect("an adapter");
    let mut twins = Twins::on(device, Metric::L2, 5, ElementKind::F32, |builder| {
        builder.quantization(Quantization::Int8)
    });
    twins.add(&random.floats(9000 * 5), None);
    assert!(!twins.search(view(&queries, 5), &SearchOptions::new(10)).statistics.on_host);
}

#[test]
fn rows_on_the_host_without_a_screen_are_refused() {
    let Some(device) = gpu() else { return };
    let builder = |device: &Device| {
        Flat::builder(device, Metric::L2, 32).residency(Residency::Host).quantization(Quantization::None)
    };
    let error = builder(device).build().expect_err("no screen");
    assert!(matches!(error, Error::Argument { argument: "quantization", .. }), "{error}");
    assert!(error.to_string().contains("Quantization::Int8"), "{error}");
    builder(&Device::host()).build().expect("the host engine has its rows anyway");
}
