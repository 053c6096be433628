//! Certificates: intervals of distances, derived from the scores of a screen. No other file derives them.
//!
//! A screen computes a score for a query and a row. The score, the [`Terms`] of both vectors and a [`Margin`] for rounding
//! errors give an interval that holds the true distance **and** the f32 value that `refine` reports.
//! `docs/certified-search.md` has the proof. `wgsl/lib/intervals.wgsl` computes the same intervals in f32; the margin covers its
//! rounding errors too.

use bytemuck::{Pod, Zeroable};

use crate::elements::ElementKind;
use crate::metric::{Form, Metric};

/// 2^-23: the largest relative error of one addition, subtraction or product in WGSL, which may round either way.
pub const UNIT: f32 = f32::EPSILON;

/// Numbers that describe how a vector `v` is quantised: `y - m = scale * integers + residual`, with the index's centre `m` and
/// `y = v`, or `y = v / |v|` for cosine.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
pub struct Terms {
    /// The step from one integer to the next.
    pub scale: f32,
    /// An upper bound of `|y - m|`.
    pub length: f32,
    /// An upper bound of the residual's length.
    pub residual: f32,
    /// The part of a distance that depends on this vector alone: `|y - m|^2` for L2, `m.y` for the other metrics.
    pub bias: f32,
}

impl Terms {
    /// Terms of a vector of bits, which nothing is left out of: its number of bits.
    pub fn of_bits(count: u32) -> Self {
        Self { scale: 1.0, length: 0.0, residual: 0.0, bias: count as f32 }
    }

    /// Terms of a vector that is not quantised, from its squared norm and its inverse norm.
    #[inline(always)]
    pub fn of_norms(form: Form, squared: f32, inverse: f32) -> Self {
        let length = squared.sqrt();
        match form {
            Form::L2 => Self { scale: 1.0, length, residual: 0.0, bias: squared },
            Form::InnerProduct => Self { scale: 1.0, length, residual: 0.0, bias: 0.0 },
            Form::Cosine => Self { scale: inverse, ..Self::default() },
            Form::Jaccard => Self::of_bits(squared as u32),
            _ => Self::default(),
        }
    }

    /// A row's own part of the lower end of an interval, and its slack.
    #[inline(always)]
    pub(crate) fn floor_and_slack(self, form: Form, margin: Margin) -> [f32; 2] {
        let bias = match form {
            // The products with the centre are part of the similarity.
            Form::QuantizedInnerProduct | Form::QuantizedCosine => -self.bias,
            _ => self.bias,
        };
        let slack = match form {
            Form::L2 => margin.relative * self.bias,
            Form::QuantizedL2 => margin.relative * self.length * self.length,
            _ => 0.0,
        };
        [bias - slack, slack]
    }
}

/// How far rounding may move a score's distance from the true one and from the one that `refine` reports. Residuals come on
/// top.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Margin {
    /// Relative to the scale of the form: the distance itself, `(|q| + |x|)^2`, `|q||x|`, 1; and for quantised vectors
    /// `|q - m|^2 + |x - m|^2`, or `(|q - m| + |m|)(|x - m| + |m|)`.
    pub relative: f32,
    /// Absolute, for underflow, and for quantised cosine also for rounding at 1.
    pub floor: f32,
    /// An upper bound of `|m|`.
    pub centre_length: f32,
    /// `m.m`.
    pub centre_squared: f32,
}

impl Margin {
    /// The bound for f32 scores in any order of summation, rounding to nearest or not.
    ///
    /// `docs/certified-search.md` derives it, with a table of the errors that each form's terms cover. It holds for dims up to
    /// 2^20.
    pub fn of_rounding(form: Form, dim: usize) -> Self {
        let dim = dim as f32;
        let terms = match form {
            Form::Direct | Form::InnerProduct => 2.0 * dim + 64.0,
            // The dot product counts twice, each norm once: all of it is within (|q| + |x|)^2.
            Form::L2 => 2.0 * dim + 64.0,
            // Dot product, two inverse norms of half the error each, and the reported distance; products of elements of
            // the smallest norms underflow, by 2^-126 each against |q||x| of 2^-100.
            Form::Cosine => 3.5 * dim + 64.0,
            // Two squared lengths, and the reported distance, which is at most twice their sum.
            Form::QuantizedL2 => 3.25 * dim + 96.0,
            // Two products with the centre, and the reported distance.
            Form::QuantizedInnerProduct => 3.25 * dim + 96.0,
            // The same, of vectors whose inverse norms are off by half as much again.
            Form::QuantizedCosine => 4.5 * dim + 160.0,
            Form::Hamming => 0.0,
            // A division of exact numbers.
            Form::Jaccard => 8.0,
        };
        let floor = match form {
            Form::Cosine | Form::Hamming | Form::Jaccard => 0.0,
            Form::Direct | Form::L2 | Form::InnerProduct => 4.0 * dim * 2f32.powi(-126),
            // With a zero vector the scale may be small, but not the 1 from which the product is taken off.
            Form::QuantizedCosine => 8.0 * UNIT,
            Form::QuantizedL2 | Form::QuantizedInnerProduct => 8.0 * dim * 2f32.powi(-126),
        };
        Self { relative: terms * UNIT, floor, centre_length: 0.0, centre_squared: 0.0 }
    }

    /// The bound for vectors that are quantised around a centre.
    pub fn around(form: Form, centre: &[f32]) -> Self {
        let squared: f64 = centre.iter().map(|&m| f64::from(m) * f64::from(m)).sum();
        Self {
            centre_length: (squared.sqrt() * (1.0 + 4.0 * f64::from(UNIT))) as f32,
            centre_squared: squared as f32,
            ..Self::of_rounding(form, centre.len())
        }
    }

    /// The interval of a query and a row in f64: what `collect` computes, without its rounding errors.
    pub fn interval(self, form: Form, score: f64, query: Terms, row: Terms) -> [f64; 2] {
        let [q, x] =
            [query, row].map(|terms| [terms.scale, terms.length, terms.residual, terms.bias].map(f64::from));
        let [relative, floor] = [self.relative, self.floor].map(f64::from);
        let [centre, centre_squared] = [self.centre_length, self.centre_squared].map(f64::from);
        // Cauchy and Schwarz: |(q-m).(x-m) - s_q s_x t_q.t_x| <= |res_q| |x-m| + |s_q t_q| |res_x|.
        let width = q[2] * x[1] + (q[1] + q[2]) * x[2];
        let (value, margin) = match form {
            Form::Direct => (score, relative * score),
            Form::L2 => (q[3] + x[3] - 2.0 * score, relative * (q[1] + x[1]).powi(2)),
            Form::InnerProduct => (-score, relative * q[1] * x[1]),
            Form::Cosine => (1.0 - q[0] * x[0] * score, relative),
            Form::QuantizedL2 | Form::Hamming => {
                let value = q[3] + x[3] - 2.0 * q[0] * x[0] * score;
                (value, 2.0 * width + relative * (q[1].powi(2) + x[1].powi(2)))
            }
            Form::Jaccard if score > 0.0 => {
                let either = q[3] + x[3] - score;
                ((either - score) / either, relative)
            }
            Form::Jaccard => (1.0, relative),
            Form::QuantizedInnerProduct | Form::QuantizedCosine => {
                let one = if form == Form::QuantizedCosine { 1.0 } else { 0.0 };
                let value = one - (q[0] * x[0] * score + x[3] + q[3] - centre_squared);
                (value, width + relative * (q[1] + centre) * (x[1] + centre))
            }
        };
        [value - margin - floor, value + margin + floor]
    }
}

/// The terms of a query, as the host computes the ends of intervals from them: the same form and margins as `wgsl/lib/intervals.wgsl`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryTerms {
    pub(crate) base: f32,
    pub(crate) factor: f32,
    pub(crate) along: f32,
    pub(crate) across: f32,
    pub(crate) slack: f32,
    /// The margin's part of a score, over the score's part of the lower end.
    pub(crate) share: f32,
    /// Whether the score is divided by what it leaves of both vectors: [`Form::Jaccard`].
    pub(crate) divides: bool,
}

impl QueryTerms {
    pub(crate) fn new(form: Form, margin: Margin, terms: Terms) -> Self {
        let relative = margin.relative;
        let reach = relative * (terms.length + margin.centre_length);
        let (mut base, mut factor, mut along, mut across, mut slack) = (0.0, 1.0, 0.0, 0.0, margin.floor);
        let mut share = 0.0;
        match form {
            Form::Direct => {
                factor = -(1.0 - relative);
                share = relative / (1.0 - relative);
            }
            Form::L2 => {
                base = terms.bias;
                factor = 2.0;
                along = 2.0 * relative * terms.length;
                slack += relative * terms.bias;
            }
            Form::InnerProduct => along = reach,
            Form::Cosine => {
                base = 1.0;
                factor = terms.scale;
                across = 1.0;
                slack += relative;
            }
            // Nothing is left out of bits: their number is their squared length, and the rest is 0.
            Form::QuantizedL2 | Form::Hamming => {
                base = terms.bias;
                factor = 2.0 * terms.scale;
                along = 2.0 * terms.residual;
                across = 2.0 * (terms.length + terms.residual);
                slack += relative * terms.length * terms.length;
            }
            Form::QuantizedInnerProduct | Form::QuantizedCosine => {
                let one = if form == Form::QuantizedCosine { 1.0 } else { 0.0 };
                base = one - (terms.bias - margin.centre_squared);
                factor = terms.scale;
                along = terms.residual + reach;
                across = terms.length + terms.residual;
                slack += reach * margin.centre_length;
            }
            Form::Jaccard => {
                // The slack comes off the quotient.
                slack += relative;
                base = terms.bias + slack;
            }
        }
        let divides = form == Form::Jaccard;
        Self { base: base - slack, factor, along, across, slack, share, divides }
    }
}

/// How the intervals of a screen follow from its scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// How a score becomes a distance.
    pub form: Form,
    /// How far rounding may move it.
    pub margin: Margin,
}

impl Intervals {
    /// Intervals of f32 scores for vectors of a dim.
    pub fn of_floats(form: Form, dim: usize) -> Self {
        Self { form, margin: Margin::of_rounding(form, dim) }
    }

    /// Intervals of integer scores for vectors that are quantised around a centre.
    pub fn of_integers(metric: Metric, centre: &[f32]) -> Self {
        let form = Form::quantized(metric);
        Self { form, margin: Margin::around(form, centre) }
    }
}

/// The largest magnitude of the codes of integers.
const WHOLE: u32 = 128;

/// The most elements of rows that are their own codes. Codes of queries shrink as rows get longer, so that sums of products stay below
/// 2^24: at this length they go up to 16.
const WHOLE_DIM: usize = 8192;

/// Whether rows are integers or bits that can be their own codes. For cosine vectors are divided by their norms and lie around a centre,
/// which u8 would move to another place for each norm.
pub(crate) fn are_codes(metric: Metric, elements: ElementKind, dim: usize) -> bool {
    let is_fitting = match elements {
        ElementKind::I8 => true,
        ElementKind::U8 => !metric.compares_directions(),
        ElementKind::Bits => true,
        _ => false,
    };
    is_fitting && dim <= WHOLE_DIM
}

/// How vectors of a dim are quantised: the constants of the kernel `quantize`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantizing {
    /// Largest magnitude of an integer. Dot products stay below 2^24, where f32 holds every integer.
    pub levels: u32,
    /// How many steps of the second plane make one step of the first: a power of two.
    pub finer: u32,
    /// Factor that makes computed lengths upper bounds.
    pub inflation: f32,
    /// Rounding error of subtracting the centre, dividing by the scale and taking whole steps, relative to the length.
    pub step_error: f32,
    /// Rounding error of dividing by the norm, for cosine.
    pub unit_error: f32,
    /// Vectors whose largest element is smaller have integers of 0: all of them is residual.
    pub smallest: f32,
    /// An upper bound of the length of such vectors.
    pub tiny: f32,
}

impl Quantizing {
    /// The constants for a metric and a dim.
    pub fn of(metric: Metric, dim: usize) -> Self {
        Self::up_to(((f64::from(1 << 24) / dim.max(1) as f64).sqrt() as u32).clamp(1, 127), metric, dim)
    }

    /// Those of integers that are their own codes.
    pub fn whole(metric: Metric, dim: usize) -> Self {
        Self::up_to(WHOLE, metric, dim)
    }

    /// Whether queries may be their own codes beside such rows: sums of products stay below 2^24.
    pub(crate) fn fits_whole(dim: usize) -> bool {
        (WHOLE * WHOLE) as usize * dim.next_multiple_of(4) <= 1 << 24
    }

    /// Those of other queries for such rows.
    pub(crate) fn beside_whole(metric: Metric, dim: usize) -> Self {
        // The padding has codes, too.
        let padded = dim.next_multiple_of(4).max(4);
        Self::up_to(((1 << 24) / (WHOLE as usize * padded)).clamp(1, 127) as u32, metric, dim)
    }

    fn up_to(levels: u32, metric: Metric, dim: usize) -> Self {
        let finer = (2 * levels + 2).next_power_of_two();
        let finer = if finer > 2 * levels + 2 { finer / 2 } else { finer };
        let half = (0.54 * dim as f32 + 32.0) * UNIT;
        Self {
            levels,
            finer,
            inflation: 1.0 + half,
            step_error: 16.0 * UNIT,
            unit_error: if metric.compares_directions() { half } else { 0.0 },
            smallest: 2f32.powi(-90),
            tiny: (dim as f32).sqrt() * 2f32.powi(-89),
        }
    }
}
