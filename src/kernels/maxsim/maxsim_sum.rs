//! The sums of the largest similarities of each query's tokens, document by document.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, params, wgsl};
use crate::kernels::keys::KEYS;
use crate::kernels::sixteen::{AT_ONCE, INVOCATIONS, SIXTEEN};

params! {
    pub struct Params {
        queries: u32,
        places: u32,
        /// Distance between the similarities of two places.
        pitch: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("maxsim_sum")
    .library(&[KEYS, GRID, SIXTEEN])
    .source(wgsl!("maxsim/maxsim_sum"))
    .buffers(bindings!(nearest: Read, offsets: Read, weights: Read, sums: Write))
    .workgroup(INVOCATIONS, INVOCATIONS * 16);

/// Records the kernel. Buffers are keys of similarities, offsets of queries, weights of tokens, and sums.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    buffers: [BufferSlice<'_>; 4],
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let sums = u64::from(params.queries) * u64::from(params.places);
    commands.dispatch(&pipeline, params, &buffers, Grid::Linear(sums.div_ceil(AT_ONCE.into())))
}

/// The sum of some similarities, each with its weight.
pub fn reference(nearest: &[f32], weights: &[f32]) -> f64 {
    nearest.iter().zip(weights).map(|(&near, &weight)| f64::from(near) * f64::from(weight)).sum()
}
