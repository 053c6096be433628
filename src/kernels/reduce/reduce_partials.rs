//! Merges the records of blocks into one record per row.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, RECORDS, ROUNDING, wgsl};
use crate::kernels::reduce::operation::{EXTREMES, Operation, Summation};
use crate::kernels::reduce::reduce_blocks::Params;

/// The declaration. Of the parameters of `reduce_blocks` it reads `rows`, `pitch` and `zero`.
pub static KERNEL: Kernel = Kernel::new::<Params>("reduce_partials")
    .library(&[GRID, EXTREMES, ROUNDING, RECORDS])
    .source(wgsl!("reduce/reduce_partials"))
    .buffers(bindings!(partials: Read, results: Write))
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
    let params = Params { rows, pitch, ..Params::default() };
    commands.dispatch(&pipeline, &params, &[partials, results], Grid::Linear(rows.into()))
}

/// A row's records merged: sums and errors in f64, or the smallest by (key, number).
pub fn reference(operation: Operation, partials: &[[u32; 2]]) -> ([f64; 2], Option<[u32; 2]>) {
    let sum = |word: usize| partials.iter().map(|record| f64::from(f32::from_bits(record[word]))).sum();
    let least = partials.iter().min().copied();
    if operation.is_sum() { ([sum(0), sum(1)], None) } else { ([0.0; 2], least) }
}
