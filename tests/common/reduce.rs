//! Reductions: every call under one name, the truth in f64, and the judge of a result.

use nearfield::{
    Device, DeviceVector, DistanceMatrix, Element, Metric, Norm, Output, Result, Summation, ValueRows, Values,
};

pub(crate) const SUMMATIONS: [Summation; 2] = [Summation::Plain, Summation::Compensated];

/// The reductions of the library.
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
    Deviation,
}

impl Call {
    pub(crate) const ALL: [Self; 12] = [
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
        Self::Deviation,
    ];

    /// Calls that add: rounding depends on the order of numbers.
    pub(crate) const SUMS: [Self; 6] =
        [Self::Dot, Self::Sum, Self::SumSquares, Self::Mean, Self::L1, Self::L2];

    /// Calls that find a number: their results are exact.
    pub(crate) const EXTREMES: [Self; 5] = [Self::Min, Self::Max, Self::ArgMin, Self::ArgMax, Self::MaxNorm];

    /// The summations that can change the result.
    pub(crate) fn summations(self) -> &'static [Summation] {
        if Self::SUMS.contains(&self) { &SUMMATIONS } else { &SUMMATIONS[..1] }
    }
}

/// The result of a call: a number, or a place.
pub(crate) fn run(
    device: &Device,
    call: Call,
    summation: Summation,
    values: Values<'_>,
    others: Values<'_>,
) -> Result<f64> {
    let reduce = device.reduce().summation(summation);
    let number = match call {
        Call::ArgMin => return reduce.argmin(values).map(|place| place as f64),
        Call::ArgMax => return reduce.argmax(values).map(|place| place as f64),
        Call::Dot => reduce.dot(values, others),
        Call::Sum => reduce.sum(values),
        Call::SumSquares => reduce.sum_squares(values),
        Call::Mean => reduce.mean(values),
        Call::Min => reduce.min(values),
        Call::Max => reduce.max(values),
        Call::L1 => reduce.norm(values, Norm::L1),
        Call::L2 => reduce.norm(values, Norm::L2),
        Call::MaxNorm => reduce.norm(values, Norm::Max),
        Call::Deviation => reduce.standard_deviation(values),
    };
    number.map(f64::from)
}

/// The results of a call on every row.
pub(crate) fn run_rows(
    device: &Device,
    call: Call,
    summation: Summation,
    values: ValueRows<'_>,
    others: ValueRows<'_>,
) -> Result<Vec<f64>> {
    let reduce = device.reduce().summation(summation);
    let of_places = |places: Vec<u64>| places.into_iter().map(|place| place as f64).collect();
    let numbers = match call {
        Call::ArgMin => return reduce.argmin_rows(values).map(of_places),
        Call::ArgMax => return reduce.argmax_rows(values).map(of_places),
        Call::Dot => reduce.dot_rows(values, others),
        Call::Sum => reduce.sum_rows(values),
        Call::SumSquares => reduce.sum_squares_rows(values),
        Call::Mean => reduce.mean_rows(values),
        Call::Min => reduce.min_rows(values),
        Call::Max => reduce.max_rows(values),
        Call::L1 => reduce.norm_rows(values, Norm::L1),
        Call::L2 => reduce.norm_rows(values, Norm::L2),
        Call::MaxNorm => reduce.norm_rows(values, Norm::Max),
        Call::Deviation => reduce.standard_deviation_rows(values),
    };
    Ok(numbers?.into_iter().map(f64::from).collect())
}

/// The error of a call that needs a number and has none.
pub(crate) const NO_NUMBER: &str = "values: needed at least one number, given none";

/// The right results for some numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    count: usize,
    sum: f64,
    /// The sum of magnitudes.
    magnitudes: f64,
    squares: f64,
    dot: f64,
    /// The sum of the magnitudes of products.
    products: f64,
    /// The smallest number and its place, if there is a number.
    least: Option<(f32, usize)>,
    most: Option<(f32, usize)>,
    /// The largest magnitude, NaN beside a NaN.
    largest: f32,
    /// The standard deviation: NaN of no values, and beside a NaN or an infinity.
    deviation: f64,
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
    /// The truth of numbers, and of as many others for the dot product, or none.
    pub(crate) fn new(values: &[f32], others: &[f32]) -> Self {
        let (mut sum, mut dot) = (Sum::default(), Sum::default());
        let (mut magnitudes, mut squares, mut products) = (0.0, 0.0, 0.0);
        let (mut least, mut most, mut largest) = (None, None, 0.0f32);
        for (place, &value) in values.iter().enumerate() {
            let wide = f64::from(value);
            sum.add(wide);
            magnitudes += wide.abs();
            squares += wide * wide;
            if let Some(&other) = others.get(place) {
                let product = wide * f64::from(other);
                dot.add(product);
                products += product.abs();
            }
            if !value.is_nan() && least.is_none_or(|(before, _)| value < before) {
                least = Some((value, place));
            }
            if !value.is_nan() && most.is_none_or(|(before, _)| value > before) {
                most = Some((value, place));
            }
            if value.abs() > largest || value.is_nan() {
                largest = value.abs();
            }
        }
        let (sum, dot, count) = (sum.total(), dot.total(), values.len());
        let mut deviations = Sum::default();
        for &value in values {
            deviations.add((f64::from(value) - sum / count as f64).powi(2));
        }
        let deviation = (deviations.total() / count as f64).sqrt();
        Self { count, sum, magnitudes, squares, dot, products, least, most, largest, deviation }
    }

    /// None where there is no number.
    pub(crate) fn value(&self, call: Call) -> Option<f64> {
        Some(match call {
            Call::Dot => self.dot,
            Call::Sum => self.sum,
            Call::SumSquares => self.squares,
            Call::Mean | Call::Deviation if self.count == 0 => return None,
            Call::Mean => self.sum / self.count as f64,
            // -0 is reported as +0.
            Call::Min => f64::from(self.least?.0) + 0.0,
            Call::Max => f64::from(self.most?.0) + 0.0,
            Call::ArgMin => self.least?.1 as f64,
            Call::ArgMax => self.most?.1 as f64,
            Call::L1 => self.magnitudes,
            Call::L2 => self.squares.sqrt(),
            Call::MaxNorm => self.largest.into(),
            Call::Deviation => self.deviation,
        })
    }

    /// The allowed error: the promise of `Reduce`, or less. A plain sum in any order is within `n 2^-24` of the magnitudes. The
    /// promise for compensated sums covers the worst case; the sums of these tests have to be within `2^-40`, which a sum
    /// without compensation would miss.
    fn bound(&self, call: Call, summation: Summation) -> f64 {
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
        // Numbers that may count as 0.
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
                // Half the relative error of the squares, none of them vanishing, and a rounding.
                let root = self.squares.sqrt();
                (self.squares + share(self.squares, self.squares, true)).sqrt() - root + 2f64.powi(-24) * root
            }
            Call::Deviation => {
                // Half the relative error of the squares, the rest of the mean, and of each deviation two roundings.
                let (unit, mean) = (2f64.powi(-23), (self.sum / n).abs());
                let most = 2f64.powi(-15) * self.deviation + (2f64.powi(-31) + n * 2f64.powi(-62)) * mean;
                let sums = (n + 4.0) * unit;
                most.min(sums * self.deviation + sums * sums * mean) + 2f64.powi(-126)
            }
            _ => 0.0,
        }
    }

    /// Panics unless a result is right.
    #[track_caller]
    pub(crate) fn judge(&self, call: Call, summation: Summation, found: Result<f64>, said: &str) {
        let said = format!("{call:?}, {summation:?}, {} numbers, {said}", self.count);
        let (found, wanted) = match (found, self.value(call)) {
            (Err(error), None) => return assert_eq!(error.to_string(), NO_NUMBER, "{said}"),
            (Ok(found), Some(wanted)) => (found, wanted),
            (found, wanted) => panic!("{said}: {found:?}, not {wanted:?}"),
        };
        if !wanted.is_finite() || Call::EXTREMES.contains(&call) {
            let is_same = found.is_nan() && wanted.is_nan() || found.to_bits() == wanted.to_bits();
            return assert!(is_same, "{said}: {found:e}, not {wanted:e}");
        }
        let bound = self.bound(call, summation);
        let is_within = if found.is_infinite() {
            // Only a result outside f32 may be infinite.
            wanted.abs() + bound > f64::from(f32::MAX) && found.signum() == wanted.signum()
        } else {
            (found - wanted).abs() <= bound
        };
        assert!(is_within, "{said}: {found:e}, not {wanted:e} within {bound:e}");
    }
}

/// Random floats of normal spread, any number of them at little cost: a prime number of them over and over.
pub(crate) fn floats(random: &mut nearfield_testing::Random, count: usize) -> Vec<f32> {
    let some = random.floats(count.min(99_991));
    some.iter().copied().cycle().take(count).collect()
}

/// Judges every call on the same numbers, on the host and on the device.
pub(crate) fn judge<T: Element>(device: &Device, values: &[T], others: &[T])
where
    for<'v> Values<'v>: From<&'v [T]>,
{
    judge_calls(&Call::ALL, device, values, others);
}

/// Judges some calls on the same numbers, on the host and on the device.
pub(crate) fn judge_calls<T: Element>(calls: &[Call], device: &Device, values: &[T], others: &[T])
where
    for<'v> Values<'v>: From<&'v [T]>,
{
    let widened = |values: &[T]| -> Vec<f32> { values.iter().map(|value| value.widen()).collect() };
    let truth = Truth::new(&widened(values), &widened(others));
    let uploaded = [values, others].map(|values| device.upload_vector(values).expect("a vector"));
    for &call in calls {
        for &summation in call.summations() {
            let on_host = run(device, call, summation, values.into(), others.into());
            truth.judge(call, summation, on_host, "on the host");
            let on_device = run(device, call, summation, (&uploaded[0]).into(), (&uploaded[1]).into());
            truth.judge(call, summation, on_device, "on the device");
        }
    }
}

/// Judges some calls on all rows: `values` and `others` are the numbers of `rows` and `other_rows`.
pub(crate) fn judge_rows(
    calls: &[Call],
    device: &Device,
    length: usize,
    (rows, values): (ValueRows<'_>, &[f32]),
    (other_rows, others): (ValueRows<'_>, &[f32]),
) {
    let truths: Vec<Truth> =
        values.chunks(length).zip(others.chunks(length)).map(|(a, b)| Truth::new(a, b)).collect();
    for &call in calls {
        for &summation in call.summations() {
            let found = run_rows(device, call, summation, rows, other_rows).expect("results");
            assert_eq!(found.len(), truths.len());
            for (row, (truth, found)) in truths.iter().zip(found).enumerate() {
                truth.judge(call, summation, Ok(found), &format!("row {row} of {}", truths.len()));
            }
        }
    }
}

/// Inner products of whole numbers, on the device and on the host.
pub(crate) fn distances(
    device: &Device,
    random: &mut nearfield_testing::Random,
    queries: usize,
    rows: usize,
) -> (DistanceMatrix, Vec<f32>) {
    let (a, b) = (random.integers(queries * 3, 9), random.integers(rows * 3, 9));
    let (a, b) = (
        device.upload(nearfield_testing::view(&a, 3)).expect("queries"),
        device.upload(nearfield_testing::view(&b, 3)).expect("rows"),
    );
    let matrix = device.distances(&a, &b, Metric::InnerProduct, Output::Similarity).expect("distances");
    let values = device.read(&matrix).expect("distances");
    (matrix, values)
}

/// A vector in buffers of the test, cut at these places. NaN follow the numbers of each buffer.
pub(crate) fn in_parts<T: Element>(device: &Device, values: &[T], cuts: &[usize]) -> DeviceVector {
    let ends = cuts.iter().copied().chain([values.len()]);
    let mut start = 0;
    let buffers: Vec<_> = ends
        .map(|end| {
            let part = &values[start..end];
            start = end;
            let mut bytes: Vec<u8> = bytemuck::cast_slice(part).to_vec();
            bytes.resize(bytes.len().next_multiple_of(16) + 64, 0xff);
            (super::bench::Bench::new(device).input(&bytes).clone(), part.len() as u64)
        })
        .collect();
    DeviceVector::from_wgpu(device, T::KIND, &buffers).expect("a vector")
}
