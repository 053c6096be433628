//! Reductions: every call under one name, the truth in f64, and the judge of a result.

use nearfield::{
    Device, DistanceMatrix, Element, Metric, Norm, Output, Result, Summation, ValueRows, Values,
};

pub(crate) const SUMMATIONS: [Summation; 2] = [Summation::Plain, Summation::Compensated];

/// What the library makes of many numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Dot,
    Sum,
    SumSquares,
    Mean,
    Min,
    Max,
    ArgMin,
    ArgMax,
    L1,
    L2,
    MaxNorm,
}

impl Call {
    pub(crate) const ALL: [Self; 11] = [
        Self::Dot,
        Self::Sum,
        Self::SumSquares,
        Self::Mean,
        Self::Min,
        Self::Max,
        Self::ArgMin,
        Self::ArgMax,
        Self::L1,
        Self::L2,
        Self::MaxNorm,
    ];

    /// Those that add, in which the order of numbers shows.
    pub(crate) const SUMS: [Self; 6] =
        [Self::Dot, Self::Sum, Self::SumSquares, Self::Mean, Self::L1, Self::L2];

    /// Those that find.
    pub(crate) const EXTREMES: [Self; 5] = [Self::Min, Self::Max, Self::ArgMin, Self::ArgMax, Self::MaxNorm];

    /// The summations that make a difference to it.
    pub(crate) fn summations(self) -> &'static [Summation] {
        if Self::SUMS.contains(&self) { &SUMMATIONS } else { &SUMMATIONS[..1] }
    }
}

/// The call's result: a number, or a place.
pub(crate) fn run(
    device: &Device,
    call: Call,
    summation: Summation,
    values: Values<'_>,
    others: Values<'_>,
) -> Result<f64> {
    let reduce = device.reduce().summation(summation);
    Ok(match call {
        Call::Dot => reduce.dot(values, others)?.into(),
        Call::Sum => reduce.sum(values)?.into(),
        Call::SumSquares => reduce.sum_squares(values)?.into(),
        Call::Mean => reduce.mean(values)?.into(),
        Call::Min => reduce.min(values)?.into(),
        Call::Max => reduce.max(values)?.into(),
        Call::ArgMin => reduce.argmin(values)? as f64,
        Call::ArgMax => reduce.argmax(values)? as f64,
        Call::L1 => reduce.norm(values, Norm::L1)?.into(),
        Call::L2 => reduce.norm(values, Norm::L2)?.into(),
        Call::MaxNorm => reduce.norm(values, Norm::Max)?.into(),
    })
}

/// The same of every row.
pub(crate) fn run_rows(
    device: &Device,
    call: Call,
    summation: Summation,
    values: ValueRows<'_>,
    others: ValueRows<'_>,
) -> Result<Vec<f64>> {
    let reduce = device.reduce().summation(summation);
    let numbers = match call {
        Call::Dot => reduce.dot_rows(values, others)?,
        Call::Sum => reduce.sum_rows(values)?,
        Call::SumSquares => reduce.sum_squares_rows(values)?,
        Call::Mean => reduce.mean_rows(values)?,
        Call::Min => reduce.min_rows(values)?,
        Call::Max => reduce.max_rows(values)?,
        Call::L1 => reduce.norm_rows(values, Norm::L1)?,
        Call::L2 => reduce.norm_rows(values, Norm::L2)?,
        Call::MaxNorm => reduce.norm_rows(values, Norm::Max)?,
        Call::ArgMin | Call::ArgMax => {
            let places = if call == Call::ArgMin {
                reduce.argmin_rows(values)?
            } else {
                reduce.argmax_rows(values)?
            };
            return Ok(places.into_iter().map(|place| place as f64).collect());
        }
    };
    Ok(numbers.into_iter().map(f64::from).collect())
}

/// What is right for some numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    count: usize,
    sum: f64,
    /// Of magnitudes.
    magnitudes: f64,
    squares: f64,
    dot: f64,
    /// Of the magnitudes of products.
    products: f64,
    /// The smallest number and its place, if there is a number.
    least: Option<(f32, usize)>,
    most: Option<(f32, usize)>,
    /// The largest magnitude, NaN beside a NaN.
    largest: f32,
}

/// A sum in twice the precision of f64.
#[derive(Default)]
struct Sum(f64, f64);

impl Sum {
    fn add(&mut self, term: f64) {
        let sum = self.0 + term;
        let part = sum - self.0;
        self.1 += (self.0 - (sum - part)) + (term - part);
        self.0 = sum;
    }

    /// Infinities and NaN by IEEE 754.
    fn total(&self) -> f64 {
        if self.0.is_finite() { self.0 + self.1 } else { self.0 }
    }
}

impl Truth {
    /// Of numbers, and of others for the dot product: as many, or none. Written for builds without optimisation.
    pub(crate) fn new(values: &[f32], others: &[f32]) -> Self {
        let (mut sum, mut dot) = (Sum::default(), Sum::default());
        let (mut magnitudes, mut squares, mut products) = (0.0, 0.0, 0.0);
        let (mut least, mut most, mut largest) = (None, None, 0.0);
        let mut place = 0;
        while place < values.len() {
            let value = values[place];
            let wide = value as f64;
            sum.add(wide);
            magnitudes += if wide < 0.0 { -wide } else { wide };
            squares += wide * wide;
            if !others.is_empty() {
                let product = wide * others[place] as f64;
                dot.add(product);
                products += if product < 0.0 { -product } else { product };
            }
            if !value.is_nan() {
                if least.is_none_or(|(before, _)| value < before) {
                    least = Some((value, place));
                }
                if most.is_none_or(|(before, _)| value > before) {
                    most = Some((value, place));
                }
            }
            let magnitude = if value < 0.0 { -value } else { value };
            if magnitude > largest || magnitude.is_nan() {
                largest = magnitude;
            }
            place += 1;
        }
        let (sum, dot, count) = (sum.total(), dot.total(), values.len());
        Self { count, sum, magnitudes, squares, dot, products, least, most, largest }
    }

    /// None where there is no number.
    pub(crate) fn value(&self, call: Call) -> Option<f64> {
        Some(match call {
            Call::Dot => self.dot,
            Call::Sum => self.sum,
            Call::SumSquares => self.squares,
            Call::Mean if self.count == 0 => return None,
            Call::Mean => self.sum / self.count as f64,
            // -0 is reported as +0.
            Call::Min => f64::from(self.least?.0) + 0.0,
            Call::Max => f64::from(self.most?.0) + 0.0,
            Call::ArgMin => self.least?.1 as f64,
            Call::ArgMax => self.most?.1 as f64,
            Call::L1 => self.magnitudes,
            Call::L2 => self.squares.sqrt(),
            Call::MaxNorm => self.largest.into(),
        })
    }

    /// How far from it a result may be: the promise of `Reduce`, or less where less is due. A plain sum in any order is within
    /// `n 2^-24` of the magnitudes. The promise for compensated sums is of the worst that could be; what these tests sum has to
    /// be within `2^-40`, where a sum that was not compensated would not be.
    pub(crate) fn bound(&self, call: Call, summation: Summation) -> f64 {
        let n = self.count as f64;
        let depth = 300.0 + n * 2f64.powi(-22);
        let share = |terms: f64, result: f64, multiplies: bool| match summation {
            Summation::Plain => (n * 2f64.powi(-24)).min(depth * 2f64.powi(-23)) * terms,
            Summation::Compensated => {
                let sums = (depth * depth * 2f64.powi(-46)).min(2f64.powi(-40));
                let products = if multiplies { 2f64.powi(-32) } else { 0.0 };
                2f64.powi(-23) * result.abs() + (sums + products) * terms
            }
            other => unreachable!("no reference for {other:?}"),
        };
        // What may count as 0.
        let vanished = n * 2f64.powi(-126);
        match call {
            Call::Dot => share(self.products, self.dot, true) + vanished,
            Call::Sum => share(self.magnitudes, self.sum, false) + vanished,
            Call::L1 => share(self.magnitudes, self.magnitudes, false) + vanished,
            Call::SumSquares => share(self.squares, self.squares, true) + vanished,
            Call::Mean => {
                let quotient = 2f64.powi(-24) * self.sum.abs();
                let rounded = if summation == Summation::Plain { quotient } else { 0.0 };
                (share(self.magnitudes, self.sum, false) + rounded + vanished) / n
            }
            Call::L2 => {
                // Half the relative error of the squares, none of which vanishes, and a rounding.
                let root = self.squares.sqrt();
                (self.squares + share(self.squares, self.squares, true)).sqrt() - root + 2f64.powi(-24) * root
            }
            _ => 0.0,
        }
    }

    /// What is wrong with a result.
    pub(crate) fn judge(&self, call: Call, summation: Summation, found: Result<f64>) -> Result<(), String> {
        let fault = |text: String| Err(format!("{call:?}, {summation:?}, {} numbers: {text}", self.count));
        let found = match (found, self.value(call)) {
            (Err(error), None) if error.to_string() == "values: needed at least one number, given none" => {
                return Ok(());
            }
            (Ok(found), Some(_)) => found,
            (found, wanted) => return fault(format!("{found:?}, not {wanted:?}")),
        };
        self.judge_number(call, summation, found).or_else(fault)
    }

    /// The same of a result that is no error.
    pub(crate) fn judge_number(&self, call: Call, summation: Summation, found: f64) -> Result<(), String> {
        let Some(wanted) = self.value(call) else {
            return Err(format!("{found:e}, where there is no number"));
        };
        let same = |found: f64, wanted: f64| {
            found.is_nan() && wanted.is_nan() || found.to_bits() == wanted.to_bits()
        };
        if !wanted.is_finite() || Call::EXTREMES.contains(&call) {
            return if same(found, wanted) { Ok(()) } else { Err(format!("{found:e}, not {wanted:e}")) };
        }
        let bound = self.bound(call, summation);
        let within = if found.is_infinite() {
            // Only a result outside f32 may be infinite.
            wanted.abs() + bound > f64::from(f32::MAX) && found.signum() == wanted.signum()
        } else {
            (found - wanted).abs() <= bound
        };
        if within { Ok(()) } else { Err(format!("{found:e}, not {wanted:e} within {bound:e}")) }
    }
}

/// Random floats of normal spread, any number of them at little cost: a prime number of them over and over.
pub(crate) fn floats(random: &mut super::Random, count: usize) -> Vec<f32> {
    let some = random.floats(count.min(99_991));
    some.iter().copied().cycle().take(count).collect()
}

/// Every call on the same numbers, on the host and on the device, against the truth.
pub(crate) fn judge<T: Element>(device: &Device, values: &[T], others: &[T])
where
    for<'v> Values<'v>: From<&'v [T]>,
{
    let widened = |values: &[T]| -> Vec<f32> { values.iter().map(|value| value.widen()).collect() };
    let truth = Truth::new(&widened(values), &widened(others));
    judge_calls(&Call::ALL, &truth, device, values, others);
}

/// The same of some calls.
pub(crate) fn judge_calls<T: Element>(
    calls: &[Call],
    truth: &Truth,
    device: &Device,
    values: &[T],
    others: &[T],
) where
    for<'v> Values<'v>: From<&'v [T]>,
{
    let uploaded = [values, others].map(|values| device.upload_vector(values).expect("a vector"));
    for &call in calls {
        for &summation in call.summations() {
            for (side, operands) in [
                ("host", [values.into(), others.into()]),
                ("device", [Values::Device(&uploaded[0]), Values::Device(&uploaded[1])]),
            ] {
                let found = run(device, call, summation, operands[0], operands[1]);
                let judged = truth.judge(call, summation, found);
                judged.unwrap_or_else(|fault| panic!("{:?} on the {side}: {fault}", T::KIND));
            }
        }
    }
}

/// Distances, and the same on the host: inner products of whole numbers.
pub(crate) fn distances(
    device: &Device,
    random: &mut super::Random,
    queries: usize,
    rows: usize,
) -> (DistanceMatrix, Vec<f32>) {
    let (a, b) = (random.integers(queries * 3, 9), random.integers(rows * 3, 9));
    let (a, b) = (
        device.upload(super::view(&a, 3)).expect("queries"),
        device.upload(super::view(&b, 3)).expect("rows"),
    );
    let matrix = device.distances(&a, &b, Metric::InnerProduct, Output::Similarity).expect("distances");
    let values = device.read(&matrix).expect("distances");
    (matrix, values)
}
