//! Distances as they are reported: in f64, rounded to f32 once.

use pulp::Arch;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::kernels::distance_pairs::Output;
use crate::matrix::MatrixView;
use crate::metric::Metric;

/// Sums that run beside each other: enough to hide the latency of addition at every register width.
const LANES: usize = 32;

/// The sum of `term` over pairs of elements. The order of summation depends on the length alone.
#[inline(always)]
pub(crate) fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (whole, rest) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    // Zeros behind the last elements add nothing. Lanes are never indexed by what is only known at run time: they would leave
    // their registers.
    let (mut last_a, mut last_b) = ([0.0; LANES], [0.0; LANES]);
    last_a[..whole.remainder().len()].copy_from_slice(whole.remainder());
    last_b[..rest.remainder().len()].copy_from_slice(rest.remainder());
    for (a, b) in whole.zip(rest) {
        for lane in 0..LANES {
            sums[lane] += term(f64::from(a[lane]), f64::from(b[lane]));
        }
    }
    for lane in 0..LANES {
        sums[lane] += term(f64::from(last_a[lane]), f64::from(last_b[lane]));
    }
    let sums: [f64; 16] = halved(sums);
    let sums: [f64; 8] = halved(sums);
    let sums: [f64; 4] = halved(sums);
    let [one, other] = halved(sums);
    one + other
}

/// Sums of lanes that lie half the lanes apart.
#[inline(always)]
fn halved<const N: usize, const H: usize>(lanes: [f64; N]) -> [f64; H] {
    let mut sums = [0.0; H];
    for lane in 0..H {
        sums[lane] = lanes[lane] + lanes[lane + H];
    }
    sums
}

/// The sum of squares.
pub(crate) fn squares(x: &[f32]) -> f64 {
    Arch::new().dispatch(
        #[inline(always)]
        || sum_of(x, x, |a, b| a * b),
    )
}

/// The dot product.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    Arch::new().dispatch(
        #[inline(always)]
        || sum_of(a, b, |a, b| a * b),
    )
}

/// A query, and what is needed of it to compute distances.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) vector: &'a [f32],
    /// Its squared norm.
    pub(crate) squared: f64,
}

/// The distance that is reported; of L2 its square.
pub(crate) fn distance(metric: Metric, query: Side<'_>, row: Side<'_>) -> f32 {
    let (q, x) = (query.vector, row.vector);
    let exact = match metric {
        Metric::L2Squared | Metric::L2 => Arch::new().dispatch(
            #[inline(always)]
            || sum_of(q, x, |a, b| (a - b) * (a - b)),
        ),
        Metric::InnerProduct => -dot(q, x),
        Metric::Cosine => 1.0 - cosine(query, row),
    };
    // Not -0, which no key stands for.
    exact as f32 + 0.0
}

fn cosine(query: Side<'_>, row: Side<'_>) -> f64 {
    let norms = query.squared.sqrt() * row.squared.sqrt();
    if norms == 0.0 { 0.0 } else { (dot(query.vector, row.vector) / norms).clamp(-1.0, 1.0) }
}

/// The distance, or the similarity, of every query to every row, `[queries, rows]`.
pub(crate) fn distances(
    queries: MatrixView<'_, f32>,
    rows: MatrixView<'_, f32>,
    metric: Metric,
    output: Output,
) -> Result<Vec<f32>> {
    let count = queries.rows().saturating_mul(rows.rows());
    let mut found = vec![];
    found.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
        purpose: "distances".to_owned(),
        bytes: Some((count as u64).saturating_mul(4)),
    })?;
    if count == 0 {
        return Ok(found);
    }
    found.resize(count, 0.0);
    let squared: Vec<f64> = (0..rows.rows()).into_par_iter().map(|row| squares(rows.row(row))).collect();
    found.par_chunks_mut(rows.rows()).enumerate().for_each(|(query, found)| {
        let vector = queries.row(query);
        let query = Side { vector, squared: squares(vector) };
        for (row, found) in found.iter_mut().enumerate() {
            let side = Side { vector: rows.row(row), squared: squared[row] };
            *found = match (metric, output) {
                (Metric::Cosine, Output::Similarity) => cosine(query, side) as f32,
                (Metric::InnerProduct, Output::Similarity) => dot(query.vector, side.vector) as f32,
                (Metric::L2, _) => distance(metric, query, side).sqrt(),
                _ => distance(metric, query, side),
            };
        }
    });
    Ok(found)
}
