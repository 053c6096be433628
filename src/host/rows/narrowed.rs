//! The narrowed copy of an index's rows on the host: small integers, and what is known of what they leave out.

use pulp::Arch;
use rayon::prelude::*;

use crate::error::Result;
use crate::host::integers::{GROUP, PackedRows, set_lane};
use crate::host::rows::store::HostRows;
use crate::host::search::intervals::Group;
use crate::matrix::{Element, MatrixView};
use crate::metric::Metric;
use crate::screen::centre::Centre;
use crate::screen::certificate::{Form, Margin, Narrowing, Terms};

/// How vectors are narrowed.
#[derive(Debug)]
pub(crate) struct Narrower {
    metric: Metric,
    narrowing: Narrowing,
    centre: Centre,
    pub(crate) form: Form,
    pub(crate) margin: Margin,
}

/// Rows as integers in groups of 16, with their terms.
#[derive(Debug)]
pub(crate) struct NarrowedRows {
    pub(crate) narrower: Narrower,
    pub(crate) rows: PackedRows,
    pub(crate) terms: Vec<Group>,
}

/// So many groups are not worth a thread.
const FEW_GROUPS: usize = 8;

impl NarrowedRows {
    pub(crate) fn new(metric: Metric, dim: usize) -> Self {
        let centre = Centre::new(metric, dim);
        let form = Form::narrowed(metric);
        let margin = Margin::around(form, centre.values());
        let narrower = Narrower { metric, narrowing: Narrowing::of(metric, dim), centre, form, margin };
        Self { narrower, rows: PackedRows::new(dim), terms: vec![] }
    }

    /// Counts new rows towards the centre; true when it is another now, and all rows have to be narrowed anew.
    pub(crate) fn count<T: Element>(&mut self, rows: MatrixView<'_, T>) -> bool {
        let Narrower { centre, form, margin, .. } = &mut self.narrower;
        let is_moved = centre.count(rows);
        if is_moved {
            *margin = Margin::around(*form, centre.values());
        }
        is_moved
    }

    /// Room for so many rows.
    pub(crate) fn resize(&mut self, rows: usize) -> Result<()> {
        crate::host::rows::store::resize(&mut self.terms, rows.div_ceil(GROUP), Group::default())?;
        self.rows.resize(rows)
    }

    /// The same, of rows that are still to come.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        crate::host::rows::store::reserve(&mut self.terms, rows.div_ceil(GROUP))?;
        self.rows.reserve(rows)
    }

    /// No more than so many rows.
    pub(crate) fn cut(&mut self, rows: usize) {
        self.terms.truncate(rows.div_ceil(GROUP));
        self.rows.cut(rows);
    }

    /// Narrows the rows of those groups that are named.
    pub(crate) fn fill(&mut self, is_named: &[bool], rows: &HostRows) {
        let Self { narrower, rows: packed, terms } = self;
        let fill = |(group, (lines, terms)): (usize, (&mut [_], &mut Group))| {
            if !is_named[group] {
                return;
            }
            let (mut space, mut integers) = (vec![0.0; rows.dim], vec![0; rows.dim]);
            for slot in group * GROUP..rows.end().min((group + 1) * GROUP) {
                let of_row = narrower.narrow(rows.row(slot, &mut space), rows.squared[slot], &mut integers);
                set_lane(lines, slot % GROUP, &integers);
                terms.set(slot % GROUP, narrower.form, narrower.margin, of_row);
            }
        };
        if is_named.iter().filter(|named| **named).count() < FEW_GROUPS {
            packed.groups_mut().zip(terms).enumerate().for_each(fill);
        } else {
            packed.par_groups_mut().zip(terms.par_iter_mut()).enumerate().for_each(fill);
        }
    }

    /// A row in its slot, of which the squared norm is known.
    pub(crate) fn set(&mut self, slot: usize, row: &[f32], squared: f64) {
        let mut integers = vec![0; row.len()];
        let Self { narrower, rows, terms } = self;
        let of_row = narrower.narrow(row, squared, &mut integers);
        if let Some(lines) = rows.groups_mut().nth(slot / GROUP) {
            set_lane(lines, slot % GROUP, &integers);
        }
        terms[slot / GROUP].set(slot % GROUP, narrower.form, narrower.margin, of_row);
    }

    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        self.rows.relocate(from, to);
        let lane = self.terms[from / GROUP].lane(from % GROUP);
        self.terms[to / GROUP].put(to % GROUP, lane);
    }

    pub(crate) fn shrink(&mut self, rows: usize) {
        self.rows.shrink(rows);
        self.terms.shrink_to(rows.div_ceil(GROUP));
    }
}

impl Narrower {
    /// The integers of a vector, and its terms.
    ///
    /// All is computed in f64, so what is rounded is the terms alone, by far less than [`Narrowing`] makes room for: its constants are
    /// those of f32 in any order.
    pub(crate) fn narrow(&self, vector: &[f32], squared: f64, integers: &mut [i8]) -> Terms {
        let centre = self.centre.values();
        let unit = if self.metric == Metric::Cosine && squared > 0.0 { 1.0 / squared.sqrt() } else { 1.0 };
        let Narrowing { levels, inflation, step_error, unit_error, smallest, tiny, .. } = self.narrowing;
        let most = Arch::new().dispatch(
            #[inline(always)]
            || largest(vector, centre, unit),
        );
        let is_tiny = most < f64::from(smallest);
        let scale = if is_tiny { 0.0 } else { (most / f64::from(levels)) as f32 };
        let [lengths, residuals, products] = Arch::new().dispatch(
            #[inline(always)]
            || steps(vector, centre, [unit, scale.into(), levels.into()], integers),
        );
        let is_l2 = matches!(self.metric, Metric::L2 | Metric::L2Squared);
        let bias = if is_l2 { lengths } else { products } as f32;
        if is_tiny {
            let length = tiny + unit_error;
            return Terms { scale, length, residual: length, bias };
        }
        let upper = |x: f64| x.sqrt() as f32 * inflation;
        let length = upper(lengths) + unit_error;
        let residual = upper(residuals) + step_error * length + unit_error;
        Terms { scale, length, residual, bias }
    }

    /// The integers of several vectors, one after another, and the terms of each.
    pub(crate) fn narrow_all(&self, vectors: MatrixView<'_, f32>, squared: &[f64]) -> (Vec<i8>, Vec<Terms>) {
        let dim = vectors.dim();
        let mut integers = vec![0; vectors.rows() * dim];
        let rows = integers.chunks_exact_mut(dim).enumerate();
        let terms =
            rows.map(|(row, integers)| self.narrow(vectors.row(row), squared[row], integers)).collect();
        (integers, terms)
    }
}

/// Numbers that are worked on beside each other.
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

/// The integers of `(x unit - m) / scale`, all 0 for a scale of 0; and the sums of the squares of `x unit - m`, of the squares of what
/// the integers leave out, and of `x unit m`.
#[inline(always)]
fn steps(vector: &[f32], centre: &[f32], [unit, scale, levels]: [f64; 3], integers: &mut [i8]) -> [f64; 3] {
    let each = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut sums = [[0.0f64; LANES]; 3];
    let mut start = 0;
    while start < vector.len() {
        let end = vector.len().min(start + LANES);
        // Zeros beside the last elements add nothing.
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

/// Added to a small number it leaves no room for a fraction: the sum is rounded to whole numbers, ties to even, and its lowest bits are
/// those of the integer. A conversion to i8 would be done one by one.
const TO_WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
