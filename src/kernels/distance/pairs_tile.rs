//! Distances of many queries to many rows: tiles in registers.

use crate::error::Result;
use crate::gpu::{Access, BufferSlice, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::distance::pairs::{PAIRS, Pairs};
use crate::kernels::lengths::VECTORS;
use crate::metric::PAIRS_METRICS;

params! {
    /// Parameters of `pairs_tile` and `pairs_scan`.
    pub struct Params {
        /// First query of this dispatch.
        first_query: u32,
        /// First row of this dispatch.
        first_row: u32,
        queries: u32,
        rows: u32,
        /// Vectors of four elements in a query or row.
        vectors: u32,
        /// Vectors of four between two queries.
        query_pitch: u32,
        /// Vectors of four between two rows.
        row_pitch: u32,
        /// Elements between the distances of two queries.
        distance_stride: u32,
        /// 1: writes similarities instead of distances.
        as_similarity: u32,
    }
}

/// Queries and rows of a tile.
const TILE: u32 = 128;

/// The buffers of kernels that read whole vectors of four.
pub(super) const BUFFERS: &[(&str, Access)] = bindings!(
    queries: Read, rows: Read, query_norms: Read, row_norms: Read, distances: Write,
);

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("pairs_tile")
    .library(&[PAIRS])
    .source(wgsl!("distance/pairs_tile"))
    .buffers(BUFFERS)
    .overrides(&[("METRIC", PAIRS_METRICS)])
    .lengths(&[VECTORS])
    .workgroup(256, 2 * 8 * 33 * 16)
    .holds_tile();

/// The parameters of a dispatch that begins with the first query and the first row.
pub(super) fn params_of(pairs: &Pairs<'_>) -> Params {
    Params {
        first_query: 0,
        first_row: 0,
        queries: pairs.query_count,
        rows: pairs.row_count,
        vectors: pairs.dim / 4,
        query_pitch: pairs.query_stride / 4,
        row_pitch: pairs.row_stride / 4,
        distance_stride: pairs.distance_stride,
        as_similarity: pairs.as_similarity(),
    }
}

/// Records the kernel for checked pairs of whole vectors of four.
pub(crate) fn encode(commands: &mut Commands<'_>, pairs: &Pairs<'_>) -> Result<()> {
    encode_tiles(commands, (&KERNEL, pairs.metric_constant()), params_of(pairs), &pairs.buffers())
}

/// Records a kernel of tiles, a workgroup each, with its constant `METRIC`.
pub(super) fn encode_tiles(
    commands: &mut Commands<'_>,
    (kernel, metric): (&'static Kernel, u32),
    mut params: Params,
    buffers: &[BufferSlice<'_>],
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(kernel, &[metric])?;
    let limit = commands.gpu().adapter.capabilities.max_workgroups;
    let [query_tiles, row_tiles] = [params.queries, params.rows].map(|count| count.div_ceil(TILE));
    // A dispatch takes at most `limit` tiles along each side.
    for query_tile in (0..query_tiles).step_by(limit as usize) {
        for row_tile in (0..row_tiles).step_by(limit as usize) {
            (params.first_query, params.first_row) = (query_tile * TILE, row_tile * TILE);
            let grid = Grid::Tiles(limit.min(query_tiles - query_tile), limit.min(row_tiles - row_tile));
            commands.dispatch(&pipeline, &params, buffers, grid)?;
        }
    }
    Ok(())
}
