//! Reductions compared with f64, on the host and on the device: every operation, lengths at every edge, exact on whole
//! numbers, within the promised bounds on floats, and NaN, infinities, ties and ranges as `Reduce` documents them.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::reduce::{Call, Truth, floats, judge, judge_calls, run};
use crate::common::{Random, has_kernels, rounded};
use half::f16;
use nearfield::{Device, DeviceVector, Element, Summation, Values};
use test_case::test_matrix;

/// Lengths at which something changes: nothing, vectors of four, lanes, workgroups, blocks, and past 65,535 workgroups.
const LENGTHS: [usize; 20] = [
    0,
    1,
    2,
    3,
    5,
    63,
    64,
    65,
    255,
    256,
    257,
    1023,
    1024,
    1025,
    4095,
    4097,
    40_000,
    262_145,
    1_500_001,
    65_535 * 256 + 1,
];

#[test_matrix([Adapter, Host])]
fn whole_numbers_are_reduced_exactly_whatever_the_length(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x7ed);
        for length in LENGTHS {
            // Few enough that every partial sum of their products is below 2^24.
            let most = if length < 100_000 { 10 } else { 1 };
            let (a, b) = (random.integers(length, most), random.integers(length, most));
            let truth = Truth::new(&a, &b);
            let (a_device, b_device) =
                (device.upload_vector(&a).expect("a vector"), device.upload_vector(&b).expect("a vector"));
            for call in Call::ALL {
                let want = truth.value(call).map(|want| f64::from(want as f32));
                for summation in [Summation::Plain, Summation::Compensated] {
                    let on_host = run(device, call, summation, (&a).into(), (&b).into());
                    let on_device = run(device, call, summation, (&a_device).into(), (&b_device).into());
                    match want {
                        Some(_) if matches!(call, Call::ArgMin | Call::ArgMax) => {
                            let want = truth.value(call);
                            assert_eq!(on_host.ok(), want, "{call:?} of {length}");
                            assert_eq!(on_device.ok(), want, "{call:?} of {length}");
                        }
                        Some(want) => {
                            assert_eq!(on_host.expect("a result"), want, "{call:?} of {length}");
                            assert_eq!(on_device.expect("a result"), want, "{call:?} of {length}");
                        }
                        None => {
                            for result in [on_host, on_device] {
                                let fault = result.expect_err("no number").to_string();
                                assert_eq!(fault, "values: needed at least one number, given none");
                            }
                        }
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
            judge(device, &a, &b);
            if length < 100_000 {
                judge(device, &rounded(&a).0, &rounded(&b).0);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn floats_past_65_535_workgroups_stay_within_the_promised_bounds(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(0xf10b);
    let length = 65_535 * 256 + 1;
    let (a, b) = (floats(&mut random, length), floats(&mut random, length));
    let truth = Truth::new(&a, &b);
    judge_calls(&Call::ALL, &truth, device, &a, &b);
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
                    judge_calls(&[Call::Dot], &Truth::new(a, b), device, a, b);
                }
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn values_that_are_all_nan_hold_no_number(engine: Engine) {
    for device in engine.devices() {
        for length in [1, 8195] {
            let values: Vec<f32> = (0..length).map(|place| f32::from_bits(NAN[place % NAN.len()])).collect();
            judge(device, &values, &values);
            let values: Vec<f16> =
                (0..length).map(|place| f16::from_bits(NAN_F16[place % NAN_F16.len()])).collect();
            judge(device, &values, &values);
            // One number among them is found.
            for number in [f32::NEG_INFINITY, f32::INFINITY, -0.0, f32::MAX] {
                let mut values: Vec<f32> =
                    (0..length).map(|place| f32::from_bits(NAN[place % NAN.len()])).collect();
                values[length / 3] = number;
                judge_calls(&Call::EXTREMES, &Truth::new(&values, &[]), device, &values, &values);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn zeros_of_both_signs_tie_and_are_reported_as_plus_zero(engine: Engine) {
    for device in engine.devices() {
        for length in [1, 2, 5, 4097] {
            for (first, rest) in [(-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0)] {
                for other in [0.0, 1.0, -1.0, f32::NAN] {
                    // In front of the zeros something that is no extreme on one side at least.
                    let mut values = vec![rest; length];
                    (values[0], values[length - 1]) = (other, first);
                    let truth = Truth::new(&values, &[]);
                    judge_calls(&Call::EXTREMES, &truth, device, &values, &values);
                    let halves = rounded(&values).0;
                    judge_calls(&Call::EXTREMES, &truth, device, &halves, &halves);
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
                let uploaded = device.upload_vector(&values).expect("a vector");
                for operand in [Values::from(&values), Values::from(&uploaded)] {
                    assert_eq!(device.reduce().argmin(operand).expect("a place"), 0, "{length} of {value}");
                    assert_eq!(device.reduce().argmax(operand).expect("a place"), 0, "{length} of {value}");
                }
            }
        }
    }
}

/// Numbers in three buffers, each a little longer than its numbers.
fn in_parts<T: Element>(device: &Device, values: &[T]) -> DeviceVector {
    let unit = DeviceVector::BUFFER_UNIT as usize;
    let (first, rest) = values.split_at(unit);
    let (second, third) = rest.split_at(2 * unit);
    let bench = crate::common::bench::Bench::new(device);
    let buffers = [first, second, third].map(|part| {
        let mut bytes: Vec<u8> = bytemuck::cast_slice(part).to_vec();
        bytes.resize(bytes.len().next_multiple_of(16) + 64, 0xff);
        (bench.input(&bytes), part.len() as u64)
    });
    DeviceVector::from_wgpu(device, T::KIND, &buffers).expect("a vector")
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
            let parts = has_kernels(device).then(|| in_parts(device, &halves));
            let operands = [Values::from(&halves), (&widened).into(), (&uploaded).into()];
            for call in Call::EXTREMES {
                for operand in operands.into_iter().chain(parts.as_ref().map(Values::from)) {
                    let found = run(device, call, Summation::Plain, operand, operand);
                    truth.judge(call, Summation::Plain, found).unwrap_or_else(|fault| panic!("{fault}"));
                }
            }
        }
    }
}
