//! Every rung of the ladder of the dot product is right at any length, not only at the 1,024 elements of a tutorial.

use crate::common::reduce::in_parts;
use crate::common::{gpu, without_subgroups};
use half::f16;
use nearfield::internals::kernels::reduce_blocks::{Operation, reference};
use nearfield::internals::ladder::RUNGS;
use nearfield::{Device, DeviceVector, Error, Stages};
use nearfield_testing::Random;

const LENGTHS: [usize; 17] =
    [0, 1, 2, 3, 5, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4097, 70_001, 65_535 * 256 + 1];

/// Checks the dot product of every rung that runs on this device.
fn each_rung(device: &Device, a: &DeviceVector, b: &DeviceVector, mut check: impl FnMut(&str, f32)) {
    for rung in RUNGS {
        match rung.dot(device, a, b, None) {
            Ok(sum) => check(rung.letter, sum),
            Err(Error::Unsupported { .. }) => assert!(["c native", "i"].contains(&rung.letter), "{rung:?}"),
            Err(error) => panic!("{rung:?}: {error}"),
        }
    }
}

fn upload(device: &Device, values: &[f32]) -> DeviceVector {
    device.upload_vector(values).expect("a vector")
}

#[test]
fn whole_numbers_are_exact_on_every_rung_at_every_length() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(0x1ad);
    for length in LENGTHS {
        // Few enough that partial sums stay below 2^24 in any order.
        let most = if length < 100_000 { 10 } else { 1 };
        let (a, b) = (random.integers(length, most), random.integers(length, most));
        let want = reference(Operation::Dot, &a, &b).expect("a sum").0;
        let mut rungs = 0;
        each_rung(device, &upload(device, &a), &upload(device, &b), |letter, sum| {
            assert_eq!(f64::from(sum), want, "rung {letter}, {length} elements");
            rungs += 1;
        });
        assert!(rungs >= RUNGS.len() - 2, "{rungs} rungs");
    }
}

#[test]
fn floats_lie_within_the_bound_of_any_order() {
    for device in [gpu(), without_subgroups()].into_iter().flatten() {
        let mut random = Random::new(0xf10a);
        for length in [1, 2, 7, 250, 1000, 5000, 100_003] {
            let (a, b) = (random.floats(length), random.floats(length));
            let want = reference(Operation::Dot, &a, &b).expect("a sum").0;
            let magnitudes: f64 = a.iter().zip(&b).map(|(x, y)| (f64::from(*x) * f64::from(*y)).abs()).sum();
            let bound = length as f64 * 2f64.powi(-24) * magnitudes;
            each_rung(device, &upload(device, &a), &upload(device, &b), |letter, sum| {
                let off = (f64::from(sum) - want).abs();
                assert!(off <= bound, "rung {letter}, {length} elements: {sum}, not {want}");
            });
        }
    }
}

#[test]
fn vectors_in_several_buffers_are_one_vector() {
    let Some(device) = gpu() else { return };
    let unit = DeviceVector::BUFFER_UNIT as usize;
    let mut random = Random::new(0x5e6);
    let length = 3 * unit + 1001;
    let (a, b) = (random.integers(length, 2), random.integers(length, 2));
    let want = reference(Operation::Dot, &a, &b).expect("a sum").0;
    // The two vectors are cut at different places.
    let (a, b) = (in_parts(device, &a, &[unit, 2 * unit]), in_parts(device, &b, &[2 * unit, 3 * unit]));
    each_rung(device, &a, &b, |letter, sum| assert_eq!(f64::from(sum), want, "rung {letter}"));
}

#[test]
fn what_does_not_fit_is_refused_by_every_rung() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    let (three, four) = (upload(device, &[1.0; 3]), upload(device, &[1.0; 4]));
    let halves = device.upload_vector(&[f16::ONE; 3]).expect("a vector");
    let elsewhere = upload(other, &[1.0; 3]);
    for rung in RUNGS {
        for (b, what) in [(&four, "lengths"), (&halves, "element types"), (&elsewhere, "devices")] {
            let fault = rung.dot(device, &three, b, None).expect_err(what);
            assert!(matches!(fault, Error::Argument { .. }), "rung {}, two {what}: {fault}", rung.letter);
        }
    }
    let without = RUNGS.iter().find(|rung| rung.letter == "i").expect("a rung");
    let fault = without.dot(other, &elsewhere, &elsewhere, None).expect_err("no subgroups").to_string();
    assert_eq!(fault, "rung i: needs subgroup operations, the adapter has none");
}

#[test]
fn a_rung_is_timed_on_the_device_where_it_has_timestamps() {
    let Some(device) = gpu() else { return };
    let ones = upload(device, &[1.0; 5000]);
    for rung in RUNGS {
        let stages = Stages::new();
        if rung.dot(device, &ones, &ones, Some(&stages)).is_ok() {
            let passes: u32 = stages.take().iter().map(|stage| stage.passes).sum();
            assert_eq!(passes > 0, device.capabilities().timestamps, "rung {}", rung.letter);
            assert!(stages.take().is_empty(), "times are taken once");
        }
    }
}
