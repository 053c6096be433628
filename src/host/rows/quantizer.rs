//! Quantising: a vector becomes small integers, a scale, and bounds on what the integers leave out.

use crate::elements::{ElementKind, MatrixView};
use crate::error::Result;
use crate::host::arithmetic::registers::with_widest_registers;
use crate::memory;
use crate::metric::{Form, Metric};
use crate::screen::centre::Centre;
use crate::screen::certificate::{Margin, Quantizing, Terms};

/// How the vectors of an index are quantised.
#[derive(Debug)]
pub(crate) struct Quantizer {
    metric: Metric,
    quantizing: Quantizing,
    /// Whether rows are integers and their own codes. The centre of u8 is 128 then, and that of i8 and bits 0.
    of_codes: bool,
    pub(super) centre: Centre,
    pub(crate) form: Form,
    pub(crate) margin: Margin,
}

impl Quantizer {
    pub(crate) fn new(metric: Metric, dim: usize) -> Self {
        Self::around(metric, Centre::new(metric, dim))
    }

    /// Around the centre of another copy of the rows.
    pub(crate) fn around(metric: Metric, centre: Centre) -> Self {
        let form = Form::quantized(metric);
        let (margin, dim) = (Margin::around(form, centre.values()), centre.values().len());
        Self { metric, quantizing: Quantizing::of(metric, dim), of_codes: false, centre, form, margin }
    }

    /// For rows that are their own codes, and for queries beside them.
    pub(crate) fn of_codes(metric: Metric, elements: ElementKind, dim: usize) -> Self {
        let middle = if elements == ElementKind::U8 { 128.0 } else { 0.0 };
        let around = Self::around(metric, Centre::fixed(metric, vec![middle; dim]));
        Self { quantizing: Quantizing::beside_whole(metric, dim), of_codes: true, ..around }
    }

    /// Quantises a row of the index: [`quantize`](Self::quantize), but rows that are their own codes keep every bit.
    pub(crate) fn quantize_row(&self, row: &[f32], squared: f64, integers: &mut [i8]) -> Terms {
        self.quantize_as(row, squared, integers, self.of_codes)
    }

    /// Whether a query is integers that may be its codes beside such rows.
    fn is_whole(&self, query: &[f32]) -> bool {
        let fits = |(x, m): (&f32, &f32)| {
            let code = x - m;
            (-128.0..=127.0).contains(&code) && code == code.round_ties_even()
        };
        self.of_codes
            && !self.counts_bits()
            && Quantizing::fits_whole(query.len())
            && query.iter().zip(self.centre.values()).all(fits)
    }

    /// Quantises a vector to integers and returns its terms. Bytes of bits are their own integers.
    ///
    /// Everything is computed in f64, so only the terms are rounded, and by far less than [`Quantizing`] allows for: its constants hold for
    /// f32 in any order.
    pub(crate) fn quantize(&self, vector: &[f32], squared: f64, integers: &mut [i8]) -> Terms {
        self.quantize_as(vector, squared, integers, self.is_whole(vector))
    }

    /// `whole` tells that the vector is integers, which become its codes.
    fn quantize_as(&self, vector: &[f32], squared: f64, integers: &mut [i8], whole: bool) -> Terms {
        if self.metric.counts_bits() {
            integers.iter_mut().zip(vector).for_each(|(byte, &value)| *byte = (value as u8).cast_signed());
            return Terms::of_bits(integers.iter().map(|byte| byte.count_ones()).sum());
        }
        let centre = self.centre.values();
        let unit = self.metric.scale(squared);
        let quantizing = if whole { Quantizing::whole(self.metric, vector.len()) } else { self.quantizing };
        let Quantizing { levels, inflation, step_error, unit_error, smallest, tiny, .. } = quantizing;
        let most = with_widest_registers(
            #[inline(always)]
            || largest(vector, centre, unit),
        );
        let is_tiny = most < f64::from(smallest);
        let step = if whole { unit } else { most / f64::from(levels) };
        let scale = if is_tiny { 0.0 } else { step as f32 };
        let [lengths, residuals, products] = with_widest_registers(
            #[inline(always)]
            || steps(vector, centre, [unit, scale.into(), levels.into()], integers),
        );
        let bias = if self.metric.adds_differences() { lengths } else { products } as f32;
        if is_tiny {
            let length = tiny + unit_error;
            return Terms { scale, length, residual: length, bias };
        }
        let upper = |x: f64| x.sqrt() as f32 * inflation;
        let length = upper(lengths) + unit_error;
        let residual = upper(residuals) + step_error * length + unit_error;
        Terms { scale, length, residual, bias }
    }

    /// The number that codes on a GPU have added: 128 for integers, so that they have no sign, and 0 for bits.
    pub(crate) fn offset(&self) -> u8 {
        if self.metric.counts_bits() { 0 } else { 128 }
    }

    /// Whether vectors are bits.
    pub(crate) fn counts_bits(&self) -> bool {
        self.metric.counts_bits()
    }

    /// Quantises several vectors: their integers, one vector after another, and the terms of each.
    pub(crate) fn quantize_all(
        &self,
        vectors: MatrixView<'_, f32>,
        squared: &[f64],
    ) -> Result<(Vec<i8>, Vec<Terms>)> {
        let dim = vectors.dim();
        let mut integers = memory::filled(vectors.rows() * dim, 0)?;
        let rows = integers.chunks_exact_mut(dim).enumerate();
        let terms = rows.map(|(row, integers)| self.quantize(vectors.row(row), squared[row], integers));
        let terms = memory::collect(terms)?;
        Ok((integers, terms))
    }
}

/// Elements that are processed side by side.
const LANES: usize = 32;

/// The largest magnitude of `x unit - m`.
#[inline(always)]
fn largest(vector: &[f32], centre: &[f32], unit: f64) -> f64 {
    let mut most = [0.0f64; LANES];
    let (x, m) = (vector.chunks_exact(LANES), centre.chunks_exact(LANES));
    let rest = x.remainder().iter().zip(m.remainder());
    for (x, m) in x.zip(m) {
        for lane in 0..LANES {
            let part = (f64::from(x[lane]) * unit - f64::from(m[lane])).abs();
            most[lane] = if part > most[lane] { part } else { most[lane] };
        }
    }
    let rest = rest.map(|(&x, &m)| (f64::from(x) * unit - f64::from(m)).abs());
    most.into_iter().chain(rest).fold(0.0, f64::max)
}

/// Computes the integers of `(x unit - m) / scale`, all 0 for a scale of 0. Returns three sums: the squares of `x unit - m`, the squares of
/// what the integers leave out, and the products `x unit m`.
#[inline(always)]
fn steps(vector: &[f32], centre: &[f32], [unit, scale, levels]: [f64; 3], integers: &mut [i8]) -> [f64; 3] {
    let each = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut sums = [[0.0f64; LANES]; 3];
    let mut start = 0;
    while start < vector.len() {
        let end = vector.len().min(start + LANES);
        // The last chunk is padded with zeros, which add nothing.
        let (mut x, mut m, mut t) = ([0.0f32; LANES], [0.0f32; LANES], [0i8; LANES]);
        x[..end - start].copy_from_slice(&vector[start..end]);
        m[..end - start].copy_from_slice(&centre[start..end]);
        for lane in 0..LANES {
            let y = f64::from(x[lane]) * unit;
            let part = y - f64::from(m[lane]);
            let shifted = (part * each).max(-levels).min(levels) + TO_WHOLE;
            let left = part - (shifted - TO_WHOLE) * scale;
            t[lane] = shifted.to_bits() as i8;
            sums[0][lane] += part * part;
            sums[1][lane] += left * left;
            sums[2][lane] += y * f64::from(m[lane]);
        }
        integers[start..end].copy_from_slice(&t[..end - start]);
        start = end;
    }
    sums.map(|lanes| lanes.iter().sum())
}

/// Added to a small number, this leaves no bits for a fraction: the sum is rounded to a whole number, ties to even, and its lowest bits are
/// those of the integer. This vectorises; a conversion to i8 would not.
const TO_WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
