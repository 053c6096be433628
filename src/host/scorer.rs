//! Scores of groups of 16 rows for some queries: dot products of integers, or of f32 where no narrowed copy is kept.

use std::ops::Range;

use pulp::Arch;

use super::integers::{self, GROUP, Isa, PackedQueries};
use super::intervals::{Group, Side};
use super::narrowed::NarrowedRows;
use super::rows::HostRows;
use crate::certificate::{Form, Margin, Terms};
use crate::matrix::MatrixView;
use crate::metric::Metric;

/// Queries, widened to f32, with their squared norms.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) vectors: MatrixView<'a, f32>,
    pub(super) squared: &'a [f64],
}

impl Batch<'_> {
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        Self { vectors: self.vectors.slice(range.clone()), squared: &self.squared[range] }
    }
}

/// Up to so many queries are scored by dot products of their own: a matrix product would spend more on packing.
const FEW: usize = 4;

/// Scores rows for the same queries.
pub(super) struct Scorer<'a> {
    rows: &'a HostRows,
    queries: Batch<'a>,
    /// The queries' sides of intervals.
    pub(super) sides: Vec<Side>,
    way: Way<'a>,
}

enum Way<'a> {
    Integers { narrowed: &'a NarrowedRows, packed: PackedQueries, scores: Vec<i32> },
    Floats { form: Form, margin: Margin, terms: Vec<Group>, scores: Vec<f32>, widened: Vec<f32> },
}

/// Scores of groups of rows.
pub(super) enum Scores<'a> {
    /// `[group][query][16]`
    Integers(&'a [i32]),
    /// `[query][group][16]`
    Floats(&'a [f32]),
}

impl<'a> Scorer<'a> {
    pub(super) fn new(rows: &'a HostRows, queries: Batch<'a>) -> Self {
        let Some(narrowed) = &rows.narrowed else {
            let form = match rows.metric {
                Metric::L2 | Metric::L2Squared => Form::L2,
                Metric::InnerProduct => Form::InnerProduct,
                Metric::Cosine => Form::Cosine,
            };
            let margin = Margin::of_rounding(form, rows.dim);
            let sides =
                queries.squared.iter().map(|&squared| Side::new(form, margin, terms_of(form, squared)));
            let sides = sides.collect();
            let way = Way::Floats { form, margin, terms: vec![], scores: vec![], widened: vec![] };
            return Self { rows, queries, sides, way };
        };
        let narrower = &narrowed.narrower;
        let (form, margin) = (narrower.form, narrower.margin);
        let (integers, terms) = narrower.narrow_all(queries.vectors, queries.squared);
        let sides = terms.into_iter().map(|terms| Side::new(form, margin, terms)).collect();
        let packed = PackedQueries::new(&integers, rows.dim, Isa::detect());
        Self { rows, queries, sides, way: Way::Integers { narrowed, packed, scores: vec![] } }
    }

    /// The terms of groups of rows, and their scores.
    pub(super) fn score(&mut self, groups: Range<usize>) -> (&[Group], Scores<'_>) {
        let queries = self.queries.vectors.rows();
        match &mut self.way {
            Way::Integers { narrowed, packed, scores } => {
                scores.resize(groups.len() * queries * GROUP, 0);
                integers::dots(&narrowed.rows, groups.clone(), packed, 0..packed.panels(), scores);
                (&narrowed.terms[groups], Scores::Integers(scores))
            }
            Way::Floats { form, margin, terms, scores, widened } => {
                let slots = groups.start * GROUP..self.rows.end().min(groups.end * GROUP);
                terms.clear();
                terms.resize(groups.len(), Group::default());
                for slot in slots.clone() {
                    let (group, lane) = (slot / GROUP - groups.start, slot % GROUP);
                    terms[group].set(lane, *form, *margin, terms_of(*form, self.rows.squared[slot]));
                }
                let pitch = groups.len() * GROUP;
                scores.resize(queries * pitch, 0.0);
                let rows = self.rows.widened(slots, widened);
                products(self.queries.vectors, rows, scores, pitch);
                (terms, Scores::Floats(scores))
            }
        }
    }
}

/// The terms of a vector that is not narrowed.
fn terms_of(form: Form, squared: f64) -> Terms {
    let inverse = if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 };
    Terms::of_norms(form, squared as f32, inverse as f32)
}

/// Dot products in f32, `[queries, pitch]`.
fn products(queries: MatrixView<'_, f32>, rows: &[f32], found: &mut [f32], pitch: usize) {
    let dim = queries.dim();
    let count = rows.len() / dim;
    if queries.rows() <= FEW {
        for (query, found) in found.chunks_exact_mut(pitch).enumerate() {
            let query = queries.row(query);
            Arch::new().dispatch(
                #[inline(always)]
                || {
                    for (row, found) in rows.chunks_exact(dim).zip(found.iter_mut()) {
                        *found = dot(query, row);
                    }
                },
            );
        }
        return;
    }
    #[expect(unsafe_code, reason = "the crate for matrix products takes pointers")]
    // SAFETY: the three matrices lie in slices of these shapes: `rows` is [count, dim], the queries are [queries, dim], and `found` is
    // [queries, pitch] with count <= pitch. It is written through a unique reference.
    unsafe {
        gemm::gemm(
            count,
            queries.rows(),
            dim,
            found.as_mut_ptr(),
            pitch as isize,
            1,
            false,
            rows.as_ptr(),
            1,
            dim as isize,
            queries.values().as_ptr(),
            dim as isize,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// A dot product in f32.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 64;
    let mut sums = [0.0f32; LANES];
    let (whole, rest) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = whole.remainder().iter().zip(rest.remainder());
    for (a, b) in whole.zip(rest) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    tail.enumerate().for_each(|(lane, (a, b))| sums[lane] += a * b);
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}
