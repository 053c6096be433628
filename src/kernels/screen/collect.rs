//! Puts the rows that a screen cannot exclude on their queries' lists.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::SCORES;
use crate::kernels::blocks::{BLOCK_ROWS, Part};
use crate::kernels::intervals::{FORMS, INTERVALS};
use crate::kernels::keys::KEYS;
use crate::matrix::ElementKind;

params! {
    /// Parameters of `collect`.
    pub struct Params {
        /// Queries.
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
        /// Entries of a list.
        capacity: u32,
        /// Entries of all lists.
        plane: u32,
        /// Bound of a score's error, relative to its scale.
        margin: f32,
        /// The same, absolute.
        margin_floor: f32,
        /// At least the length of the centre.
        centre_length: f32,
        /// Its square.
        centre_squared: f32,
    }
}

pub use crate::screen::certificate::{Form, Margin, Terms};

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("collect")
    .source(&[
        KEYS,
        SCORES,
        INTERVALS,
        wgsl!("screen/collect", GROUP, GROUPS, GROUPS_SHIFT, QUERIES, AT_ONCE),
    ])
    .buffers(&[
        ("scores", Access::Read),
        ("row_terms", Access::Read),
        ("query_terms", Access::Read),
        ("thresholds", Access::Read),
        ("allowed", Access::Read),
        ("counts", Access::Write),
        ("lists", Access::Write),
    ])
    .overrides(&[("FORM", FORMS), ("HAS_BITSET", &[0, 1]), ("SAMPLE", &[0, 1])])
    .workgroup(INVOCATIONS, QUERIES * 32 + 1024 * 4 + 4 + QUERIES * 4);

/// The rows to look at, and where to put the ones that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collect<'a> {
    pub(crate) form: Form,
    pub(crate) margin: Margin,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    pub(crate) part: Part,
    /// Squared and inverse norm of each row; for narrowed rows their terms.
    pub(crate) row_terms: &'a Buffer,
    pub(crate) rows: u32,
    pub(crate) first_slot: u32,
    /// The same for queries.
    pub(crate) query_terms: &'a Buffer,
    pub(crate) queries: u32,
    pub(crate) thresholds: &'a Buffer,
    /// One bit per slot: rows whose bit is 0 are skipped.
    pub(crate) allowed: Option<&'a Buffer>,
    pub(crate) counts: &'a Buffer,
    pub(crate) lists: &'a Buffer,
    pub(crate) capacity: u32,
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
const AT_ONCE: u32 = 4;

/// The groups of four columns of a chunk that a round takes: every `step`-th, but not every `skip`-th. Both are powers of two;
/// `skip` may be 0.
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

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, collect: &Collect<'_>) -> Result<()> {
    let gpu = commands.gpu();
    let constants = [collect.form as u32, collect.allowed.is_some().into(), collect.sample.is_some().into()];
    let pipeline = gpu.pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let number = collect.part.column_first / GROUP;
    let groups = collect.part.blocks * (GROUPS);
    let start = number.next_multiple_of(collect.round.step) - number;
    let params = Params {
        queries: collect.queries,
        room: collect.room,
        column_first: collect.part.column_first,
        groups,
        block_first: collect.part.block_first,
        block_step: collect.part.block_step,
        rows: collect.rows,
        first_slot: collect.first_slot,
        round_start: start,
        round_step: collect.round.step,
        round_skip: collect.round.skip,
        sampled: match collect.sample {
            Some(groups) if collect.part.column_first == 0 => groups.div_ceil(collect.round.step) * GROUP,
            _ => 0,
        },
        capacity: collect.capacity,
        plane: collect.queries * collect.capacity,
        margin: collect.margin.relative,
        margin_floor: collect.margin.floor,
        centre_length: collect.margin.centre_length,
        centre_squared: collect.margin.centre_squared,
    };
    let workgroups = groups.saturating_sub(start).div_ceil(collect.round.step).div_ceil(INVOCATIONS);
    let grid = Grid::Tiles(workgroups, collect.queries.div_ceil(queries_each(collect.sample.is_some())));
    let buffers = [
        collect.scores.into(),
        collect.row_terms.into(),
        collect.query_terms.into(),
        collect.thresholds.into(),
        collect.allowed.unwrap_or(collect.thresholds).into(),
        collect.counts.into(),
        collect.lists.into(),
    ];
    commands.dispatch(&pipeline, &params, &buffers, grid)
}
