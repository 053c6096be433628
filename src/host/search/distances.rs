//! The matrix of distances between two sets of vectors.

use std::ops::Range;

use rayon::prelude::*;

use crate::distance_options::{DistanceOptions, Output, Precision};
use crate::error::{Error, Result};
use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::arithmetic::sums::quick_sum_of;
use crate::host::arithmetic::tiles::{Number, Tiles};
use crate::matrix::MatrixView;
use crate::metric::Metric;

/// Up to this many queries are compared with rows one by one: tiles would spend more time on copying rows side by side.
const FEW: usize = 4;

/// Queries of a task, at most: enough that copying the rows is a small part of its work.
const BAND: usize = 512;

/// Tasks for each thread, so that no thread waits long for the last one.
const TASKS_PER_THREAD: usize = 4;

/// Rows of a task, at least.
const LEAST_ROWS: usize = 64;

/// Vectors and their squared norms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormedVectors<'a> {
    pub(crate) vectors: MatrixView<'a, f32>,
    pub(crate) squared: &'a [f64],
}

/// Some queries, some rows, and the places of their distances: a slice for each query.
struct Task<'m> {
    queries: Range<usize>,
    rows: Range<usize>,
    distances: Vec<&'m mut [f32]>,
}

/// Memory for the distances of `queries` and `rows`. It takes `kept`, which stays as it is after an error.
pub(crate) fn room_for([queries, rows]: [usize; 2], kept: Option<&mut Vec<f32>>) -> Result<Vec<f32>> {
    let count = queries.saturating_mul(rows);
    let mut new = vec![];
    let matrix = kept.unwrap_or(&mut new);
    matrix.try_reserve_exact(count.saturating_sub(matrix.len())).map_err(|_| Error::OutOfMemory {
        purpose: "distances".to_owned(),
        bytes: Some((count as u64).saturating_mul(4)),
    })?;
    let mut matrix = std::mem::take(matrix);
    matrix.resize(count, 0.0);
    Ok(matrix)
}

/// The distance, or the similarity, of every query to every row, into `matrix`, `[queries, rows]`.
pub(crate) fn distances(
    queries: NormedVectors<'_>,
    rows: NormedVectors<'_>,
    options: DistanceOptions,
    matrix: &mut [f32],
) {
    let counts = [queries, rows].map(|vectors| vectors.vectors.rows());
    if matrix.is_empty() {
        return;
    }
    tasks(matrix, counts).into_par_iter().for_each(|task| match options.precision {
        Precision::Compensated => tiled::<f64>(task, queries, rows, options),
        _ if task.queries.len() > FEW => tiled::<f32>(task, queries, rows, options),
        _ => one_by_one(task, queries, rows, options),
    });
}

/// Divides the matrix into bands of queries, and these into ranges of rows where there are too few bands for the threads.
fn tasks(matrix: &mut [f32], [queries, rows]: [usize; 2]) -> Vec<Task<'_>> {
    let wanted = TASKS_PER_THREAD * rayon::current_num_threads();
    let width = rows.div_ceil(wanted.div_ceil(queries.div_ceil(BAND))).next_multiple_of(LEAST_ROWS);
    let mut tasks = vec![];
    for (band, matrix) in matrix.chunks_mut(BAND * rows).enumerate() {
        let queries = band * BAND..band * BAND + matrix.len() / rows;
        let first = tasks.len();
        tasks.extend((0..rows).step_by(width).map(|start| Task {
            queries: queries.clone(),
            rows: start..rows.min(start + width),
            distances: Vec::with_capacity(queries.len()),
        }));
        for distances in matrix.chunks_mut(rows) {
            let pieces = tasks[first..].iter_mut().zip(distances.chunks_mut(width));
            pieces.for_each(|(task, piece)| task.distances.push(piece));
        }
    }
    tasks
}

/// Computes a task by tiles of sums in numbers of type `T`.
fn tiled<T: Number>(
    mut task: Task<'_>,
    queries: NormedVectors<'_>,
    rows: NormedVectors<'_>,
    options: DistanceOptions,
) {
    let squared = (&queries.squared[task.queries.clone()], &rows.squared[task.rows.clone()]);
    let take = |query: usize, first: usize, sums: &[T]| {
        let places = &mut task.distances[query][first..first + sums.len()];
        match options.metric {
            // Without a branch for each distance.
            Metric::L2Squared => {
                places.iter_mut().zip(sums).for_each(|(place, &sum)| *place = narrowed(sum.into()))
            }
            _ => {
                let pairs = places.iter_mut().zip(sums).zip(&squared.1[first..]);
                pairs.for_each(|((place, &sum), &row)| {
                    *place = value(options, sum.into(), [squared.0[query], row])
                });
            }
        }
    };
    let tiles = Tiles {
        queries: queries.vectors.slice(task.queries.clone()).values(),
        rows: rows.vectors.slice(task.rows.clone()).values(),
        dim: rows.vectors.dim(),
        is_direct: is_direct(options.metric),
        take,
    };
    tiles.compute();
}

/// Computes a task pair by pair.
fn one_by_one(
    mut task: Task<'_>,
    queries: NormedVectors<'_>,
    rows: NormedVectors<'_>,
    options: DistanceOptions,
) {
    let is_direct = is_direct(options.metric);
    for (place, row) in task.rows.enumerate() {
        let values = rows.vectors.row(row);
        for (query, distances) in task.queries.clone().zip(&mut task.distances) {
            let query_values = queries.vectors.row(query);
            let sum = with_widest_registers(
                #[inline(always)]
                || match is_direct {
                    true => quick_sum_of(query_values, values, |a, b| (a - b) * (a - b)),
                    false => quick_sum_of(query_values, values, |a, b| a * b),
                },
            );
            distances[place] = value(options, sum.into(), [queries.squared[query], rows.squared[row]]);
        }
    }
}

/// Whether sums are of squared differences.
fn is_direct(metric: Metric) -> bool {
    matches!(metric, Metric::L2Squared | Metric::L2)
}

/// The value of a pair, from its sum and the squared norms of both vectors.
fn value(DistanceOptions { metric, output, .. }: DistanceOptions, sum: f64, [query, row]: [f64; 2]) -> f32 {
    narrowed(match (metric, output) {
        (Metric::L2Squared, _) => sum,
        (Metric::L2, _) => sum.sqrt(),
        (Metric::InnerProduct, Output::Distance) => -sum,
        (Metric::InnerProduct, Output::Similarity) => sum,
        (Metric::Cosine, _) => {
            let norms = query.sqrt() * row.sqrt();
            let similarity = if norms == 0.0 { 0.0 } else { (sum / norms).clamp(-1.0, 1.0) };
            if output == Output::Similarity { similarity } else { 1.0 - similarity }
        }
    })
}

/// Rounds to f32, and turns -0 into 0.
fn narrowed(value: f64) -> f32 {
    value as f32 + 0.0
}
