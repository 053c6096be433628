//! Distances of all pairs by the definition, for any dim and any stride.

use crate::error::{Error, Result};
use crate::gpu::{ACROSS, Access, BufferSlice, Commands, Grid, Kernel, params, wgsl};
use crate::matrix::MatrixView;
use crate::metric::Metric;

params! {
    /// Parameters of `distance_pairs`.
    pub struct Params {
        /// First query of this dispatch.
        first_query: u32,
        /// First row of this dispatch.
        first_row: u32,
        /// Queries.
        queries: u32,
        /// Rows.
        rows: u32,
        /// Elements per vector.
        dim: u32,
        /// Elements between two queries.
        query_stride: u32,
        /// Elements between two rows.
        row_stride: u32,
        /// Elements between the distances of two queries.
        distance_stride: u32,
        /// 1: writes similarities instead of distances.
        as_similarity: u32,
    }
}

/// Values of `METRIC`: the metrics, and cosine of vectors known to have norm 1.
const PAIRS_L2_SQUARED: u32 = 0;
const PAIRS_L2: u32 = 1;
const PAIRS_COSINE: u32 = 2;
const PAIRS_COSINE_OF_UNITS: u32 = 3;
const PAIRS_INNER_PRODUCT: u32 = 4;

/// Independent sums of an invocation, at most.
const ACCUMULATORS_MAX: u32 = 4;

/// Invocations per workgroup, each with one pair.
const INVOCATIONS: u32 = 64;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("distance_pairs")
    .library(&[ACROSS])
    .source(wgsl!(
        "distance/distance_pairs",
        PAIRS_L2,
        PAIRS_COSINE,
        PAIRS_COSINE_OF_UNITS,
        PAIRS_INNER_PRODUCT,
        ACCUMULATORS_MAX,
    ))
    .buffers(&[("queries", Access::Read), ("rows", Access::Read), ("distances", Access::Write)])
    .overrides(&[
        ("METRIC", &[PAIRS_L2_SQUARED, PAIRS_L2, PAIRS_COSINE, PAIRS_COSINE_OF_UNITS, PAIRS_INNER_PRODUCT]),
        ("ACCUMULATORS", &[1, 2, 3, ACCUMULATORS_MAX]),
        ("DIM", &[0, 384, 512, 768, 1536]),
    ])
    .workgroup(INVOCATIONS, 0);

/// The values that a distance kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Output {
    /// Smaller is nearer.
    #[default]
    Distance,
    /// The cosine similarity or the inner product: larger is nearer. L2 has none.
    Similarity,
}

/// The pairs to compute: f32 vectors, each at its stride.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// The metric.
    pub metric: Metric,
    /// For cosine: all vectors have norm 1, so norms are not computed.
    pub unit_vectors: bool,
    /// Distances or similarities.
    pub output: Output,
    /// `[queries, query_stride]`.
    pub queries: BufferSlice<'a>,
    /// Number of queries.
    pub query_count: u32,
    /// Elements between two queries.
    pub query_stride: u32,
    /// `[rows, row_stride]`.
    pub rows: BufferSlice<'a>,
    /// Number of rows.
    pub row_count: u32,
    /// Elements between two rows.
    pub row_stride: u32,
    /// Elements per vector.
    pub dim: u32,
    /// `[queries, distance_stride]`.
    pub distances: BufferSlice<'a>,
    /// Elements between the distances of two queries.
    pub distance_stride: u32,
}

/// Checks that the metric has such an output.
pub(crate) fn check(metric: Metric, output: Output) -> Result<()> {
    let similar = matches!(metric, Metric::Cosine | Metric::InnerProduct);
    if output == Output::Similarity && !similar {
        return Err(Error::argument("output", "distances, because L2 has no similarity", "similarities"));
    }
    Ok(())
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, pairs: &Pairs<'_>) -> Result<()> {
    check(pairs.metric, pairs.output)?;
    check_extent("queries", pairs.queries, pairs.query_count, pairs.query_stride, pairs.dim)?;
    check_extent("rows", pairs.rows, pairs.row_count, pairs.row_stride, pairs.dim)?;
    check_extent("distances", pairs.distances, pairs.query_count, pairs.distance_stride, pairs.row_count)?;
    let metric = match pairs.metric {
        Metric::L2Squared => PAIRS_L2_SQUARED,
        Metric::L2 => PAIRS_L2,
        Metric::Cosine if pairs.unit_vectors => PAIRS_COSINE_OF_UNITS,
        Metric::Cosine => PAIRS_COSINE,
        Metric::InnerProduct => PAIRS_INNER_PRODUCT,
    };
    // More sums hide the latency of fma in long vectors.
    let accumulators = match pairs.dim {
        0..256 => 1,
        256..640 => 2,
        640..1024 => 3,
        _ => ACCUMULATORS_MAX,
    };
    let gpu = commands.gpu();
    let dim = if matches!(pairs.dim, 384 | 512 | 768 | 1536) { pairs.dim } else { 0 };
    let pipeline = gpu.pipeline(&KERNEL, &[metric, accumulators, dim])?;
    let mut params = Params {
        first_query: 0,
        first_row: 0,
        queries: pairs.query_count,
        rows: pairs.row_count,
        dim: pairs.dim,
        query_stride: pairs.query_stride,
        row_stride: pairs.row_stride,
        distance_stride: pairs.distance_stride,
        as_similarity: (pairs.output == Output::Similarity).into(),
    };
    let limit = gpu.adapter.capabilities.max_workgroups;
    // A dispatch takes at most `limit` queries and as many workgroups of rows.
    for first_query in (0..pairs.query_count).step_by(limit as usize) {
        for first_row in (0..pairs.row_count).step_by(INVOCATIONS as usize * limit as usize) {
            (params.first_query, params.first_row) = (first_query, first_row);
            let rows = (pairs.row_count - first_row).min(limit.saturating_mul(INVOCATIONS));
            let grid = Grid::Tiles(rows.div_ceil(INVOCATIONS), limit.min(pairs.query_count - first_query));
            commands.dispatch(&pipeline, &params, &[pairs.queries, pairs.rows, pairs.distances], grid)?;
        }
    }
    Ok(())
}

/// Checks that `count` vectors of `dim` elements, `stride` apart, lie within a buffer.
fn check_extent(
    argument: &'static str,
    slice: BufferSlice<'_>,
    count: u32,
    stride: u32,
    dim: u32,
) -> Result<()> {
    if stride < dim {
        return Err(Error::argument(argument, format!("a stride of at least {dim}"), stride));
    }
    slice.check_rows(argument, count, [stride, dim], 4)
}

/// The distances in f64, `[queries, rows]`.
pub fn reference(metric: Metric, queries: MatrixView<'_, f32>, rows: MatrixView<'_, f32>) -> Vec<f64> {
    (0..queries.rows())
        .flat_map(|query| (0..rows.rows()).map(move |row| metric.exact(queries.row(query), rows.row(row))))
        .collect()
}
