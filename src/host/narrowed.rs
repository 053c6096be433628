//! The narrowed copy of an index's rows on the host: small integers, and what is known of what they leave out.

use pulp::Arch;

use super::distances::sum_of;
use super::integers::{GROUP, PackedRows};
use super::intervals::Group;
use super::widened;
use crate::centre::Centre;
use crate::certificate::{Form, Margin, Narrowing, Terms};
use crate::error::Result;
use crate::matrix::{Element, MatrixView};
use crate::metric::Metric;

/// Rows as integers in groups of 16, with their terms.
#[derive(Debug)]
pub(crate) struct NarrowedRows {
    metric: Metric,
    narrowing: Narrowing,
    centre: Centre,
    pub(super) rows: PackedRows,
    pub(super) terms: Vec<Group>,
    /// Space for the integers of one row.
    integers: Vec<i8>,
}

impl NarrowedRows {
    pub(super) fn new(metric: Metric, dim: usize) -> Self {
        Self {
            metric,
            narrowing: Narrowing::of(metric, dim),
            centre: Centre::new(metric, dim),
            rows: PackedRows::new(dim),
            terms: vec![],
            integers: vec![0; dim],
        }
    }

    /// The form of scores, and how far they are off.
    pub(super) fn margin(&self) -> (Form, Margin) {
        let form = Form::narrowed(self.metric);
        (form, Margin::around(form, self.centre.values()))
    }

    /// Counts new rows towards the centre; true when it is another now, and all rows have to be narrowed anew.
    pub(super) fn count<T: Element>(&mut self, rows: MatrixView<'_, T>) -> bool {
        self.centre.count(rows)
    }

    /// Room for so many rows.
    pub(super) fn resize(&mut self, rows: usize) -> Result<()> {
        super::rows::resize(&mut self.terms, rows.div_ceil(GROUP), Group::default())?;
        self.rows.resize(rows)
    }

    /// No more than so many rows.
    pub(super) fn cut(&mut self, rows: usize) {
        self.terms.truncate(rows.div_ceil(GROUP));
        self.rows.cut(rows);
    }

    /// A row in its slot, of whose squared norm is known.
    pub(super) fn set(&mut self, slot: usize, row: &[f32], squared: f64) {
        let mut integers = std::mem::take(&mut self.integers);
        let terms = self.narrow(row, squared, &mut integers);
        self.rows.set(slot, &integers);
        let (form, margin) = self.margin();
        self.terms[slot / GROUP].set(slot % GROUP, form, margin, terms);
        self.integers = integers;
    }

    pub(super) fn relocate(&mut self, from: usize, to: usize) {
        self.rows.relocate(from, to);
        let lane = self.terms[from / GROUP].lane(from % GROUP);
        self.terms[to / GROUP].put(to % GROUP, lane);
    }

    pub(super) fn shrink(&mut self) {
        self.rows.shrink();
        self.terms.shrink_to_fit();
    }

    /// The integers of a vector, and its terms.
    ///
    /// All is computed in f64, so what is rounded is the terms alone, by far less than [`Narrowing`] makes room for: its constants are
    /// those of f32 in any order.
    pub(super) fn narrow(&self, vector: &[f32], squared: f64, integers: &mut [i8]) -> Terms {
        Arch::new().dispatch(
            #[inline(always)]
            || self.narrow_one(vector, squared, integers),
        )
    }

    #[inline(always)]
    fn narrow_one(&self, vector: &[f32], squared: f64, integers: &mut [i8]) -> Terms {
        let centre = self.centre.values();
        let unit = if self.metric == Metric::Cosine && squared > 0.0 { 1.0 / squared.sqrt() } else { 1.0 };
        let Narrowing { levels, inflation, step_error, unit_error, smallest, tiny, .. } = self.narrowing;
        let part = |x: f64, m: f64| x * unit - m;
        let most = most_of(vector, centre, part);
        let lengths = sum_of(vector, centre, |x, m| part(x, m) * part(x, m));
        let bias = match self.metric {
            Metric::L2 | Metric::L2Squared => lengths,
            Metric::InnerProduct | Metric::Cosine => sum_of(vector, centre, |x, m| x * unit * m),
        };
        let bias = bias as f32;
        if most < f64::from(smallest) {
            integers.fill(0);
            let length = tiny + unit_error;
            return Terms { scale: 0.0, length, residual: length, bias };
        }
        let scale = (most / f64::from(levels)) as f32;
        let (steps, levels) = (1.0 / f64::from(scale), f64::from(levels));
        let rounded = |x: f32, m: f32| (part(x.into(), m.into()) * steps).clamp(-levels, levels) + WHOLE;
        for ((integer, &x), &m) in integers.iter_mut().zip(vector).zip(centre) {
            *integer = rounded(x, m).to_bits() as i8;
        }
        let residuals = sum_of(vector, centre, |x, m| {
            let rest = part(x, m) - (rounded(x as f32, m as f32) - WHOLE) * f64::from(scale);
            rest * rest
        });
        let upper = |x: f64| x.sqrt() as f32 * inflation;
        let length = upper(lengths) + unit_error;
        let residual = upper(residuals) + step_error * length + unit_error;
        Terms { scale, length, residual, bias }
    }

    /// The integers of several vectors, one after another, and the terms of each.
    pub(super) fn narrow_all<T: Element>(
        &self,
        vectors: MatrixView<'_, T>,
        squared: &[f64],
    ) -> (Vec<i8>, Vec<Terms>) {
        let dim = vectors.dim();
        let mut integers = vec![0; vectors.rows() * dim];
        let mut space = vec![0.0; dim];
        let terms = integers.chunks_exact_mut(dim).enumerate().map(|(row, integers)| {
            self.narrow(widened(vectors.row(row), &mut space), squared[row], integers)
        });
        let terms = terms.collect();
        (integers, terms)
    }
}

/// Adding it rounds a small number to a whole one, ties to even, whose lowest bits are then those of the sum.
const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;

/// The largest absolute value of `part` over pairs of elements.
#[inline(always)]
fn most_of(a: &[f32], b: &[f32], part: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 32;
    let larger = |one: f64, other: f64| if other > one { other } else { one };
    let mut most = [0.0f64; LANES];
    let (whole, rest) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = whole.remainder().iter().zip(rest.remainder());
    for (a, b) in whole.zip(rest) {
        for lane in 0..LANES {
            most[lane] = larger(most[lane], part(a[lane].into(), b[lane].into()).abs());
        }
    }
    for (lane, (&a, &b)) in tail.enumerate() {
        most[lane] = larger(most[lane], part(a.into(), b.into()).abs());
    }
    most.into_iter().fold(0.0, larger)
}
