//! Scores of few narrowed queries: reads every narrowed row once, at the speed of memory.

use crate::error::Result;
use crate::gpu::{Access, Buffer, Commands, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::{Part, SCORES};
use crate::matrix::ElementKind;

params! {
    /// Parameters of `screen_scan_i8`.
    pub struct Params {
        /// Granules of 16 dimensions per narrowed vector.
        granules: u32,
        /// Granules of a plane of queries.
        plane: u32,
        /// Queries that a block of scores has room for.
        room: u32,
        /// First column of this part.
        column_first: u32,
        /// First block of rows.
        block_first: u32,
        /// Distance between blocks.
        block_step: u32,
        /// Step of the second plane, in steps of the first.
        fraction: f32,
    }
}

/// Queries that one pass over the rows takes at most. Buffers of scores have room for a multiple of it.
pub const QUERIES_AT_ONCE: u32 = 8;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_scan_i8")
    .source(&[SCORES, wgsl!("screen/screen_scan_i8", QUERIES_AT_ONCE)])
    .buffers(&[("queries", Access::Read), ("rows", Access::Read), ("scores", Access::Write)])
    .overrides(&[("QUERIES", &[1, 2, 4, QUERIES_AT_ONCE]), ("PLANES", &[1, 2])])
    .workgroup(128, 8 * 2 * 8 * 16);

/// Narrowed queries of one or two planes, and narrowed rows to score them against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) queries: &'a Buffer,
    pub(crate) count: u32,
    pub(crate) planes: u32,
    /// Granules of a plane.
    pub(crate) plane: u32,
    /// Steps of the second plane in a step of the first.
    pub(crate) finer: u32,
    pub(crate) rows: &'a Buffer,
    pub(crate) granules: u32,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    pub(crate) part: Part,
}

/// Records the kernel. `scores` has room for a multiple of eight queries.
pub(crate) fn encode(commands: &mut Commands<'_>, scan: &Scan<'_>) -> Result<()> {
    let at_once = scan.count.next_power_of_two().min(QUERIES_AT_ONCE);
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &[at_once, scan.planes])?;
    let params = Params {
        granules: scan.granules,
        plane: scan.plane,
        room: scan.room,
        column_first: scan.part.column_first,
        block_first: scan.part.block_first,
        block_step: scan.part.block_step,
        fraction: 1.0 / scan.finer as f32,
    };
    let grid = Grid::Tiles(scan.part.blocks, scan.count.div_ceil(at_once));
    commands.dispatch(&pipeline, &params, &[scan.queries.into(), scan.rows.into(), scan.scores.into()], grid)
}

/// The score of a query of one or two planes, as the kernel rounds it.
pub fn reference(planes: &[&[i32]], finer: u32, row: &[i32]) -> f32 {
    let dot = |plane: &[i32]| crate::kernels::screen::screen_tile_i8::reference(plane, row) as f32;
    let first = dot(planes[0]);
    planes.get(1).map_or(first, |plane| dot(plane).mul_add(1.0 / finer as f32, first))
}
