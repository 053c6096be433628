//! Scatters elements of rows into buckets between splitters.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, EXACT, Grid, Kernel, PASSING, SPLITTING, wgsl};
use crate::kernels::keys::KEYS;
use crate::kernels::select::sample_sort::{BATCH, BUCKET_ROOM, Params, SPLITTERS};
use crate::kernels::select::select_k::{SORTED_MAX, Selected};

/// Elements that a workgroup collects, at most.
const COLLECTED_MAX: u32 = 1024;

/// The declaration. Its parameters are those of the whole sort.
pub static KERNEL: Kernel = Kernel::new::<Params>("scatter_buckets")
    .library(&[KEYS, SPLITTING, PASSING, EXACT])
    .source(wgsl!("select/scatter_buckets", COLLECTED_MAX, SPLITTERS, BATCH, BUCKET_ROOM, SORTED_MAX))
    .buffers(bindings!(words: Read, states: Write, sample_keys: Read, sample_ids: Read, entries: Write))
    .overrides(&[("FLOATS", &[0, 1]), ("MANY", &[0, 1])])
    .workgroup(256, COLLECTED_MAX * 8 + 3 * SPLITTERS * 4 + 4 * 16);

pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    floats: bool,
    values: BufferSlice<'_>,
    states: BufferSlice<'_>,
    sample: Selected<'_>,
    entries: BufferSlice<'_>,
) -> Result<()> {
    let constants = [floats.into(), (params.shift > 0).into()];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    let buffers = [values, states, sample.keys, sample.ids, entries];
    let grid = Grid::Tiles(params.length.div_ceil(params.piece), params.rows);
    commands.dispatch(&pipeline, params, &buffers, grid)
}
