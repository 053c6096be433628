//! The true result of a reduction, in f64.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nearfield::{Element, Norm, Reduction, Summation};
use rayon::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum How {
    Plain,
    Compensated,
}

impl From<How> for Summation {
    fn from(how: How) -> Self {
        match how {
            How::Plain => Self::Plain,
            How::Compensated => Self::Compensated,
        }
    }
}

/// A result in f64, the sum of magnitudes that its error is relative to, and the number of additions a value may pass through,
/// which is 0 if nothing is added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    value: f64,
    magnitudes: f64,
    additions: f64,
    multiplies: bool,
    /// Whether compensation makes it more precise.
    is_compensated: bool,
}

/// Computes the result in f64 on all threads.
pub(super) fn truth<T: Element>(reduction: Reduction, a: &[T], b: &[T]) -> Result<Truth> {
    let term = |(a, b): (&T, &T)| {
        let (a, b) = (f64::from(a.widen()), f64::from(b.widen()));
        match reduction {
            Reduction::Dot => a * b,
            Reduction::SumSquares | Reduction::Norm(Norm::L2) => a * a,
            Reduction::Norm(Norm::L1 | Norm::Max) => a.abs(),
            _ => a,
        }
    };
    let terms = || a.par_iter().zip(b).map(term);
    let n = a.len() as f64;
    let (sum, magnitudes) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
    let sign = if matches!(reduction, Reduction::Min | Reduction::ArgMin) { 1.0 } else { -1.0 };
    // The first of equal ones.
    let place = || {
        let smaller =
            |a: &(usize, f64), b: &(usize, f64)| (sign * a.1).total_cmp(&(sign * b.1)).then(a.0.cmp(&b.0));
        terms().enumerate().min_by(smaller).context("--length: needed at least 1")
    };
    let mut promised = n.min(300.0 + n / 2f64.powi(22)) + 2.0;
    let (value, magnitudes) = match reduction {
        Reduction::Norm(Norm::L2) => (sum.sqrt(), sum.sqrt()),
        Reduction::Mean => (sum / n, magnitudes / n),
        Reduction::StandardDeviation => {
            let (mean, squares) = (sum / n, terms().map(|x| (x - sum / n).powi(2)).sum::<f64>());
            promised = n.min(252.0) + 4.0;
            let value = (squares / n).sqrt();
            // A share of the mean is left in deviations from it.
            (value, value + mean.abs() / 2f64.powi(16))
        }
        Reduction::ArgMin | Reduction::ArgMax => (place()?.0 as f64, magnitudes),
        _ if reduction.is_summed() => (sum, magnitudes),
        _ => (place()?.1, magnitudes),
    };
    let is_deviation = reduction == Reduction::StandardDeviation;
    let products = [Reduction::Dot, Reduction::SumSquares, Reduction::Norm(Norm::L2)];
    Ok(Truth {
        value,
        magnitudes,
        // The promise of `Reduce`, and two roundings of what is derived from a sum. Extremes are exact.
        additions: if reduction.is_summed() || is_deviation { promised } else { 0.0 },
        multiplies: products.contains(&reduction),
        is_compensated: reduction.is_summed(),
    })
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
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Dot] {
            let truth = truth(reduction, &values, &ones).expect("a sum");
            let off = truth.value + 1e-6 * truth.magnitudes;
            assert!(checked(truth, How::Plain, off).is_ok(), "{reduction}");
            assert!(checked(truth, How::Compensated, off).is_err(), "{reduction}");
            assert!(checked(truth, How::Compensated, truth.value).is_ok(), "{reduction}");
        }
    }

    #[test]
    fn an_extreme_may_have_no_error_under_any_summation() {
        let values = [3.0f32, 1.0, 2.0];
        for how in [How::Plain, How::Compensated] {
            let least = truth(Reduction::Min, &values, &values).expect("an extreme");
            assert!(checked(least, how, 1.0).is_ok() && checked(least, how, 1.0 + 1e-7).is_err());
        }
    }
}
