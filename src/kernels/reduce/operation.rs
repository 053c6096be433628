//! The operations of reductions, and the keys and records in which kernels leave their results.

use crate::gpu::{Snippet, wgsl};

/// The largest key: of no value, or of one NaN. As a place: there is none.
const NOTHING: u32 = u32::MAX;
/// Keys of min and max above this one stand for no number.
const LARGEST_NUMBER: u32 = 0xff00_0001;
/// -inf and +inf as integers that order as signed ones; NaNs lie outside.
const ORDERED_MIN: u32 = 0x807f_ffff;
const ORDERED_MAX: u32 = 0x7f80_0000;
/// The key of -0 or +0 under min and max, whichever is smaller; the other is one more.
const ZERO_KEY: u32 = 0x7f80_0000;

/// The keys in WGSL, and the values of the override constant `OPERATION`.
pub(crate) const EXTREMES: Snippet = wgsl!(
    "lib/reduce/extremes",
    NOTHING,
    LARGEST_NUMBER,
    ORDERED_MIN,
    ORDERED_MAX,
    ZERO_KEY,
    OPERATION_DOT = Operation::Dot,
    OPERATION_SUM_ABS = Operation::SumAbs,
    OPERATION_SUM_SQUARES = Operation::SumSquares,
    OPERATION_MAX_ABS = Operation::MaxAbs,
    OPERATION_MAX = Operation::Max,
    OPERATION_ARG_MIN = Operation::ArgMin,
    OPERATION_ARG_MAX = Operation::ArgMax,
);

/// An operation on the values of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The sum of products with other values.
    Dot,
    /// The sum.
    Sum,
    /// The sum of magnitudes.
    SumAbs,
    /// The sum of squares.
    SumSquares,
    /// The largest magnitude.
    MaxAbs,
    /// The smallest number.
    Min,
    /// The largest number.
    Max,
    /// The place of the smallest number, the first of equal ones.
    ArgMin,
    /// The place of the largest number, the first of equal ones.
    ArgMax,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 9] = [
        Self::Dot,
        Self::Sum,
        Self::SumAbs,
        Self::SumSquares,
        Self::MaxAbs,
        Self::Min,
        Self::Max,
        Self::ArgMin,
        Self::ArgMax,
    ];

    /// Whether it adds.
    pub fn is_sum(self) -> bool {
        matches!(self, Self::Dot | Self::Sum | Self::SumAbs | Self::SumSquares)
    }

    /// Whether the result is a place.
    pub fn is_place(self) -> bool {
        matches!(self, Self::ArgMin | Self::ArgMax)
    }

    /// The operation that finds the number whose place is the result.
    pub(crate) fn extreme(self) -> Self {
        match self {
            Self::ArgMin => Self::Min,
            Self::ArgMax => Self::Max,
            other => other,
        }
    }

    /// The key of a number under min, max and their places, as in `wgsl/lib/reduce/extremes.wgsl`.
    pub fn key(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let ordered = bits ^ (((bits as i32) >> 31) as u32 & 0x7fff_ffff);
        let key = match self {
            Self::MaxAbs => !(bits & 0x7fff_ffff),
            Self::Max | Self::ArgMax => ORDERED_MAX.wrapping_sub(ordered),
            _ => ordered.wrapping_sub(ORDERED_MIN),
        };
        if key == ZERO_KEY + 1 { ZERO_KEY } else { key }
    }

    /// The number of a record, or none if the row had none. Only sums and magnitudes give NaN.
    pub fn value(self, record: [u32; 2]) -> Option<f32> {
        let [key, rest] = record;
        let from_ordered =
            |ordered: u32| f32::from_bits(ordered ^ (((ordered as i32) >> 31) as u32 & 0x7fff_ffff));
        match self {
            Self::Dot | Self::Sum | Self::SumAbs | Self::SumSquares => {
                let (sum, error) = (f32::from_bits(key), f32::from_bits(rest));
                // Beside an infinite or NaN sum the error has no meaning.
                let whole = sum.is_finite() && error.is_finite();
                Some(if whole { (f64::from(sum) + f64::from(error)) as f32 } else { sum })
            }
            Self::MaxAbs => Some(f32::from_bits(!key)),
            // The keys of +0 and -0 are one, and stand for +0.
            _ if key == ZERO_KEY => Some(0.0),
            _ if key > LARGEST_NUMBER => None,
            Self::Min | Self::ArgMin => Some(from_ordered(key.wrapping_add(ORDERED_MIN))),
            Self::Max | Self::ArgMax => Some(from_ordered(ORDERED_MAX.wrapping_sub(key))),
        }
    }

    /// The word of a row, as `reduce_rows` writes it: the bits of a sum, a key, or a place (`u32::MAX` without a number).
    pub(crate) fn word(self, record: [u32; 2], place: u32) -> u32 {
        match self.value(record) {
            Some(sum) if self.is_sum() => sum.to_bits(),
            Some(_) if self.is_place() => place,
            None if self.is_place() => NOTHING,
            _ => record[0],
        }
    }
}

/// How sums are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Summation {
    /// In f32: each workgroup, lane and element of a vector has its own sum, and a tree adds them.
    #[default]
    Plain,
    /// With the rounding errors of additions and products kept beside the sum (Ogita, Rump and Oishi, "Accurate sum and dot
    /// product", SIAM J. Sci. Comput. 26, 2005): as if computed in twice the precision and rounded once.
    Compensated,
}

#[cfg(test)]
mod tests {
    use super::Operation;

    #[test]
    fn keys_order_numbers_and_leave_out_what_is_none() {
        let values = [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-40, 0.0, 1e-40, 1.0, f32::MAX, f32::INFINITY];
        for operation in [Operation::Min, Operation::Max] {
            for pair in values.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|value| operation.key(value));
                assert_eq!(a < b, operation == Operation::Min, "{pair:?}");
            }
            for value in values {
                assert_eq!(operation.value([operation.key(value), 0]), Some(value));
                for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
                    assert!(operation.key(nan) > operation.key(value));
                    assert_eq!(operation.value([operation.key(nan), 0]), None);
                }
            }
            assert_eq!(operation.key(-0.0), operation.key(0.0));
            assert_eq!(operation.value([u32::MAX, 0]), None);
        }
    }
}
