//! `Device::distances` against f64, on an adapter and on the host engine.

use crate::common::{DIMS, Engine};
use nearfield::{Device, DeviceMatrix, DistanceOptions, Error, Metric, Output, Precision};
use nearfield_testing::{Random, rounded, view};
use test_case::test_case;

const PRECISIONS: [Precision; 2] = [Precision::Fast, Precision::Compensated];

fn computed(
    device: &Device,
    queries: &DeviceMatrix,
    rows: &DeviceMatrix,
    options: DistanceOptions,
) -> Vec<f32> {
    let distances = device.distances_with(queries, rows, options).expect("distances");
    assert_eq!([distances.queries(), distances.rows()], [queries.rows(), rows.rows()]);
    device.read(&distances).expect("distances")
}

/// Computes with every metric and precision, and checks every distance against its bound.
fn check(device: &Device, queries: &[f32], rows: &[f32], dim: usize) {
    let (queries, rows) = (view(queries, dim), view(rows, dim));
    let [there, rows_there] = [queries, rows].map(|vectors| device.upload(vectors).expect("good vectors"));
    for (metric, precision) in Metric::ALL.into_iter().flat_map(|metric| PRECISIONS.map(|one| (metric, one)))
    {
        let found = computed(device, &there, &rows_there, DistanceOptions::new(metric).precision(precision));
        for (place, found) in found.into_iter().enumerate() {
            let (query, row) = (queries.row(place / rows.rows()), rows.row(place % rows.rows()));
            let (exact, bound) = (metric.exact(query, row), precision.error_bound(metric, query, row));
            let said = format!("{metric}, {precision:?}, dim {dim}, pair {place}, {}", device.describe());
            assert!(
                (f64::from(found) - exact).abs() <= bound,
                "{said}: {found:e}, not {exact:e} within {bound:e}"
            );
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn distances_of_every_dim_and_count_are_within_their_bounds(engine: Engine) {
    for device in engine.devices() {
        for dim in (1..=17).chain([100, 384]) {
            let mut random = Random::new(dim as u64);
            for (queries, rows) in [(1, 1), (1, 77), (3, 5), (33, 41)] {
                let [queries, rows] = [queries, rows].map(|count| random.adversarial(count, dim));
                check(device, &queries, &rows, dim);
            }
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn whole_numbers_have_the_same_distances_in_every_form(engine: Engine) {
    for (device, dim) in engine.devices().flat_map(|device| DIMS.map(|dim| (device, dim))) {
        let mut random = Random::new(dim as u64);
        let [queries, rows] = [40, 150].map(|count| random.integers(count * dim, 4));
        let rows_there = device.upload(view(&rows, dim)).expect("good rows");
        for metric in [Metric::L2Squared, Metric::InnerProduct] {
            let rows = view(&rows, dim);
            // Tiles, scans and single pairs add up in different orders.
            for count in [1, 2, 24, 40] {
                let queries = view(&queries, dim).slice(0..count);
                let there = device.upload(queries).expect("good queries");
                for precision in PRECISIONS {
                    let options = DistanceOptions::new(metric).precision(precision);
                    let found = computed(device, &there, &rows_there, options);
                    for (place, found) in found.into_iter().enumerate() {
                        let exact = metric.exact(queries.row(place / 150), rows.row(place % 150));
                        assert_eq!(
                            f64::from(found),
                            exact,
                            "{metric}, dim {dim}, {count} queries, {precision:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn near_vectors_are_as_precise_as_others(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (dim, count) in [(3, 2), (100, 3), (100, 40), (384, 30)] {
        let mut random = Random::new(dim as u64);
        let base: Vec<f32> = random.floats(dim).into_iter().map(|x| x + 1000.0).collect();
        let mut near = |count: usize| -> Vec<f32> {
            let steps = (0..count * dim).map(|_| random.below(3) as i32 - 1);
            let turns = base.iter().cycle().zip(steps);
            turns.map(|(x, step)| f32::from_bits(x.to_bits().wrapping_add_signed(step))).collect()
        };
        let (queries, rows) = (near(count), near(70));
        check(device, &queries, &rows, dim);
        // A vector has distance 0 to itself by L2.
        let there = device.upload(view(&queries, dim)).expect("good queries");
        for precision in PRECISIONS {
            let found =
                computed(device, &there, &there, DistanceOptions::new(Metric::L2).precision(precision));
            assert!((0..count).all(|query| found[query * count + query] == 0.0), "dim {dim}, {precision:?}");
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn similarities_are_distances_the_other_way(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(5);
    for (dim, count) in [(7, 3), (64, 5), (64, 30)] {
        let mut vectors = random.floats(count * dim);
        vectors[dim..2 * dim].fill(0.0);
        let there = device.upload(view(&vectors, dim)).expect("good vectors");
        for precision in PRECISIONS {
            for metric in [Metric::Cosine, Metric::InnerProduct] {
                let options = DistanceOptions::new(metric).precision(precision);
                let distances = computed(device, &there, &there, options);
                let similarities = computed(device, &there, &there, options.output(Output::Similarity));
                for (place, (distance, similarity)) in distances.into_iter().zip(similarities).enumerate() {
                    let wanted = if metric == Metric::Cosine { 1.0 - similarity } else { -similarity };
                    assert!(
                        (distance - wanted).abs() <= 2f32.powi(-23),
                        "{metric}, {precision:?}, pair {place}"
                    );
                    if place / count == 1 || place % count == 1 {
                        assert_eq!(similarity, 0.0, "a zero vector is similar to nothing");
                    }
                }
            }
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn rows_of_f16_have_the_distances_of_their_values(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (dim, count) in [(5, 3), (100, 2), (100, 30)] {
        let mut random = Random::new(dim as u64);
        let [(queries, wide_queries), (rows, wide_rows)] =
            [count, 50].map(|count| rounded(&random.floats(count * dim)));
        let [of_f16, rows_of_f16] =
            [&queries, &rows].map(|values| device.upload(view(values, dim)).expect("f16"));
        let [of_f32, rows_of_f32] =
            [&wide_queries, &wide_rows].map(|values| device.upload(view(values, dim)).expect("f32"));
        for metric in Metric::ALL {
            let options = DistanceOptions::new(metric);
            let found = computed(device, &of_f16, &rows_of_f16, options);
            assert_eq!(found, computed(device, &of_f32, &rows_of_f32, options), "{metric}, dim {dim}");
        }
    }
}

/// The bits of a compensated distance depend on its two vectors alone.
#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn compensated_distances_do_not_depend_on_the_other_vectors(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (dim, mut random) = (96, Random::new(96));
    let [queries, rows] = [60, 140].map(|count| random.floats(count * dim));
    let [there, rows_there] = [&queries, &rows].map(|values| device.upload(view(values, dim)).expect("good"));
    let few = device.upload(view(&queries, dim).slice(7..9)).expect("good queries");
    for metric in Metric::ALL {
        let options = DistanceOptions::new(metric).precision(Precision::Compensated);
        let all = computed(device, &there, &rows_there, options);
        assert_eq!(computed(device, &few, &rows_there, options), all[7 * 140..9 * 140], "{metric}");
    }
}

/// The memory of earlier distances is written again, but never that of a clone.
#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn distances_into_a_matrix_are_those_of_a_new_one(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (dim, mut random) = (20, Random::new(20));
    let options = DistanceOptions::new(Metric::L2);
    let matrices = [7, 50, 1, 0, 30].map(|count| {
        let vectors = random.floats(count * dim);
        device.upload(view(&vectors, dim)).expect("good vectors")
    });
    let mut kept = device.distances_with(&matrices[0], &matrices[0], options).expect("distances");
    // It shrinks, grows, becomes empty and grows again.
    for (queries, rows) in [(0, 1), (2, 2), (1, 1), (3, 1), (1, 3), (4, 0)] {
        let (queries, rows) = (&matrices[queries], &matrices[rows]);
        device.distances_into(queries, rows, options, &mut kept).expect("distances");
        assert_eq!([kept.queries(), kept.rows()], [queries.rows(), rows.rows()]);
        let wanted = computed(device, queries, rows, options);
        assert_eq!(device.read(&kept).expect("distances"), wanted);
        let (clone, before) = (kept.clone(), wanted);
        device.distances_into(rows, queries, options, &mut kept).expect("distances");
        assert_eq!(device.read(&clone).expect("distances"), before, "a clone keeps its distances");
        assert_eq!(device.read(&kept).expect("distances"), computed(device, rows, queries, options));
    }
    // An error leaves what was there.
    let before = device.read(&kept).expect("distances");
    let similarities = options.output(Output::Similarity);
    assert!(device.distances_into(&matrices[1], &matrices[1], similarities, &mut kept).is_err());
    assert_eq!(device.read(&kept).expect("distances"), before);
    // Distances of another device give way to new ones.
    let host = Device::host();
    let two = host.upload(view(&[0.0f32, 3.0], 1)).expect("good vectors");
    host.distances_into(&two, &two, options, &mut kept).expect("distances");
    assert_eq!(host.read(&kept).expect("distances"), [0.0, 3.0, 3.0, 0.0]);
}

/// On an adapter without cooperative matrices, and on the host engine, these are the fast distances.
#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn distances_by_halves_are_within_their_bounds(engine: Engine) {
    for device in engine.devices() {
        for (dim, queries, rows) in
            [(1, 40, 70), (7, 25, 129), (100, 129, 260), (384, 70, 130), (1024, 26, 40)]
        {
            let mut random = Random::new(dim as u64);
            let [mut queries, rows] = [queries, rows].map(|count| random.adversarial(count, dim));
            queries[dim..2 * dim].fill(0.0);
            let (queries, rows) = (view(&queries, dim), view(&rows, dim));
            let [there, rows_there] =
                [queries, rows].map(|vectors| device.upload(vectors).expect("good vectors"));
            for metric in [Metric::Cosine, Metric::InnerProduct] {
                let options = DistanceOptions::new(metric).precision(Precision::Half);
                let found = computed(device, &there, &rows_there, options);
                let similarities = computed(device, &there, &rows_there, options.output(Output::Similarity));
                for (place, (found, similarity)) in found.into_iter().zip(similarities).enumerate() {
                    let (query, row) = (queries.row(place / rows.rows()), rows.row(place % rows.rows()));
                    let bound = Precision::Half.error_bound(metric, query, row);
                    let exact = metric.exact(query, row);
                    let said = format!("{metric}, dim {dim}, pair {place}, {}", device.describe());
                    assert!((f64::from(found) - exact).abs() <= bound, "{said}: {found:e}, not {exact:e}");
                    let wanted = if metric == Metric::Cosine { 1.0 - similarity } else { -similarity };
                    assert!((found - wanted).abs() <= 2f32.powi(-23), "{said}: similarity {similarity}");
                }
            }
        }
    }
}

/// Small whole numbers are of f16, and their sums are exact in f32.
#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn whole_numbers_lose_nothing_by_halves(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (dim, queries, rows) in [(3, 30, 40), (33, 128, 128), (260, 131, 257)] {
        let mut random = Random::new(dim as u64);
        let [queries, rows] = [queries, rows].map(|count| random.integers(count * dim, 8));
        let (queries, rows) = (view(&queries, dim), view(&rows, dim));
        let [there, rows_there] =
            [queries, rows].map(|vectors| device.upload(vectors).expect("good vectors"));
        let options = DistanceOptions::new(Metric::InnerProduct).precision(Precision::Half);
        // The second call finds the copies of the first.
        for _ in 0..2 {
            let found = computed(device, &there, &rows_there, options);
            for (place, found) in found.into_iter().enumerate() {
                let (query, row) = (queries.row(place / rows.rows()), rows.row(place % rows.rows()));
                assert_eq!(
                    f64::from(found),
                    Metric::InnerProduct.exact(query, row),
                    "dim {dim}, pair {place}"
                );
            }
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn halves_have_no_l2(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let two = device.upload(view(&[0.0f32, 3.0], 1)).expect("good vectors");
    for metric in [Metric::L2, Metric::L2Squared] {
        let options = DistanceOptions::new(metric).precision(Precision::Half);
        let refused = device.distances_with(&two, &two, options);
        assert!(matches!(refused, Err(Error::Argument { argument: "precision", .. })), "{refused:?}");
    }
}

/// From next to each other to far apart: the host engine computes far pairs from products, and near ones from differences.
#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn every_distance_between_near_and_far_is_within_its_bound(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for dim in [64, 128, 384, 1000] {
        let mut random = Random::new(dim as u64);
        let queries = random.floats(9 * dim);
        let mut rows: Vec<Vec<f32>> = (0..300)
            .map(|row| {
                let (own, step) = (row % 9, 2f32.powi(row as i32 % 27 - 22));
                let noise = random.floats(dim);
                queries[own * dim..][..dim].iter().zip(noise).map(|(x, noise)| x + step * noise).collect()
            })
            .collect();
        // The far ones first, and the near ones first: the first rows decide how the next are computed.
        rows.sort_by_key(|row| (0..9).any(|own| Metric::L2.exact(&queries[own * dim..][..dim], row) < 1.0));
        check(device, &queries, &rows.concat(), dim);
        rows.reverse();
        check(device, &queries, &rows.concat(), dim);
    }
}
