//! k-means finds clusters, repeats its results, and copes with few, equal and uneven rows.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::{confined, gpu, with_bindings_of};
use crate::support::{MANY_LISTS, rows_of_many_lists, run_within};
use nearfield::{Clusters, DeviceMatrix, Error, Ivf, KMeans, MatrixView, Metric, Quantization};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

/// Rows around `centres` points that are far from each other, list by list, and the points.
fn around(centres: usize, each: usize, dim: usize) -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(7);
    let points: Vec<f32> = (0..centres * dim).map(|_| random.below(200) as f32 - 100.0).collect();
    let mut rows = vec![];
    for number in 0..centres * each {
        let point = &points[number % centres * dim..][..dim];
        rows.extend(point.iter().map(|x| x + random.below(3) as f32 - 1.0));
    }
    (rows, points)
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn clusters_that_are_apart_are_found(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for ((centres, dim), quantization) in [(5, 8), (12, 33), (300, 24)]
        .into_iter()
        .flat_map(|set| [Quantization::None, Quantization::Int8].map(|one| (set, one)))
    {
        let (rows, points) = around(centres, 10, dim);
        let means = KMeans::new(Metric::L2, centres).quantization(quantization).iterations(5);
        let Clusters { centroids, assignments, inertia, history, .. } =
            means.train(device, view(&rows, dim)).expect("trains");
        assert_eq!((centroids.len(), assignments.len()), (centres * dim, centres * 10));
        assert!(history.windows(2).all(|pair| pair[1] <= pair[0] * 1.2), "{history:?}");
        // Rows chosen by chance leave some of many points out.
        if centres > 256 {
            continue;
        }
        // Noise has a variance of 2/3 an element.
        let each = inertia / (centres * 10 * dim) as f64;
        assert!(each < 2.0, "{centres}: {each}");
        for point in points.chunks(dim) {
            let squared = |centroid: &[f32]| Metric::L2Squared.exact(centroid, point);
            let nearest = centroids.chunks(dim).map(squared).fold(f64::MAX, f64::min);
            assert!(nearest < 0.5 * dim as f64, "{centres}: a point without a centroid");
        }
    }
}

/// Checks that each centroid is the mean of its rows.
fn check_means(rows: MatrixView<'_, f32>, assignments: &[u32], centroids: &[f32]) {
    for (list, centroid) in centroids.chunks(rows.dim()).enumerate() {
        let members = || (0..rows.rows()).filter(|&row| assignments[row] as usize == list);
        for (d, &found) in centroid.iter().enumerate() {
            let sum: f64 = members().map(|row| f64::from(rows.row(row)[d])).sum();
            let mean = sum / members().count() as f64;
            assert!((f64::from(found) - mean).abs() < 1e-4, "list {list}: {found} for {mean}");
        }
    }
}

/// Checks that each row is in the list of its nearest centroid, and returns the sum of the distances.
fn check_nearest(rows: MatrixView<'_, f32>, clusters: &Clusters) -> f64 {
    let centroid = |list: usize| &clusters.centroids[list * rows.dim()..][..rows.dim()];
    let nearest = |row: usize| {
        let distance = |list: usize| clusters.metric.exact(rows.row(row), centroid(list));
        let least = (0..clusters.count()).map(distance).fold(f64::MAX, f64::min);
        let found = distance(clusters.assignments[row] as usize);
        assert!(
            found <= least + 1e-5 * least.max(1.0),
            "{}, row {row}: {found}, not {least}",
            clusters.metric
        );
        least
    };
    assert_eq!(clusters.assignments.len(), rows.rows());
    (0..rows.rows()).map(nearest).sum()
}

#[test_matrix([Adapter, Host])]
fn a_centroid_is_the_mean_of_its_rows_and_assignments_are_exact(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, _) = around(9, 50, 20);
    // No tolerance: it ends when nothing changes.
    let means = KMeans::new(Metric::L2, 9).iterations(50).tolerance(0.0);
    let clusters = means.train(device, view(&rows, 20)).expect("trains");
    check_means(view(&rows, 20), &clusters.assignments, &clusters.centroids);
    check_nearest(view(&rows, 20), &clusters);
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn the_same_seed_gives_the_same_centroids(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, _) = around(40, 30, 24);
    let all = view(&rows, 24);
    for (metric, lists) in
        [(Metric::L2Squared, 1), (Metric::L2Squared, 260), (Metric::Cosine, 20), (Metric::InnerProduct, 260)]
    {
        let train = |seed| {
            let means = KMeans::new(metric, lists).seed(seed).rows_per_cluster(2).iterations(3);
            means.train(device, all).expect("trains")
        };
        let clusters = train(3);
        assert_eq!(clusters, train(3), "{metric:?}");
        if lists == 20 {
            assert_eq!(clusters.trained_on.len(), 40);
            assert!(clusters.trained_on.windows(2).all(|pair| pair[0] < pair[1]));
            assert_ne!(clusters.trained_on, train(4).trained_on);
        }
        if metric != Metric::L2Squared {
            for centroid in clusters.centroids.chunks(24) {
                let length: f32 = centroid.iter().map(|x| x * x).sum();
                assert!((length - 1.0).abs() < 1e-5, "{metric:?}: {length}");
            }
        }
    }
}

/// k-means++ compares each new seed with the nearest one so far.
#[test_matrix([Adapter, Host])]
fn the_nearest_of_the_seeds_are_those_that_a_search_finds(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(6);
    let mut rows: Vec<f32> = (0..300 * 20).map(|_| random.below(9) as f32 - 4.0).collect();
    // Half of the rows come twice, so that distances tie.
    rows.extend_from_within(..150 * 20);
    let all = view(&rows, 20);
    for metric in [Metric::L2, Metric::Cosine] {
        for quantization in [Quantization::None, Quantization::Int8] {
            let means = KMeans::new(metric, 100).quantization(quantization);
            let train = |iterations| means.clone().iterations(iterations).train(device, all).expect("trains");
            let (searched, moved) = (train(0), train(1));
            assert_eq!(moved.history[0], searched.inertia, "{metric} {quantization:?}");
            if metric == Metric::Cosine {
                continue;
            }
            // Centroids moved to the means of the rows that were known to be nearest.
            check_means(all, &searched.assignments, &moved.centroids);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn as_many_lists_as_rows_and_fewer_distinct_rows_than_lists(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, _) = around(30, 1, 16);
    let all = view(&rows, 16);
    let clusters = KMeans::new(Metric::L2, 30).train(device, all).expect("trains");
    let mut lists = clusters.assignments.clone();
    lists.sort_unstable();
    assert_eq!(lists, (0..30).collect::<Vec<u32>>(), "each row is a list of its own");
    assert_eq!(clusters.inertia, 0.0);

    let same: Vec<f32> = rows[..32].iter().copied().cycle().take(100 * 16).collect();
    let all = view(&same, 16);
    let clusters = KMeans::new(Metric::L2, 10).train(device, all).expect("trains");
    let mut lists = clusters.assignments;
    lists.sort_unstable();
    lists.dedup();
    assert_eq!(lists.len(), 2, "two distinct rows, two lists with rows");
    assert_eq!(clusters.inertia, 0.0);
}

#[test_matrix([Adapter, Host])]
fn no_list_stays_empty_while_rows_differ(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Most rows in one place, so that centroids chosen by chance fall together.
    let mut random = Random::new(3);
    let rows: Vec<f32> = (0..1000 * 8)
        .map(|i| if i / 8 < 950 { random.below(2) as f32 * 1e-3 } else { random.below(1000) as f32 })
        .collect();
    let all = view(&rows, 8);
    let clusters = KMeans::new(Metric::L2, 270).iterations(5).train(device, all).expect("trains");
    let sizes = sizes(&clusters.assignments, 270);
    let empty = sizes.iter().filter(|&&size| size == 0).count();
    assert!(empty < 100, "{empty} empty lists of 270; 306 rows are distinct");
}

fn sizes(assignments: &[u32], lists: usize) -> Vec<usize> {
    let mut sizes = vec![0; lists];
    assignments.iter().for_each(|&list| sizes[list as usize] += 1);
    sizes
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn balance_evens_lists_out(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(5);
    // Half of the rows in a fiftieth of the space.
    let rows: Vec<f32> = (0..1200)
        .flat_map(|row| {
            let width = if row % 2 == 0 { 1.0 } else { 50.0 };
            [0; 6].map(|_| random.below(1000) as f32 * width * 1e-3)
        })
        .collect();
    let all = view(&rows, 6);
    let train = |means: KMeans<'_>| means.iterations(5).tolerance(0.0).train(device, all).expect("trains");
    let largest = |assignments: &[u32]| sizes(assignments, 40).into_iter().max().expect("lists");
    let free = train(KMeans::new(Metric::L2, 40).rows_per_cluster(80));
    let even = train(KMeans::new(Metric::L2, 40).rows_per_cluster(80).balance(1.5));
    assert!(
        largest(&even.assignments) < largest(&free.assignments) / 2,
        "{} {}",
        largest(&even.assignments),
        largest(&free.assignments)
    );
}

#[test_matrix([Adapter, Host])]
fn spherical_centroids_have_length_one_whichever_way_they_came_about(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Three distinct rows, so that lists begin anew until the end, and seeds that are never averaged.
    let rows: Vec<f32> = (0..30).flat_map(|i| [[3.0, 4.0], [0.0, -7.0], [0.1, 0.1]][i % 3]).collect();
    for metric in [Metric::Cosine, Metric::InnerProduct] {
        for (lists, iterations) in [(2, 0), (6, 0), (6, 3), (30, 1)] {
            let means = KMeans::new(metric, lists).iterations(iterations);
            let clusters = means.train(device, view(&rows, 2)).expect("trains");
            for centroid in clusters.centroids.chunks(2) {
                let length = (centroid[0].powi(2) + centroid[1].powi(2)).sqrt();
                assert!((length - 1.0).abs() < 1e-5, "{lists} lists, {iterations} iterations: {centroid:?}");
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn what_cannot_be_trained_is_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = [0.0f32; 12];
    let all = view(&rows, 3);
    for means in [
        KMeans::new(Metric::L2, 0),
        KMeans::new(Metric::L2, 5),
        KMeans::new(Metric::L2, 2).rows_per_cluster(0),
        KMeans::new(Metric::L2, 2).balance(0.5),
        KMeans::new(Metric::L2, 2).balance(f64::NAN),
        KMeans::new(Metric::L2, 2).tolerance(f64::NAN),
    ] {
        assert!(matches!(means.train(device, all), Err(Error::Argument { .. })));
    }
    let none = KMeans::new(Metric::L2, 1).train(device, view(&[0.0f32; 0], 3));
    assert!(matches!(none, Err(Error::Argument { argument: "rows", .. })), "{none:?}");
    let wide = vec![0.0f32; (1 << 20) + 1];
    let wide = KMeans::new(Metric::L2, 1).train(device, view(&wide, wide.len()));
    assert!(matches!(wide, Err(Error::Argument { argument: "dim", .. })), "{wide:?}");
    let bad = [0.0, 1.0, f32::NAN];
    let refused = KMeans::new(Metric::L2, 1).train(device, view(&bad, 1));
    assert!(matches!(refused, Err(Error::NotFinite { row: 2, .. })), "{refused:?}");
    let [three, four] = [3, 4].map(|dim| device.upload(view(&[1.0f32; 12], dim)).expect("fits"));
    let refused = |pieces: &[&DeviceMatrix]| {
        KMeans::new(Metric::L2, 2).train_device(device, pieces).expect_err("refused").to_string()
    };
    assert_eq!(refused(&[]), "rows: needed at least one matrix, given 0");
    assert_eq!(refused(&[&three, &four]), "rows: needed dim 3 as in the first piece, given 4");
    let index = Ivf::builder(device, Metric::L2, 4).lists(2);
    assert!(matches!(index.train_device(&[&three]), Err(Error::Argument { argument: "sample", .. })));
    // Every row the same is no reason to fail.
    let clusters = KMeans::new(Metric::Cosine, 2).train(device, all).expect("trains");
    assert_eq!(clusters.centroids, [0.0; 6]);
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn rows_on_the_device_train_the_same_centroids_in_one_piece_or_several(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, _) = around(20, 30, 18);
    let all = view(&rows, 18);
    let whole = device.upload(all).expect("fits");
    let parts = [0..7, 7..8, 8..600].map(|range| device.upload(all.slice(range)).expect("fits"));
    let parts: Vec<_> = parts.iter().collect();
    // All rows, and a sample of 160 of them.
    for each in [64, 8] {
        for metric in [Metric::L2, Metric::Cosine] {
            let means = KMeans::new(metric, 20).rows_per_cluster(each).iterations(2);
            let expected = means.train(device, all).expect("trains");
            assert_eq!(expected.trained_on.len(), (each * 20).min(600));
            for pieces in [&[&whole][..], &parts[..]] {
                assert_eq!(means.train_device(device, pieces).expect("trains"), expected, "{metric} {each}");
            }
        }
    }
    let builder = || Ivf::builder(device, Metric::L2, 18).lists(20);
    let expected = builder().train(all).expect("trains").centroids().expect("centroids");
    let found = builder().train_device(&parts).expect("trains").centroids().expect("centroids");
    assert_eq!(found, expected);
}

#[test_matrix([Adapter, Host])]
fn a_screen_that_has_no_room_is_left_out(engine: Engine) {
    let Some(device) = engine.confined(u64::MAX, 900 << 10) else { return };
    let (rows, _) = around(24, 10, 16);
    let train = |quantization| {
        let means = KMeans::new(Metric::L2, 24).quantization(quantization).iterations(2);
        means.train(&device, view(&rows, 16)).expect("trains")
    };
    assert_eq!(train(Quantization::Int8), train(Quantization::None));
}

#[test_matrix([Adapter, Host])]
fn a_budget_that_an_error_asks_for_is_enough(engine: Engine) {
    if engine.device().is_none() {
        return;
    }
    let (rows, _) = around(30, 20, 8);
    let rows = view(&rows, 8);
    let means = KMeans::new(Metric::L2, 300).iterations(1);
    run_within(1 << 15, 2, |budget| {
        means.train(&engine.confined(u64::MAX, budget).expect("it was there"), rows)
    });
}

/// With thousands of centroids, only the scores of a sample go to memory.
#[test]
#[ignore = "nightly"]
fn the_nearest_of_thousands_of_centroids_are_exact() {
    let Some(device) = gpu() else { return };
    let small = confined(u64::MAX, 10 << 20).expect("it was there");
    // `ivf/quantization.rs` has centroids at equal distances.
    for (data, dim, rows) in rows_of_many_lists().into_iter().filter(|(_, dim, _)| *dim != 4) {
        let all = view(&rows, dim);
        // Metrics differ in the terms of a score: one set of rows shows that.
        let metrics = if dim == 12 { &[Metric::L2Squared, Metric::Cosine][..] } else { &[Metric::L2Squared] };
        for &metric in metrics {
            // Centroids are rows, so that squared distances are whole numbers.
            let means = KMeans::new(metric, MANY_LISTS)
                .rows_per_cluster(2)
                .iterations(0)
                .quantization(Quantization::Int8);
            let clusters = means.train(device, all).expect("trains");
            if metric == Metric::L2Squared && dim == 8 {
                assert_eq!(means.train(&small, all).expect("trains"), clusters, "{data}, in small batches");
            }
            for row in (0..all.rows()).step_by(17) {
                let distances = clusters.centroids.chunks(dim).map(|one| metric.exact(all.row(row), one));
                let distances: Vec<f64> = distances.collect();
                let least = distances.iter().copied().fold(f64::MAX, f64::min);
                let found = clusters.assignments[row] as usize;
                let is_right = match metric {
                    Metric::Cosine => distances[found] <= least + 1e-6,
                    _ => distances.iter().position(|&it| it == least) == Some(found),
                };
                assert!(is_right, "{data}, {metric}, row {row}");
            }
        }
    }
}

#[test]
#[ignore = "nightly"]
fn rows_that_exceed_a_binding_train_the_same_centroids() {
    let (Some(device), Some(quantize)) = (gpu(), with_bindings_of(1 << 19)) else { return };
    // 682 rows a binding.
    let (rows, _) = around(70, 20, 192);
    let all = view(&rows, 192);
    for (metric, lists) in [(Metric::L2, 300), (Metric::Cosine, 20)] {
        // All rows, and a sample of them.
        for count in [1400, 1000] {
            let means = KMeans::new(metric, lists).rows_per_cluster(count / lists).iterations(1);
            let expected = means.train(device, all).expect("trains");
            assert_eq!(expected.trained_on.len(), count / lists * lists);
            assert_eq!(means.train(&quantize, all).expect("trains"), expected, "{metric}, {lists} lists");
        }
    }
    let mut bad = rows.clone();
    bad[1200 * 192 + 3] = f32::NAN;
    let bad = view(&bad, 192);
    let refused = KMeans::new(Metric::L2, 300).train(&quantize, bad);
    assert!(matches!(refused, Err(Error::NotFinite { row: 1200, .. })), "{refused:?}");
}

/// Large matrices are trained on where they lie, as several pieces.
#[test]
#[ignore = "nightly"]
fn large_matrices_train_the_same_centroids_as_rows_of_the_host() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(8);
    let rows: Vec<f32> = (0..33_001 * 4).map(|_| random.below(100) as f32).collect();
    let all = view(&rows, 4);
    let parts = [0..17_001, 17_001..17_001, 17_001..33_001]
        .map(|range| device.upload(all.slice(range.start..range.end.min(all.rows()))).expect("fits"));
    let means =
        KMeans::new(Metric::L2, 16).rows_per_cluster(2100).iterations(1).quantization(Quantization::Int8);
    let expected = means.train(device, all).expect("trains");
    assert_eq!(expected.trained_on.len(), 33_001);
    // Three matrices of 11,000 rows on average are copied.
    for some in [vec![&parts[0], &parts[2]], parts.iter().collect()] {
        assert_eq!(means.train_device(device, &some).expect("trains"), expected, "{} matrices", some.len());
    }
}

/// Rows beyond the training sample have the nearest centroid too, as does any row that is asked for later.
#[test_matrix([Adapter, Host])]
fn all_rows_are_assigned_to_their_nearest_centroid(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, _) = around(40, 30, 24);
    let all = view(&rows, 24);
    let matrix = device.upload(all).expect("on the device");
    for metric in [Metric::L2, Metric::InnerProduct] {
        let means = KMeans::new(metric, 20).rows_per_cluster(4);
        let clusters = means.train(device, all).expect("trains");
        assert_eq!(clusters.trained_on.len(), 80);
        let inertia = check_nearest(all, &clusters);
        assert!((clusters.inertia - inertia).abs() < 1e-4 * inertia, "{} {inertia}", clusters.inertia);
        assert_eq!(clusters.predict(device, &matrix).expect("predicts"), clusters.assignments);
        let few = clusters.predict(device, all.slice(7..9)).expect("predicts");
        assert_eq!(few, clusters.assignments[7..9]);

        let mut broken = rows.clone();
        broken[5 * 24 + 3] = f32::NAN;
        let broken = view(&broken, 24);
        // Row 5 may be in the sample or not.
        for refused in [clusters.predict(device, broken).map(drop), means.train(device, broken).map(drop)] {
            assert!(matches!(refused, Err(Error::NotFinite { argument: "rows", row: 5 })));
        }
        let short = clusters.predict(device, view(&rows, 12));
        assert!(matches!(short, Err(Error::Argument { argument: "rows", .. })));

        let alone = means.clone().assign_all(false).train(device, all).expect("trains");
        assert_eq!((&alone.centroids, alone.assignments.len()), (&clusters.centroids, 0));
        assert!(alone.inertia < clusters.inertia);
    }
}

/// Rows that nearly cancel have a centroid shorter than any row may be.
#[test_matrix([Adapter, Host])]
fn rows_that_cancel_are_assigned_too(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows: Vec<f32> = (0..40u8).map(|row| if row % 2 == 0 { 1e-10 } else { -1.000_000_1e-10 }).collect();
    let rows = view(&rows, 1);
    for seed in 0..6 {
        let means = KMeans::new(Metric::L2, 1).rows_per_cluster(2).seed(seed);
        let clusters = means.train(device, rows).expect("trains");
        assert_eq!(clusters.assignments, [0; 40]);
    }
}
