//! Dot products of many queries: tiles in registers, at the speed of arithmetic.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, Part, SCORES};
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
    .source(&[SCORES, wgsl!("distance/distance_tile")])
    .buffers(&[("queries", Access::Read), ("rows", Access::Read), ("scores", Access::Write)])
    .loads_rows()
    .workgroup(128, 2 * 8 * 33 * 16);

/// Queries and rows to score. Both have `vectors` vectors of four elements each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) queries: &'a Buffer,
    pub(crate) count: u32,
    pub(crate) rows: &'a Buffer,
    pub(crate) elements: ElementKind,
    pub(crate) vectors: u32,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    pub(crate) part: Part,
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, tile: &Tile<'_>) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, tile.elements, &[])?;
    let params = Params {
        vectors: tile.vectors,
        room: tile.room,
        column_first: tile.part.column_first,
        block_first: tile.part.block_first,
        block_step: tile.part.block_step,
    };
    let grid = Grid::Tiles(tile.count.div_ceil(TILE_QUERIES), tile.part.blocks);
    commands.dispatch(&pipeline, &params, &[tile.queries.into(), tile.rows.into(), tile.scores.into()], grid)
}
