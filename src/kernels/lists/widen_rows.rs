//! Copies rows of any element type in f32, in the order of a list of slots: an index's own rows become queries.

use crate::elements::{Element, MatrixView};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, RowLayout, params, wgsl};
use crate::kernels::blocks::{IN_BLOCKS, ROW_PLACE, WORDS_IN_BLOCKS, lie_in_blocks};
use crate::kernels::lengths::VECTORS;

params! {
    pub struct Params {
        /// Vectors of four elements per row.
        vectors: u32,
        /// Length of the list.
        positions: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows that the segment has room for.
        rows: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("widen_rows")
    .library(&[GRID, WORDS_IN_BLOCKS, ROW_PLACE])
    .source(wgsl!("lists/widen_rows", FOURS_EACH))
    .buffers(bindings!(rows: Read, slots: Read, copies: Write))
    .overrides(&[IN_BLOCKS])
    .loads_rows_and_bits()
    .only(lie_in_blocks)
    .lengths(&[VECTORS])
    .workgroup(INVOCATIONS, 0);

/// Vectors of four elements that an invocation copies.
const FOURS_EACH: u32 = 4;

/// Invocations per workgroup.
const INVOCATIONS: u32 = 256;

/// Vectors of four elements that a workgroup copies.
pub const FOURS_A_WORKGROUP: u64 = (FOURS_EACH * INVOCATIONS) as u64;

/// Records the kernel for the rows of a segment. `slots` and `copies` are the list and what becomes of its rows, padded to whole vectors.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    layout: RowLayout,
    params: &Params,
    [rows, slots, copies]: [BufferSlice<'_>; 3],
) -> Result<()> {
    let constants = [layout.in_blocks.into()];
    let pipeline = commands.gpu().pipeline_for(&KERNEL, layout.elements, &constants)?;
    let grid =
        Grid::Linear((u64::from(params.positions) * u64::from(params.vectors)).div_ceil(FOURS_A_WORKGROUP));
    commands.dispatch(&pipeline, params, &[rows, slots, copies], grid)
}

/// The rows in these slots, one after another.
pub fn reference<T: Element>(rows: MatrixView<'_, T>, slots: &[usize]) -> Vec<f32> {
    slots.iter().flat_map(|&slot| rows.row(slot)).map(|&x| x.widen()).collect()
}
