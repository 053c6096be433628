//! Means, norms and deviations from the sums that kernels compute, and the scale that keeps a sum within the range of f32.

use crate::error::Result;
use crate::kernels::reduce_blocks::Operation;
use crate::memory;

/// The measure to derive from a reduction's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// The result itself.
    Of(Operation),
    /// The sum divided by the count.
    Mean,
    /// The root of the sum of squares.
    Root,
    /// The root of the mean squared deviation from the mean.
    Deviation,
}

impl Measure {
    /// The operation whose result it derives from; none if that is the sum of squared deviations.
    pub(super) fn operation(self) -> Option<Operation> {
        match self {
            Self::Of(operation) => Some(operation),
            Self::Mean => Some(Operation::Sum),
            Self::Root => Some(Operation::SumSquares),
            Self::Deviation => None,
        }
    }

    /// Whether no values have no such measure, although they have a sum.
    pub(super) fn needs_a_value(self) -> bool {
        matches!(self, Self::Mean | Self::Deviation)
    }

    /// Whether this sum left the range of f32, so that values must be scaled and added again.
    pub(super) fn left_the_range(self, sum: f32) -> bool {
        match self {
            Self::Of(_) => false,
            // Not only infinity: parts that overflowed with both signs give NaN.
            Self::Mean => !sum.is_finite(),
            // In a smaller sum, relevant squares may have underflowed.
            Self::Root => sum.is_infinite() || sum < 2f32.powi(-60),
            Self::Deviation => !sum.is_finite() || sum < 2f32.powi(-60),
        }
    }

    /// Turns the sums of rows into measures, and tells which rows left the range of f32. Not part of a future: the compiler makes
    /// better loops here.
    pub(super) fn finish_rows(self, sums: &mut [f32], count: u64) -> Result<Vec<usize>> {
        let many = sums.iter().filter(|&&sum| self.left_the_range(sum)).count();
        let mut again = memory::with_room(many)?;
        again.extend((0..sums.len()).filter(|&row| self.left_the_range(sums[row])));
        sums.iter_mut().for_each(|sum| *sum = self.finish(*sum, 1.0, count));
        Ok(again)
    }

    /// The measure, from the sum of values that were multiplied by `scale`.
    pub(super) fn finish(self, sum: f32, scale: f32, count: u64) -> f32 {
        let (sum, scale) = (f64::from(sum), f64::from(scale));
        match self {
            Self::Of(_) => sum as f32,
            Self::Mean => (sum / scale / count as f64) as f32,
            Self::Root => (sum.sqrt() / scale) as f32,
            // An infinity among the values.
            Self::Deviation if !sum.is_finite() => f32::NAN,
            // No values deviate by more than the largest magnitude; an error of the sum could exceed it.
            Self::Deviation => ((sum / count as f64).sqrt() / scale).min(f32::MAX.into()) as f32,
        }
    }
}

/// A power of two that keeps squares of values up to `largest` in range: a sum of 2^35 of them does not overflow, and no
/// relevant square underflows.
pub(super) fn scale_for(largest: f32) -> f32 {
    let power = |exponent: i32| 2f32.powi(exponent);
    match largest {
        _ if largest == 0.0 || largest.is_nan() => 1.0,
        _ if largest < power(-60) => power(100),
        _ if largest < power(-20) => power(60),
        _ if largest >= power(90) => power(-100),
        _ if largest >= power(40) => power(-60),
        _ => 1.0,
    }
}
