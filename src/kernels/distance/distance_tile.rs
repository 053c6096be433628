//! Dot products of many queries: register tiles at the speed of arithmetic.

use crate::kernels::Part;
use crate::error::Result;
use crate::gpu::{Access, Commands, Grid, Kernel, params};
use crate::matrix::ElementKind;

pub use crate::kernels::distance_scan::reference;

params! {
    /// Parameters of `distance_tile`.
    pub struct Params {
        /// Vectors of four elements a row.
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
pub const TILE_QUERIES: u32 = 128;

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "distance_tile",
    source: &[wgsl!("lib/scores"), wgsl!("distance/distance_tile")],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[("queries", Access::Read), ("rows", Access::Read), ("scores", Access::Write)],
    overrides: &[],
    loads_rows: true,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 128,
    workgroup_bytes: 2 * 8 * 33 * 16,
};

/// What to score. Rows and queries have `vectors` vectors of four elements each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) queries: &'a wgpu::Buffer,
    pub(crate) count: u32,
    pub(crate) rows: &'a wgpu::Buffer,
    pub(crate) elements: ElementKind,
    pub(crate) vectors: u32,
    pub(crate) scores: &'a wgpu::Buffer,
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
