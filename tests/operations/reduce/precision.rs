//! Reductions where f32 is too narrow: alternating signs, large numbers that cancel, products that round, squares and sums
//! that leave the range on the way to a result inside it.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::reduce::{Call, Truth, judge, judge_calls, run};
use half::f16;
use nearfield::{Device, Norm, Summation};
use nearfield_testing::Random;
use test_case::test_matrix;

#[test_matrix([Adapter, Host])]
fn alternating_signs_are_summed_within_bounds(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0xa17);
        for length in [3, 1024, 50_001] {
            let signs: Vec<f32> = (0..length).map(|place| if place % 2 == 0 { 1.0 } else { -1.0 }).collect();
            judge(device, &signs, &signs);
            let large: Vec<f32> = signs.iter().map(|sign| sign * 1e8).collect();
            judge(device, &large, &signs);
            // The same with other digits each, so that something is rounded off everywhere.
            let large: Vec<f32> = signs.iter().map(|sign| sign * (1e8 + 4e7 * random.unit())).collect();
            judge(device, &large, &signs);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn what_large_numbers_push_out_of_f32_is_kept_by_compensated_sums(engine: Engine) {
    for device in engine.devices() {
        let mut values = vec![0.1f32; 1_000_000];
        values[0] = 1e8;
        judge_calls(&[Call::Sum], device, &values, &[]);
        values.reverse();
        judge_calls(&[Call::Sum], device, &values, &[]);
        let sum = device.reduce().summation(Summation::Compensated).sum(&values).expect("a sum");
        let want = Truth::new(&values, &[]).value(Call::Sum).expect("a sum");
        assert!((f64::from(sum) - want).abs() / want < 2f64.powi(-23), "{sum}, not {want}");
    }
}

#[test_matrix([Adapter, Host])]
fn large_numbers_that_cancel_leave_the_small_ones_to_compensated_sums(engine: Engine) {
    for device in engine.devices() {
        // In one sum of an invocation, in one vector, in two invocations, groups, blocks.
        for (plus, minus) in [(0, 1024), (1025, 1), (0, 1), (2, 5), (3, 4 * 200), (1, 9000), (4095, 4096)] {
            let mut values = vec![0.1f32; 10_000];
            (values[plus], values[minus]) = (1e8, -1e8);
            judge_calls(&[Call::Sum, Call::Mean, Call::Dot], device, &values, &vec![1.0; 10_000]);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn products_that_cancel_leave_what_they_rounded_off_to_compensated_sums(engine: Engine) {
    for device in engine.devices() {
        // (1 + 2^-12)^2 is 1 + 2^-11 and 2^-24, of which f32 keeps the first alone.
        let (one, pair) = (1.0 + 2f32.powi(-12), [1.0 + 2f32.powi(-12), 1.0]);
        for place in [0, 1, 3, 1000, 4096, 9998] {
            let (mut a, mut b) = (vec![0.0; 10_000], vec![0.0; 10_000]);
            (a[place], a[place + 1]) = (one, -(1.0 + 2f32.powi(-11)));
            (b[place], b[place + 1]) = (pair[0], pair[1]);
            judge(device, &a, &b);
            let dot = device.reduce().summation(Summation::Compensated).dot(&a, &b).expect("a product");
            assert!((dot - 2f32.powi(-24)).abs() <= 2f32.powi(-33), "{dot:e}");
        }
        // Large products and their opposites in another order, with small ones between them.
        let mut random = Random::new(0xd07);
        for length in [300, 20_000] {
            let mut pairs: Vec<(f32, f32)> = vec![];
            for _ in 0..length / 3 {
                let (a, b) = (random.unit() * 1e6, random.unit() * 1e6);
                pairs.extend([(a, b), (b, -a), (random.unit(), random.unit())]);
            }
            random.shuffle(&mut pairs);
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            judge(device, &a, &b);
        }
    }
}

/// Norms, means and deviations, which are scaled where their sums would leave the range.
fn judge_range(device: &Device, values: &[f32]) {
    judge_calls(&[Call::L2, Call::Mean, Call::L1, Call::MaxNorm, Call::Deviation], device, values, &[]);
}

#[test_matrix([Adapter, Host])]
fn norms_means_and_deviations_leave_the_range_of_f32_only_with_their_result(engine: Engine) {
    for device in engine.devices() {
        let mut random = Random::new(0x4a6);
        for length in [1, 3, 100, 5000] {
            // Scaled, 1e30 and 1e-30 are of other passes than what lies between; so are numbers beside the bounds.
            for exponent in
                [-125, -120, -110, -100, -75, -61, -60, -31, -30, -20, 0, 40, 63, 64, 90, 100, 120]
            {
                let values: Vec<f32> =
                    (0..length).map(|_| (1.0 + random.unit() / 4.0) * 2f32.powi(exponent)).collect();
                judge_range(device, &values);
            }
            // Squares of 2^-250 beside squares of 2^200, and all between.
            let values: Vec<f32> =
                (0..length).map(|_| random.unit() * 2f32.powi(random.below(220) as i32 - 120)).collect();
            judge_range(device, &values);
        }
        for values in [
            vec![f32::MAX],
            vec![f32::MAX; 4],
            vec![f32::MAX / 200.0; 10_000],
            vec![f32::MAX / 60.0; 10_000],
            vec![f32::MIN_POSITIVE; 7],
            vec![1e30, 1e-30, 1.0],
            vec![0.0; 100],
        ] {
            judge_range(device, &values);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn means_and_deviations_of_numbers_whose_sums_overflow_in_both_directions_are_numbers(engine: Engine) {
    for device in engine.devices() {
        let most = f32::MAX;
        judge_range(device, &[most, most, -most, -most]);
        judge_range(device, &[most, most, most, -most, -most, -most, 1.0]);
        // The only infinity decides, whatever overflows beside it.
        judge_range(device, &[most, most, f32::NEG_INFINITY, 1.0]);
        // One block of the largest numbers, and one of the smallest.
        let values: Vec<f32> = (0..8192).map(|place| if place < 4096 { most } else { -most }).collect();
        judge_range(device, &values);
    }
}

#[test_matrix([Adapter, Host])]
fn numbers_below_the_normal_ones_count_in_extremes_and_count_or_not_in_norms(engine: Engine) {
    for device in engine.devices() {
        for length in [1, 9, 5000] {
            let values: Vec<f32> = (1..=length).map(|place| f32::from_bits(place as u32 * 3)).collect();
            let on_host = Truth::new(&values, &[]);
            for call in Call::EXTREMES {
                let found = run(device, call, Summation::Plain, (&values).into(), (&values).into());
                on_host.judge(call, Summation::Plain, found, "on the host");
            }
            // "Numbers below 2^-126 may count as 0 in sums."
            let norm = device.reduce().norm(&values, Norm::L2).expect("a norm");
            let want = on_host.value(Call::L2).expect("a norm");
            let off = (f64::from(norm) - want).abs();
            assert!(norm == 0.0 || off <= want * 1e-5 + 2f64.powi(-149), "{norm:e}, not {want:e}");
        }
        // The smallest f16 is no such number.
        let halves = vec![f16::from_bits(1); 100];
        judge(device, &halves, &halves);
    }
}

#[test_matrix([Adapter, Host])]
fn subnormal_f16_of_the_host_are_found_even_where_a_device_takes_them_for_zero(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let smallest = f16::from_bits(1);
    let values = [f16::ONE, smallest, -smallest, f16::from_f32(2.0)];
    assert_eq!(device.reduce().argmin(&values).expect("a place"), 2);
    assert_eq!(device.reduce().argmax(&[-f16::ONE, -smallest, smallest]).expect("a place"), 2);
}
