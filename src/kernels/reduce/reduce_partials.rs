//! Merges the records of blocks into one record per row.

use crate::error::Result;
use crate::gpu::{Access, BufferSlice, Commands, GRID, Grid, Kernel, RECORDS, ROUNDING, params, wgsl};
use crate::kernels::reduce::operation::{EXTREMES, Operation, Summation};

params! {
    /// Parameters of `reduce_partials`.
    pub struct Params {
        /// Rows.
        rows: u32,
        /// Records per row.
        pitch: u32,
        /// 0. Kernels must not be compiled with this knowledge.
        zero: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("reduce_partials")
    .library(&[GRID, EXTREMES, ROUNDING, RECORDS])
    .source(wgsl!("reduce/reduce_partials"))
    .buffers(&[("partials", Access::Read), ("results", Access::Write)])
    .overrides(&[("OPERATION", &[0, 1, 2, 3, 4, 5, 6]), ("COMPENSATED", &[0, 1])])
    .workgroup(256, 256 * 8);

/// Records the kernel: `partials` are `[rows, pitch]` records of two u32, `results` `[rows]`.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (operation, summation): (Operation, Summation),
    [rows, pitch]: [u32; 2],
    partials: BufferSlice<'_>,
    results: BufferSlice<'_>,
) -> Result<()> {
    partials.check_rows("partials", rows, [pitch; 2], 8)?;
    results.check_rows("results", rows, [1; 2], 8)?;
    let compensated = u32::from(summation == Summation::Compensated && operation.is_sum());
    let constants = [operation.extreme() as u32, compensated];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    commands.dispatch(
        &pipeline,
        &Params { rows, pitch, zero: 0 },
        &[partials, results],
        Grid::Linear(rows.into()),
    )
}

/// A row's records merged: sums and errors in f64, or the smallest by (key, number).
pub fn reference(operation: Operation, partials: &[[u32; 2]]) -> ([f64; 2], Option<[u32; 2]>) {
    let sum = |word: usize| partials.iter().map(|record| f64::from(f32::from_bits(record[word]))).sum();
    let least = partials.iter().min().copied();
    if operation.is_sum() { ([sum(0), sum(1)], None) } else { ([0.0; 2], least) }
}
