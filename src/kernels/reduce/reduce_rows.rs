//! Reduces short rows to one word each, in one pass.

use crate::error::Result;
use crate::gpu::{ACROSS, Commands, GRID, Grid, Kernel, RECORDS, ROUNDING, SPAN, wgsl};
use crate::kernels::reduce::operation::{EXTREMES, Summation};
use crate::kernels::reduce::reduce_blocks::{Params, Reduce};

/// The longest row, in elements. Longer rows are cut into blocks.
pub const LONGEST: u64 = 4096;

/// The declaration. Its parameters are those of `reduce_blocks`.
pub static KERNEL: Kernel = Kernel::new::<Params>("reduce_rows")
    .library(&[GRID, ACROSS, EXTREMES, ROUNDING, RECORDS, SPAN])
    .source(wgsl!("reduce/reduce_rows"))
    .buffers(bindings!(values: Read, others: Read, results: Write))
    .overrides(&[
        ("OPERATION", &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("COMPENSATED", &[0, 1]),
        ("WIDTH", &[0, 1, 4, 8, 32]),
    ])
    .loads_rows()
    .sums_lanes()
    .workgroup(256, 256 * (16 + 4 + 8));

/// Records the kernel. It writes one word per row: the bits of a sum, a key, or for places the place (`u32::MAX` without a number).
/// `reduce.partials` gets them; `pitch`, `shape` and `first_block` do not matter.
pub(crate) fn encode(commands: &mut Commands<'_>, reduce: &Reduce<'_>) -> Result<()> {
    reduce.check()?;
    reduce.partials.check_rows("partials", reduce.rows, [1; 2], 4)?;
    let compensated = reduce.summation == Summation::Compensated && reduce.operation.is_sum();
    let gpu = commands.gpu();
    let width = match (reduce.length.div_ceil(4), compensated) {
        (0..=4, _) => 1,
        (5..=16, _) => 4,
        (17..=32, _) => 8,
        (_, true) => 32,
        (_, false) => 0,
    };
    let constants = [reduce.operation as u32, compensated.into(), width];
    let pipeline = gpu.pipeline_for(&KERNEL, reduce.elements, &constants)?;
    // Rows per workgroup with the largest groups of lanes; with smaller groups some workgroups find nothing to do.
    let lanes = match width {
        0 => gpu.subgroup_sizes().map_or(32, |(_, most)| most.min(KERNEL.workgroup_size)),
        width => width,
    };
    let grid = Grid::Linear(u64::from(reduce.rows).div_ceil(u64::from(KERNEL.workgroup_size / lanes)));
    let others = reduce.others.unwrap_or(reduce.values);
    commands.dispatch(&pipeline, &reduce.params(), &[reduce.values, others, reduce.partials], grid)
}
