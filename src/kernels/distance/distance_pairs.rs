//! Distances of all pairs by the definition, for any dim and any stride, plain or compensated.

use crate::error::Result;
use crate::gpu::{ACROSS, Commands, Grid, Kernel, ROUNDING, params, wgsl};
use crate::kernels::distance::pairs::{PAIRS, Pairs};
use crate::kernels::lengths::DIM;
use crate::metric::{PAIRS_METRICS, Precision};

params! {
    pub struct Params {
        /// First query of this dispatch.
        first_query: u32,
        /// First row of this dispatch.
        first_row: u32,
        queries: u32,
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
        /// 0, which the compiler does not know.
        zero: u32,
    }
}

/// Independent sums of an invocation, at most.
const ACCUMULATORS_MAX: u32 = 4;

/// Invocations per workgroup, each with one pair.
const INVOCATIONS: u32 = 64;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("distance_pairs")
    .library(&[ACROSS, ROUNDING, PAIRS])
    .source(wgsl!("distance/distance_pairs", ACCUMULATORS_MAX))
    .buffers(bindings!(queries: Read, rows: Read, distances: Write))
    .overrides(&[("METRIC", PAIRS_METRICS), ("ACCUMULATORS", &[0, 1, 2, 3, ACCUMULATORS_MAX])])
    .lengths(&[DIM])
    .workgroup(INVOCATIONS, 0);

/// Records the kernel for checked pairs.
pub(crate) fn encode(commands: &mut Commands<'_>, pairs: &Pairs<'_>) -> Result<()> {
    // More sums hide the latency of fma in long vectors.
    let accumulators = match pairs.dim {
        _ if pairs.options.precision == Precision::Compensated => 0,
        0..256 => 1,
        256..640 => 2,
        640..1024 => 3,
        _ => ACCUMULATORS_MAX,
    };
    let gpu = commands.gpu();
    let pipeline = gpu.pipeline(&KERNEL, &[pairs.metric_constant(), accumulators])?;
    let mut params = Params {
        first_query: 0,
        first_row: 0,
        queries: pairs.query_count,
        rows: pairs.row_count,
        dim: pairs.dim,
        query_stride: pairs.query_stride,
        row_stride: pairs.row_stride,
        distance_stride: pairs.distance_stride,
        as_similarity: pairs.as_similarity(),
        zero: 0,
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
