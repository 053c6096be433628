//! `KMeans` and `Ivf` on the host engine, compared with f64, and the host copy of an `Ivf` beside a GPU.

use crate::support::{few_iterations, own_gpu};
use nearfield::{
    AddOptions, Device, ElementKind, Error, Filter, Ivf, MatrixView, Metric, Neighbors, Screen,
    SearchOptions, SearchResult,
};
use nearfield_testing::view;

/// A device of its own, and an index there with a copy on the host.
fn with_copy(fallback: bool, lists: usize, rows: MatrixView<'_, f32>) -> Option<(Device, Ivf)> {
    let device = own_gpu()?;
    let builder = Ivf::builder(&device, Metric::L2, rows.dim()).lists(lists).screen(Screen::I8);
    let mut index =
        builder.keep_host_copy(true).fallback(fallback).kmeans(few_iterations).train(rows).expect("trains");
    index.add(rows).expect("rows");
    Some((device, index))
}

fn ids(found: &Neighbors) -> Vec<Vec<u64>> {
    found.iter().map(|row| row.iter().map(|hit| hit.id).collect()).collect()
}

fn numbers(random: &mut fastrand::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| half::f16::from_f32(random.f32() * 2.0 - 1.0).to_f32()).collect()
}

/// The places of vectors by their exact distance to one, nearest first, ties by the smaller place.
fn ranked(metric: Metric, query: &[f32], vectors: MatrixView<'_, f32>) -> Vec<(f32, usize)> {
    let mut all: Vec<(f32, usize)> =
        (0..vectors.rows()).map(|row| (metric.exact(query, vectors.row(row)) as f32, row)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}

#[test]
fn answers_are_exact_among_the_rows_of_the_nearest_lists() {
    let device = Device::host();
    let mut random = fastrand::Rng::with_seed(5);
    // Threads share one query among 14,000 rows; many queries are searched list by list.
    for (rows, queries, dim, lists, probes) in
        [(14_000, 1, 24, 6, 5), (900, 3, 7, 30, 2), (1500, 120, 33, 12, 5), (400, 40, 16, 9, 9)]
    {
        let (values, wanted) = (numbers(&mut random, rows * dim), numbers(&mut random, queries * dim));
        let halves: Vec<half::f16> = values.iter().map(|&x| half::f16::from_f32(x)).collect();
        let base = view(&values, dim);
        let wanted = view(&wanted, dim);
        for metric in Metric::ALL {
            for (screen, elements) in [(Screen::None, ElementKind::F32), (Screen::I8, ElementKind::F16)] {
                let builder =
                    Ivf::builder(&device, metric, dim).lists(lists).screen(screen).elements(elements);
                let mut index = builder.kmeans(few_iterations).train(base).expect("trains");
                index.add(view(&halves, dim)).expect("rows");
                let centroids = index.centroids().expect("centroids");
                let of_centroids = match metric {
                    Metric::InnerProduct => Metric::Cosine,
                    Metric::L2 => Metric::L2Squared,
                    other => other,
                };
                let centroids = view(&centroids, dim);
                let nearest = |vector: &[f32]| ranked(of_centroids, vector, centroids);
                let list_of: Vec<usize> = (0..rows).map(|row| nearest(base.row(row))[0].1).collect();
                let SearchResult { neighbors: found, statistics, .. } =
                    index.search_with(wanted, &SearchOptions::new(10).probes(probes)).expect("an answer");
                let mut scored = 0;
                for query in 0..queries {
                    let probed: Vec<usize> =
                        nearest(wanted.row(query))[..probes].iter().map(|list| list.1).collect();
                    let mut truth = ranked(metric, wanted.row(query), base);
                    truth.retain(|&(_, row)| probed.contains(&list_of[row]));
                    scored += truth.len() as u64;
                    let ids: Vec<usize> = found.row(query).iter().map(|hit| hit.id as usize).collect();
                    let expected: Vec<usize> = truth.iter().take(10).map(|hit| hit.1).collect();
                    assert_eq!(ids, expected, "{metric} {screen:?} {rows} rows, query {query}");
                }
                assert_eq!(statistics.scored, scored, "{metric} {screen:?} {rows} rows");
            }
        }
    }
}

#[test]
fn a_copy_of_lists_has_what_the_gpu_has_after_any_change() {
    let mut random = fastrand::Rng::with_seed(7);
    let values: Vec<f32> = (0..900 * 20).map(|_| random.u32(..20) as f32).collect();
    let rows = view(&values, 20);
    let Some((device, mut index)) = with_copy(true, 12, rows) else { return };
    let queries = rows.slice(0..3);
    let SearchResult { statistics, .. } =
        index.search_with(queries, &SearchOptions::new(15)).expect("an answer");
    assert!(statistics.on_host, "three queries of 900 rows are over before a launch is");
    let there = device.upload(queries).expect("fits");
    let odd = |id: u64| id % 2 == 1;
    let every = [1, 5, 12].map(|probes| SearchOptions::new(15).probes(probes));
    let every = every.clone().into_iter().chain(every.map(|options| options.filter(Filter::by(&odd))));
    let every: Vec<SearchOptions<'_>> = every.collect();
    let on_gpu = |index: &Ivf| -> Vec<Neighbors> {
        let answer = |options| index.search_with(&there, options).expect("an answer");
        let answers = every.iter().map(answer);
        answers
            .inspect(|answer| assert!(!answer.statistics.on_host, "queries on the GPU stay there"))
            .map(|answer| answer.neighbors)
            .collect()
    };
    let agree = |index: &Ivf, what: &str| {
        for (options, on_gpu) in every.iter().zip(on_gpu(index)) {
            let SearchResult { neighbors: found, .. } =
                index.search_with(queries, options).expect("an answer");
            assert_eq!(found, on_gpu, "{what}, {options:?}: integers have the same distances everywhere");
        }
    };
    agree(&index, "added");
    index.remove(&[3, 4, 5, 899]).expect("there");
    agree(&index, "removed");
    index.update(&[7], &values[..20]).expect("there");
    agree(&index, "another row for one");
    let more = device.upload(rows.slice(100..140)).expect("fits");
    index.add(&more).expect("rows");
    index.add_with(rows.slice(0..1), &AddOptions::new().ids(&[5])).expect("an id that is free again");
    agree(&index, "added from the GPU");
    let refused = [f32::NAN; 20];
    assert!(index.add(view(&refused, 20)).is_err());
    assert!(index.update(&[8], &refused).is_err());
    assert!(index.add_with(rows.slice(0..2), &AddOptions::new().ids(&[2000, 6])).is_err(), "6 is there");
    agree(&index, "refused");
    let half: Vec<u64> = index.ids().expect("memory").into_iter().filter(|id| id % 3 != 0).collect();
    index.remove(&half).expect("there");
    index.compact().expect("compacted");
    agree(&index, "compacted");
    let before = on_gpu(&index);
    device.wgpu_device().expect("a GPU").destroy();
    for (options, before) in every.iter().zip(before) {
        let SearchResult { neighbors: found, statistics, .. } =
            index.search_with(queries, options).expect("an answer");
        assert!(statistics.on_host && found == before, "{options:?}");
    }
}

#[test]
fn a_lost_gpu_is_stood_in_for_by_the_copy_of_lists() {
    let mut random = fastrand::Rng::with_seed(8);
    let values = numbers(&mut random, 5000 * 32);
    let rows = view(&values, 32);
    let Some((device, mut index)) = with_copy(true, 16, rows) else { return };
    let queries = rows.slice(0..900);
    let there = device.upload(queries).expect("fits");
    let every = [1, 4, 16].map(|probes| SearchOptions::new(5).probes(probes));
    let before =
        every.clone().map(|options| index.search_with(&there, &options).expect("an answer").neighbors);
    let centroids = index.centroids().expect("centroids");
    device.wgpu_device().expect("a GPU").destroy();
    let answers = |index: &Ivf| {
        every.clone().map(|options| {
            let SearchResult { neighbors: found, statistics, .. } =
                index.search_with(queries, &options).expect("an answer");
            assert!(statistics.on_host);
            found
        })
    };
    let after = answers(&index);
    assert_eq!(after.each_ref().map(ids), before.each_ref().map(ids));
    assert_eq!(index.get(&[17]).expect("there"), rows.row(17));
    assert_eq!(index.centroids().expect("centroids"), centroids);
    assert!(index.add(rows.slice(0..10)).is_err(), "there is no device to add to");
    assert!(index.update(&[3], rows.row(4)).is_err());
    assert_eq!((index.len(), answers(&index)), (5000, after.clone()));
    assert!(index.search(&there, 5, 4).is_err(), "queries on the GPU are lost with it");
    // An index saved from the copy is the same index.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.nf");
    index.save(&path).expect("saved");
    let saved = Ivf::load(&Device::host(), &path).expect("loaded");
    assert_eq!(saved.list_sizes(), index.list_sizes());
    for (options, after) in every.iter().zip(&after) {
        assert_eq!(&saved.search_with(queries, options).expect("an answer").neighbors, after);
    }
}

#[test]
fn a_lost_gpu_without_fallback_is_an_error_of_a_search_in_lists() {
    let mut random = fastrand::Rng::with_seed(9);
    let values = numbers(&mut random, 3000 * 24);
    let rows = view(&values, 24);
    let Some((device, index)) = with_copy(false, 8, rows) else { return };
    device.wgpu_device().expect("a GPU").destroy();
    // The latency of what is gone cannot be measured, so that the copy is not asked.
    let lost = index.search(rows, 5, 8).expect_err("the device is gone");
    assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
    assert!(index.contains(2999) && index.len() == 3000);
}
