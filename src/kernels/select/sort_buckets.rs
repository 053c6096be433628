//! Sorts the elements of buckets, and writes them where they belong among the results.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Grid, Kernel, PASSING, POOL, SPLITTING, STATES, WORKGROUP, wgsl};
use crate::kernels::held::{COUNTED, HELD, HELD_BYTES};
use crate::kernels::keys::KEYS;
use crate::kernels::select::sample_sort::{BUCKET_ROOM, Params};

/// Entries that workgroup memory has room for: a bucket.
const POOL_ROOM: u32 = BUCKET_ROOM;

/// The declaration. Its parameters are those of the whole sort.
pub static KERNEL: Kernel = Kernel::new::<Params>("sort_buckets")
    .library(&[KEYS, STATES, SPLITTING, PASSING, HELD, COUNTED, POOL])
    .source(wgsl!("select/sort_buckets", POOL_ROOM, BUCKET_ROOM))
    .buffers(bindings!(
        states: Write, entries: Read, selected_keys: Write, selected_ids: Write, selected_counts: Write,
    ))
    .overrides(&[(WORKGROUP, &[64, 128, 256])])
    .sums_lanes()
    .workgroup(256, POOL_ROOM * 8 + HELD_BYTES + 8 * 16);

/// Invocations per workgroup: few, because most buckets are half full.
const INVOCATIONS: u32 = 128;

/// Records the kernel. `selected` are keys, ids and counts of the results.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    states: BufferSlice<'_>,
    entries: BufferSlice<'_>,
    selected: [BufferSlice<'_>; 3],
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[INVOCATIONS])?;
    let buffers = [states, entries, selected[0], selected[1], selected[2]];
    commands.dispatch(&pipeline, params, &buffers, Grid::Tiles(params.buckets, params.rows))
}
