//! Pages: how the slots of an `Ivf` are shared out among its lists. Tiles are made of them, and blocks of queries and tiles.

use crate::gpu::{Snippet, wgsl};
use crate::kernels::blocks::BLOCK_ROWS;

/// Slots of a page, all of one list.
pub(crate) const PAGE: u32 = 32;

/// Pages of a tile: as many slots as a block has rows.
pub(crate) const PAGES: usize = (BLOCK_ROWS / PAGE) as usize;

/// Stands where a tile has no page.
pub(crate) const NO_PAGE: u32 = u32::MAX;

/// Words in front of a table of blocks. The first is their number.
pub(crate) const HEADER: u32 = 4;

/// Bytes of a table of this many blocks of up to `height` queries: for each its queries, the pages of its tile, and the number of its
/// queries.
pub(crate) fn table_bytes(blocks: u64, height: u32) -> u64 {
    (u64::from(HEADER) + blocks * (u64::from(height) + PAGES as u64 + 1)) * 4
}

/// Terms of queries, states of their searches, and rows of pages in WGSL.
pub(crate) const SCREENED: Snippet = wgsl!("lib/lists/screened", PAGE);

/// The lists that a query probes, and the scores of their rows.
pub(crate) const PROBES: Snippet = wgsl!("lib/lists/probes", BLOCK_ROWS, PAGE, PAGES = PAGES);

/// The table of blocks. Kernels declare the constant `HEIGHT`, the most queries of a block.
pub(crate) const LIST_BLOCKS: Snippet = wgsl!("lib/lists/blocks", PAGE, PAGES = PAGES, HEADER);
