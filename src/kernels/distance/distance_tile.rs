//! Dot products of many queries: tiles in registers, at the speed of arithmetic.

use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, RowLayout, wgsl};
use crate::kernels::blocks::{
    BLOCK_ROWS, IN_BLOCKS, ROW_PLACE, SCORE_BUFFERS, SCORES, Scored, WORDS_IN_BLOCKS, lie_in_blocks,
};
use crate::kernels::lengths::VECTORS;

pub use crate::kernels::distance::distance_scan::Params;

/// Queries of a tile: buffers of queries and scores have room for a multiple of these.
pub const TILE_QUERIES: u32 = BLOCK_ROWS;

/// The declaration. Its parameters are those of `distance_scan`.
pub static KERNEL: Kernel = Kernel::new::<Params>("distance_tile")
    .library(&[SCORES, WORDS_IN_BLOCKS, ROW_PLACE])
    .source(wgsl!("distance/distance_tile"))
    .buffers(SCORE_BUFFERS)
    .overrides(&[IN_BLOCKS])
    .loads_rows()
    .only(lie_in_blocks)
    .lengths(&[VECTORS])
    .workgroup(256, 2 * 8 * 33 * 16)
    .holds_tile();

pub(crate) fn encode(commands: &mut Commands<'_>, scored: &Scored<'_>, layout: RowLayout) -> Result<()> {
    let pipeline = commands.gpu().pipeline_for(&KERNEL, layout.elements, &[layout.in_blocks.into()])?;
    let grid = Grid::Tiles(scored.count.div_ceil(TILE_QUERIES), scored.part.blocks);
    commands.dispatch(&pipeline, &Params::of(scored, layout), &scored.buffers(), grid)
}
