//! Multiplies values by a factor.

use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, params, wgsl};

params! {
    /// Parameters of `scale`.
    pub struct Params {
        /// Number of values.
        count: u32,
        /// Factor of each value.
        factor: f32,
    }
}

/// Invocations per workgroup, one per value.
const INVOCATIONS: u32 = 256;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("scale")
    .library(&[GRID])
    .source(wgsl!("lesson/scale"))
    .buffers(bindings!(values: Write))
    .workgroup(INVOCATIONS, 0);

pub(crate) fn encode(
    commands: &mut Commands<'_>,
    values: BufferSlice<'_>,
    count: u32,
    factor: f32,
) -> Result<()> {
    if u64::from(count) * 4 > values.bytes {
        return Err(Error::argument("values", format!("{count} values"), values.bytes / 4));
    }
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let grid = Grid::Linear(u64::from(count.div_ceil(INVOCATIONS)));
    commands.dispatch(&pipeline, &Params { count, factor }, &[values], grid)
}

/// The scaled values, in f64.
pub fn reference(values: &[f32], factor: f32) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value) * f64::from(factor)).collect()
}
