//! Every way that a query can take: by each screen, by the host alone, with lists that overflow, under filters and radii.

use half::f16;
use nearfield::{
    Device, ElementKind, Error, Filter, Flat, MemoryPlace, Metric, RowPlace, Screen, SearchOptions,
};
use test_case::test_matrix;

use super::{Twins, assert_same, clustered};
use crate::common::Engine::Adapter;
use crate::common::{gpu, options, without_subgroups};
use crate::support::own_gpu;
use nearfield_testing::{Random, rounded, view};

#[test_matrix([Metric::L2Squared, Metric::L2, Metric::Cosine, Metric::InnerProduct], [ElementKind::F32, ElementKind::F16])]
fn answers_are_those_of_the_host_engine(metric: Metric, elements: ElementKind) {
    for (dim, rows) in [(16, 6001), (100, 2000)] {
        let Some(mut twins) = Twins::new(metric, dim, elements) else { return };
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
fn a_query_has_the_same_bits_alone_and_in_any_batch() {
    let Some(mut twins) = Twins::new(Metric::Cosine, 48, ElementKind::F32) else { return };
    let mut random = Random::new(7);
    twins.add(&clustered(&mut random, 5000, 48), None);
    let queries = clustered(&mut random, 300, 48);
    let all = twins.apart.search(view(&queries, 48), 10).expect("an answer");
    for (number, query) in queries.chunks_exact(48).enumerate().step_by(37) {
        assert_eq!(twins.apart.search(query, 10).expect("an answer").row(0), all.row(number));
    }
}

#[test]
fn vectors_of_the_device_are_rows_and_queries() {
    let Some(mut twins) = Twins::new(Metric::L2, 20, ElementKind::F32) else { return };
    let mut random = Random::new(8);
    let (rows, queries) = (clustered(&mut random, 3000, 20), clustered(&mut random, 40, 20));
    let device = gpu().expect("an adapter");
    twins.apart.add(&device.upload(view(&rows, 20)).expect("fits")).expect("good rows");
    twins.host.add(view(&rows, 20)).expect("good rows");
    let wanted = twins.host.search(view(&queries, 20), 10).expect("an answer");
    let there = device.upload(view(&queries, 20)).expect("fits");
    assert_same(&twins.apart.search(&there, 10).expect("an answer"), &wanted);
    assert_eq!(twins.apart.get(&[2999]).expect("there"), rows[2999 * 20..]);
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

#[test_matrix([Metric::L2, Metric::Cosine, Metric::InnerProduct])]
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
#[ignore = "nightly"]
fn little_scratch_memory_changes_no_bit() {
    let (dim, rows) = (64, 5000);
    let mut random = Random::new(13);
    let values = clustered(&mut random, rows, dim);
    let queries = clustered(&mut random, 200, dim);
    let mut wanted = None;
    for budget in [128 << 10, 256 << 10, 1 << 20, 8 << 20] {
        let Some(device) = Adapter.confined(dim as u64 * 4 * 512, budget) else { return };
        let builder = Flat::builder(&device, Metric::Cosine, dim).rows(RowPlace::Host).screen(Screen::I8);
        let mut index = builder.build().expect("an index");
        index.add(view(&values, dim)).expect("good rows");
        index.remove(&[5, 4999]).expect("there");
        for k in [10, 200] {
            match index.search(view(&queries, dim), k) {
                Ok(found) if k == 10 => {
                    assert_same(&found, wanted.get_or_insert_with(|| found.clone()));
                }
                Ok(_) => {}
                Err(Error::Budget { needed, budget: told, .. }) => assert!(needed > told && told == budget),
                Err(error) => panic!("{error}"),
            }
        }
    }
    let mut host = Flat::builder(&Device::host(), Metric::Cosine, dim).build().expect("an index");
    host.add(view(&values, dim)).expect("good rows");
    host.remove(&[5, 4999]).expect("there");
    let wanted = wanted.expect("a budget that is enough");
    assert_same(&wanted, &host.search(view(&queries, dim), 10).expect("an answer"));
}

#[test]
fn the_device_has_a_quarter_of_the_bytes() {
    let Some(device) = gpu() else { return };
    let (dim, rows) = (768, 3000);
    let values = Random::new(14).floats(rows * dim);
    let mut index =
        Flat::builder(device, Metric::Cosine, dim).rows(RowPlace::Host).build().expect("an index");
    index.add(view(&values, dim)).expect("good rows");
    let memory = index.memory();
    let whole = (rows * dim * 4) as f64;
    let [on_device, on_host] = [MemoryPlace::Device, MemoryPlace::Host].map(|place| memory.at(place) as f64);
    assert!(on_device <= 0.28 * whole, "{memory}: {on_device} of {whole}");
    assert!((whole..1.1 * whole).contains(&on_host), "{memory}");
    let on_device = memory.parts().iter().filter(|part| part.place == MemoryPlace::Device);
    assert_eq!(on_device.map(|part| part.name).collect::<Vec<_>>(), ["integers"]);
    assert!(index.is_screened(), "even on a software driver");
    let plan = index.plan(1000, 10).expect("a plan").to_string();
    assert!(plan.contains("the host rescores"), "{plan}");
}

#[test]
fn dims_that_are_not_screened_are_searched_by_the_host() {
    let Some(mut twins) = Twins::new(Metric::L2, 5, ElementKind::F32) else { return };
    let mut random = Random::new(15);
    twins.add(&random.floats(9000 * 5), None);
    assert!(!twins.apart.is_screened());
    let queries = random.floats(30 * 5);
    assert!(twins.search(view(&queries, 5), &SearchOptions::new(10)).statistics.on_host);
    assert!(twins.within(view(&queries, 5), 0.5).statistics.on_host);
    twins.apart.remove(&[0, 17]).expect("there");
    twins.host.remove(&[0, 17]).expect("there");
    twins.search(view(&queries, 5), &SearchOptions::new(10));
    assert!(twins.apart.plan(30, 10).expect("a plan").reports_on_host);
    // A screen that was asked for is there.
    let device = gpu().expect("an adapter");
    let mut twins = Twins::on(device, Metric::L2, 5, ElementKind::F32, |builder| builder.screen(Screen::I8));
    twins.add(&random.floats(9000 * 5), None);
    assert!(!twins.search(view(&queries, 5), &SearchOptions::new(10)).statistics.on_host);
}

#[test]
fn adapters_without_subgroups_screen_as_well() {
    let Some(device) = without_subgroups() else { return };
    let mut twins = Twins::on(device, Metric::InnerProduct, 40, ElementKind::F16, |builder| builder);
    let mut random = Random::new(16);
    twins.add(&clustered(&mut random, 6000, 40), None);
    let queries = clustered(&mut random, 130, 40);
    for count in [1, 130] {
        twins.search(view(&queries[..count * 40], 40), &SearchOptions::new(10));
    }
}

#[test]
fn rows_on_the_host_without_a_screen_are_refused() {
    let Some(device) = gpu() else { return };
    let builder =
        |device: &Device| Flat::builder(device, Metric::L2, 32).rows(RowPlace::Host).screen(Screen::None);
    let error = builder(device).build().expect_err("no screen");
    assert!(matches!(error, Error::Argument { argument: "screen", .. }), "{error}");
    assert!(error.to_string().contains("Screen::I8"), "{error}");
    builder(&Device::host()).build().expect("the host engine has its rows anyway");
}

#[test]
fn queries_are_refused_as_by_the_host_engine() {
    let Some(mut twins) = Twins::new(Metric::L2, 16, ElementKind::F32) else { return };
    let mut random = Random::new(17);
    twins.add(&random.floats(5000 * 16), None);
    let mut queries = random.floats(90 * 16);
    queries[70 * 16 + 3] = f32::NAN;
    for index in [&twins.apart, &twins.host] {
        let error = index.search(view(&queries, 16), 10).expect_err("a bad query");
        assert!(matches!(error, Error::NotFinite { argument: "queries", row: 70 }), "{error}");
    }
}

#[test]
fn the_host_answers_for_a_lost_device() {
    let mut random = Random::new(18);
    let (values, queries) = (clustered(&mut random, 5000, 32), clustered(&mut random, 20, 32));
    let mut answers = vec![];
    for fallback in [true, false] {
        let Some(device) = own_gpu() else { return };
        let builder = Flat::builder(&device, Metric::L2, 32).rows(RowPlace::Host);
        let builder = builder.keep_host_copy(true).fallback(fallback);
        let mut index = builder.build().expect("an index");
        index.add(view(&values, 32)).expect("good rows");
        let before = index.search_with(view(&queries, 32), &SearchOptions::new(10)).expect("an answer");
        assert!(!before.statistics.on_host);
        device.wgpu_device().expect("a GPU").destroy();
        match index.search_with(view(&queries, 32), &SearchOptions::new(10)) {
            Ok(found) => {
                assert!(fallback && found.statistics.on_host);
                assert_same(&found.neighbors, &before.neighbors);
            }
            Err(error) => assert!(
                !fallback && matches!(error, Error::DeviceLost { .. } | Error::Device { .. }),
                "{error}"
            ),
        }
        assert_eq!(index.get(&[3]).expect("on the host"), values[3 * 32..4 * 32]);
        answers.push(before.neighbors);
    }
    assert_same(&answers[0], &answers[1]);
}

#[test]
fn searches_of_many_threads_have_the_same_bits() {
    let Some(device) = Adapter.open(options().budget_bytes(32 << 20)) else { return };
    let mut index =
        Flat::builder(&device, Metric::Cosine, 64).rows(RowPlace::Host).build().expect("an index");
    let mut random = Random::new(19);
    index.add(view(&clustered(&mut random, 6000, 64), 64)).expect("good rows");
    let queries = clustered(&mut random, 64, 64);
    let wanted = index.search(view(&queries, 64), 10).expect("an answer");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (index, queries, wanted) = (&index, &queries, &wanted);
            scope.spawn(move || {
                for number in (thread..64).step_by(8) {
                    let found =
                        index.search(&queries[number * 64..(number + 1) * 64], 10).expect("an answer");
                    assert_eq!(found.row(0), wanted.row(number));
                }
            });
        }
    });
}
