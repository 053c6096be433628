//! Dot products of many quantised queries, for adapters without cooperative matrices.

use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::{OF_BITS, PRODUCTS, SCORE_BUFFERS, SCORES, Scored, TILE_I8};
use crate::kernels::distance::distance_tile::TILE_QUERIES;
use crate::kernels::lengths::GRANULES;

params! {
    /// Parameters of `screen_tile_i8`, and of `screen_tile_coop`.
    pub struct Params {
        /// Granules of 16 dimensions per quantised vector, an even number.
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
    .library(&[SCORES, PRODUCTS, TILE_I8])
    .source(wgsl!("screen/screen_tile_i8"))
    .buffers(SCORE_BUFFERS)
    .overrides(&[OF_BITS])
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 8 * 33 * 16)
    .holds_tile();

/// Records this kernel or `screen_tile_coop` for quantised queries and rows, which with `of_bits` are bytes of bits.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    kernel: &'static Kernel,
    scored: &Scored<'_>,
    granules: u32,
    of_bits: bool,
) -> Result<()> {
    let &Scored { count, room, part, .. } = scored;
    // Tiles on matrices have no such constant: they multiply integers alone.
    let constants: Vec<u32> = kernel.overrides.iter().map(|_| of_bits.into()).collect();
    let pipeline = commands.gpu().pipeline(kernel, &constants)?;
    let params = Params {
        granules,
        room,
        column_first: part.column_first,
        block_first: part.block_first,
        block_step: part.block_step,
    };
    let grid = Grid::Tiles(count.div_ceil(TILE_QUERIES), part.blocks);
    commands.dispatch(&pipeline, &params, &scored.buffers(), grid)
}

/// The exact score of two vectors of integers.
pub fn reference(query: &[i32], row: &[i32]) -> i64 {
    query.iter().zip(row).map(|(&q, &x)| i64::from(q) * i64::from(x)).sum()
}
