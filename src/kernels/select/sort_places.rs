//! Sorts runs of 1,024 results whose ids are positions, in place.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Grid, Kernel, PASSING, POOL, STATES, wgsl};
use crate::kernels::held::{COUNTED, HELD, HELD_BYTES};
use crate::kernels::keys::KEYS;
pub use crate::kernels::select::merge_runs::Params;
use crate::kernels::select::merge_runs::columns;
use crate::kernels::select::select_k::{SORTED_MAX, Selected};

/// Elements that workgroup memory has room for: a run.
const POOL_ROOM: u32 = SORTED_MAX;

/// The declaration. Its parameters are those of `merge_runs`.
pub static KERNEL: Kernel = Kernel::new::<Params>("sort_places")
    .library(&[KEYS, STATES, PASSING, HELD, COUNTED, POOL])
    .source(wgsl!("select/sort_places", POOL_ROOM))
    .buffers(bindings!(keys: Write, ids: Write, states: Read))
    .overrides(&[("ONLY", &[0, 1])])
    .sums_lanes()
    .workgroup(256, POOL_ROOM * 8 + HELD_BYTES + 6 * 16);

/// Records the kernel for `rows` rows; with states, only for failed ones. `unused` is any other buffer, bound if there are no
/// states.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    elements: Selected<'_>,
    rows: u32,
    params: &Params,
    states: Option<BufferSlice<'_>>,
    unused: BufferSlice<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[states.is_some().into()])?;
    let grid = Grid::Tiles(columns(rows, params.length, states.is_some()), rows);
    commands.dispatch(&pipeline, params, &[elements.keys, elements.ids, states.unwrap_or(unused)], grid)
}
