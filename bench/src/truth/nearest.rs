//! The k nearest rows of every query, in f64.
//!
//! A row is compared with several queries at a time, each in its own lane. So each distance is summed in the order of the elements
//! and equals `Metric::exact` bit for bit, while the compiler can still vectorise. Nothing is estimated or excluded, so there is no
//! bound to prove.

use std::collections::BinaryHeap;

use anyhow::{Error, Result};
use nearfield::{Element, Matrix, Metric};
use rayon::prelude::*;

use nearfield_cli::memory;

/// Queries side by side.
const LANES: usize = 16;
/// The fewest rows that a thread compares with a group of queries.
const LEAST_ROWS: usize = 256;

type Lanes = [f64; LANES];

/// Vectors in f64, `[rows, dim]`, and their norms.
pub(super) struct Block {
    values: Vec<f64>,
    norms: Vec<f64>,
    dim: usize,
}

impl Block {
    /// Copies vectors. `not_finite` is the error for the first that holds a NaN or an infinity.
    pub(super) fn new(vectors: &Matrix, not_finite: impl Fn(usize) -> Error) -> Result<Self> {
        match vectors {
            Matrix::F32(values, dim) => Self::of(values, *dim, not_finite),
            Matrix::F16(values, dim) => Self::of(values, *dim, not_finite),
            Matrix::BF16(values, dim) => Self::of(values, *dim, not_finite),
            Matrix::I8(values, dim) => Self::of(values, *dim, not_finite),
            Matrix::U8(values, dim) => Self::of(values, *dim, not_finite),
            Matrix::Bits(values, dim) => Self::of(values, *dim, not_finite),
        }
    }

    fn of<T: Element>(vectors: &[T], dim: usize, not_finite: impl Fn(usize) -> Error) -> Result<Self> {
        let about = || format!("no memory for {} vectors of dim {dim} in f64", vectors.len() / dim);
        let mut values = memory::filled(Some(vectors.len()), 0.0, about)?;
        values.par_iter_mut().zip(vectors).for_each(|(value, element)| *value = f64::from(element.widen()));
        let square = |row: &[f64]| row.iter().fold(0.0, |sum, x| sum + x * x);
        let norms: Vec<f64> = values.par_chunks_exact(dim).map(|row| square(row).sqrt()).collect();
        // The squares of finite f32 sum to far less than f64 holds.
        let broken = norms.iter().position(|norm| !norm.is_finite());
        broken.map_or(Ok(Self { values, norms, dim }), |row| Err(not_finite(row)))
    }

    pub(super) fn rows(&self) -> usize {
        self.norms.len()
    }
}

/// A row: its distance as an [`ordered`] number, then its id.
type Hit = (i64, u64);

/// The bits of a float in the order of `total_cmp`, and of those bits the bits of the float.
fn ordered(bits: i64) -> i64 {
    bits ^ ((bits >> 63) & i64::MAX)
}

/// The nearest rows of a query so far, the farthest on top.
type Best = BinaryHeap<Hit>;

fn add(best: &mut Best, k: usize, hit: Hit) {
    if best.len() < k {
        best.push(hit);
    } else if let Some(mut farthest) = best.peek_mut().filter(|farthest| hit < **farthest) {
        *farthest = hit;
    }
}

fn merge(mut all: Vec<Best>, more: Vec<Best>, k: usize) -> Vec<Best> {
    all.iter_mut().zip(more).for_each(|(best, more)| more.into_iter().for_each(|hit| add(best, k, hit)));
    all
}

/// Queries side by side.
struct Group {
    /// `[dim]`. Lanes without a query hold zeros.
    values: Vec<Lanes>,
    norms: Lanes,
    best: Vec<Best>,
}

/// The nearest rows of every query among those compared so far.
pub(super) struct Nearest {
    metric: Metric,
    count: usize,
    k: usize,
    groups: Vec<Group>,
}

impl Nearest {
    pub(super) fn new(metric: Metric, queries: &Block, k: usize) -> Self {
        let dim = queries.dim;
        let group = |(vectors, all): (&[f64], &[f64])| {
            let (mut values, mut norms) = (vec![[0.0; LANES]; dim], [0.0; LANES]);
            for (lane, vector) in vectors.chunks_exact(dim).enumerate() {
                values.iter_mut().zip(vector).for_each(|(lanes, x)| lanes[lane] = *x);
                norms[lane] = all[lane];
            }
            Group { values, norms, best: vec![Best::new(); LANES] }
        };
        let groups = queries.values.chunks(LANES * dim).zip(queries.norms.chunks(LANES)).map(group);
        Self { metric, count: queries.rows(), k, groups: groups.collect() }
    }

    /// Compares all queries with more rows, whose ids start at `first`.
    pub(super) fn compare(&mut self, rows: &Block, first: u64) {
        let (metric, k) = (self.metric, self.k);
        self.groups.par_iter_mut().for_each(|group| match metric {
            Metric::L2Squared | Metric::L2 => {
                group.compare(rows, first, k, |x, y| (x - y) * (x - y), |sum, _| sum);
            }
            // Only one sign of zero, because the total order distinguishes two.
            Metric::InnerProduct => group.compare(rows, first, k, |x, y| x * y, |sum, _| 0.0 - sum),
            Metric::Cosine => {
                let angle = |sum: f64, norms: f64| {
                    if norms == 0.0 { 1.0 } else { 1.0 - (sum / norms).clamp(-1.0, 1.0) }
                };
                group.compare(rows, first, k, |x, y| x * y, angle);
            }
            other => unreachable!("no reference for {other:?}"),
        });
    }

    /// The neighbours of each query, nearest first: distances and ids.
    pub(super) fn finish(self) -> impl Iterator<Item = Vec<(f64, u64)>> {
        // L2 is ordered by its square.
        let is_root = self.metric == Metric::L2;
        let root = move |(key, id): Hit| {
            let distance = f64::from_bits(ordered(key) as u64);
            (if is_root { distance.sqrt() } else { distance }, id)
        };
        let all = self.groups.into_iter().flat_map(|group| group.best).take(self.count);
        all.map(move |best| best.into_sorted_vec().into_iter().map(root).collect())
    }
}

impl Group {
    /// `term` is what a pair of elements adds. `distance` is that of a sum and a product of norms.
    fn compare(
        &mut self,
        rows: &Block,
        first: u64,
        k: usize,
        term: impl Fn(f64, f64) -> f64 + Copy + Sync,
        distance: impl Fn(f64, f64) -> f64 + Sync,
    ) {
        let (values, norms) = (&self.values, &self.norms);
        let none = || vec![Best::new(); LANES];
        let one = |mut best: Vec<Best>, row: usize| {
            let vector = &rows.values[row * rows.dim..][..rows.dim];
            let mut sums = [0.0; LANES];
            for (lanes, &y) in values.iter().zip(vector) {
                sums.iter_mut().zip(lanes).for_each(|(sum, &x)| *sum += term(x, y));
            }
            for ((best, sum), norm) in best.iter_mut().zip(sums).zip(norms) {
                let distance = distance(sum, norm * rows.norms[row]);
                add(best, k, (ordered(distance.to_bits() as i64), first + row as u64));
            }
            best
        };
        let parts = (0..rows.rows()).into_par_iter().with_min_len(LEAST_ROWS).fold(none, one);
        let found = parts.reduce(none, |all, more| merge(all, more, k));
        self.best = merge(std::mem::take(&mut self.best), found, k);
    }
}
