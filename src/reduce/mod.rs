//! `Reduce`: sums, dot products, norms, extremes and standard deviations of a vector or of every row of a matrix.

mod measure;
pub(crate) mod named;

use crate::engine::{
    Device, Job, Stages, ValueRows, Values, reduce_rows, reduce_vector, squared_deviations,
    squared_deviations_rows,
};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::kernels::reduce_blocks::{Operation, Summation};
use crate::memory;
use crate::options::setters;
use measure::{Measure, scale_for};

/// A norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Norm {
    /// The sum of absolute values.
    L1,
    /// The square root of the sum of squares. Intermediate results neither overflow nor underflow: only a norm beyond f32 is
    /// infinite, and only one below 2^-126 may be 0.
    L2,
    /// The largest absolute value.
    Max,
}

/// Reductions on a device, returned by [`Device::reduce`]: sums, dot products, norms, extremes and standard deviations of
/// vectors of any length, and of every row of a matrix.
///
/// Operands are either on the host (`&[f32]`, `&[f16]`, `&[i8]` and the like), which are sent to the device in pieces within the scratch budget, or on
/// the device ([`DeviceVector`](crate::DeviceVector), [`DeviceMatrix`](crate::DeviceMatrix),
/// [`DistanceMatrix`](crate::DistanceMatrix)). Other types are widened and accumulated in f32.
///
/// - **Deterministic**: on one adapter the same values give the same bits on every call, on the host or on the device. The order
///   of additions depends only on the length. (Rows have their own order, which in a
///   [`DistanceMatrix`](crate::DistanceMatrix) also depends on where the row starts. A device opened without subgroups has
///   another order.)
/// - **Precision** of a sum of `n` terms: the error is at most `min(n, 300 + n / 2^22) 2^-23` times the sum of their magnitudes,
///   and usually far smaller. [`Summation::Compensated`] adds as if in twice the precision and rounds once: the error is at most
///   `2^-23` times the result plus `(300 + n / 2^22)^2 2^-46` times the sum of magnitudes, and another `2^-32` times that sum if
///   terms are products. Numbers and errors below 2^-126 may count as 0. A sum with an intermediate result beyond f32 is infinite
///   or NaN. docs/reductions.md proves the bounds and gives the cost of compensation. The host engine always adds in f64 and
///   rounds once.
/// - **Precision** of a standard deviation of `n` values: the error is at most `2^-15` times the result plus `2^-31 + n / 2^62` times
///   the magnitude of the mean, and usually far smaller. Errors below 2^-126 do not count. Intermediate results neither overflow
///   nor underflow: the standard deviation of finite values is finite.
/// - **NaN and infinity**: sums, dot products and norms follow IEEE 754: a NaN among the terms, or infinities of both signs, give
///   NaN; infinities of one sign give that infinity. A standard deviation is NaN if a value is NaN or infinite. `min`, `max`,
///   `argmin` and `argmax` ignore NaN, as [`Device::top_k`] does. They treat infinities like other numbers; -0 equals +0 and is
///   reported as +0.
/// - **Ties** of `argmin` and `argmax` go to the smaller index.
/// - **Empty operands**: sums, dot products and norms of no values are 0. A mean or a standard deviation of no values is an error,
///   and so is an extreme if there is no value or only NaN.
///
/// ```no_run
/// use nearfield::{Device, MatrixView, Norm, Summation};
/// let device = Device::best()?;
/// let (a, b) = ([1.0f32, 2.0, 3.0], [4.0f32, 5.0, 6.0]);
/// assert_eq!(device.reduce().dot(&a, &b)?, 32.0);
/// assert_eq!(device.reduce().norm(&[3.0, -4.0], Norm::L2)?, 5.0);
/// assert_eq!(device.reduce().standard_deviation(&[999_999.0, 1_000_001.0])?, 1.0);
/// let on_device = device.upload_vector(&a)?; // for several calls
/// assert_eq!(device.reduce().argmax(&on_device)?, 2);
/// assert_eq!(device.reduce().summation(Summation::Compensated).sum(&on_device)?, 6.0);
/// assert_eq!(device.reduce().min_rows(MatrixView::new(&[2.0f32, 1.0, 8.0, 9.0], 2)?)?, [1.0, 8.0]);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Reduce<'d> {
    device: &'d Device,
    summation: Summation,
    stages: Option<&'d Stages>,
}

impl Device {
    /// Reductions on this device.
    pub fn reduce(&self) -> Reduce<'_> {
        Reduce { device: self, summation: Summation::Plain, stages: None }
    }
}

/// Defines the functions of a reduction: for a vector and for every row, each in a blocking and an async form.
macro_rules! reductions {
    ($result:ty, $of:ident, $of_rows:ident; $(
        $(#[$doc:meta])*
        $name:ident $name_async:ident $rows:ident $rows_async:ident $(($norm:ident: $Norm:ty))? => $what:expr;
    )*) => {
        impl Reduce<'_> {$(
            blocking_and_async! { self.device;
                $(#[$doc])*
                ///
                /// # Errors
                /// [`Error::Argument`] if there is no result (see [`Reduce`]), or for values of another device;
                /// [`Error::Budget`], [`Error::OutOfMemory`], [`Error::DeviceLost`].
                pub fn $name<'v>(&self, values: impl Into<Values<'v>> $(, $norm: $Norm)?) -> Result<$result> {
                    self.$of($what, values.into())
                }
                async $name_async;

                #[doc = concat!("[`Reduce::", stringify!($name), "`] of every row, `[rows]`.")]
                ///
                /// # Errors
                /// As there; if a row has no result, the error names it.
                pub fn $rows<'v>(&self, values: impl Into<ValueRows<'v>> $(, $norm: $Norm)?) -> Result<Vec<$result>> {
                    self.$of_rows($what, values.into())
                }
                async $rows_async;
            }
        )*}
    };
}

reductions! { f32, measure, measure_rows;
    /// The sum.
    sum sum_async sum_rows sum_rows_async => Measure::Of(Operation::Sum);
    /// The sum of squares.
    sum_squares sum_squares_async sum_squares_rows sum_squares_rows_async => Measure::Of(Operation::SumSquares);
    /// The sum divided by the count. It overflows only if the mean itself does.
    mean mean_async mean_rows mean_rows_async => Measure::Mean;
    /// The standard deviation: the root of the mean squared deviation from the mean. It divides by the count, as numpy's `std`
    /// does by default. One value, and equal values, give 0. It is accurate also where values lie far from 0 and close together,
    /// with any [`Summation`].
    standard_deviation standard_deviation_async standard_deviation_rows standard_deviation_rows_async
        => Measure::Deviation;
    /// A norm.
    norm norm_async norm_rows norm_rows_async(norm: Norm) => norm.measure();
    /// The smallest number.
    min min_async min_rows min_rows_async => Measure::Of(Operation::Min);
    /// The largest number.
    max max_async max_rows max_rows_async => Measure::Of(Operation::Max);
}

reductions! { u64, place, place_rows;
    /// The index of the smallest number, or of the first if several are equal.
    argmin argmin_async argmin_rows argmin_rows_async => Operation::ArgMin;
    /// The index of the largest number, or of the first if several are equal.
    argmax argmax_async argmax_rows argmax_rows_async => Operation::ArgMax;
}

impl<'d> Reduce<'d> {
    setters! { options => options;
        /// Sets how sums, dot products, means, L1 and L2 norms are added.
        summation: Summation;
        /// Records the device time of each call, if the adapter has timestamps.
        stages: &'d Stages => Some;
    }

    blocking_and_async! { self.device;
        /// The dot product of two vectors of equal length and element type.
        ///
        /// # Errors
        /// [`Error::Argument`] for operands that do not match, or of another device; [`Error::Budget`],
        /// [`Error::OutOfMemory`], [`Error::DeviceLost`].
        pub fn dot<'v>(&self, values: impl Into<Values<'v>>, others: impl Into<Values<'v>>) -> Result<f32> {
            self.product(values.into(), others.into())
        }
        async dot_async;

        /// The dot product of each row of one matrix with the same row of another, `[rows]`. Both operands must be of the same
        /// kind: on the host, [`DeviceMatrix`](crate::DeviceMatrix), or [`DistanceMatrix`](crate::DistanceMatrix).
        ///
        /// # Errors
        /// As [`Reduce::dot`].
        pub fn dot_rows<'v>(
            &self,
            values: impl Into<ValueRows<'v>>,
            others: impl Into<ValueRows<'v>>,
        ) -> Result<Vec<f32>> {
            self.product_rows(values.into(), others.into())
        }
        async dot_rows_async;
    }

    fn job(&self, operation: Operation, scale: f32) -> Job<'d> {
        Job { operation, summation: self.summation, scale, stages: self.stages }
    }

    fn product<'a>(&'a self, values: Values<'a>, others: Values<'a>) -> Boxed<'a, f32> {
        Box::pin(async move {
            let job = self.job(Operation::Dot, 1.0);
            let reduced = reduce_vector(&self.device.engine, job, values, Some(others)).await?;
            Operation::Dot.value(reduced.record).ok_or_else(no_number)
        })
    }

    fn product_rows<'a>(&'a self, values: ValueRows<'a>, others: ValueRows<'a>) -> Boxed<'a, Vec<f32>> {
        Box::pin(async move {
            let job = self.job(Operation::Dot, 1.0);
            numbers(Operation::Dot, reduce_rows(&self.device.engine, job, values, Some(others)).await?)
        })
    }

    fn place<'a>(&'a self, operation: Operation, values: Values<'a>) -> Boxed<'a, u64> {
        Box::pin(async move {
            let reduced = reduce_vector(&self.device.engine, self.job(operation, 1.0), values, None).await?;
            operation.value(reduced.record).map(|_| reduced.place).ok_or_else(no_number)
        })
    }

    fn place_rows<'a>(&'a self, operation: Operation, values: ValueRows<'a>) -> Boxed<'a, Vec<u64>> {
        Box::pin(async move {
            let places = reduce_rows(&self.device.engine, self.job(operation, 1.0), values, None).await?;
            if let Some(row) = places.iter().position(|&place| place == u32::MAX) {
                return Err(no_number_in(row));
            }
            memory::collect(places.into_iter().map(u64::from))
        })
    }

    fn measure<'a>(&'a self, measure: Measure, values: Values<'a>) -> Boxed<'a, f32> {
        Box::pin(async move {
            let count = values.len();
            if measure.needs_a_value() && count == 0 {
                return Err(no_number());
            }
            let first = self.sum_for(measure, 1.0, values).await?;
            if !measure.left_the_range(first) {
                return Ok(measure.finish(first, 1.0, count));
            }
            let scale = scale_for(self.sum_for(Measure::Of(Operation::MaxAbs), 1.0, values).await?);
            if scale == 1.0 {
                return Ok(measure.finish(first, 1.0, count));
            }
            Ok(measure.finish(self.sum_for(measure, scale, values).await?, scale, count))
        })
    }

    fn measure_rows<'a>(&'a self, measure: Measure, values: ValueRows<'a>) -> Boxed<'a, Vec<f32>> {
        Box::pin(async move {
            let count = values.length() as u64;
            if measure.needs_a_value() && count == 0 && values.rows() > 0 {
                return Err(no_number_in(0));
            }
            let mut results = self.sums_for(measure, 1.0, values).await?;
            let again = measure.finish_rows(&mut results, count)?;
            if again.is_empty() {
                return Ok(results);
            }
            // One pass for each scale that a row needs. Scales are coarse, so there are few.
            let largest = self.sums_for(Measure::Of(Operation::MaxAbs), 1.0, values).await?;
            let mut scales = vec![];
            for scale in again.iter().map(|&row| scale_for(largest[row])) {
                if scale != 1.0 && !scales.contains(&scale) {
                    scales.push(scale);
                }
            }
            for scale in scales {
                let scaled = self.sums_for(measure, scale, values).await?;
                for &row in again.iter().filter(|&&row| scale_for(largest[row]) == scale) {
                    results[row] = measure.finish(scaled[row], scale, count);
                }
            }
            Ok(results)
        })
    }

    /// The sum or extreme of scaled values that a measure derives from.
    fn sum_for<'a>(&'a self, measure: Measure, scale: f32, values: Values<'a>) -> Boxed<'a, f32> {
        Box::pin(async move {
            let engine = &self.device.engine;
            let Some(operation) = measure.operation() else {
                return squared_deviations(engine, (scale, self.stages), values).await;
            };
            let found = reduce_vector(engine, self.job(operation, scale), values, None).await?;
            operation.value(found.record).ok_or_else(no_number)
        })
    }

    /// The same of every row.
    fn sums_for<'a>(&'a self, measure: Measure, scale: f32, values: ValueRows<'a>) -> Boxed<'a, Vec<f32>> {
        Box::pin(async move {
            let engine = &self.device.engine;
            let Some(operation) = measure.operation() else {
                return squared_deviations_rows(engine, (scale, self.stages), values).await;
            };
            numbers(operation, reduce_rows(engine, self.job(operation, scale), values, None).await?)
        })
    }
}

impl Norm {
    fn measure(self) -> Measure {
        match self {
            Self::L1 => Measure::Of(Operation::SumAbs),
            Self::L2 => Measure::Root,
            Self::Max => Measure::Of(Operation::MaxAbs),
        }
    }
}

/// Converts words to the results of rows. Fails for a row without a number.
fn numbers(operation: Operation, mut words: Vec<u32>) -> Result<Vec<f32>> {
    if !operation.is_sum() {
        for (row, word) in words.iter_mut().enumerate() {
            *word = operation.value([*word, 0]).ok_or_else(|| no_number_in(row))?.to_bits();
        }
    }
    Ok(bytemuck::cast_vec(words))
}

fn no_number() -> Error {
    Error::argument("values", "at least one number", "none")
}

fn no_number_in(row: usize) -> Error {
    Error::argument("values", "at least one number in every row", format!("none in row {row}"))
}
