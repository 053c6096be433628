//! Sorted runs of a sample of each row: the first step of sorting by splitters.

use crate::error::Result;
use crate::gpu::{
    BufferSlice, Commands, EXACT, Grid, Kernel, PASSING, POOL, SCATTERED, SPLITTING, STATES, wgsl,
};
use crate::kernels::held::{COUNTED, HELD, HELD_BYTES};
use crate::kernels::keys::KEYS;
pub use crate::kernels::select::sample_sort::Params;
use crate::kernels::select::select_k::{SORTED_MAX, Selected};

/// Entries that workgroup memory has room for: a run.
const POOL_ROOM: u32 = SORTED_MAX;

/// The declaration. Its parameters are those of the whole sort.
pub static KERNEL: Kernel = Kernel::new::<Params>("sample_runs")
    .library(&[KEYS, STATES, SPLITTING, PASSING, HELD, COUNTED, EXACT, SCATTERED, POOL])
    .source(wgsl!("select/sample_runs", POOL_ROOM, SORTED_MAX))
    .buffers(bindings!(words: Read, states: Write, sample_keys: Write, sample_ids: Write))
    .overrides(&[("FLOATS", &[0, 1])])
    .sums_lanes()
    .workgroup(256, POOL_ROOM * 8 + HELD_BYTES + 6 * 16);

pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    floats: bool,
    values: BufferSlice<'_>,
    states: BufferSlice<'_>,
    sample: Selected<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[floats.into()])?;
    let buffers = [values, states, sample.keys, sample.ids];
    commands.dispatch(&pipeline, params, &buffers, Grid::Tiles(params.parts, params.rows))
}
