//! Reductions as values, with names: for programs whose users choose one.

use std::fmt;
use std::str::FromStr;

use super::measure::Measure;
use super::{Norm, Reduce};
use crate::engine::{ValueRows, Values};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::kernels::reduce_blocks::Operation;

/// A reduction of [`Reduce`], by the name that [`FromStr`] reads and `Display` writes.
///
/// ```
/// use nearfield::{Device, Reduced, Reduction};
///
/// let reduction: Reduction = "norm-max".parse()?;
/// let found = Device::host().reduce().run(reduction, &[1.0f32, -3.0], None)?;
/// assert_eq!(found, Reduced::Values(vec![3.0]));
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// [`Reduce::sum`]: `sum`.
    Sum,
    /// [`Reduce::sum_squares`]: `sum-squares`.
    SumSquares,
    /// [`Reduce::mean`]: `mean`.
    Mean,
    /// [`Reduce::norm`]: `norm-l1`, `norm-l2` or `norm-max`.
    Norm(Norm),
    /// [`Reduce::standard_deviation`]: `std`.
    StandardDeviation,
    /// [`Reduce::min`]: `min`.
    Min,
    /// [`Reduce::max`]: `max`.
    Max,
    /// [`Reduce::argmin`]: `argmin`.
    ArgMin,
    /// [`Reduce::argmax`]: `argmax`.
    ArgMax,
    /// [`Reduce::dot`], of two operands: `dot`.
    Dot,
}

/// What [`Reduce::run`] returns: one number, or one of each row.
#[derive(Debug, Clone, PartialEq)]
pub enum Reduced {
    /// Of most reductions.
    Values(Vec<f32>),
    /// Of `argmin` and `argmax`: indices.
    Places(Vec<u64>),
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Self; 12] = [
        Self::Sum,
        Self::SumSquares,
        Self::Mean,
        Self::Norm(Norm::L1),
        Self::Norm(Norm::L2),
        Self::Norm(Norm::Max),
        Self::StandardDeviation,
        Self::Min,
        Self::Max,
        Self::ArgMin,
        Self::ArgMax,
        Self::Dot,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::SumSquares => "sum-squares",
            Self::Mean => "mean",
            Self::Norm(Norm::L1) => "norm-l1",
            Self::Norm(Norm::L2) => "norm-l2",
            Self::Norm(Norm::Max) => "norm-max",
            Self::StandardDeviation => "std",
            Self::Min => "min",
            Self::Max => "max",
            Self::ArgMin => "argmin",
            Self::ArgMax => "argmax",
            Self::Dot => "dot",
        }
    }

    /// Whether [`Summation`](crate::Summation) has an effect on it.
    pub fn is_summed(self) -> bool {
        matches!(self, Self::Sum | Self::SumSquares | Self::Mean | Self::Dot)
            || matches!(self, Self::Norm(Norm::L1 | Norm::L2))
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Reduction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|reduction| reduction.name() == text);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| Error::argument("operation", format!("one of {}", names()), text))
    }
}

/// What computes a reduction.
enum How {
    Measure(Measure),
    Place(Operation),
    Product,
}

impl Reduction {
    /// An error if `dot` has one operand, or another reduction two.
    fn how(self, has_others: bool) -> Result<How> {
        match (self, has_others) {
            (Self::Dot, false) => return Err(Error::argument("others", "the other operand of dot", "none")),
            (Self::Dot, true) => {}
            (_, true) => return Err(Error::argument("others", format!("none for {self}"), "some")),
            _ => {}
        }
        Ok(match self {
            Self::Sum => How::Measure(Measure::Of(Operation::Sum)),
            Self::SumSquares => How::Measure(Measure::Of(Operation::SumSquares)),
            Self::Mean => How::Measure(Measure::Mean),
            Self::Norm(norm) => How::Measure(norm.measure()),
            Self::StandardDeviation => How::Measure(Measure::Deviation),
            Self::Min => How::Measure(Measure::Of(Operation::Min)),
            Self::Max => How::Measure(Measure::Of(Operation::Max)),
            Self::ArgMin => How::Place(Operation::ArgMin),
            Self::ArgMax => How::Place(Operation::ArgMax),
            Self::Dot => How::Product,
        })
    }
}

impl Reduce<'_> {
    blocking_and_async! { self.device;
        /// Any reduction, as the method of its name computes it: one result. `others` is the second operand of
        /// [`Dot`](Reduction::Dot), and none for the others.
        ///
        /// # Errors
        /// As that method; [`Error::Argument`] if the number of operands is another.
        pub fn run<'v>(
            &self,
            reduction: Reduction,
            values: impl Into<Values<'v>>,
            others: Option<Values<'v>>,
        ) -> Result<Reduced> {
            self.run_boxed(reduction, values.into(), others)
        }
        async run_async;

        /// [`Reduce::run`] of every row: one result each, `[rows]`.
        ///
        /// # Errors
        /// As there; if a row has no result, the error names it.
        pub fn run_rows<'v>(
            &self,
            reduction: Reduction,
            values: impl Into<ValueRows<'v>>,
            others: Option<ValueRows<'v>>,
        ) -> Result<Reduced> {
            self.run_rows_boxed(reduction, values.into(), others)
        }
        async run_rows_async;
    }

    fn run_boxed<'a>(
        &'a self,
        reduction: Reduction,
        values: Values<'a>,
        others: Option<Values<'a>>,
    ) -> Boxed<'a, Reduced> {
        Box::pin(async move {
            Ok(match (reduction.how(others.is_some())?, others) {
                (How::Place(place), _) => Reduced::Places(vec![self.place(place, values).await?]),
                (How::Measure(measure), _) => Reduced::Values(vec![self.measure(measure, values).await?]),
                (How::Product, others) => {
                    Reduced::Values(vec![self.product(values, others.unwrap_or(values)).await?])
                }
            })
        })
    }

    fn run_rows_boxed<'a>(
        &'a self,
        reduction: Reduction,
        values: ValueRows<'a>,
        others: Option<ValueRows<'a>>,
    ) -> Boxed<'a, Reduced> {
        Box::pin(async move {
            Ok(match (reduction.how(others.is_some())?, others) {
                (How::Place(place), _) => Reduced::Places(self.place_rows(place, values).await?),
                (How::Measure(measure), _) => Reduced::Values(self.measure_rows(measure, values).await?),
                (How::Product, others) => {
                    Reduced::Values(self.product_rows(values, others.unwrap_or(values)).await?)
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for reduction in Reduction::ALL {
            assert_eq!(reduction.to_string().parse::<Reduction>().expect("its name"), reduction);
        }
        let refused = "median".parse::<Reduction>().expect_err("no reduction").to_string();
        assert!(refused.starts_with("operation: needed one of sum, sum-squares, "), "{refused}");
    }
}
