//! `Device::distances` against f64, on an adapter and on the host engine.

use crate::common::{DIMS, Engine, gpu, is_nightly};
use nearfield::internals::in_smallest_bands;
use nearfield::{Device, DeviceMatrix, DistanceOptions, Error, Matrix, Metric, Output, Precision};
use nearfield_testing::{Random, rounded, view};
use test_case::test_case;

const PRECISIONS: [Precision; 3] = [Precision::Fast, Precision::Compensated, Precision::Half];

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

/// Computes with these metrics and every precision that has them, and checks every distance against its bound, and of whole numbers that it
/// is exact. A similarity is the distance the other way, and a zero vector is similar to nothing.
fn check(device: &Device, metrics: &[Metric], [queries, rows]: [&[f32]; 2], dim: usize, whole: bool) {
    let (queries, rows) = (view(queries, dim), view(rows, dim));
    let [there, rows_there] = [queries, rows].map(|vectors| device.upload(vectors).expect("good vectors"));
    let is_zero = |vector: &[f32]| vector.iter().all(|&x| x == 0.0);
    for (&metric, precision) in metrics.iter().flat_map(|metric| PRECISIONS.map(|one| (metric, one))) {
        let has_similarities = matches!(metric, Metric::Cosine | Metric::InnerProduct);
        if precision == Precision::Half && !has_similarities {
            continue;
        }
        let options = DistanceOptions::new(metric).precision(precision);
        let found = computed(device, &there, &rows_there, options);
        for (place, &found) in found.iter().enumerate() {
            let (query, row) = (queries.row(place / rows.rows()), rows.row(place % rows.rows()));
            let exact = metric.exact(query, row);
            let is_exact = whole && metric != Metric::Cosine && metric != Metric::L2;
            let bound = if is_exact { 0.0 } else { precision.error_bound(metric, query, row) };
            let said = format!("{metric}, {precision:?}, dim {dim}, pair {place}, {}", device.describe());
            assert!(
                (f64::from(found) - exact).abs() <= bound,
                "{said}: {found:e}, not {exact:e} within {bound:e}"
            );
        }
        if has_similarities {
            let similarities = computed(device, &there, &rows_there, options.output(Output::Similarity));
            for (place, (distance, similarity)) in found.into_iter().zip(similarities).enumerate() {
                let said =
                    format!("{metric}, {precision:?}, dim {dim}, pair {place}: similarity {similarity}");
                let wanted = if metric == Metric::Cosine { 1.0 - similarity } else { -similarity };
                assert!((distance - wanted).abs() <= 2f32.powi(-23), "{said}, distance {distance}");
                let pair = [queries.row(place / rows.rows()), rows.row(place % rows.rows())];
                assert!(similarity == 0.0 || !pair.into_iter().any(is_zero), "{said} of a zero vector");
            }
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn distances_of_every_dim_and_count_are_within_their_bounds(engine: Engine) {
    // A software driver takes half a second for a dim: those in the middle belong to the nightly tier.
    let every = is_nightly() || engine == Engine::Host;
    let small = (1..=17).filter(|dim| every || !(6..=14).contains(dim)).chain([100, 384]);
    let small = small.flat_map(|dim| [(1, 1), (1, 77), (3, 5), (33, 41)].map(|counts| (dim, counts)));
    let large = [(1, (40, 70)), (7, (25, 129)), (100, (129, 260)), (384, (70, 130)), (1024, (26, 40))];
    let shapes: Vec<_> = small.chain(large).collect();
    for (device, &(dim, (queries, rows))) in
        engine.devices().flat_map(|one| shapes.iter().map(move |two| (one, two)))
    {
        let mut random = Random::new(dim as u64);
        let [mut queries, mut rows] = [queries, rows].map(|count| random.adversarial(count, dim));
        queries.chunks_exact_mut(dim).skip(1).take(1).for_each(|query| query.fill(0.0));
        rows.chunks_exact_mut(dim).skip(2).take(1).for_each(|row| row.fill(-0.0));
        check(device, &Metric::ALL, [&queries, &rows], dim, false);
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn whole_numbers_have_the_same_distances_in_every_form(engine: Engine) {
    for (device, dim) in engine.devices().flat_map(|device| DIMS.map(|dim| (device, dim))) {
        let mut random = Random::new(dim as u64);
        let [queries, rows] = [40, 150].map(|count| random.integers(count * dim, 4));
        // Tiles, scans and single pairs add up in different orders.
        for count in [1, 2, 24, 40] {
            let queries = &queries[..count * dim];
            check(device, &[Metric::L2Squared, Metric::InnerProduct], [queries, &rows], dim, true);
        }
    }
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn near_vectors_are_as_precise_as_others(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (dim, count) in [(9, 3), (64, 2), (100, 3), (100, 40), (384, 30)] {
        let mut random = Random::new(dim as u64);
        let base: Vec<f32> = random.floats(dim).into_iter().map(|x| x + 1000.0).collect();
        let mut near = |count: usize| -> Vec<f32> {
            let steps = (0..count * dim).map(|_| random.below(3) as i32 - 1);
            let turns = base.iter().cycle().zip(steps);
            turns.map(|(x, step)| f32::from_bits(x.to_bits().wrapping_add_signed(step))).collect()
        };
        let (queries, rows) = (near(count), near(70));
        check(device, &Metric::ALL, [&queries, &rows], dim, false);
        // A vector has distance 0 to itself by L2, and to no other: products would report noise, or a square below 0.
        let there = device.upload(view(&queries, dim)).expect("good queries");
        for precision in [Precision::Fast, Precision::Compensated] {
            let found =
                computed(device, &there, &there, DistanceOptions::new(Metric::L2).precision(precision));
            let is_right = |pair: usize| (found[pair] == 0.0) == (pair / count == pair % count);
            assert!((0..found.len()).all(is_right), "dim {dim}, {precision:?}");
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
        check(device, &Metric::ALL, [&queries, &rows.concat()], dim, false);
        rows.reverse();
        check(device, &Metric::ALL, [&queries, &rows.concat()], dim, false);
    }
}

#[test]
fn distances_in_several_submissions_are_those_of_one() {
    let Some(device) = gpu() else { return };
    let upload = |count: usize, dim: usize| {
        let values: Vec<f32> =
            (0..count * dim).map(|i| ((i * 2_654_435_761) >> 7 & 63) as f32 - 31.0).collect();
        device.upload(view(&values, dim)).expect("memory")
    };
    // Odd numbers of rows, so that a band of distances begins anywhere in a vector of four.
    for (queries, rows, dim) in [(300, 37, 12), (129, 5, 3), (256, 130, 40)] {
        let (queries, rows) = (upload(queries, dim), upload(rows, dim));
        for precision in PRECISIONS {
            let options = DistanceOptions::new(Metric::Cosine).precision(precision);
            let whole = computed(device, &queries, &rows, options);
            let banded = in_smallest_bands(device, [&queries, &rows], options).expect("distances");
            let banded = device.read(&banded).expect("distances");
            let off = whole.iter().zip(&banded).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
            // The last band may be so small that another kernel takes it.
            assert!(off <= if precision == Precision::Half { 0.01 } else { 1e-6 }, "{precision}: {off}");
            assert_eq!(banded.len(), queries.rows() * rows.rows());
        }
    }
}

#[test]
fn distances_are_read_on_their_own_device_alone() {
    let Some(gpu) = gpu() else { return };
    let [there, here] = [gpu, &Device::host()].map(|device| {
        let vectors = device.upload(view(&[1.0f32, 2.0], 1)).expect("memory");
        device.distances(&vectors, &vectors, Metric::L2, Output::Distance).expect("memory")
    });
    assert_eq!(gpu.read(&there).expect("memory"), Device::host().read(&here).expect("memory"));
    assert!(matches!(gpu.read(&here), Err(Error::Argument { argument: "distances", .. })));
    assert!(matches!(Device::host().read(&there), Err(Error::Argument { argument: "distances", .. })));
}

#[test_case(Engine::Adapter)]
#[test_case(Engine::Host)]
fn vectors_come_back_as_they_were_sent_whatever_their_padding(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (dim, rows) in [(1, 1), (3, 2), (4, 3), (5, 7)] {
        let values: Vec<f32> = (1..=rows * dim).map(|value| value as f32).collect();
        let (halves, _) = rounded(&values);
        let (of_f32, of_f16) = (device.upload(view(&values, dim)), device.upload(view(&halves, dim)));
        let expected = Matrix::F32(values, dim);
        for matrix in [of_f32, of_f16] {
            assert_eq!(matrix.expect("memory").to_host().expect("memory"), expected, "dim {dim}");
        }
    }
}
