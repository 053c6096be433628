//! Distances of few queries: reads every row once, at the speed of memory.

use crate::error::Result;
use crate::gpu::{ACROSS, Commands, Grid, Kernel, wgsl};
use crate::kernels::distance::pairs::{PAIRS, Pairs};
pub use crate::kernels::distance::pairs_tile::Params;
use crate::kernels::distance::pairs_tile::{BUFFERS, params_of};
use crate::kernels::lengths::VECTORS;
use crate::metric::PAIRS_METRICS;

/// Queries that one pass over the rows takes at most.
const QUERIES_AT_ONCE: u32 = 4;

/// Rows of a workgroup in one turn, if its lanes sum in groups of 32: four for each group.
const ROWS_A_TURN: u32 = 32;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("pairs_scan")
    .library(&[ACROSS, PAIRS])
    .source(wgsl!("distance/pairs_scan", QUERIES_AT_ONCE))
    .buffers(BUFFERS)
    .overrides(&[("METRIC", PAIRS_METRICS), ("QUERIES", &[1, 2, QUERIES_AT_ONCE])])
    .sums_lanes()
    .lengths(&[VECTORS])
    .workgroup(256, 256 * 16);

/// Records the kernel for checked pairs of whole vectors of four.
pub(crate) fn encode(commands: &mut Commands<'_>, pairs: &Pairs<'_>) -> Result<()> {
    let at_once = match pairs.query_count {
        1 => 1,
        2 => 2,
        _ => QUERIES_AT_ONCE,
    };
    let pipeline = commands.gpu().pipeline(&KERNEL, &[pairs.metric_constant(), at_once])?;
    let limit = commands.gpu().adapter.capabilities.max_workgroups;
    let mut params = params_of(pairs);
    let groups = pairs.query_count.div_ceil(at_once);
    // Workgroups stride over the rows, so any number of them is correct; with this one each has one turn.
    let turns = pairs.row_count.div_ceil(ROWS_A_TURN).min(limit);
    for group in (0..groups).step_by(limit as usize) {
        params.first_query = group * at_once;
        let grid = Grid::Tiles(limit.min(groups - group), turns);
        commands.dispatch(&pipeline, &params, &pairs.buffers(), grid)?;
    }
    Ok(())
}
