//! Scores of the rows of lists against the queries that probe them, for adapters without cooperative matrices.

use crate::error::Result;
use crate::gpu::{Access, Buffer, BufferSlice, Commands, Grid, Kernel, Snippet, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, BLOCK_SHIFT};
use crate::kernels::pages::{PAGE, PAGE_SHIFT};
use crate::matrix::ElementKind;

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
    .source(&[LIST_BLOCKS, wgsl!("lists/screen_lists_i8")])
    .buffers(BUFFERS)
    .workgroup(128, 8 * (9 + 33) * 16);

/// Where blocks of scores get their queries and rows from.
pub(crate) const LIST_BLOCKS: Snippet =
    wgsl!("lib/list_blocks", HEIGHT, BLOCK_ROWS, BLOCK_SHIFT, PAGE, PAGE_SHIFT);

/// The buffers of both kernels.
pub(crate) const BUFFERS: &[(&str, Access)] = &[
    ("queries", Access::Read),
    ("rows", Access::Read),
    ("starts", Access::Read),
    ("list_tiles", Access::Read),
    ("tiles", Access::Read),
    ("grouped", Access::Read),
    ("scores", Access::Write),
];

/// Queries of a block of scores: about as many of a batch as probe one list.
pub const HEIGHT: u32 = 32;

/// Workgroups that fill a large GPU; each computes one block after the other.
const WORKGROUPS: u64 = 4096;

/// Narrowed queries, grouped by the lists they probe, and the rows of the lists to score them against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListBlocks<'a> {
    pub(crate) queries: &'a Buffer,
    pub(crate) rows: &'a Buffer,
    /// Slot of the segment's first row, and rows that it has room for.
    pub(crate) segment: [u32; 2],
    pub(crate) granules: u32,
    pub(crate) lists: u32,
    pub(crate) starts: &'a Buffer,
    pub(crate) list_tiles: &'a Buffer,
    pub(crate) tiles: &'a Buffer,
    pub(crate) grouped: &'a Buffer,
    pub(crate) scores: &'a Buffer,
    /// First block, and the number that `scores` has room for.
    pub(crate) blocks: [u32; 2],
    /// At least the number of all blocks.
    pub(crate) most: u64,
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, blocks: &ListBlocks<'_>) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[])?;
    commands.dispatch(&pipeline, &blocks.params(), &blocks.buffers(), blocks.grid())
}

impl<'a> ListBlocks<'a> {
    pub(crate) fn params(&self) -> Params {
        let ([first_slot, rows], [block_first, blocks]) = (self.segment, self.blocks);
        Params { lists: self.lists, granules: self.granules, block_first, blocks, first_slot, rows }
    }

    pub(crate) fn buffers(&self) -> [BufferSlice<'a>; 7] {
        [
            self.queries.into(),
            self.rows.into(),
            self.starts.into(),
            self.list_tiles.into(),
            self.tiles.into(),
            self.grouped.into(),
            self.scores.into(),
        ]
    }

    pub(crate) fn grid(&self) -> Grid {
        let here = self.most.saturating_sub(self.blocks[0].into()).min(self.blocks[1].into());
        Grid::Tiles(here.min(WORKGROUPS) as u32, 1)
    }
}
