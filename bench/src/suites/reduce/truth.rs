//! The true result of a reduction, in f64.

use anyhow::{Context, Result, bail, ensure};
use nearfield::internals::kernels::reduce_blocks::{self, Operation};
use rayon::prelude::*;

use super::operation::{How, Name};
use nearfield_cli::given::arguments;

/// A result in f64, the sum of magnitudes that its error is relative to, and the number of additions a value may pass through,
/// which is 0 if nothing is added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) value: f64,
    magnitudes: f64,
    pub(super) additions: f64,
    multiplies: bool,
    /// Whether compensation makes it more precise.
    is_compensated: bool,
}

/// Computes the result in f64 on all threads.
pub(super) fn truth<T: nearfield::Element>(name: Name, a: &[T], b: &[T]) -> Result<Truth> {
    let operation = name.operation();
    let share = a.len().div_ceil(rayon::current_num_threads()).max(1);
    let pieces = a.par_chunks(share).zip(b.par_chunks(share)).enumerate();
    let parts: Vec<_> = pieces
        .map(|(number, (a, b))| {
            let magnitudes: f64 = match operation {
                Operation::Dot => a.iter().zip(b).map(|(a, b)| f64::from(a.widen() * b.widen()).abs()).sum(),
                _ => a.iter().map(|value| f64::from(value.widen()).abs()).sum(),
            };
            let found = reduce_blocks::reference(operation, a, b);
            (found.map(|(value, place)| (value, place.map(|place| place + number * share))), magnitudes)
        })
        .collect();
    let mut best: Option<(f64, Option<usize>)> = None;
    let mut magnitudes = 0.0;
    for part in parts {
        let (Some((value, place)), some) = part else { bail!("{}: no truth", arguments::name(name)) };
        magnitudes += some;
        best = Some(match best {
            None => (value, place),
            Some((least, first)) => match operation {
                Operation::Min | Operation::ArgMin if value >= least => (least, first),
                Operation::Max | Operation::ArgMax | Operation::MaxAbs if value <= least => (least, first),
                _ if operation.is_sum() => (least + value, None),
                _ => (value, place),
            },
        });
    }
    let (value, place) = best.context("--length: needed at least 1")?;
    let mean = value / a.len() as f64;
    let value = match name {
        Name::Mean => mean,
        Name::L2 => value.sqrt(),
        Name::Std => deviation(a, mean),
        _ => place.map_or(value, |place| place as f64),
    };
    let magnitudes = match name {
        Name::Mean => magnitudes / a.len() as f64,
        Name::SumSquares | Name::L1 | Name::L2 => value,
        // A share of the mean that is left in deviations from it.
        Name::Std => value + mean.abs() / 2f64.powi(16),
        _ => magnitudes,
    };
    // The promise of `Reduce`, and two roundings of what is derived from a sum.
    let n = a.len() as f64;
    let additions = match name {
        Name::Std => n.min(252.0) + 4.0,
        _ if operation.is_sum() => n.min(300.0 + n / 2f64.powi(22)) + 2.0,
        _ => 0.0,
    };
    let multiplies = matches!(operation, Operation::Dot | Operation::SumSquares);
    Ok(Truth { value, magnitudes, additions, multiplies, is_compensated: name != Name::Std })
}

/// The root of the mean squared deviation from the mean.
fn deviation<T: nearfield::Element>(values: &[T], mean: f64) -> f64 {
    let squares = values.par_iter().map(|value| (f64::from(value.widen()) - mean).powi(2));
    (squares.sum::<f64>() / values.len() as f64).sqrt()
}

/// The error that docs/reductions.md allows.
fn bound(truth: Truth, how: How) -> f64 {
    let Truth { value, magnitudes, additions, multiplies, is_compensated } = truth;
    let unit = 2f64.powi(-23);
    match how {
        _ if additions == 0.0 => 0.0,
        How::Compensated if is_compensated => {
            let products = if multiplies { 2f64.powi(-32) } else { 0.0 };
            unit * value.abs() + ((additions * unit).powi(2) + products) * magnitudes
        }
        How::Plain | How::Compensated => additions * unit * magnitudes,
    }
}

/// The error of a result relative to the sum of magnitudes. Fails if it exceeds the promised bound.
pub(super) fn checked(truth: Truth, how: How, result: f64) -> Result<f64> {
    let off = (result - truth.value).abs();
    let bound = bound(truth, how);
    ensure!(off <= bound, "the result is {result}, but the truth {}, within {bound}", truth.value);
    Ok(if truth.magnitudes > 0.0 { off / truth.magnitudes } else { off })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compensated_sum_is_held_to_its_own_promise() {
        // Values that cancel leave a small sum of large magnitudes.
        let values: Vec<f32> = (0..4096).map(|place| if place % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let ones = vec![1.0; values.len()];
        for name in [Name::Sum, Name::Mean, Name::Dot] {
            let truth = truth(name, &values, &ones).expect("a sum");
            let off = truth.value + 1e-6 * truth.magnitudes;
            assert!(checked(truth, How::Plain, off).is_ok(), "{name:?}");
            assert!(checked(truth, How::Compensated, off).is_err(), "{name:?}");
            assert!(checked(truth, How::Compensated, truth.value).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn an_extreme_may_have_no_error_under_any_summation() {
        let values = [3.0f32, 1.0, 2.0];
        for how in [How::Plain, How::Compensated] {
            let least = truth(Name::Min, &values, &values).expect("an extreme");
            assert!(checked(least, how, 1.0).is_ok() && checked(least, how, 1.0 + 1e-7).is_err());
        }
    }
}
