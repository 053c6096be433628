//! Reductions of every row: on the host, as vectors and as distances on the device, short and long, few and many, and rows
//! that need scales of their own.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::bench::Bench;
use crate::common::reduce::{Call, SUMMATIONS, Truth, distances, judge_rows, run_rows};
use crate::common::{has_kernels, is_nightly};
use half::f16;
use nearfield::internals::vectors_seen;
use nearfield::{Device, ElementKind, Error, MatrixView, Metric, Norm, Output, Summation, ValueRows};
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

/// Row lengths: vectors of four, where a row gets more lanes (32, 128; from any start 13 and 61), and where it becomes blocks (4096).
const LENGTHS: [usize; 20] =
    [1, 2, 3, 4, 5, 13, 14, 17, 32, 33, 61, 62, 127, 129, 384, 4094, 4095, 4096, 4097, 40_000];

/// Devices with lengths and counts of rows, which take turns. Short rows are also none, one and many. Without the nightly tier a GPU has
/// every other shape.
fn shapes(engine: Engine) -> impl Iterator<Item = (&'static Device, (usize, usize))> {
    let others = [(1, 0), (1, 1), (1, 1000), (17, 1000), (4097, 1)];
    let step = if is_nightly() || engine == Host { 1 } else { 2 };
    let all = LENGTHS.into_iter().zip([9, 17, 7, 2].into_iter().cycle()).chain(others).step_by(step);
    engine.devices().flat_map(move |one| all.clone().map(move |two| (one, two)))
}

#[test_matrix([Adapter, Host])]
fn rows_of_any_shape_are_reduced_within_the_promised_bounds(engine: Engine) {
    for (device, (length, count)) in shapes(engine) {
        let mut random = Random::new(0x405 + length as u64);
        let (a, b) = (random.floats(count * length), random.floats(count * length));
        let (views, b_view) = (view(&a, length), view(&b, length));
        judge_rows(&Call::ALL, device, length, (views.into(), &a), (b_view.into(), &b));
        let [a_matrix, b_matrix] = [views, b_view].map(|rows| device.upload(rows).expect("a matrix"));
        judge_rows(&Call::ALL, device, length, ((&a_matrix).into(), &a), ((&b_matrix).into(), &b));
        let ((halves, a), (other_halves, b)) = (rounded(&a), rounded(&b));
        let (rows, other_rows) = (view(&halves, length), view(&other_halves, length));
        judge_rows(&Call::ALL, device, length, (rows.into(), &a), (other_rows.into(), &b));
    }
}

#[test_matrix([Adapter, Host])]
fn rows_of_distances_start_anywhere_in_a_vector_and_are_reduced_exactly(engine: Engine) {
    for (device, (length, count)) in shapes(engine) {
        let mut random = Random::new(0xd15 + length as u64);
        let (a, a_values) = distances(device, &mut random, count, length);
        let (b, b_values) = distances(device, &mut random, count, length);
        judge_rows(&Call::ALL, device, length, ((&a).into(), &a_values), ((&b).into(), &b_values));
        // Whole numbers: bit for bit.
        for summation in SUMMATIONS {
            let sums = device.reduce().summation(summation).sum_rows(&a).expect("sums");
            let want = a_values.chunks(length).map(|row| Truth::new(row, &[]).value(Call::Sum));
            assert!(want.eq(sums.into_iter().map(|sum| Some(sum.into()))), "{count} of {length}");
        }
    }
}

#[test]
fn every_distance_is_in_a_vector_of_four_that_kernels_see() {
    let Some(bench) = Bench::open() else { return };
    for (queries, rows) in [(1, 1), (1, 5), (9, 3), (7, 5), (2, 17), (3, 40_001)] {
        let (matrix, _) = distances(bench.device, &mut Random::new(0xec), queries, rows);
        let (matrix, counts) = (matrix.as_slice().expect("a GPU"), bench.output(1));
        let (kernel, params) = (&vectors_seen::KERNEL, vectors_seen::Params { place: 0 });
        let (kind, buffers) = (ElementKind::F32, [matrix, counts.slice()]);
        bench.run(|recorder| recorder.dispatch(kernel, kind, &[], &params, &buffers, [1, 1]));
        let vectors = bench.read(&counts)[0] as usize;
        assert!(vectors * 4 >= queries * rows, "{vectors} vectors of {queries} x {rows} distances");
    }
}

#[test_matrix([Adapter, Host])]
fn what_large_numbers_push_out_of_f32_is_kept_by_compensated_sums_of_rows(engine: Engine) {
    for device in engine.devices() {
        // With 4, 8 and 32 lanes a row, and in blocks.
        for (length, lanes) in [(30, 4), (100, 8), (1000, 32), (4096, 32), (10_000, 256)] {
            let mut values = vec![];
            for row in 0..9 {
                let mut one = vec![0.1f32; length];
                // Within a vector, between lanes, within one lane.
                (one[row], one[[row + 1, length - 1 - row, row + 4 * lanes][row % 3]]) = (1e8, -1e8);
                values.extend(one);
            }
            let ones = vec![1.0; values.len()];
            let rows = [&values, &ones].map(|values| (view(values, length).into(), &values[..]));
            judge_rows(&[Call::Sum, Call::Mean, Call::Dot], device, length, rows[0], rows[1]);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn each_row_is_scaled_by_itself_and_none_disturbs_another(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x5ca1e);
        for length in [1, 6, 4096, 5001] {
            let scales =
                [1.0, 1e30, f32::NAN, 1e-30, 0.0, f32::INFINITY, 1e-19, f32::MAX / 2.0, 1e15, 1e-10, 1.0];
            let mut values = vec![];
            for scale in scales {
                let row = random.floats(length);
                if scale == f32::MAX / 2.0 {
                    values.extend(row.iter().map(|x| scale * (x / 6.0 + 0.75)));
                } else if scale.is_finite() {
                    values.extend(row.iter().map(|x| scale * x));
                } else {
                    // One of them among numbers.
                    let start = values.len();
                    values.extend(row);
                    values[start + length / 2] = scale;
                }
            }
            let calls =
                [Call::L2, Call::Mean, Call::Deviation, Call::L1, Call::MaxNorm, Call::Sum, Call::SumSquares];
            let rows = (view(&values, length).into(), &values[..]);
            judge_rows(&calls, device, length, rows, rows);
            // Sums that overflow in both directions.
            let signs = (0..3 * length).map(|place| if place % 4 < 2 { f32::MAX } else { -f32::MAX });
            let signs: Vec<f32> = signs.collect();
            let rows = (view(&signs, length).into(), &signs[..]);
            judge_rows(&[Call::Mean, Call::Deviation], device, length, rows, rows);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn more_rows_than_a_row_of_workgroups_takes_are_each_reduced(engine: Engine) {
    for device in engine.devices() {
        // At 64 rows a workgroup these are more than 65,535 workgroups.
        let values: Vec<f32> = (0..4_194_400).map(|row| (row % 65_521) as f32).collect();
        let reduce = device.reduce();
        assert_eq!(reduce.sum_rows(view(&values, 1)).expect("sums"), values);
        let places = reduce.argmax_rows(view(&values, 2)).expect("places");
        let wanted = values.chunks_exact(2).map(|pair| u64::from(pair[1] > pair[0]));
        assert!(wanted.eq(places));
    }
}

#[test_matrix([Adapter, Host])]
fn a_row_without_a_number_is_named(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for length in [1, 3, 5000] {
        let mut values = vec![1.0f32; 4 * length];
        values[2 * length..3 * length].fill(-f32::NAN);
        let rows = view(&values, length);
        let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
        let reduce = device.reduce();
        let said = "values: needed at least one number in every row, given none in row 2";
        for rows in [ValueRows::from(rows), view(&halves, length).into()] {
            for call in [Call::Min, Call::Max, Call::ArgMin, Call::ArgMax] {
                let error = run_rows(device, call, Summation::Plain, rows, rows).expect_err("a row of NaN");
                assert!(matches!(error, Error::Argument { argument: "values", .. }));
                assert_eq!(error.to_string(), said, "{call:?}");
            }
            // Elsewhere NaN is a result.
            let sums = reduce.sum_rows(rows).expect("sums");
            assert!(sums[2].is_nan() && sums[0] == length as f32 && sums[3] == length as f32, "{sums:?}");
            assert!(reduce.norm_rows(rows, Norm::Max).expect("norms")[2].is_nan());
        }
    }
}

#[test_matrix([Adapter, Host])]
fn matrices_without_rows_or_columns_give_nothing(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (none, two) = (device.upload(view::<f32>(&[], 3)).expect("nothing"), view(&[1.0f32; 6], 3));
    let two = device.upload(two).expect("a matrix");
    let reduce = device.reduce();
    assert_eq!(reduce.sum_rows(&none).expect("no sums"), [0.0; 0]);
    assert_eq!(reduce.mean_rows(view::<f32>(&[], 3)).expect("no means"), [0.0; 0]);
    assert_eq!(reduce.standard_deviation_rows(&none).expect("no deviations"), [0.0; 0]);
    assert_eq!(reduce.argmin_rows(view::<f16>(&[], 3)).expect("no places"), [0; 0]);
    let wide = device.distances(&none, &two, Metric::L2, Output::Distance).expect("no distances");
    assert_eq!(reduce.min_rows(&wide).expect("no numbers"), [0.0; 0]);
    let empty = device.distances(&two, &none, Metric::L2, Output::Distance).expect("no distances");
    assert_eq!(reduce.sum_rows(&empty).expect("sums of nothing"), [0.0; 2]);
    assert_eq!(reduce.norm_rows(&empty, Norm::L2).expect("norms of nothing"), [0.0; 2]);
    let said = "values: needed at least one number in every row, given none in row 0";
    assert_eq!(reduce.mean_rows(&empty).expect_err("no mean").to_string(), said);
    assert_eq!(reduce.standard_deviation_rows(&empty).expect_err("no deviation").to_string(), said);
    assert_eq!(reduce.argmax_rows(&empty).expect_err("no place").to_string(), said);
}

#[test_matrix([Adapter, Host])]
fn operands_of_other_shapes_types_and_devices_are_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let other = engine.confined(u64::MAX, 1 << 20).expect("the adapter is there");
    let (values, halves) = ([1.0f32; 12], [f16::ONE; 12]);
    let (ours, theirs) =
        (device.upload(view(&values, 3)).expect("ours"), other.upload(view(&values, 3)).expect("theirs"));
    let reduce = device.reduce();
    let dot = |a: ValueRows<'_>, b: ValueRows<'_>| reduce.dot_rows(a, b).expect_err("refused").to_string();
    let rows = |dim: usize| -> MatrixView<'_, f32> { view(&values, dim) };
    let said = |given: &str| format!("others: needed [4, 3] F32, as the values have, given {given}");
    assert_eq!(dot(rows(3).into(), rows(4).into()), said("[3, 4] F32"));
    assert_eq!(dot(rows(3).into(), view(&halves, 3).into()), said("[4, 3] F16"));
    assert_eq!(dot((&ours).into(), rows(6).into()), said("[2, 6] F32"));
    // All devices of the host engine are one.
    if !has_kernels(device) {
        return;
    }
    assert!(dot((&ours).into(), (&theirs).into()).starts_with("others: needed a matrix on the same device"));
    assert!(dot((&theirs).into(), (&ours).into()).starts_with("values: needed a matrix on the same device"));
    let error = reduce.min_rows(&theirs).expect_err("another device");
    assert!(error.to_string().starts_with("values: needed a matrix on the same device"), "{error}");
    let matrix = other.distances(&theirs, &theirs, Metric::L2, Output::Distance).expect("distances");
    let error = reduce.argmin_rows(&matrix).expect_err("another device");
    assert!(error.to_string().starts_with("values: needed a matrix on the same device"), "{error}");
}

#[test_matrix([Adapter, Host])]
fn operands_that_lie_otherwise_are_refused_whatever_their_shape(engine: Engine) {
    let (Some(device), Some(small)) = (engine.device(), engine.confined(u64::MAX, 24_000)) else { return };
    // In one batch and in several; rows of whole vectors of four, and others.
    for (device, count, length) in [(device, 9, 8), (device, 9, 5), (&small, 200, 8), (device, 3, 4099)] {
        let (distances, values) = distances(device, &mut Random::new(0xd07), count, length);
        let rows = view(&values, length);
        let matrix = device.upload(rows).expect("a matrix");
        let operands: [ValueRows<'_>; 3] = [rows.into(), (&matrix).into(), (&distances).into()];
        for (a, b) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let error = device.reduce().dot_rows(operands[a], operands[b]).expect_err("one lies otherwise");
            assert!(matches!(error, Error::Argument { argument: "others", .. }), "{error}");
        }
        let dots = operands.map(|rows| device.reduce().dot_rows(rows, rows).expect("products"));
        assert_eq!(dots[0], dots[1], "whole numbers");
        assert_eq!(dots[0], dots[2], "whole numbers");
    }
}
