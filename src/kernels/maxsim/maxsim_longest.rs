//! The largest length and residual of the quantised tokens of each document.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, params, wgsl};
use crate::screen::certificate::Terms;

params! {
    pub struct Params {
        places: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows of the segment.
        rows: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("maxsim_longest")
    .library(&[GRID])
    .source(wgsl!("maxsim/maxsim_longest"))
    .buffers(bindings!(ends: Read, row_terms: Read, longest: Write))
    .workgroup(INVOCATIONS, 0);

const INVOCATIONS: u32 = 64;

/// Records the kernel for the rows of a segment. Buffers are the ends of places, the segment's terms, and results, which are 0 before the first segment.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    buffers: [BufferSlice<'_>; 3],
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let grid = Grid::Linear(params.places.div_ceil(INVOCATIONS).into());
    commands.dispatch(&pipeline, params, &buffers, grid)
}

/// The largest length and residual.
pub fn reference(document: &[Terms]) -> [f32; 2] {
    document
        .iter()
        .fold([0.0; 2], |[length, residual], terms| [length.max(terms.length), residual.max(terms.residual)])
}
