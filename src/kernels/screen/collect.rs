//! Makes the rows that a screen cannot exclude candidates of their queries.

use crate::error::Result;
use crate::gpu::{Buffer, CANDIDATES, Commands, Grid, Kernel, USABLE, buffers, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, Part, SCORES};
use crate::kernels::intervals::{INTERVALS, params_with_margin};
use crate::kernels::keys::KEYS;

params_with_margin! {
    pub struct Params {
        queries: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// First column of this part.
        column_first: u32,
        /// Groups of four columns of this part.
        groups: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// The part's first group of this round.
        round_start: u32,
        /// The round takes every `round_step`-th group of the chunk; a power of two.
        round_step: u32,
        /// It skips every `round_skip`-th one, which earlier rounds took; a power of two, or 0 for none.
        round_skip: u32,
        /// Number of places of the chunk's sample, given with one part of it; 0 with the others.
        sampled: u32,
        /// Candidates that a query can have.
        capacity: u32,
        /// Candidates of all queries.
        plane: u32,
    }
}

pub use crate::metric::Form;
pub use crate::screen::certificate::{Margin, Terms};

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("collect")
    .library(&[KEYS, SCORES, INTERVALS, USABLE, CANDIDATES])
    .source(wgsl!("screen/collect", GROUP, GROUPS, GROUPS_SHIFT, QUERIES, AT_ONCE))
    .buffers(BUFFERS)
    .overrides(&[("FORM", Form::ALL), ("HAS_BITSET", &[0, 1]), ("SAMPLE", &[0, 1])])
    .workgroup(INVOCATIONS, QUERIES * 32 + 1024 * 4 + 4 + QUERIES * 4);

buffers! {
    /// The rows to look at, and where to put the ones that are kept.
    pub(crate) struct Buffers<'a> {
        scores: Read &'a Buffer,
        /// Squared and inverse norm of each row; for quantised rows their terms.
        row_terms: Read &'a Buffer,
        /// The same for queries.
        query_terms: Read &'a Buffer,
        thresholds: Read &'a Buffer,
        /// One bit per slot: rows whose bit is 0 are skipped. Any buffer if there are no bits.
        allowed: Read &'a Buffer,
        counts: Write &'a Buffer,
        candidates: Write &'a Buffer,
    }
}

/// The rows to look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collect {
    pub(crate) form: Form,
    pub(crate) part: Part,
    pub(crate) has_bits: bool,
    pub(crate) round: Round,
    /// For the first round of the first chunk, which keeps every row: the number of groups of the chunk.
    pub(crate) sample: Option<u32>,
}

/// Invocations per workgroup, each with one group of rows.
const INVOCATIONS: u32 = 256;
/// Rows of a group, in neighbouring columns.
pub const GROUP: u32 = 4;
/// Groups of a block.
const GROUPS: u32 = BLOCK_ROWS / GROUP;
/// `group >> GROUPS_SHIFT` is a group's block.
const GROUPS_SHIFT: u32 = GROUPS.trailing_zeros();
/// Queries of a workgroup, except in a sample.
const QUERIES: u32 = 32;
/// Queries whose scores are loaded together, and the queries of a workgroup in a sample.
pub(crate) const AT_ONCE: u32 = 4;

/// The groups of four columns of a chunk, or the blocks of an index, that a round takes: every `step`-th, but not every `skip`-th. `skip` is
/// 0 or a multiple of `step`. For `collect`, both are powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Distance of the groups.
    pub step: u32,
    /// Distance of the groups that earlier rounds took; 0 for none.
    pub skip: u32,
}

/// Queries per workgroup: few for a sample, whose few rows would otherwise leave most of a large GPU idle.
pub fn queries_each(is_sample: bool) -> u32 {
    if is_sample { AT_ONCE } else { QUERIES }
}

/// Records the kernel. `params` has what does not follow from the part and the round: the margin, the queries, the rows and the
/// capacity.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    collect: &Collect,
    params: Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let &Collect { form, part, has_bits, round, sample } = collect;
    let constants = [form as u32, has_bits.into(), sample.is_some().into()];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    let groups = part.blocks * GROUPS;
    let number = part.column_first / GROUP;
    let start = number.next_multiple_of(round.step) - number;
    let params = Params {
        column_first: part.column_first,
        groups,
        block_first: part.block_first,
        block_step: part.block_step,
        round_start: start,
        round_step: round.step,
        round_skip: round.skip,
        sampled: match sample {
            Some(groups) if part.column_first == 0 => groups.div_ceil(round.step) * GROUP,
            _ => 0,
        },
        plane: params.queries * params.capacity,
        ..params
    };
    let workgroups = groups.saturating_sub(start).div_ceil(round.step).div_ceil(INVOCATIONS);
    let grid = Grid::Tiles(workgroups, params.queries.div_ceil(queries_each(sample.is_some())));
    commands.dispatch(&pipeline, &params, &buffers.slices(), grid)
}
