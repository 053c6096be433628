//! Dot products of many narrowed queries, for adapters without cooperative matrices.

use crate::error::Result;
use crate::gpu::{Access, Buffer, BufferSlice, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::Part;
use crate::kernels::blocks::SCORES;
use crate::kernels::distance::distance_tile::TILE_QUERIES;
use crate::matrix::ElementKind;

params! {
    /// Parameters of `screen_tile_i8`, and of `screen_tile_coop`.
    pub struct Params {
        /// Granules of 16 dimensions per narrowed vector, an even number.
        granules: u32,
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

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_tile_i8")
    .source(&[SCORES, wgsl!("screen/screen_tile_i8")])
    .buffers(&[("queries", Access::Read), ("rows", Access::Read), ("scores", Access::Write)])
    .workgroup(128, 2 * 8 * 33 * 16);

/// Narrowed queries and rows to score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) queries: &'a Buffer,
    pub(crate) count: u32,
    pub(crate) rows: &'a Buffer,
    pub(crate) granules: u32,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    pub(crate) part: Part,
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, tile: &Tile<'_>) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[])?;
    commands.dispatch(&pipeline, &tile.params(), &tile.buffers(), tile.grid())
}

impl<'a> Tile<'a> {
    pub(crate) fn params(&self) -> Params {
        Params {
            granules: self.granules,
            room: self.room,
            column_first: self.part.column_first,
            block_first: self.part.block_first,
            block_step: self.part.block_step,
        }
    }

    pub(crate) fn buffers(&self) -> [BufferSlice<'a>; 3] {
        [self.queries.into(), self.rows.into(), self.scores.into()]
    }

    pub(crate) fn grid(&self) -> Grid {
        Grid::Tiles(self.count.div_ceil(TILE_QUERIES), self.part.blocks)
    }
}

/// The exact score of two vectors of integers.
pub fn reference(query: &[i32], row: &[i32]) -> i64 {
    query.iter().zip(row).map(|(&q, &x)| i64::from(q) * i64::from(x)).sum()
}
