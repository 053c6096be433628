//! The matrix of distances between two sets of vectors.
//!
//! L2 in f32 is computed from products and norms where the distance is large enough for that: processors multiply matrices nearly twice
//! as fast as they add up squared differences. Near pairs are computed from differences, so the relative bound holds for them as well.

use std::ops::Range;

use crate::parallel::*;

use crate::elements::MatrixView;
use crate::error::{Error, Result};
use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::arithmetic::sums::{quick_sum_of, squared_differences};
use crate::host::arithmetic::tiles::{CHAIN, Number, Tiles};
use crate::interrupt::{self, Stop};
use crate::metric::{Metric, Precision};
use crate::options::distance::DistanceOptions;

/// Up to this many queries are compared with rows one by one: tiles would spend more time on copying rows side by side.
const FEW: usize = 4;

/// Queries of a task, at most: enough that copying the rows is a small part of its work.
const BAND: usize = 512;

/// Elements of these queries, at most, but at least those of five queries: each thread has a copy of them.
const BAND_ELEMENTS: usize = 1 << 20;

/// Tasks for each thread, so that no thread waits long for the last one.
const TASKS_PER_THREAD: usize = 4;

/// Rows of a task, at least.
const LEAST_ROWS: usize = 64;

/// Rows that tell whether L2 of the next ones is computed from products, and rows that are computed together after them.
const PROBED_ROWS: usize = 64;
const STRETCH: usize = 4096;

/// L2 is computed from products until one pair in this many is near, and has to be computed again from differences.
const MOST_NEAR: usize = 32;

/// Products of elements between two looks at whether to stop, where pairs are compared one by one.
const WORK: usize = 1 << 24;

/// Values that are cleared between two such looks.
const CLEARED: usize = 1 << 24;

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

/// Makes room for the distances of `queries` and `rows`.
pub(crate) fn make_room([queries, rows]: [usize; 2], matrix: &mut Vec<f32>) -> Result<()> {
    let count = queries.saturating_mul(rows);
    matrix.try_reserve_exact(count.saturating_sub(matrix.len())).map_err(|_| Error::OutOfMemory {
        purpose: "distances".into(),
        bytes: Some((count as u64).saturating_mul(4)),
    })?;
    matrix.truncate(count);
    while matrix.len() < count {
        interrupt::check()?;
        matrix.resize(count.min(matrix.len() + CLEARED), 0.0);
    }
    Ok(())
}

/// The distance, or the similarity, of every query to every row, into `matrix`, `[queries, rows]`. Its values are undefined after an
/// error, which only an interrupted call has.
pub(crate) fn distances(
    queries: NormedVectors<'_>,
    rows: NormedVectors<'_>,
    options: DistanceOptions,
    matrix: &mut [f32],
) -> Result<()> {
    let counts = [queries, rows].map(|vectors| vectors.vectors.rows());
    if matrix.is_empty() {
        return Ok(());
    }
    let operations = matrix.len().saturating_mul(rows.vectors.dim());
    let tasks = tasks(matrix, counts, rows.vectors.dim());
    interrupt::watch(operations, |stop| {
        tasks.into_par_iter().try_for_each(|task| match options.precision {
            Precision::Compensated => tiled::<f64>(task, queries, rows, options, stop),
            _ if task.queries.len() > FEW => tiled::<f32>(task, queries, rows, options, stop),
            _ => one_by_one(task, queries, rows, options, stop),
        })
    })
}

/// Divides the matrix into bands of queries, and these into ranges of rows where there are too few bands for the threads.
fn tasks(matrix: &mut [f32], [queries, rows]: [usize; 2], dim: usize) -> Vec<Task<'_>> {
    let band_height = (BAND_ELEMENTS / dim).clamp(FEW + 1, BAND);
    let wanted = TASKS_PER_THREAD * current_num_threads();
    let width = rows.div_ceil(wanted.div_ceil(queries.div_ceil(band_height))).next_multiple_of(LEAST_ROWS);
    let mut tasks = vec![];
    for (band, matrix) in matrix.chunks_mut(band_height * rows).enumerate() {
        let queries = band * band_height..band * band_height + matrix.len() / rows;
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
    stop: Stop<'_>,
) -> Result<()> {
    let dim = rows.vectors.dim();
    let is_l2 = options.metric.adds_differences();
    let limit = if is_l2 && options.precision == Precision::Fast { near_limit(dim) } else { None };
    let mut is_direct = is_l2 && limit.is_none();
    let inverse_queries = inverses(options.metric, &queries.squared[task.queries.clone()]);
    let inverse_rows = inverses(options.metric, &rows.squared[task.rows.clone()]);
    let squared_rows: Vec<f32> =
        rows.squared[task.rows.clone()].iter().map(|&squared| squared as f32).collect();
    let mut start = task.rows.start;
    while start < task.rows.end {
        // A few rows tell whether many pairs are near.
        let most = if limit.is_some() && start == task.rows.start { PROBED_ROWS } else { STRETCH };
        let stretch = start..task.rows.end.min(start + most);
        let mut near = 0;
        let take = |query: usize, first: usize, sums: &[T]| {
            let first = stretch.start + first;
            let places = &mut task.distances[query][first - task.rows.start..][..sums.len()];
            let query = task.queries.start + query;
            match limit {
                None => {
                    let scales = inverse_rows[first - task.rows.start..].iter();
                    let pairs = places.iter_mut().zip(sums).zip(scales);
                    let own = inverse_queries[query - task.queries.start];
                    pairs.for_each(|((place, &sum), scale)| *place = value(options, sum.into(), own * scale));
                }
                Some(limit) => {
                    let squared = (queries.squared[query] as f32, &squared_rows[first - task.rows.start..]);
                    let found = write_l2(places, (sums, is_direct), squared, limit);
                    near += found;
                    if found > 0 && !is_direct {
                        // Near ones are computed from differences.
                        for (row, (place, &own)) in (first..).zip(places.iter_mut().zip(squared.1)) {
                            if *place < limit * (squared.0 + own) {
                                let vectors = [queries.vectors.row(query), rows.vectors.row(row)];
                                *place = quantized(squared_differences(vectors[0], vectors[1]));
                            }
                        }
                    }
                    if options.metric.is_root() {
                        places.iter_mut().for_each(|place| *place = place.sqrt());
                    }
                }
            }
        };
        let tiles = Tiles {
            queries: queries.vectors.slice(task.queries.clone()).values(),
            rows: rows.vectors.slice(stretch.clone()).values(),
            dim,
            is_direct,
            stop,
            take,
        };
        tiles.compute()?;
        is_direct = limit.map_or(is_direct, |_| near * MOST_NEAR > stretch.len() * task.queries.len());
        start = stretch.end;
    }
    Ok(())
}

/// The least squared distance, as a share of `|q|^2 + |x|^2`, that products give within the promised bound. None where products are
/// hardly better than differences.
///
/// In units of 2^-23: products in chains are off by `(CHAIN + dim / CHAIN + 2) / 2 |q| |x|` at most, so the squared distance by
/// `(CHAIN + dim / CHAIN + 2) / 2 (|q|^2 + |x|^2)`; the norms and their sum are rounded by 1 more, and the distance by 1/2 of itself. The
/// bound is `dim + 4` of the distance.
fn near_limit(dim: usize) -> Option<f32> {
    let rounded = (CHAIN + dim.div_ceil(CHAIN) + 2) as f32 / 2.0 + 1.0;
    Some(rounded / (dim + 2) as f32).filter(|&limit| limit <= 0.25)
}

/// Writes the squared distances of a query from sums of products, or of squared differences. Returns how many of them are near: below
/// the limit, where products are not exact enough.
#[inline(always)]
fn write_l2<T: Number>(
    places: &mut [f32],
    (sums, is_direct): (&[T], bool),
    (query, rows): (f32, &[f32]),
    limit: f32,
) -> usize {
    let mut near = 0u32;
    for ((place, &sum), &row) in places.iter_mut().zip(sums).zip(rows) {
        let norms = query + row;
        let distance = if is_direct { sum.rounded() } else { (norms - 2.0 * sum.rounded()).max(0.0) };
        near += u32::from(distance < limit * norms);
        *place = distance;
    }
    near as usize
}

/// Computes a task pair by pair.
fn one_by_one(
    mut task: Task<'_>,
    queries: NormedVectors<'_>,
    rows: NormedVectors<'_>,
    options: DistanceOptions,
    stop: Stop<'_>,
) -> Result<()> {
    let is_direct = options.metric.adds_differences();
    let at_once = (WORK / (rows.vectors.dim() * task.queries.len())).max(1);
    let inverse_queries = inverses(options.metric, &queries.squared[task.queries.clone()]);
    let inverse_rows = inverses(options.metric, &rows.squared[task.rows.clone()]);
    for (place, (row, inverse)) in task.rows.zip(inverse_rows).enumerate() {
        if place % at_once == 0 {
            stop.check()?;
        }
        let values = rows.vectors.row(row);
        let places = task.distances.iter_mut().zip(&inverse_queries);
        for (query, (distances, own)) in task.queries.clone().zip(places) {
            let query_values = queries.vectors.row(query);
            let sum = with_widest_registers(
                #[inline(always)]
                || match is_direct {
                    true => quick_sum_of(query_values, values, |a, b| (a - b) * (a - b)),
                    false => quick_sum_of(query_values, values, |a, b| a * b),
                },
            );
            distances[place] = value(options, sum.into(), own * inverse);
        }
    }
    Ok(())
}

/// The inverse norms that sums are divided by, 0 for zero vectors; nothing that matters for metrics that divide by none.
fn inverses(metric: Metric, squared: &[f64]) -> Vec<f64> {
    let inverse = |&squared: &f64| if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 };
    if metric.compares_directions() { squared.iter().map(inverse).collect() } else { squared.to_vec() }
}

/// The value of a pair, from its sum and the product of both inverse norms.
#[inline(always)]
fn value(DistanceOptions { metric, output, .. }: DistanceOptions, sum: f64, scale: f64) -> f32 {
    let sum = if metric.compares_directions() { sum * scale } else { sum };
    quantized(metric.value(sum, output))
}

/// Rounds to f32, and turns -0 into 0.
fn quantized(value: f64) -> f32 {
    value as f32 + 0.0
}
