//! Scores of few queries: reads every row once, at the speed of memory.

use crate::elements::{Element, MatrixView};
use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, RowLayout, params, wgsl};
use crate::kernels::blocks::{
    BLOCK_ROWS, IN_BLOCKS, Part, ROW_PLACE, SCORE_BUFFERS, SCORES, Scored, WORDS_IN_BLOCKS, lie_in_blocks,
};
use crate::kernels::lengths::VECTORS;

params! {
    /// Parameters of `distance_scan` and `distance_tile`.
    pub struct Params {
        /// Vectors of four elements per row.
        vectors: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// Columns of this part.
        part_columns: u32,
        /// First column of this part.
        column_first: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
    }
}

/// Queries that one pass over the rows takes at most.
pub const QUERIES_AT_ONCE: u32 = 4;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("distance_scan")
    .library(&[SCORES, WORDS_IN_BLOCKS, ROW_PLACE])
    .source(wgsl!("distance/distance_scan", QUERIES_AT_ONCE))
    .buffers(SCORE_BUFFERS)
    .overrides(&[("DIRECT", &[0, 1]), ("QUERIES", &[1, 2, QUERIES_AT_ONCE]), IN_BLOCKS])
    .loads_rows()
    .only(lie_in_blocks)
    .sums_lanes()
    .lengths(&[VECTORS])
    .workgroup(256, 256 * 16);

impl Params {
    /// Those of a part of rows.
    pub(super) fn of(scored: &Scored<'_>, layout: RowLayout) -> Self {
        let vectors = (layout.stride / 4) as u32;
        let Part { blocks, column_first, block_first, block_step, .. } = scored.part;
        let (room, part_columns) = (scored.room, blocks * BLOCK_ROWS);
        Self { vectors, room, part_columns, column_first, block_first, block_step }
    }
}

/// Records the kernel: dot products or, if `direct`, sums of `(q - x)^2`. `queries` and
/// `scores` have room for a multiple of four queries.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    scored: &Scored<'_>,
    layout: RowLayout,
    direct: bool,
) -> Result<()> {
    let at_once = match scored.count {
        1 => 1,
        2 => 2,
        _ => QUERIES_AT_ONCE,
    };
    let gpu = commands.gpu();
    let pipeline =
        gpu.pipeline_for(&KERNEL, layout.elements, &[direct.into(), at_once, layout.in_blocks.into()])?;
    let params = Params::of(scored, layout);
    // The kernel strides over the columns, so any number of workgroups is correct; with this one each group of 32 lanes has
    // one turn.
    let limit = gpu.adapter.capabilities.max_workgroups;
    let grid = Grid::Tiles((params.part_columns / 32).min(limit), scored.count.div_ceil(at_once));
    commands.dispatch(&pipeline, &params, &scored.buffers(), grid)
}

/// The scores in f64, `[queries, rows]`.
pub fn reference<T: Element>(
    queries: MatrixView<'_, f32>,
    rows: MatrixView<'_, T>,
    direct: bool,
) -> Vec<f64> {
    let score = |query: &[f32], row: &[T]| -> f64 {
        let pairs = query.iter().zip(row).map(|(&q, &x)| (f64::from(q), f64::from(x.widen())));
        if direct { pairs.map(|(q, x)| (q - x) * (q - x)).sum() } else { pairs.map(|(q, x)| q * x).sum() }
    };
    (0..queries.rows())
        .flat_map(|query| (0..rows.rows()).map(move |row| score(queries.row(query), rows.row(row))))
        .collect()
}
