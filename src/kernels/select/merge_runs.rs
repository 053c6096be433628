//! Merges neighbouring sorted runs.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Grid, Kernel, ORDER, params, wgsl};
use crate::kernels::select::select_k::{SORTED_MAX, Selected};

params! {
    /// Parameters of `merge_runs`, `sort_runs` and `sort_places`.
    pub struct Params {
        /// Elements per row.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// Elements of a sorted run, a power of two, for `merge_runs`.
        run: u32,
        /// At least the largest position, for `sort_places`.
        last_place: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("merge_runs")
    .library(&[ORDER])
    .source(wgsl!("select/merge_runs", SORTED_MAX))
    .buffers(bindings!(keys: Read, ids: Read, merged_keys: Write, merged_ids: Write, states: Read))
    .overrides(&[("ONLY", &[0, 1])])
    .workgroup(256, SORTED_MAX * 12 + 4 * 4);

/// Workgroups that look for failed rows. Few rows fail, if any.
const LOOKING: u32 = 2048;

/// Columns of workgroups for `rows` rows of `length` elements, one workgroup per [`SORTED_MAX`] of them. With states, most
/// workgroups have nothing to do, so there are fewer of them.
pub(crate) fn columns(rows: u32, length: u32, has_states: bool) -> u32 {
    let tiles = length.div_ceil(SORTED_MAX);
    if has_states { tiles.min((LOOKING / rows.max(1)).max(1)) } else { tiles }
}

/// Records the kernel for `rows` rows of `length` elements, whose runs of `run` elements are sorted; with states, only for failed
/// rows.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    [from, to]: [Selected<'_>; 2],
    rows: u32,
    (length, pitch): (u32, u32),
    run: u32,
    states: Option<BufferSlice<'_>>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[states.is_some().into()])?;
    let grid = Grid::Tiles(columns(rows, length, states.is_some()), rows);
    let buffers = [from.keys, from.ids, to.keys, to.ids, states.unwrap_or(from.keys)];
    commands.dispatch(&pipeline, &Params { length, pitch, run, last_place: 0 }, &buffers, grid)
}
