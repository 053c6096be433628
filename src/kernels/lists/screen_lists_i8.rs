//! Scores of the rows of lists against the queries that probe them, for adapters without cooperative matrices.

use crate::error::Result;
use crate::gpu::{Buffer, Commands, Grid, Kernel, Snippet, buffers, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, BLOCK_SHIFT};
use crate::kernels::lengths::GRANULES;
use crate::kernels::pages::{PAGE, PAGE_SHIFT};

pub use crate::kernels::screen::screen_tile_i8::reference;

params! {
    /// Parameters of `screen_lists_i8`, and of `screen_lists_coop`.
    pub struct Params {
        /// Lists.
        lists: u32,
        /// Granules of 16 dimensions per narrowed vector, an even number.
        granules: u32,
        /// First block of scores.
        block_first: u32,
        /// Blocks that `scores` has room for.
        blocks: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows that the segment has room for.
        rows: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_lists_i8")
    .library(&[LIST_BLOCKS])
    .source(wgsl!("lists/screen_lists_i8"))
    .buffers(BUFFERS)
    .lengths(&[GRANULES])
    .workgroup(128, 8 * (9 + 33) * 16);

/// Where blocks of scores get their queries and rows from.
pub(crate) const LIST_BLOCKS: Snippet =
    wgsl!("lib/list_blocks", HEIGHT, BLOCK_ROWS, BLOCK_SHIFT, PAGE, PAGE_SHIFT);

buffers! {
    /// Narrowed queries, grouped by the lists they probe, and the rows of the lists to score them against.
    pub(crate) struct Buffers<'a> {
        queries: Read &'a Buffer,
        rows: Read &'a Buffer,
        starts: Read &'a Buffer,
        list_tiles: Read &'a Buffer,
        tiles: Read &'a Buffer,
        grouped: Read &'a Buffer,
        scores: Write &'a Buffer,
    }
}

/// Queries of a block of scores: about as many of a batch as probe one list.
pub const HEIGHT: u32 = 32;

/// Workgroups that fill a large GPU; each computes one block after the other.
const WORKGROUPS: u64 = 4096;

/// Records this kernel or `screen_lists_coop`. There are at most `most` blocks in all.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    kernel: &'static Kernel,
    params: &Params,
    buffers: &Buffers<'_>,
    most: u64,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(kernel, &[])?;
    let here = most.saturating_sub(params.block_first.into()).min(params.blocks.into());
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Tiles(here.min(WORKGROUPS) as u32, 1))
}
