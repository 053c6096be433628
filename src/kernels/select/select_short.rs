//! The k smallest of each row by (key, position), for rows that are held in registers.

use crate::error::Result;
use crate::gpu::{
    BufferSlice, Commands, EXACT, GRID, Grid, Kernel, PASSING, POOL, RESULTS, STATES, WORKGROUP, wgsl,
};
use crate::kernels::held::{COUNTED, HELD, HELD_BYTES};
use crate::kernels::keys::KEYS;
use crate::kernels::select::select_k::SORTED_MAX;
use crate::kernels::select::select_row::POOL_ROOM;
use crate::kernels::select::select_sample::Params;

/// The declaration. Its parameters are those of `select_sample`.
pub static KERNEL: Kernel = Kernel::new::<Params>("select_short")
    .library(&[KEYS, GRID, STATES, PASSING, HELD, COUNTED, EXACT, POOL, RESULTS])
    .source(wgsl!("select/select_short", SORTED_MAX, POOL_ROOM_MAX = POOL_ROOM))
    .buffers(bindings!(words: Read, selected_keys: Write, selected_ids: Write, selected_counts: Write))
    .overrides(&[(WORKGROUP, &[32, 64, 128, 256]), ("FLOATS", &[0, 1])])
    .sums_lanes()
    .workgroup(256, POOL_ROOM * 8 + HELD_BYTES + 6 * 16);

/// Elements of the longest row.
pub(crate) const LONGEST: u32 = 16 * 256;

/// Records the kernel. `selected` are keys, ids and counts of the results, in any order if there are more than [`SORTED_MAX`].
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    floats: bool,
    values: BufferSlice<'_>,
    selected: [BufferSlice<'_>; 3],
) -> Result<()> {
    // Few invocations per row, so that many rows are in progress at once; at least one group of lanes.
    let lanes = commands.gpu().subgroup_sizes().map_or(32, |(least, _)| least.clamp(32, 64));
    let workgroup = params.length.div_ceil(16).next_power_of_two().clamp(lanes, 256);
    let pipeline = commands.gpu().pipeline(&KERNEL, &[workgroup, floats.into()])?;
    let buffers = [values, selected[0], selected[1], selected[2]];
    commands.dispatch(&pipeline, params, &buffers, Grid::Linear(params.rows.into()))
}
