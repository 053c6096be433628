//! Keeps the rows that a screen cannot exclude.

use super::{BLOCK_ROWS, Part};
use crate::error::Result;
use crate::gpu::{Access, Commands, Grid, Kernel, params};
use crate::matrix::ElementKind;

params! {
    /// Parameters of `collect`.
    pub struct Params {
        /// Queries.
        queries: u32,
        /// Columns of the score buffer.
        columns: u32,
        /// First column of this part.
        column_first: u32,
        /// Blocks of this part.
        blocks: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// The part's first block of this round.
        round_start: u32,
        /// Looks at every `round_step`-th block of the chunk, a power of two.
        round_step: u32,
        /// But not at every `round_skip`-th one, which earlier rounds looked at; 0 for none. A power of two.
        round_skip: u32,
        /// Entries of a list.
        capacity: u32,
        /// Entries of all lists.
        plane: u32,
        /// Bound of a score's error, relative to its scale.
        margin: f32,
        /// The same, absolute.
        margin_floor: f32,
    }
}

/// How a score becomes a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The score is the squared L2 distance.
    Direct,
    /// Squared L2 distance from the dot product and the norms.
    L2,
    /// The dot product, negated.
    InnerProduct,
    /// One minus the dot product times the inverse norms.
    Cosine,
}

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "collect",
    source: &[include_str!("../../wgsl/lib/keys.wgsl"), include_str!("../../wgsl/collect.wgsl")],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("scores", Access::Read),
        ("row_norms", Access::Read),
        ("query_norms", Access::Read),
        ("thresholds", Access::Read),
        ("allowed", Access::Read),
        ("counts", Access::Write),
        ("lists", Access::Write),
    ],
    overrides: &[("FORM", &[0, 1, 2, 3]), ("HAS_BITSET", &[0, 1])],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    workgroup_size: 256,
    workgroup_bytes: 0,
};

/// Which rows to look at, and where to put the ones that stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collect<'a> {
    pub(crate) form: Form,
    pub(crate) margin: Margin,
    pub(crate) scores: &'a wgpu::Buffer,
    pub(crate) columns: u32,
    pub(crate) part: Part,
    pub(crate) row_norms: &'a wgpu::Buffer,
    pub(crate) rows: u32,
    pub(crate) first_slot: u32,
    pub(crate) query_norms: &'a wgpu::Buffer,
    pub(crate) queries: u32,
    pub(crate) thresholds: &'a wgpu::Buffer,
    /// A bit a slot: rows whose bit is 0 are passed over.
    pub(crate) allowed: Option<&'a wgpu::Buffer>,
    pub(crate) counts: &'a wgpu::Buffer,
    pub(crate) lists: &'a wgpu::Buffer,
    pub(crate) capacity: u32,
    pub(crate) round: Round,
}

/// Which blocks of a chunk a round looks at, by their column: every `step`-th, but not every `skip`-th. Powers of two, or
/// `skip` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Distance of the blocks.
    pub step: u32,
    /// Distance of the blocks that were looked at before; 0 for none.
    pub skip: u32,
}

/// How far a score's distance may lie from the true one and from the one that `rescore` reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Relative to the scale of the form: the distance itself, `(|q| + |x|)^2`, `|q||x|`, or 1.
    pub relative: f32,
    /// Absolute, for what underflows.
    pub floor: f32,
}

impl Margin {
    /// The bound for f32 scores in any order of summation, rounding to nearest or not.
    ///
    /// The derivation, with a table of what each form's terms pay for, is in `docs/architecture.md`, "Margins of rounding".
    /// It holds for dims up to 2^20.
    pub fn of_rounding(form: Form, dim: usize) -> Self {
        let unit = 2f32.powi(-23);
        let dim = dim as f32;
        let terms = match form {
            Form::Direct | Form::InnerProduct => 2.0 * dim,
            // The dot product counts twice, each norm once: all of it is within (|q| + |x|)^2.
            Form::L2 => 2.0 * dim,
            // Dot product, two inverse norms of half the error each, and the reported distance; products of elements of
            // the smallest norms underflow, by 2^-126 each against |q||x| of 2^-100.
            Form::Cosine => 3.5 * dim,
        };
        let floor = if form == Form::Cosine { 0.0 } else { 4.0 * dim * 2f32.powi(-126) };
        Self { relative: (terms + 64.0) * unit, floor }
    }
}

/// Records the kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, collect: &Collect<'_>) -> Result<()> {
    let gpu = commands.gpu();
    let constants = [collect.form as u32, collect.allowed.is_some().into()];
    let pipeline = gpu.pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let number = collect.part.column_first / BLOCK_ROWS;
    let start = number.next_multiple_of(collect.round.step) - number;
    let params = Params {
        queries: collect.queries,
        columns: collect.columns,
        column_first: collect.part.column_first,
        blocks: collect.part.blocks,
        block_first: collect.part.block_first,
        block_step: collect.part.block_step,
        rows: collect.rows,
        first_slot: collect.first_slot,
        round_start: start,
        round_step: collect.round.step,
        round_skip: collect.round.skip,
        capacity: collect.capacity,
        plane: collect.queries * collect.capacity,
        margin: collect.margin.relative,
        margin_floor: collect.margin.floor,
    };
    const BLOCKS: u32 = 1024 / BLOCK_ROWS;
    const QUERIES: u32 = 32;
    let workgroups = collect.part.blocks.saturating_sub(start).div_ceil(collect.round.step).div_ceil(BLOCKS);
    let grid = Grid::Tiles(workgroups, collect.queries.div_ceil(QUERIES));
    let buffers = [
        collect.scores.into(),
        collect.row_norms.into(),
        collect.query_norms.into(),
        collect.thresholds.into(),
        collect.allowed.unwrap_or(collect.thresholds).into(),
        collect.counts.into(),
        collect.lists.into(),
    ];
    commands.dispatch(&pipeline, &params, &buffers, grid)
}

/// The interval of a distance in f64, from an exact score and exact squared norms.
pub fn reference(form: Form, margin: Margin, score: f64, query_squared: f64, row_squared: f64) -> [f64; 2] {
    let (query, row) = (query_squared.sqrt(), row_squared.sqrt());
    let inverse = |norm: f64| if norm > 0.0 { 1.0 / norm } else { 0.0 };
    let (value, scale) = match form {
        Form::Direct => (score, score),
        Form::L2 => (query_squared + row_squared - 2.0 * score, (query + row).powi(2)),
        Form::InnerProduct => (-score, query * row),
        Form::Cosine => (1.0 - score * inverse(query) * inverse(row), 1.0),
    };
    let margin = f64::from(margin.relative) * scale + f64::from(margin.floor);
    [value - margin, value + margin]
}
