//! Finds where the smallest key of a row was.

use crate::elements::Element;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, wgsl};
use crate::kernels::reduce::operation::{EXTREMES, Operation};
use crate::kernels::reduce::reduce_blocks::{Params, Reduce};

/// The declaration. Its parameters are those of `reduce_blocks`.
pub static KERNEL: Kernel = Kernel::new::<Params>("locate")
    .library(&[GRID, EXTREMES])
    .source(wgsl!("reduce/locate"))
    .buffers(bindings!(values: Read, results: Read, places: Write))
    .overrides(&[("OPERATION", &[Operation::Min as u32, Operation::Max as u32])])
    .loads_rows()
    .workgroup(256, 4);

/// Records the kernel, after `reduce_blocks` with the same arguments and `reduce_partials`: `results` are `[rows]` records, and
/// `places` get one u32 for each row whose block is in this buffer, counted from the row's start there.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    reduce: &Reduce<'_>,
    results: BufferSlice<'_>,
    places: BufferSlice<'_>,
) -> Result<()> {
    reduce.check()?;
    results.check_rows("results", reduce.rows, [1; 2], 8)?;
    places.check_rows("places", reduce.rows, [1; 2], 4)?;
    if !reduce.operation.is_place() {
        return Err(Error::argument("operation", "argmin or argmax", format!("{:?}", reduce.operation)));
    }
    let constants = [reduce.operation.extreme() as u32];
    let pipeline = commands.gpu().pipeline_for(&KERNEL, reduce.elements, &constants)?;
    let grid = Grid::Linear(reduce.rows.into());
    commands.dispatch(&pipeline, &reduce.params(), &[reduce.values, results, places], grid)
}

/// The first element with the record's key.
pub fn reference<T: Element>(operation: Operation, values: &[T], key: u32) -> Option<usize> {
    values.iter().position(|&value| operation.key(value.widen()) == key)
}
