//! Scores of groups of 16 rows for some queries: dot products of integers, or of f32 where no narrowed copy is kept.

use std::ops::Range;

use pulp::Arch;

use crate::host::integers::{self, GROUP, Isa, PackedQueries};
use crate::host::rows::narrowed::NarrowedRows;
use crate::host::rows::norms::SHORTEST;
use crate::host::rows::store::HostRows;
use crate::host::search::intervals::{Group, Side};
use crate::matrix::MatrixView;
use crate::metric::Metric;
use crate::screen::certificate::{Form, Margin, Terms};

/// Queries, widened to f32, with their squared norms.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) vectors: MatrixView<'a, f32>,
    pub(crate) squared: &'a [f64],
}

impl Batch<'_> {
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        Self { vectors: self.vectors.slice(range.clone()), squared: &self.squared[range] }
    }
}

/// Up to so many queries are scored by dot products of their own: a matrix product would spend more on packing.
const FEW: usize = 4;

/// Scores rows for queries of a batch.
pub(crate) struct Scorer<'a> {
    rows: &'a HostRows,
    pub(crate) queries: Batch<'a>,
    /// The queries' sides of intervals.
    sides: Vec<Side>,
    way: Way<'a>,
}

/// The queries that rows are scored for.
pub(crate) struct Chosen {
    /// Their places in the batch.
    pub(crate) places: Vec<u32>,
    pub(crate) sides: Vec<Side>,
}

enum Way<'a> {
    Integers {
        narrowed: &'a NarrowedRows,
        integers: Vec<i8>,
        packed: PackedQueries,
        scores: Vec<i32>,
    },
    Floats {
        form: Form,
        margin: Margin,
        terms: Vec<Group>,
        chosen: Vec<f32>,
        scores: Vec<f32>,
        widened: Vec<f32>,
    },
}

/// Scores of groups of rows.
pub(crate) enum Scores<'a> {
    /// `[group][query][16]`
    Integers(&'a [i32]),
    /// `[query][group][16]`
    Floats(&'a [f32]),
}

impl<'a> Scorer<'a> {
    /// Nothing is scored before queries are chosen.
    pub(crate) fn new(rows: &'a HostRows, queries: Batch<'a>) -> Self {
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
            let way =
                Way::Floats { form, margin, terms: vec![], chosen: vec![], scores: vec![], widened: vec![] };
            return Self { rows, queries, sides, way };
        };
        let narrower = &narrowed.narrower;
        let (form, margin) = (narrower.form, narrower.margin);
        let (integers, terms) = narrower.narrow_all(queries.vectors, queries.squared);
        let sides = terms.into_iter().map(|terms| Side::new(form, margin, terms)).collect();
        let packed = PackedQueries::new(&[], rows.dim, Isa::detect());
        Self { rows, queries, sides, way: Way::Integers { narrowed, integers, packed, scores: vec![] } }
    }

    /// From now on rows are scored for all queries.
    pub(crate) fn choose_all(&mut self) -> Chosen {
        let dim = self.rows.dim;
        match &mut self.way {
            Way::Integers { integers, packed, .. } => {
                *packed = PackedQueries::new(integers, dim, Isa::detect())
            }
            Way::Floats { chosen, .. } => {
                chosen.clear();
                chosen.extend_from_slice(self.queries.vectors.values());
            }
        }
        Chosen { places: (0..self.sides.len() as u32).collect(), sides: self.sides.clone() }
    }

    /// From now on rows are scored for the queries in these places.
    pub(crate) fn choose(&mut self, places: Vec<u32>) -> Chosen {
        let dim = self.rows.dim;
        match &mut self.way {
            Way::Integers { integers, packed, .. } => {
                let mut some = Vec::with_capacity(places.len() * dim);
                places
                    .iter()
                    .for_each(|&place| some.extend_from_slice(&integers[place as usize * dim..][..dim]));
                *packed = PackedQueries::new(&some, dim, Isa::detect());
            }
            Way::Floats { chosen, .. } => {
                chosen.clear();
                places
                    .iter()
                    .for_each(|&place| chosen.extend_from_slice(self.queries.vectors.row(place as usize)));
            }
        }
        let sides = places.iter().map(|&place| self.sides[place as usize]).collect();
        Chosen { places, sides }
    }

    /// The terms of groups of rows, and their scores for the queries that were chosen.
    pub(crate) fn score(&mut self, groups: Range<usize>) -> (&[Group], Scores<'_>) {
        match &mut self.way {
            Way::Integers { narrowed, packed, scores, .. } => {
                scores.resize(groups.len() * packed.queries() * GROUP, 0);
                integers::dots(&narrowed.rows, groups.clone(), packed, 0..packed.panels(), scores);
                (&narrowed.terms[groups], Scores::Integers(scores))
            }
            Way::Floats { form, margin, terms, chosen, scores, widened } => {
                let slots = groups.start * GROUP..self.rows.end().min(groups.end * GROUP);
                terms.clear();
                terms.resize(groups.len(), Group::default());
                for slot in slots.clone() {
                    let (group, lane) = (slot / GROUP - groups.start, slot % GROUP);
                    terms[group].set(lane, *form, *margin, terms_of(*form, self.rows.squared[slot]));
                }
                let pitch = groups.len() * GROUP;
                scores.resize(chosen.len() / self.rows.dim * pitch, 0.0);
                let rows = self.rows.widened(slots, widened);
                products((chosen, self.rows.dim), rows, scores, pitch);
                (terms, Scores::Floats(scores))
            }
        }
    }
}

/// The terms of a vector that is not narrowed.
fn terms_of(form: Form, squared: f64) -> Terms {
    if form == Form::Cosine && squared > 0.0 && squared < SHORTEST {
        // A centroid of rows that are nearly opposite. Its inverse norm may be larger than any f32, and what its products lose large
        // beside it: nothing is known of its direction.
        return Terms { residual: 1.0, ..Terms::default() };
    }
    let inverse = if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 };
    Terms::of_norms(form, squared as f32, inverse as f32)
}

/// Dot products in f32, `[queries, pitch]`.
fn products((queries, dim): (&[f32], usize), rows: &[f32], found: &mut [f32], pitch: usize) {
    let [count, wanted] = [rows.len() / dim, queries.len() / dim];
    if wanted <= FEW {
        for (query, found) in queries.chunks_exact(dim).zip(found.chunks_exact_mut(pitch)) {
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
            wanted,
            dim,
            found.as_mut_ptr(),
            pitch as isize,
            1,
            false,
            rows.as_ptr(),
            1,
            dim as isize,
            queries.as_ptr(),
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
