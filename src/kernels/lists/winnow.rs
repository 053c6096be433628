//! Keeps the rows, of all that were scored for a query, that can be among its k nearest.

use crate::error::Result;
use crate::gpu::{Access, Buffer, BufferSlice, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::BLOCK_ROWS;
use crate::kernels::intervals::{INTERVALS, NARROWED_FORMS};
use crate::kernels::keys::KEYS;
use crate::kernels::pages::{NO_PAGE, PAGE};
use crate::matrix::ElementKind;

pub use crate::screen::certificate::{Form, Margin};

params! {
    /// Parameters of `winnow`.
    pub struct Params {
        /// Queries.
        queries: u32,
        /// Lists that a query probes; blocks of rows if every row was scored.
        probes: u32,
        /// Neighbours wanted, up to 512.
        k: u32,
        /// Entries of a list.
        capacity: u32,
        /// Entries of all lists.
        plane: u32,
        /// 1: lists are empty, whatever their counts say.
        is_first: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// First block whose scores are there.
        block_first: u32,
        /// Number of blocks whose scores are there.
        blocks: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
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

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("winnow")
    .source(&[KEYS, wgsl!("lib/grid"), INTERVALS, wgsl!("lists/winnow", BLOCK_ROWS, PAGE, NO_PAGE)])
    .buffers(&[
        ("scores", Access::Read),
        ("row_terms", Access::Read),
        ("query_terms", Access::Read),
        ("allowed", Access::Read),
        ("pairs", Access::Read),
        ("tiles", Access::Read),
        ("counts", Access::Write),
        ("lists", Access::Write),
    ])
    .overrides(&[("FORM", NARROWED_FORMS), ("PROBED", &[0, 1])])
    .workgroup(256, 512 * 16 + 32 + 2 * 16);

/// The largest k. A workgroup keeps four times as many upper ends, so that the nearest rows rarely compete for one.
pub const K_MAX: u32 = 512;

/// Scores of narrowed vectors, and the lists for the rows that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Winnow<'a> {
    pub(crate) form: Form,
    pub(crate) margin: Margin,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    /// First block whose scores are there, and their number.
    pub(crate) blocks: [u32; 2],
    pub(crate) row_terms: &'a Buffer,
    pub(crate) rows: u32,
    pub(crate) first_slot: u32,
    pub(crate) query_terms: &'a Buffer,
    pub(crate) queries: u32,
    pub(crate) k: u32,
    /// Set if not every row was scored.
    pub(crate) probed: Option<Probed<'a>>,
    pub(crate) counts: BufferSlice<'a>,
    pub(crate) lists: &'a Buffer,
    pub(crate) capacity: u32,
    /// Whether this begins the lists.
    pub(crate) is_first: bool,
}

/// The rows that were scored for each query: those of the lists it probes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probed<'a> {
    /// Lists per query.
    pub(crate) probes: u32,
    pub(crate) pairs: &'a Buffer,
    pub(crate) tiles: &'a Buffer,
    /// One bit per slot.
    pub(crate) allowed: &'a Buffer,
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, winnow: &Winnow<'_>) -> Result<()> {
    let constants = [winnow.form as u32, winnow.probed.is_some().into()];
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let [block_first, blocks] = winnow.blocks;
    let params = Params {
        queries: winnow.queries,
        probes: winnow.probed.map_or(blocks, |probed| probed.probes),
        k: winnow.k,
        capacity: winnow.capacity,
        plane: winnow.queries * winnow.capacity,
        is_first: winnow.is_first.into(),
        room: winnow.room,
        block_first,
        blocks,
        rows: winnow.rows,
        first_slot: winnow.first_slot,
        margin: winnow.margin.relative,
        margin_floor: winnow.margin.floor,
        centre_length: winnow.margin.centre_length,
        centre_squared: winnow.margin.centre_squared,
    };
    let unused = winnow.query_terms;
    let buffers = [
        winnow.scores.into(),
        winnow.row_terms.into(),
        winnow.query_terms.into(),
        winnow.probed.map_or(unused, |probed| probed.allowed).into(),
        winnow.probed.map_or(unused, |probed| probed.pairs).into(),
        winnow.probed.map_or(unused, |probed| probed.tiles).into(),
        winnow.counts,
        winnow.lists.into(),
    ];
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(winnow.queries.into()))
}

/// The rows that must be kept, by their intervals `[lower, upper]`: those whose lower end is not above the k-th smallest upper
/// end. The kernel may keep more.
pub fn reference(intervals: &[[f64; 2]], k: usize) -> Vec<usize> {
    let mut uppers: Vec<f64> = intervals.iter().map(|ends| ends[1]).collect();
    uppers.sort_unstable_by(f64::total_cmp);
    let threshold = uppers.get(k - 1).copied().unwrap_or(f64::INFINITY);
    (0..intervals.len()).filter(|&row| intervals[row][0] <= threshold).collect()
}
