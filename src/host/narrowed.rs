//! The narrowed copy of an index's rows on the host: small integers, and what is known of what they leave out.

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
        let centre = self.centre.values();
        let unit = if self.metric == Metric::Cosine && squared > 0.0 { 1.0 / squared.sqrt() } else { 1.0 };
        let parts = || vector.iter().zip(centre).map(|(&x, &m)| f64::from(x) * unit - f64::from(m));
        let most = parts().fold(0.0f64, |most, x| most.max(x.abs()));
        let Narrowing { levels, inflation, step_error, unit_error, smallest, tiny, .. } = self.narrowing;
        let product = || vector.iter().zip(centre).map(|(&x, &m)| f64::from(x) * unit * f64::from(m)).sum::<f64>();
        let is_l2 = matches!(self.metric, Metric::L2 | Metric::L2Squared);
        if most < f64::from(smallest) {
            integers.fill(0);
            let length = tiny + unit_error;
            let bias = if is_l2 { parts().map(|x| x * x).sum() } else { product() };
            return Terms { scale: 0.0, length, residual: length, bias: bias as f32 };
        }
        let scale = (most / f64::from(levels)) as f32;
        let (steps, levels) = (1.0 / f64::from(scale), f64::from(levels));
        let (mut lengths, mut residuals) = (0.0, 0.0);
        for (integer, x) in integers.iter_mut().zip(parts()) {
            let whole = (x * steps).round_ties_even().clamp(-levels, levels);
            *integer = whole as i8;
            let rest = x - whole * f64::from(scale);
            lengths += x * x;
            residuals += rest * rest;
        }
        let upper = |x: f64| x.sqrt() as f32 * inflation;
        let length = upper(lengths) + unit_error;
        let residual = upper(residuals) + step_error * length + unit_error;
        Terms { scale, length, residual, bias: if is_l2 { lengths } else { product() } as f32 }
    }

    /// The integers of several vectors, one after another, and the terms of each.
    pub(super) fn narrow_all<T: Element>(&self, vectors: MatrixView<'_, T>, squared: &[f64]) -> (Vec<i8>, Vec<Terms>) {
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
