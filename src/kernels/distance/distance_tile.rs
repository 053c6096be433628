//! Dot products of many queries: tiles in registers, at the speed of arithmetic.

use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, SCORE_BUFFERS, SCORES, Scored};
use crate::kernels::lengths::VECTORS;
use crate::matrix::ElementKind;

pub use crate::kernels::distance::distance_scan::reference;

params! {
    /// Parameters of `distance_tile`.
    pub struct Params {
        /// Vectors of four elements per row.
        vectors: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// First column of this part.
        column_first: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
    }
}

/// Queries of a tile: buffers of queries and scores have room for a multiple of these.
pub const TILE_QUERIES: u32 = BLOCK_ROWS;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("distance_tile")
    .library(&[SCORES])
    .source(wgsl!("distance/distance_tile"))
    .buffers(SCORE_BUFFERS)
    .loads_rows()
    .lengths(&[VECTORS])
    .workgroup(128, 2 * 8 * 33 * 16);

/// Records the kernel for rows of `vectors` vectors of four elements.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    scored: &Scored<'_>,
    (elements, vectors): (ElementKind, u32),
) -> Result<()> {
    let &Scored { count, room, part, .. } = scored;
    let pipeline = commands.gpu().pipeline_for(&KERNEL, elements, &[])?;
    let params = Params {
        vectors,
        room,
        column_first: part.column_first,
        block_first: part.block_first,
        block_step: part.block_step,
    };
    let grid = Grid::Tiles(count.div_ceil(TILE_QUERIES), part.blocks);
    commands.dispatch(&pipeline, &params, &scored.buffers(), grid)
}
