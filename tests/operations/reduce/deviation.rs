//! Standard deviations where sums of squares would lose them: far from 0, beside an outlier, at the ends of a type's range.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::reduce::{Call, SUMMATIONS, floats, judge_calls, judge_rows};
use crate::common::{has_kernels, is_nightly};
use half::f16;
use nearfield::{Device, ValueRows, Values};
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

/// Every width of a group, with and without idle lanes; blocks; more blocks.
const LENGTHS: [usize; 22] = [
    1, 2, 3, 15, 16, 17, 63, 65, 127, 129, 255, 511, 512, 513, 1025, 2047, 4093, 4096, 4097, 12_289, 40_001,
    150_001,
];

/// Judges the deviation of these values, as a vector and as rows of a matrix, on the host and on the device, in f32 and rounded
/// to f16.
fn judge(device: &Device, values: &[f32]) {
    judge_calls(&[Call::Deviation], device, values, values);
    let (halves, widened) = rounded(values);
    judge_calls(&[Call::Deviation], device, &halves, &halves);
    let twice: Vec<f32> = [values, values].concat();
    let matrix = device.upload(view(&twice, values.len())).expect("a matrix");
    for rows in [view(&twice, values.len()).into(), (&matrix).into()] {
        judge_rows(&[Call::Deviation], device, values.len(), (rows, &twice), (rows, &twice));
    }
    let rows = view(&halves, values.len()).into();
    judge_rows(&[Call::Deviation], device, values.len(), (rows, &widened), (rows, &widened));
}

/// The lengths that a device judges: without the nightly tier a GPU has every other one.
fn lengths(device: &Device) -> impl Iterator<Item = usize> {
    LENGTHS.into_iter().step_by(if is_nightly() || !has_kernels(device) { 1 } else { 2 })
}

fn deviation<'v>(device: &Device, values: impl Into<Values<'v>>) -> f32 {
    device.reduce().standard_deviation(values).expect("a deviation")
}

fn deviations<'v>(device: &Device, rows: impl Into<ValueRows<'v>>) -> Vec<f32> {
    device.reduce().standard_deviation_rows(rows).expect("deviations")
}

#[test_matrix([Adapter, Host])]
fn equal_values_and_one_value_deviate_by_exactly_nothing(engine: Engine) {
    for device in engine.devices() {
        for length in lengths(device) {
            for value in [0.0, 0.1, -1.0 / 3.0, 1e7 + 1.0, f32::MAX, -f32::MAX, 1.1e-30, f32::MIN_POSITIVE] {
                let values = vec![value; length];
                assert_eq!(deviation(device, &values), 0.0, "{length} times {value:e}");
                assert_eq!(deviation(device, &device.upload_vector(&values).expect("a vector")), 0.0);
                let rows = vec![value; 3 * length];
                let found = deviations(device, view(&rows, length));
                assert_eq!(found, [0.0; 3], "rows of {length} times {value:e}");
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn whole_numbers_around_a_whole_mean_deviate_exactly(engine: Engine) {
    for device in engine.devices() {
        for mean in [0.0, 3.0, 1e6, 9_999_999.0] {
            for half in [1, 3, 17, 100, 2049, 70_000] {
                // The mean of squares is a square: 1, 9 or 25.
                for (far, near, wanted) in [(1.0, 1.0, 1.0), (3.0, 3.0, 3.0), (7.0, 1.0, 5.0)] {
                    let pair = [mean + far, mean - far, mean + near, mean - near];
                    let values: Vec<f32> = pair.into_iter().cycle().take(4 * half).collect();
                    assert_eq!(deviation(device, &values), wanted, "{half} times {pair:?}");
                    let rows = [&values[..], &vec![mean; 4 * half]].concat();
                    let found = deviations(device, view(&rows, 4 * half));
                    assert_eq!(found, [wanted, 0.0], "{half} times {pair:?}");
                }
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn deviations_far_below_the_values_are_found(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x5d0);
        for length in lengths(device) {
            // Neighbours in f32, and some neighbours apart.
            for (offset, step) in
                [(1e7, 1.0), (-1e7, 1.0), (1.0, f32::EPSILON), (1000.0, 1e-3), (1e-15, 1e-21)]
            {
                for most in [1, 100] {
                    let values: Vec<f32> =
                        (0..length).map(|_| offset + step * random.below(most + 1) as f32).collect();
                    judge(device, &values);
                }
            }
            // Their squares would vanish. A matrix on the device holds no such vectors.
            let values: Vec<f32> = (0..length).map(|_| 1e-30 + 1e-36 * random.below(9) as f32).collect();
            judge_calls(&[Call::Deviation], device, &values, &[]);
            // One that differs, by as little as there is.
            let mut values = vec![1e7; length];
            values[length / 2] += 1.0;
            judge(device, &values);
        }
    }
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn an_outlier_and_alternating_signs_hide_no_deviation(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x071);
        for length in lengths(device) {
            let plain = floats(&mut random, length);
            for place in [0, length - 1] {
                for outlier in [1e4, -1e4, 60_000.0] {
                    let mut values = plain.clone();
                    values[place] = outlier;
                    judge(device, &values);
                }
            }
            let large =
                plain.iter().zip(0..).map(|(x, place)| if place % 2 == 0 { 1e4 + x } else { x - 1e4 });
            judge(device, &large.collect::<Vec<f32>>());
            // Blocks that hardly spread, far from each other.
            let steps = plain.iter().zip(0..).map(|(x, place)| (place / 4096 * 100) as f32 + x / 100.0);
            judge(device, &steps.collect::<Vec<f32>>());
        }
    }
}

#[test_matrix([Adapter, Host])]
fn deviations_are_finite_at_the_ends_of_both_types(engine: Engine) {
    for device in engine.devices() {
        for length in lengths(device) {
            let ends = [f32::MAX, -f32::MAX];
            let both: Vec<f32> = ends.into_iter().cycle().take(length).collect();
            judge_calls(&[Call::Deviation], device, &both, &[]);
            if length % 2 == 0 {
                assert_eq!(deviation(device, &both), f32::MAX, "{length}");
            }
            let near: Vec<f32> =
                (0..length).map(|place| f32::MAX * (1.0 - f32::EPSILON * (place % 5) as f32)).collect();
            judge_calls(&[Call::Deviation], device, &near, &[]);
            // 2^-149 and its neighbours: they may count as 0.
            let least: Vec<f32> = (0..length).map(|place| f32::from_bits(place as u32 % 7)).collect();
            judge_calls(&[Call::Deviation], device, &least, &[]);
            let halves = [f16::MAX, f16::MIN, f16::from_bits(1), -f16::from_bits(1), f16::MIN_POSITIVE];
            for some in [&halves[..2], &halves[2..4], &halves[3..], &halves] {
                let values: Vec<f16> = some.iter().copied().cycle().take(length).collect();
                judge_calls(&[Call::Deviation], device, &values, &[]);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn a_vector_deviates_as_one_row_and_whatever_the_summation(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(0x0e);
    for length in [4096 + 1, 50_000] {
        let values = floats(&mut random, length);
        for summation in SUMMATIONS {
            let reduce = device.reduce().summation(summation);
            let vector = reduce.standard_deviation(&values).expect("a deviation");
            assert_eq!(reduce.standard_deviation_rows(view(&values, length)).expect("deviations"), [vector]);
            assert_eq!(vector, deviation(device, &values));
        }
    }
}
