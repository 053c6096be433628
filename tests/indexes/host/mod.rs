//! The host engine, compared with f64 on hard shapes, and as the copy beside a GPU. Suites about answers run on it as well
//! as on an adapter.

mod copies;

use std::sync::Mutex;

use crate::common::{gpu, options};
use crate::support::flat;
use nearfield::MatrixView;
use nearfield::{
    AdapterKind, AddOptions, Device, Error, Filter, Flat, Index, Ivf, KMeans, Metric, Neighbors, Output,
    Quantization, SearchOptions,
};
use nearfield_testing::{Random, view};

fn ids(found: &Neighbors) -> Vec<Vec<u64>> {
    found.iter().map(|row| row.iter().map(|hit| hit.id).collect()).collect()
}

/// An index on the GPU with a copy on the host.
fn with_copy(rows: MatrixView<'_, f32>) -> Option<Flat> {
    let builder = Flat::builder(gpu()?, Metric::L2, rows.dim()).quantization(Quantization::Int8);
    let mut index = builder.keep_host_copy(true).build().expect("an index");
    index.add(rows).expect("rows");
    Some(index)
}

#[test]
fn a_gpu_that_is_seen_to_be_slower_leaves_searches_to_the_copy() {
    let mut random = Random::new(9);
    let values = random.floats(20_000 * 32);
    let rows = view(&values, 32);
    let Some(index) = with_copy(rows) else { return };
    if index.device().adapter().kind != AdapterKind::Software {
        return;
    }
    // A driver that is played by the processor is not ahead of it, which the latency of a launch does not say.
    let queries = rows.slice(0..64);
    let on_host =
        |_| index.search_with(queries, &SearchOptions::new(5)).expect("an answer").statistics.on_host;
    let seen: Vec<bool> = (0..8).map(on_host).collect();
    assert!(seen.is_sorted() && seen[7], "{seen:?}");
}

#[test]
fn rows_that_come_at_once_are_told_as_they_go() {
    let device = Device::host();
    let builder = Flat::builder(&device, Metric::L2, 8);
    let mut index = builder.clone().capacity(50_000).build().expect("an index");
    let mut random = Random::new(10);
    let values = random.floats(30_000 * 8);
    let rows = view(&values, 8);
    let told = Mutex::new(vec![]);
    let progress = |done| told.lock().expect("no panic").push(done);
    index.add_with(rows, &AddOptions::new().progress(&progress)).expect("rows");
    let told = told.into_inner().expect("no panic");
    assert!(told.len() > 3 && told.is_sorted(), "{told:?}");
    assert_eq!(told.last(), Some(&30_000));
    let mut other = builder.clone().build().expect("an index");
    (0..30_000).step_by(7000).for_each(|first| {
        other.add(rows.slice(first..30_000.min(first + 7000))).expect("rows");
    });
    let queries = rows.slice(0..100);
    assert_eq!(index.search(queries, 5).expect("an answer"), other.search(queries, 5).expect("an answer"));
}

#[test]
fn more_rows_than_any_memory_holds_are_not_expected() {
    for capacity in [usize::MAX, usize::MAX / 8, usize::MAX / 64] {
        let refused = Flat::builder(&Device::host(), Metric::L2, 8).capacity(capacity).build();
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{capacity}");
    }
}

#[test]
fn a_fallback_needs_a_copy() {
    let (host, rows) = (Device::host(), view(&[0.0f32, 1.0], 1));
    let flat = Flat::builder(&host, Metric::L2, 1).fallback(true).build().map(drop);
    let ivf = Ivf::builder(&host, Metric::L2, 1).lists(1).fallback(true).train(rows).map(drop);
    for refused in [flat, ivf] {
        assert!(matches!(refused, Err(Error::Argument { argument: "fallback", .. })), "{refused:?}");
    }
}

#[test]
fn vectors_of_any_dim_are_quantized() {
    let mut random = Random::new(9);
    for dim in [66_053, 100_000] {
        let values = random.floats(6 * dim);
        let rows = view(&values, dim);
        let index = flat(&Device::host(), Metric::Cosine, rows, Quantization::Int8);
        let found = index.search(rows, 1).expect("an answer");
        assert_eq!(ids(&found), (0..6).map(|id| vec![id]).collect::<Vec<_>>(), "{dim}");
    }
}

#[test]
fn a_centroid_of_nearly_opposite_rows_is_found() {
    let device = Device::host();
    for tiny in [1e-30f32, 1e-38, 1e-43] {
        let values = [1.0, tiny, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0];
        let rows = view(&values, 2);
        let clusters = KMeans::new(Metric::Cosine, 1).train(&device, rows).expect("a centroid");
        assert_eq!(clusters.assignments, [0; 4], "{tiny:e}");
        let mut index = Ivf::builder(&device, Metric::Cosine, 2).lists(1).train(rows).expect("an index");
        index.add(rows).expect("rows");
        assert_eq!(
            index
                .search_with(rows, &SearchOptions::new(4).probes(1))
                .expect("an answer")
                .neighbors
                .row(0)
                .len(),
            4
        );
    }
}

#[test]
fn more_distances_than_fit_any_memory_are_an_error() {
    let device = Device::host();
    let values = vec![1.0f32; 1 << 23];
    let vectors = device.upload(view(&values, 1)).expect("memory");
    let found = device.distances(&vectors, &vectors, Metric::L2, Output::Distance);
    assert!(matches!(found, Err(Error::OutOfMemory { bytes, .. }) if bytes == Some(1 << 48)), "{found:?}");
}

#[test]
fn what_one_host_device_keeps_another_can_use() {
    let values = [3.0f32, 4.0, 0.0, 1.0];
    let rows = Device::host().upload(view(&values, 2)).expect("memory");
    let mut index = Flat::builder(&Device::host(), Metric::L2, 2).build().expect("an index");
    index.add(&rows).expect("rows");
    assert_eq!(ids(&index.search(&rows, 1).expect("an answer")), [[0], [1]]);
}

#[test]
fn searches_that_a_pool_runs_side_by_side_end() {
    use rayon::prelude::*;
    let mut random = Random::new(11);
    let values = random.floats(2000 * 32);
    let rows = view(&values, 32);
    let Some(index) = with_copy(rows) else { return };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(6).build().expect("a pool");
    let (send, receive) = std::sync::mpsc::channel();
    let all = values.clone();
    std::thread::spawn(move || {
        let rows = view(&all, 32);
        let nearest = |row: usize| index.search(rows.slice(row..row + 1), 1).expect("an answer").row(0)[0].id;
        let found: Vec<u64> = pool.install(|| (0..200).into_par_iter().map(nearest).collect());
        send.send(found).expect("somebody waits");
    });
    let found =
        receive.recv_timeout(std::time::Duration::from_secs(120)).expect("no thread waits for itself");
    assert!(found.into_iter().eq(0..200));
}

/// The text of an error, without the names of devices.
fn said<T>(done: Result<T, Error>) -> String {
    let text = done.map_or_else(|error| error.to_string(), |_| "nothing is wrong".to_owned());
    text.split('(').next().unwrap_or_default().to_owned()
}

#[test]
fn wrong_input_gets_the_same_error_on_either_engine() {
    let Some(gpu) = gpu() else { return };
    let dim = 20;
    let good = Random::new(12).floats(30 * dim);
    let mut bad = good.clone();
    bad[7 * dim + 3] = f32::NAN;
    let mut short = good.clone();
    short[2 * dim..3 * dim].fill(1e-30);
    let good = view(&good, dim);
    let other_dim = view(good.values(), 10);
    let asked = [&bad, &short].map(|values| view(values, dim));
    let asked = [asked[0], asked[1], good, other_dim, good.slice(0..0)];
    let on = |device: &Device, other: &Device| {
        let there = other.upload(good).expect("memory");
        let mut errors = vec![];
        for rows in [0, 30] {
            let mut flat = Flat::builder(device, Metric::L2, dim).build().expect("an index");
            let mut ivf = Ivf::builder(device, Metric::L2, dim).lists(4).train(good).expect("an index");
            flat.add(good.slice(0..rows)).expect("rows");
            ivf.add(good.slice(0..rows)).expect("rows");
            errors.extend([0, 1].map(|k| said(flat.plan(1, k))));
            for mut index in [Index::from(flat), ivf.into()] {
                let probes =
                    if index.lists().is_some() { &[Some(0), Some(1), Some(4), Some(5)][..] } else { &[None] };
                for k in [0, 1] {
                    errors.push(said(index.search(&there, k)));
                    for queries in asked {
                        errors.push(said(index.search_with(
                            queries,
                            &SearchOptions::within(if k == 0 { f32::NAN } else { 1.0 }),
                        )));
                        for &probes in probes {
                            let mut options = SearchOptions::new(k);
                            options.probes = probes;
                            errors.push(said(index.search_with(queries, &options)));
                            options.filter = Some(Filter::ids(&[]));
                            errors.push(said(index.search_with(queries, &options)));
                        }
                    }
                }
                for added in asked {
                    let ids: Vec<u64> = (100..100 + added.rows() as u64).collect();
                    errors.push(said(index.add_with(added, &AddOptions::new().ids(&ids))));
                    let gone = index.ids().expect("memory").split_off(rows);
                    index.remove(&gone).expect("there");
                }
                errors.push(said(index.add(&there)));
                errors.push(said(index.update(&[77], &[f32::NAN; 20])));
            }
        }
        for rows in asked {
            errors.push(said(device.upload(rows)));
            errors.extend([1, 3].map(|lists| said(KMeans::new(Metric::L2, lists).train(device, rows))));
        }
        errors
    };
    let host = Device::host();
    assert_eq!(on(&host, gpu), on(gpu, &host));
}

fn with_budget(bytes: u64) -> Device {
    let mut options = options();
    options.budget_bytes = bytes;
    Device::open(Some("host"), options).expect("the processor is there")
}

#[test]
fn a_selection_within_a_small_budget_finds_the_same_and_below_it_says_what_is_needed() {
    let mut random = Random::new(9);
    let values = random.floats(200_000);
    for (length, k) in [(100, 7), (1000, 100), (200_000, 3), (200_000, 20_000)] {
        let rows = view(&values, length);
        let Err(Error::Budget { needed, budget: 1, .. }) = with_budget(1).top_k(rows, k) else {
            panic!("a budget of one byte, {length} {k}");
        };
        assert!(matches!(with_budget(needed - 1).top_k(rows, k), Err(Error::Budget { .. })), "{length} {k}");
        let found = with_budget(needed).top_k(rows, k).expect("what is needed");
        assert_eq!(found, Device::host().top_k(rows, k).expect("an answer"), "{length} {k}");
    }
}

#[test]
fn reductions_take_nothing_of_a_budget_and_their_bits_depend_on_the_length_alone() {
    let device = with_budget(0);
    let mut random = Random::new(11);
    for length in [1, 9, 33, 2049, 16_385, 300_000] {
        let values = random.floats(3 * length);
        let rows = view(&values, length);
        let one = device.reduce().sum_rows(rows).expect("sums");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(7).build().expect("threads");
        assert_eq!(pool.install(|| device.reduce().sum_rows(rows)).expect("sums"), one, "{length}");
        let places = device.reduce().argmax_rows(rows).expect("places");
        for (row, place) in values.chunks(length).zip(places) {
            assert_eq!(device.reduce().argmax(row).expect("a place"), place, "{length}");
        }
    }
}

#[test]
fn a_budget_that_suffices_without_copies_of_allowed_rows_suffices_with_a_filter() {
    let values = Random::new(13).floats(10_000 * 16);
    let rows = view(&values, 16);
    let allowed = |id: u64| id % 10 == 3;
    for (quantization, queries) in
        [(Quantization::None, 1), (Quantization::None, 20), (Quantization::Int8, 1), (Quantization::Int8, 20)]
    {
        let queries = rows.slice(0..queries);
        let search = |budget: u64| {
            let options = SearchOptions::new(10).filter(&allowed);
            let index = flat(&with_budget(budget), Metric::L2, rows, quantization);
            index.search_with(queries, &options).map(|found| found.neighbors)
        };
        let Err(Error::Budget { needed, budget: 1, .. }) = search(1) else {
            panic!("{quantization:?}, a budget of one byte");
        };
        let refused = search(needed - 1);
        assert!(matches!(refused, Err(Error::Budget { .. })), "{quantization:?} {}", queries.rows());
        let found = search(needed).expect("what is needed");
        assert_eq!(found, search(1 << 30).expect("an answer"), "{quantization:?} {}", queries.rows());
    }
}

#[test]
fn parts_of_a_query_stay_within_the_budget() {
    let mut random = Random::new(12);
    let values = random.floats(20_000 * 8);
    let rows = view(&values, 8);
    let index = flat(&with_budget(u64::MAX), Metric::L2, rows, Quantization::None);
    let ample = index.plan(1, 5000).expect("a plan").scratch_bytes;
    let want = index.search(rows.slice(0..1), 5000).expect("an answer");
    for budget in [ample, ample - 1, ample / 2] {
        let index = flat(&with_budget(budget), Metric::L2, rows, Quantization::None);
        match index.plan(1, 5000) {
            Ok(plan) => {
                assert!(plan.scratch_bytes <= budget);
                assert_eq!(index.search(rows.slice(0..1), 5000).expect("an answer"), want);
            }
            Err(error) => assert!(matches!(error, Error::Budget { .. }), "{error}"),
        }
    }
}
