//! Reductions compared with f64, on the host and on the device: every operation, lengths at every edge, exact on whole
//! numbers, within the promised bounds on floats, and NaN, infinities, ties and ranges as `Reduce` documents them.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::has_kernels;
use crate::common::reduce::{Call, NO_NUMBER, SUMMATIONS, Truth, floats, in_parts, judge, judge_calls, run};
use half::f16;
use nearfield::{Device, DeviceVector, Reduced, Reduction, Summation, ValueRows, Values};
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

/// Lengths at which something changes: nothing, vectors of four, lanes, workgroups, blocks, and past 65,535 workgroups.
const LENGTHS: [usize; 20] = [
    0, 1, 2, 3, 5, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4095, 4097, 40_000, 262_145, 1_500_001,
    LONGEST,
];
const LONGEST: usize = 65_535 * 256 + 1;

#[test_matrix([Adapter, Host])]
fn whole_numbers_are_reduced_exactly_whatever_the_length(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x7ed);
        for length in LENGTHS {
            // Few enough that every partial sum of their products is below 2^24.
            let most = if length < 100_000 { 10 } else { 1 };
            let (a, b) = (random.integers(length, most), random.integers(length, most));
            let truth = Truth::new(&a, &b);
            let [a_device, b_device] = [&a, &b].map(|values| device.upload_vector(values).expect("a vector"));
            let operands: [[Values<'_>; 2]; 2] =
                [[(&a).into(), (&b).into()], [(&a_device).into(), (&b_device).into()]];
            // The longest take long, and differ in the number of workgroups alone.
            let calls = if length < 100_000 { &Call::ALL[..] } else { &[Call::Dot, Call::Sum, Call::ArgMax] };
            // The squared deviations of whole numbers are no whole numbers.
            for &call in calls.iter().filter(|&&call| call != Call::Deviation) {
                let want = truth.value(call).map(|want| f64::from(want as f32));
                for (summation, [a, b]) in
                    SUMMATIONS.into_iter().flat_map(|one| operands.map(|two| (one, two)))
                {
                    match (run(device, call, summation, a, b), want) {
                        (Ok(found), Some(want)) => assert_eq!(found, want, "{call:?} of {length}"),
                        (Err(error), None) => assert_eq!(error.to_string(), NO_NUMBER),
                        (found, want) => panic!("{call:?} of {length}: {found:?}, not {want:?}"),
                    }
                }
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn floats_stay_within_the_promised_bounds_whatever_the_length(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0xf10a);
        let anywhere: Vec<usize> = (0..4).map(|_| random.below(50_000)).collect();
        // Blocks are of 4096 numbers here, and of 8192 from the last length on.
        let edges = [4096, 8191, 8192, 8193, 4 * (1 << 20) + 1];
        for length in LENGTHS.into_iter().filter(|&length| length < 100_000).chain(edges).chain(anywhere) {
            let (a, b) = (floats(&mut random, length), floats(&mut random, length));
            if length > 100_000 {
                judge_calls(&[Call::Dot, Call::Mean, Call::Deviation], device, &a, &b);
            } else {
                judge(device, &a, &b);
                judge(device, &rounded(&a).0, &rounded(&b).0);
            }
        }
    }
}

/// NaN of both signs and of several payloads.
const NAN: [u32; 7] =
    [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xff80_0001, 0x7fff_ffff, 0xffff_ffff, 0x7fa0_1000];
const NAN_F16: [u16; 6] = [0x7e00, 0xfe00, 0x7c01, 0xfc01, 0x7fff, 0xffff];

#[test_matrix([Adapter, Host])]
fn nan_and_infinity_give_what_is_documented_wherever_they_are(engine: Engine) {
    const INFINITIES: [&[f32]; 4] = [
        &[f32::INFINITY],
        &[f32::NEG_INFINITY],
        &[f32::INFINITY, f32::NEG_INFINITY],
        &[f32::NEG_INFINITY, f32::NAN],
    ];
    for device in engine.devices() {
        let mut random = Random::new(0x0a0);
        for length in [6, 9001] {
            let (plain, others) = (random.floats(length), random.floats(length));
            let (halves, halves_of_others) = (rounded(&plain).0, rounded(&others).0);
            // Start, middle, end, and the start of the last vector.
            let places = [0, length / 2, length - 1, (length - 1) / 4 * 4];
            for (turn, &place) in places.iter().enumerate() {
                let mut values = plain.clone();
                values[place] = f32::from_bits(NAN[(turn * 2 + length) % NAN.len()]);
                judge(device, &values, &others);
                let mut values = halves.clone();
                values[place] = f16::from_bits(NAN_F16[(turn + length) % NAN_F16.len()]);
                judge(device, &values, &halves_of_others);
            }
            for infinities in INFINITIES {
                let mut values = plain.clone();
                for (turn, &infinity) in infinities.iter().enumerate() {
                    values[places[2 - turn]] = infinity;
                }
                judge(device, &values, &others);
                judge(device, &rounded(&values).0, &halves_of_others);
                // Nothing times an infinity, and an infinity among the others.
                let zeros = vec![0.0; length];
                for (a, b) in [(&values, &zeros), (&others, &values)] {
                    judge_calls(&[Call::Dot], device, a, b);
                }
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn values_that_are_all_nan_hold_no_number(engine: Engine) {
    for device in engine.devices() {
        for length in [1, 8195] {
            let mut values: Vec<f32> =
                (0..length).map(|place| f32::from_bits(NAN[place % NAN.len()])).collect();
            judge(device, &values, &values);
            let halves: Vec<f16> =
                (0..length).map(|place| f16::from_bits(NAN_F16[place % NAN_F16.len()])).collect();
            judge(device, &halves, &halves);
            // One number among them is found.
            for number in [f32::NEG_INFINITY, f32::INFINITY, -0.0, f32::MAX] {
                values[length / 3] = number;
                judge_calls(&Call::EXTREMES, device, &values, &values);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn zeros_of_both_signs_tie_and_are_reported_as_plus_zero(engine: Engine) {
    for device in engine.devices() {
        for length in [1, 5, 4097] {
            for (first, rest) in [(-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0)] {
                for other in [0.0, 1.0, f32::NAN] {
                    // In front of the zeros something that is no extreme on one side at least.
                    let mut values = vec![rest; length];
                    (values[0], values[length - 1]) = (other, first);
                    judge_calls(&Call::EXTREMES, device, &values, &values);
                    let halves = rounded(&values).0;
                    judge_calls(&Call::EXTREMES, device, &halves, &halves);
                }
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn of_equal_numbers_the_first_is_found(engine: Engine) {
    for device in engine.devices() {
        for length in [1, 2, 3, 4, 5, 63, 65, 257, 1025, 4097, 12_289, 100_001] {
            for value in [0.0, -3.5, f32::INFINITY, 1e-42] {
                let values = vec![value; length];
                judge_calls(&[Call::ArgMin, Call::ArgMax], device, &values, &values);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn of_extremes_across_lanes_blocks_and_buffers_the_first_is_found(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x71e5);
        let length = 4 * DeviceVector::BUFFER_UNIT as usize + 7;
        for turn in 0..12 {
            let mut values = random.floats(length);
            for extreme in [-9.0, 9.0] {
                // Few or many, all over or near the end.
                for _ in 0..1 + random.below(6) {
                    let spread = if turn % 2 == 0 { length } else { 5000 };
                    values[length - 1 - random.below(spread)] = extreme;
                }
            }
            let (halves, widened) = rounded(&values);
            let truth = Truth::new(&widened, &widened);
            let uploaded = device.upload_vector(&halves).expect("a vector");
            let unit = DeviceVector::BUFFER_UNIT as usize;
            let parts = has_kernels(device).then(|| in_parts(device, &halves, &[unit, 3 * unit]));
            let operands = [Values::from(&halves), (&widened).into(), (&uploaded).into()];
            for call in Call::EXTREMES {
                for operand in operands.into_iter().chain(parts.as_ref().map(Values::from)) {
                    let found = run(device, call, Summation::Plain, operand, operand);
                    truth.judge(call, Summation::Plain, found, "in buffers");
                }
            }
        }
    }
}

#[test]
fn every_reduction_by_name_is_its_method() {
    let (device, values) = (Device::host(), [3.0f32, -4.0, 1.0, 0.5]);
    let reduce = device.reduce();
    let rows = view(&values, 2);
    let wanted = [0.5, 26.25, 0.125, 8.5, 26.25f32.sqrt(), 4.0, 2.558_686, -4.0, 3.0, 1.0, 0.0, 26.25];
    for (reduction, wanted) in Reduction::ALL.into_iter().zip(wanted) {
        let is_dot = reduction == Reduction::Dot;
        let others = is_dot.then(|| Values::from(&values));
        let of_all = match reduce.run(reduction, &values, others).expect("a result") {
            Reduced::Values(values) => values[0],
            Reduced::Places(places) => places[0] as f32,
        };
        assert!((of_all - wanted).abs() < 1e-5, "{reduction}: {of_all}, needed {wanted}");
        let others = is_dot.then(|| ValueRows::from(rows));
        let count = match reduce.run_rows(reduction, rows, others).expect("results") {
            Reduced::Values(values) => values.len(),
            Reduced::Places(places) => places.len(),
        };
        assert_eq!(count, 2, "{reduction}");
    }
    for (reduction, others) in [(Reduction::Dot, None), (Reduction::Sum, Some(Values::from(&values)))] {
        let refused = reduce.run(reduction, &values, others).expect_err("other operands");
        assert!(refused.to_string().starts_with("others: needed "), "{refused}");
    }
}
