//! The largest inner product of each token of a query with the tokens of a document, in f32, for pairs of both.

use crate::elements::MatrixView;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, RowLayout, params, wgsl};
use crate::kernels::blocks::{IN_BLOCKS, ROW_PLACE, WORDS_IN_BLOCKS, lie_in_blocks};
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::VECTORS;

params! {
    pub struct Params {
        /// Vectors of four elements per row.
        vectors: u32,
        pairs: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows of the segment.
        rows: u32,
        /// Distance between the results of two pairs.
        pitch: u32,
        /// Workgroups that share a pair.
        parts: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("maxsim_pairs")
    .library(&[KEYS, GRID, WORDS_IN_BLOCKS, ROW_PLACE])
    .source(wgsl!("maxsim/maxsim_pairs"))
    .buffers(bindings!(queries: Read, rows: Read, pairs: Read, nearest: Write))
    .overrides(&[IN_BLOCKS])
    .loads_rows()
    .only(lie_in_blocks)
    .lengths(&[VECTORS])
    .workgroup(128, 128 * 16);

/// Tokens of a document that a workgroup multiplies at a time.
pub(crate) const TOKENS: u32 = 64;

/// Records the kernel for the rows of a segment. Buffers are queries (f32, padded as rows are), the segment's rows, pairs (first token and
/// tokens of the query, first slot and slots of the document), and keys of products, which are 0 before the first segment.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    layout: RowLayout,
    params: &Params,
    buffers: [BufferSlice<'_>; 4],
) -> Result<()> {
    let constants = [layout.in_blocks.into()];
    let pipeline = commands.gpu().pipeline_for(&KERNEL, layout.elements, &constants)?;
    commands.dispatch(
        &pipeline,
        params,
        &buffers,
        Grid::Linear(u64::from(params.pairs) * u64::from(params.parts)),
    )
}

/// The largest product of a token with those of a document.
pub fn reference(token: &[f32], document: MatrixView<'_, f32>) -> f64 {
    let product = |row: usize| -> f64 {
        token.iter().zip(document.row(row)).map(|(&q, &x)| f64::from(q) * f64::from(x)).sum()
    };
    (0..document.rows()).map(product).fold(f64::NEG_INFINITY, f64::max)
}
