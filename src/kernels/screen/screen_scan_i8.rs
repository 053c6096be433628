//! Scores of few quantised queries, and the best intervals of each block: reads every quantised row once, at the speed of memory.

use crate::error::Result;
use crate::gpu::{Buffer, Commands, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, OF_BITS, PRODUCTS, Part, SCORES, Scored, has_form};
use crate::kernels::intervals::{INTERVALS, params_with_margin};
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;

pub use crate::metric::Form;
pub use crate::screen::certificate::Margin;

params_with_margin! {
    /// Of `screen_scan_i8`, of `pick`, and of `winnow`.
    pub struct Params {
        queries: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// First column of this part.
        column_first: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
        /// Blocks of scores in all.
        blocks: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Granules of 16 dimensions per quantised vector, for `screen_scan_i8`.
        granules: u32,
        /// Granules of a plane of queries, for `screen_scan_i8`.
        query_plane: u32,
        /// Step of the second plane, in steps of the first, for `screen_scan_i8`.
        fraction: f32,
        /// Blocks of this part, for `pick` and `winnow`.
        part_blocks: u32,
        /// Neighbours wanted, for `pick` and, up to 512, for `winnow`.
        k: u32,
        /// Candidates that a query can have, for the same kernels.
        capacity: u32,
        /// Candidates of all queries, for the same kernels.
        plane: u32,
        /// 1: no earlier part has left thresholds and candidates, for `winnow`.
        is_first: u32,
    }
}

/// Queries that one pass over the rows takes at most.
pub const QUERIES_AT_ONCE: u32 = 8;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_scan_i8")
    .library(&[KEYS, SCORES, INTERVALS, USABLE, PRODUCTS])
    .source(wgsl!("screen/screen_scan_i8", QUERIES_AT_ONCE))
    .buffers(BUFFERS)
    .overrides(&[
        ("QUERIES", &[1, 2, 4, QUERIES_AT_ONCE]),
        ("PLANES", &[1, 2]),
        ("FORM", Form::QUANTIZED),
        ("HAS_BITSET", &[0, 1]),
        OF_BITS,
    ])
    .only(has_form)
    .lengths(&[GRANULES])
    .fits_registers()
    .workgroup(64, 4 * 2 * 8 * 16 + 16 * 68 * 4 + 16 * 4);

buffers! {
    /// What is scored, and where scores and intervals go.
    pub(crate) struct Buffers<'a> {
        queries: Read &'a Buffer,
        rows: Read &'a Buffer,
        scores: Write &'a Buffer,
        row_terms: Read &'a Buffer,
        query_terms: Read &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read &'a Buffer,
        best: Write &'a Buffer,
    }
}

/// The intervals of the scores of a segment's rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) form: Form,
    pub(crate) margin: Margin,
    pub(crate) row_terms: &'a Buffer,
    pub(crate) query_terms: &'a Buffer,
    /// One bit per slot: rows whose bit is 0 are skipped.
    pub(crate) allowed: Option<&'a Buffer>,
    /// The smallest lower and upper key of each query in each block.
    pub(crate) best: &'a Buffer,
    /// Blocks of scores in all parts.
    pub(crate) blocks: u32,
    /// Rows of the segment.
    pub(crate) rows: u32,
    /// Slot of the segment's first row.
    pub(crate) first_slot: u32,
}

impl Scan<'_> {
    /// What kernels that score a part or pick from it have in common.
    pub(crate) fn params(&self, room: u32, part: Part) -> Params {
        let Part { column_first, block_first, block_step, .. } = part;
        let &Self { blocks, rows, first_slot, .. } = self;
        Params {
            room,
            column_first,
            block_first,
            block_step,
            blocks,
            rows,
            first_slot,
            ..Params::of(self.margin)
        }
    }
}

/// Records the kernel for quantised queries of one plane or two, of one block each, with `finer` steps of the second plane in a step of
/// the first. `scores` has room for all queries.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    scored: &Scored<'_>,
    scan: &Scan<'_>,
    granules: u32,
    (planes, finer): (u32, u32),
) -> Result<()> {
    let &Scored { queries, count, rows, scores, room, part } = scored;
    let at_once = count.next_power_of_two().min(QUERIES_AT_ONCE);
    let constants =
        [at_once, planes, scan.form as u32, scan.allowed.is_some().into(), scan.form.counts_bits().into()];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    let params = Params {
        queries: count,
        granules,
        query_plane: granules * BLOCK_ROWS,
        fraction: 1.0 / finer as f32,
        ..scan.params(room, part)
    };
    let &Scan { row_terms, query_terms, best, .. } = scan;
    let allowed = scan.allowed.unwrap_or(query_terms);
    let buffers = Buffers { queries, rows, scores, row_terms, query_terms, allowed, best };
    let grid = Grid::Tiles(count.div_ceil(at_once), part.blocks);
    commands.dispatch(&pipeline, &params, &buffers.slices(), grid)
}

/// The score of a query of one or two planes, as the kernel rounds it.
pub fn reference(planes: &[&[i32]], finer: u32, row: &[i32]) -> f32 {
    let dot = |plane: &[i32]| crate::kernels::screen::screen_tile_i8::reference(plane, row) as f32;
    let first = dot(planes[0]);
    planes.get(1).map_or(first, |plane| dot(plane).mul_add(1.0 / finer as f32, first))
}
