//! Scores many quantised queries and collects the rows that a screen cannot exclude, in one kernel.

use crate::elements::ElementKind;
use crate::error::Result;
use crate::gpu::{
    self, Buffer, BufferSlice, CANDIDATES, COARSE_TEST, COLLECT_TILE, Commands, Grid, HEIGHT, KEEP_ROW,
    Kernel, USABLE, buffers, wgsl,
};
use crate::kernels::blocks::{BLOCK_ROWS, OF_BITS, PRODUCTS, TILE_I8, has_form};
use crate::kernels::intervals::{INTERVALS, params_with_margin};
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::screen::collect::Round;

pub use crate::metric::Form;
pub use crate::screen::certificate::Margin;

params_with_margin! {
    /// Parameters of `collect_tile_i8`, and of `collect_tile_coop`.
    pub struct Params {
        /// Granules of 16 dimensions per quantised vector, an even number.
        granules: u32,
        queries: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Number of the dispatch's first block among those of its round.
        first: u32,
        /// The round takes the blocks whose number in the index is a multiple of this.
        step: u32,
        /// It skips multiples of this many steps; 0 if it skips none.
        ratio: u32,
        /// Number of the segment's first block in the index.
        base: u32,
        /// Candidates that a list can have.
        capacity: u32,
        /// Candidates of all lists.
        plane: u32,
        /// Slot of the first query, for pairs.
        first_query: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("collect_tile_i8")
    .library(&[KEYS, INTERVALS, USABLE, CANDIDATES, COARSE_TEST, COLLECT_TILE, KEEP_ROW, PRODUCTS, TILE_I8])
    .source(wgsl!("screen/collect_tile_i8"))
    .buffers(BUFFERS)
    .overrides(&[("FORM", Form::QUANTIZED), ("HAS_BITSET", &[0, 1]), OF_BITS, PAIRS])
    .only(collects)
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 8 * 33 * 16 + 12)
    .holds_tile();

/// Whether the queries are rows too, and each row of a pair has a list that may take the other.
pub(in crate::kernels) const PAIRS: (&str, &[u32]) = (gpu::PAIRS, &[0, 1]);

/// Whether a search takes tiles of this form. Pairs are those of numbers without bits of allowed slots, and come in high tiles.
pub(in crate::kernels) fn collects(elements: ElementKind, value: &dyn Fn(&str) -> u32) -> bool {
    let is_low = ![0, BLOCK_ROWS].contains(&value(HEIGHT));
    let is_other = is_low || value("HAS_BITSET") == 1 || value(OF_BITS.0) == 1;
    has_form(elements, value) && !(value(PAIRS.0) == 1 && is_other)
}

buffers! {
    /// The rows to score, and where to put the ones that are kept.
    pub(crate) struct Buffers<'a> {
        queries: Read &'a Buffer,
        rows: Read &'a Buffer,
        row_terms: Read &'a Buffer,
        query_terms: Read &'a Buffer,
        thresholds: Read &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read &'a Buffer,
        counts: Write BufferSlice<'a>,
        candidates: Write &'a Buffer,
    }
}

/// Neighbouring blocks of a round in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundPart {
    /// The segment.
    pub segment: usize,
    /// The blocks of the index that the round takes.
    pub round: Round,
    /// Number of the segment's first block in the index.
    pub base: u32,
    /// Number of the first block among those of the round.
    pub first: u32,
    /// Number of blocks.
    pub blocks: u32,
}

/// The form of a tile kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) form: Form,
    pub(crate) has_bitset: bool,
    pub(crate) of_pairs: bool,
    /// Queries, for a kernel with several heights.
    pub(crate) height: Option<u32>,
}

/// Records this kernel, or `collect_tile_coop` with its height. `params` has what does not follow from the part: the granules, the margin, the queries,
/// the rows, and the lists.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    kernel: &'static Kernel,
    Tile { form, has_bitset, of_pairs, height }: Tile,
    part: &RoundPart,
    params: Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let &RoundPart { round: Round { step, skip }, base, first, blocks, .. } = part;
    let constants = [form as u32, has_bitset.into()].into_iter().chain(height);
    let constants: Vec<u32> = constants.chain([form.counts_bits().into(), of_pairs.into()]).collect();
    let pipeline = commands.gpu().pipeline(kernel, &constants)?;
    let params = Params { first, step, ratio: skip / step, base, ..params };
    let grid = Grid::Tiles(params.queries.div_ceil(height.unwrap_or(BLOCK_ROWS)), blocks);
    commands.dispatch(&pipeline, &params, &buffers.slices(), grid)
}
