//! Scores of few narrowed queries: reads every narrowed row once, at the speed of memory.

use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, SCORE_BUFFERS, SCORES, Scored};

params! {
    /// Parameters of `screen_scan_i8`.
    pub struct Params {
        /// Granules of 16 dimensions per narrowed vector.
        granules: u32,
        /// Granules of a plane of queries.
        plane: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// First column of this part.
        column_first: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
        /// Step of the second plane, in steps of the first.
        fraction: f32,
    }
}

/// Queries that one pass over the rows takes at most. Buffers of scores have room for a multiple of it.
pub const QUERIES_AT_ONCE: u32 = 8;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_scan_i8")
    .library(&[SCORES])
    .source(wgsl!("screen/screen_scan_i8", QUERIES_AT_ONCE))
    .buffers(SCORE_BUFFERS)
    .overrides(&[("QUERIES", &[1, 2, 4, QUERIES_AT_ONCE]), ("PLANES", &[1, 2])])
    .workgroup(128, 8 * 2 * 8 * 16);

/// Records the kernel for narrowed queries of one plane or two, of one block each, with `finer` steps of the second plane in a step of
/// the first. `scores` has room for a multiple of eight queries.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    scored: &Scored<'_>,
    granules: u32,
    (planes, finer): (u32, u32),
) -> Result<()> {
    let &Scored { count, room, part, .. } = scored;
    let at_once = count.next_power_of_two().min(QUERIES_AT_ONCE);
    let pipeline = commands.gpu().pipeline(&KERNEL, &[at_once, planes])?;
    let params = Params {
        granules,
        plane: granules * BLOCK_ROWS,
        room,
        column_first: part.column_first,
        block_first: part.block_first,
        block_step: part.block_step,
        fraction: 1.0 / finer as f32,
    };
    let grid = Grid::Tiles(part.blocks, count.div_ceil(at_once));
    commands.dispatch(&pipeline, &params, &scored.buffers(), grid)
}

/// The score of a query of one or two planes, as the kernel rounds it.
pub fn reference(planes: &[&[i32]], finer: u32, row: &[i32]) -> f32 {
    let dot = |plane: &[i32]| crate::kernels::screen::screen_tile_i8::reference(plane, row) as f32;
    let first = dot(planes[0]);
    planes.get(1).map_or(first, |plane| dot(plane).mul_add(1.0 / finer as f32, first))
}
