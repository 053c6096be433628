//! Lists whose rows the host keeps: the device finds the lists and screens their rows.

use nearfield::{
    Device, ElementKind, Error, Flat, Ivf, Metric, Neighbors, Quantization, Residency, SearchOptions,
    SearchResult,
};
use test_case::test_matrix;

use super::{assert_same, clustered};
use crate::common::Engine::Adapter;
use crate::common::{gpu, options};
use crate::support::few_iterations;
use nearfield_testing::{Random, view};

const LISTS: usize = 24;
const ROWS: usize = 4500;

/// Rows of whole numbers, whose distances are the same bits on any engine.
fn whole(random: &mut Random, rows: usize, dim: usize) -> Vec<f32> {
    clustered(random, rows, dim).iter().map(|x| (x * 20.0).round()).collect()
}

/// The same lists with rows on the device, and on the host.
struct Twins {
    there: Ivf,
    hybrid: Ivf,
}

impl Twins {
    fn new(device: &Device, metric: Metric, dim: usize, values: &[f32]) -> Self {
        let builder = || {
            Ivf::builder(device, metric, dim)
                .lists(LISTS)
                .kmeans(few_iterations)
                .quantization(Quantization::Int8)
        };
        let sample = view(&values[..1000 * dim], dim);
        let of = |place| builder().residency(place).train(sample).expect("an index");
        let mut twins = Self { there: of(Residency::Device), hybrid: of(Residency::Host) };
        twins.change(|index| index.add(view(values, dim)));
        twins
    }

    fn change(&mut self, change: impl Fn(&mut Ivf) -> Result<(), Error>) {
        for index in [&mut self.there, &mut self.hybrid] {
            change(index).expect("changed");
        }
    }

    fn search(&self, queries: &[f32], options: &SearchOptions<'_>) -> SearchResult {
        let queries = view(queries, self.hybrid.dim());
        let wanted = self.there.search_with(queries, options).expect("an answer").neighbors;
        let found = self.hybrid.search_with(queries, options).expect("an answer");
        assert_same(&found.neighbors, &wanted);
        found
    }
}

#[test_matrix([Metric::InnerProduct])]
#[test_matrix([Metric::L2Squared] => ignore["nightly"])]
fn lists_give_the_rows_that_lists_on_the_device_give(metric: Metric) {
    let Some(device) = gpu() else { return };
    let (dim, mut random) = (20, Random::new(41));
    let values = whole(&mut random, ROWS, dim);
    let mut twins = Twins::new(device, metric, dim, &values);
    let queries = whole(&mut random, 130, dim);
    let compare = |twins: &Twins| {
        for (count, k, probes) in
            [(1, 1, 1), (1, 10, 6), (20, 10, 3), (130, 10, 5), (70, 3, LISTS), (10, 600, 4)]
        {
            let found = twins.search(&queries[..count * dim], &SearchOptions::new(k).probes(probes));
            assert!(!found.statistics.on_host && found.statistics.searched_flat == 0);
            assert!(found.statistics.scored > 0 && found.statistics.refined > 0, "{:?}", found.statistics);
        }
        for step in [3, 200] {
            let allowed: Vec<u64> = (0..ROWS as u64).step_by(step).collect();
            twins.search(&queries[..40 * dim], &SearchOptions::new(10).probes(2).filter(&allowed));
        }
        twins.search(&queries[..10 * dim], &SearchOptions::new(700).probes(1).iterative_scan(true));
    };
    compare(&twins);
    let (more, other) = (whole(&mut random, 500, dim), whole(&mut random, 100, dim));
    let changed: Vec<u64> = (0..100).map(|row| 37 * row).collect();
    let gone: Vec<u64> = (0..2000).filter(|id| id % 37 > 0).collect();
    twins.change(|index| index.add(view(&more, dim)));
    twins.change(|index| index.update(&changed, view(&other, dim)));
    twins.change(|index| index.remove(&gone));
    compare(&twins);
    twins.change(Ivf::compact);
    compare(&twins);
    let loaded =
        Ivf::loader(device).residency(Residency::Host).load_bytes(&twins.hybrid.to_bytes().expect("bytes"));
    let twins = Twins { hybrid: loaded.expect("loaded"), ..twins };
    compare(&twins);
}

#[test]
#[ignore = "nightly"]
fn all_lists_give_what_the_host_engine_gives() {
    let Some(device) = gpu() else { return };
    for metric in Metric::ALL {
        let mut random = Random::new(42);
        let (values, queries) = (clustered(&mut random, 3000, 32), clustered(&mut random, 70, 32));
        let builder =
            Ivf::builder(device, metric, 32).lists(LISTS).kmeans(few_iterations).residency(Residency::Host);
        let mut index = builder.train(view(&values[..800 * 32], 32)).expect("an index");
        index.add(view(&values, 32)).expect("good rows");
        let mut wanted = Flat::builder(&Device::host(), metric, 32).build().expect("an index");
        wanted.add(view(&values, 32)).expect("good rows");
        for count in [1, 70] {
            let some = view(&queries[..count * 32], 32);
            let wanted = wanted.search(some, 10).expect("an answer");
            assert_same(
                &index.search_with(some, &SearchOptions::new(10).probes(LISTS)).expect("an answer").neighbors,
                &wanted,
            );
            let there = device.upload(some).expect("fits");
            assert_same(
                &index
                    .search_with(&there, &SearchOptions::new(10).probes(LISTS))
                    .expect("an answer")
                    .neighbors,
                &wanted,
            );
        }
        // Few lists have some of these rows, with the same bits.
        let all: Neighbors = wanted.search(view(&queries, 32), 3000).expect("an answer");
        let few = index
            .search_with(view(&queries, 32), &SearchOptions::new(10).probes(3))
            .expect("an answer")
            .neighbors;
        for (found, all) in few.iter().zip(&all) {
            assert!(found.iter().all(|hit| all.contains(hit)));
        }
        let probes = index.probes_for_recall(view(&queries, 32), 10, 0.9).expect("probes");
        assert!((1..=LISTS).contains(&probes));
    }
}

#[test]
#[ignore = "nightly"]
fn little_scratch_memory_and_many_near_rows_change_nothing() {
    let Some(device) = Adapter.confined(1 << 19, 4 << 20) else { return };
    let (dim, mut random) = (16, Random::new(43));
    let mut values = whole(&mut random, ROWS, dim);
    // Rows that the screen cannot tell from each other.
    let row = whole(&mut random, 1, dim);
    for place in (0..ROWS).step_by(3) {
        values[place * dim..(place + 1) * dim].copy_from_slice(&row);
    }
    let twins = Twins::new(&device, Metric::L2Squared, dim, &values);
    let mut queries = whole(&mut random, 100, dim);
    queries[..40 * dim].copy_from_slice(&row.repeat(40));
    let mut again = 0;
    for (count, probes) in [(1, 2), (100, 2), (50, LISTS)] {
        let found = twins.search(&queries[..count * dim], &SearchOptions::new(10).probes(probes));
        again += found.statistics.searched_again;
    }
    assert!(again > 0, "lists of candidates overflow");
}

#[test]
fn a_device_that_would_search_all_rows_screens_them() {
    let Some(device) = Adapter.open(options().exact_if_faster(true)) else { return };
    let mut random = Random::new(44);
    let values = clustered(&mut random, 5000, 16);
    let builder =
        Ivf::builder(&device, Metric::L2, 16).lists(8).kmeans(few_iterations).residency(Residency::Host);
    let mut index = builder.train(view(&values, 16)).expect("an index");
    index.add(view(&values, 16)).expect("good rows");
    let found =
        index.search_with(view(&values[..160], 16), &SearchOptions::new(3).probes(1)).expect("an answer");
    assert_eq!((found.statistics.searched_flat, found.neighbors.row(7)[0].id), (10, 7));
}

#[test]
fn lists_need_a_screen() {
    let Some(device) = gpu() else { return };
    let values = [1.0f32, 2.0, 3.0, 4.0];
    for (quantization, builder) in [(Quantization::Auto, "Auto"), (Quantization::None, "None")] {
        let index = Ivf::builder(device, Metric::L2, 2)
            .lists(1)
            .quantization(quantization)
            .residency(Residency::Host);
        let error = index.train(view(&values, 2)).expect_err("no screen");
        assert!(matches!(error, Error::Argument { argument: "quantization", .. }), "{error}");
        assert!(error.to_string().contains(builder), "{error}");
    }
}

#[test]
fn rows_of_a_file_lie_in_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dim, mut random) = (16, Random::new(46));
    let values = whole(&mut random, 5000, dim);
    let path = folder.path().join("rows.fbin");
    let header = [5000u32, dim as u32];
    let bytes: [&[u8]; 2] = [bytemuck::cast_slice(&header), bytemuck::cast_slice(&values)];
    std::fs::write(&path, bytes.concat()).expect("written");
    let queries = whole(&mut random, 60, dim);
    for devices in super::mapped::devices() {
        let builder = || Ivf::builder(&devices, Metric::L2Squared, dim).lists(LISTS).kmeans(few_iterations);
        let sample = view(&values[..800 * dim], dim);
        let mut mapped = builder().mapped(path.clone()).train(sample).expect("an index");
        let mut wanted = builder().train(sample).expect("an index");
        wanted.add(view(&values, dim)).expect("good rows");
        assert_eq!((mapped.len(), mapped.elements()), (5000, ElementKind::F32));
        for turn in 0..2 {
            for (count, probes) in [(1, 2), (60, 3), (60, LISTS)] {
                let some = view(&queries[..count * dim], dim);
                assert_same(
                    &mapped
                        .search_with(some, &SearchOptions::new(10).probes(probes))
                        .expect("an answer")
                        .neighbors,
                    &wanted
                        .search_with(some, &SearchOptions::new(10).probes(probes))
                        .expect("an answer")
                        .neighbors,
                );
            }
            assert_eq!(mapped.get(&[4999, 3]).expect("there"), wanted.get(&[4999, 3]).expect("there"));
            if turn == 0 {
                let gone: Vec<u64> = (0..5000).filter(|id| id % 4 == 1).collect();
                mapped.remove(&gone).expect("there");
                wanted.remove(&gone).expect("there");
            }
        }
        assert!(matches!(mapped.add(&values[..dim]), Err(Error::Unsupported { .. })));
        let error = builder().mapped("missing.npy").train(sample).expect_err("no file");
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}
