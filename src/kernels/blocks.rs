//! Blocks of rows, and where their scores lie.

use crate::elements::ElementKind;
use crate::gpu::{self, Access, Buffer, BufferSlice, Snippet, wgsl};
use crate::metric::Form;

/// Rows that are screened together: the width of a tile, and the unit in which segments are sized and sampled.
pub const BLOCK_ROWS: u32 = 128;

/// `row >> BLOCK_SHIFT` is a row's block.
pub(crate) const BLOCK_SHIFT: u32 = BLOCK_ROWS.trailing_zeros();

/// Where the score of a query and a column lies.
pub(crate) const SCORES: Snippet = wgsl!("lib/screen/scores", BLOCK_ROWS, BLOCK_SHIFT);

/// Where the words of codes lie.
pub(crate) const WORDS_IN_BLOCKS: Snippet = wgsl!("lib/rows/blocks", BLOCK_ROWS, BLOCK_SHIFT);

/// Loads rows, which may lie as their codes do. Kernels have the override [`IN_BLOCKS`] for it, and [`WORDS_IN_BLOCKS`].
pub(crate) const ROW_PLACE: Snippet = wgsl!("lib/rows/place");

/// Whether rows lie as their codes do.
pub(crate) const IN_BLOCKS: (&str, &[u32]) = ("IN_BLOCKS", &[0, 1]);

/// Whether rows of this type may lie so, where a kernel is compiled for it.
pub(crate) fn lie_in_blocks(elements: ElementKind, value: &dyn Fn(&str) -> u32) -> bool {
    value(IN_BLOCKS.0) == 0 || elements.is_integer() || elements == ElementKind::Bits
}

/// Whether scores of this form are of codes such as these, where a kernel is compiled for both.
pub(crate) fn has_form(_: ElementKind, value: &dyn Fn(&str) -> u32) -> bool {
    let of_bits = value(OF_BITS.0) == 1;
    Form::OF_BITS.iter().any(|&form| form as u32 == value("FORM")) == of_bits
        && !(of_bits && value("PLANES") == 2)
}

/// Where the granules of a quantised vector start.
pub(crate) const GRANULE_PLACES: Snippet = wgsl!("lib/screen/granules", BLOCK_ROWS, BLOCK_SHIFT);

/// Multiplies words of codes, or counts their common bits. Kernels choose by the override [`OF_BITS`].
pub(crate) const PRODUCTS: Snippet = wgsl!("lib/screen/products");

/// Whether codes are bytes of bits.
pub(crate) const OF_BITS: (&str, &[u32]) = (gpu::OF_BITS, &[0, 1]);

/// The scores of a tile by four-way integer products, or by counting bits: behind [`PRODUCTS`].
pub(crate) const TILE_I8: Snippet = wgsl!("lib/screen/tile_i8", BLOCK_ROWS);

/// The products of a tile on cooperative matrices. Kernels declare the constant `HEIGHT`, the most queries of a tile.
pub(crate) const TILE_COOP: Snippet = wgsl!("lib/screen/tile_coop", BLOCK_ROWS);

/// The blocks of one segment whose scores share a buffer with those of other segments: `blocks` blocks of [`BLOCK_ROWS`]
/// rows, every `block_step`-th from `block_first` on, in columns from `column_first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The segment.
    pub segment: usize,
    /// First block of the segment.
    pub block_first: u32,
    /// Distance between blocks.
    pub block_step: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// First column of the scores.
    pub column_first: u32,
}

/// Queries, rows of a part, and the buffer of their scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scored<'a> {
    pub(crate) queries: &'a Buffer,
    pub(crate) count: u32,
    pub(crate) rows: &'a Buffer,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    pub(crate) part: Part,
}

/// The buffers of kernels that score.
pub(crate) const SCORE_BUFFERS: &[(&str, Access)] = bindings!(queries: Read, rows: Read, scores: Write);

impl<'a> Scored<'a> {
    pub(crate) fn buffers(&self) -> [BufferSlice<'a>; 3] {
        [self.queries.into(), self.rows.into(), self.scores.into()]
    }
}
