//! Reductions against f64, on the host and on the device: every operation, lengths at every edge, exact on whole numbers.

mod common;

use common::{Random, confined, gpu, rounded, view, without_subgroups};
use half::f16;
use nearfield::kernels::reduce::{Operation, reference};
use nearfield::{Device, DeviceVector, Error, MatrixView, Metric, Norm, Output, Result, Summation, Values};

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

/// A result of any operation: a number, or a place.
fn run(
    device: &Device,
    operation: Operation,
    summation: Summation,
    values: Values<'_>,
    others: Values<'_>,
) -> Result<f64> {
    let reduce = device.reduce().summation(summation);
    Ok(match operation {
        Operation::Dot => reduce.dot(values, others)?.into(),
        Operation::Sum => reduce.sum(values)?.into(),
        Operation::SumAbs => reduce.norm(values, Norm::L1)?.into(),
        Operation::SumSquares => reduce.sum_squares(values)?.into(),
        Operation::MaxAbs => reduce.norm(values, Norm::Max)?.into(),
        Operation::Min => reduce.min(values)?.into(),
        Operation::Max => reduce.max(values)?.into(),
        Operation::ArgMin => reduce.argmin(values)? as f64,
        Operation::ArgMax => reduce.argmax(values)? as f64,
    })
}

/// The same in f64; none where there is no number.
fn truth<T: nearfield::Element>(operation: Operation, values: &[T], others: &[T]) -> Option<f64> {
    reference(operation, values, others).map(|(value, place)| place.map_or(value, |place| place as f64))
}

#[test]
fn whole_numbers_are_reduced_exactly_whatever_the_length() {
    for device in [gpu(), without_subgroups()].into_iter().flatten() {
        let mut random = Random::new(0x7ed);
        for length in LENGTHS {
            // Few enough that every partial sum of their products is below 2^24.
            let most = if length < 100_000 { 10 } else { 1 };
            let (a, b) = (random.integers(length, most), random.integers(length, most));
            let (a_device, b_device) =
                (device.upload_vector(&a).expect("a vector"), device.upload_vector(&b).expect("a vector"));
            for operation in Operation::ALL {
                let want = truth(operation, &a, &b);
                for summation in [Summation::Plain, Summation::Compensated] {
                    let on_host = run(device, operation, summation, (&a).into(), (&b).into());
                    let on_device = run(device, operation, summation, (&a_device).into(), (&b_device).into());
                    match want {
                        Some(want) => {
                            assert_eq!(on_host.expect("a result"), want, "{operation:?} of {length}");
                            assert_eq!(on_device.expect("a result"), want, "{operation:?} of {length}");
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
