//! Dot products of many queries: tiles in registers, at the speed of arithmetic.

use crate::elements::ElementKind;
use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, SCORE_BUFFERS, SCORES, Scored};
use crate::kernels::lengths::VECTORS;

pub use crate::kernels::distance::distance_scan::Params;

/// Queries of a tile: buffers of queries and scores have room for a multiple of these.
pub const TILE_QUERIES: u32 = BLOCK_ROWS;

/// The declaration. Its parameters are those of `distance_scan`.
pub static KERNEL: Kernel = Kernel::new::<Params>("distance_tile")
    .library(&[SCORES])
    .source(wgsl!("distance/distance_tile"))
    .buffers(SCORE_BUFFERS)
    .loads_rows()
    .lengths(&[VECTORS])
    .workgroup(256, 2 * 8 * 33 * 16)
    .holds_tile();

/// Records the kernel for rows of `vectors` vectors of four elements.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    scored: &Scored<'_>,
    (elements, vectors): (ElementKind, u32),
) -> Result<()> {
    let pipeline = commands.gpu().pipeline_for(&KERNEL, elements, &[])?;
    let grid = Grid::Tiles(scored.count.div_ceil(TILE_QUERIES), scored.part.blocks);
    commands.dispatch(&pipeline, &Params::of(scored, vectors), &scored.buffers(), grid)
}
