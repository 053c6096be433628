//! The k smallest of each row by (key, position), one workgroup per row, in one pass over the row or over its list.

use crate::error::Result;
use crate::gpu::{
    BufferSlice, Commands, EXACT, GRID, Grid, Kernel, PASSING, POOL, RESULTS, SAMPLE, SCATTERED, STATES,
    STREAM, wgsl,
};
use crate::kernels::held::{COUNTED, HELD, HELD_BYTES};
use crate::kernels::keys::KEYS;
use crate::kernels::select::select_sample::Params;

/// The declaration. Its parameters are those of `select_sample`.
pub static KERNEL: Kernel = Kernel::new::<Params>("select_row")
    .library(&[KEYS, GRID, STATES, PASSING, HELD, COUNTED, EXACT, SCATTERED, SAMPLE, STREAM, POOL, RESULTS])
    .source(wgsl!("select/select_row", POOL_ROOM))
    .buffers(bindings!(
        values: Read, words: Read, listed_ids: Read, states: Read, selected_keys: Write,
        selected_ids: Write, selected_counts: Write,
    ))
    .overrides(&[("FLOATS", &[0, 1]), ("HELD", &[1, 4]), ("LISTS", &[0, 1])])
    .sums_lanes()
    .fits_registers()
    .workgroup(256, POOL_ROOM * 8 + HELD_BYTES + 6 * 16);

/// Elements that a workgroup holds in registers.
pub(crate) const HELD_MAX: u32 = 16 * 256;

/// Elements that workgroup memory has room for.
pub(crate) const POOL_ROOM: u32 = 1536;

/// The elements to select from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Keys, or floats if the second field is true; the third is the vectors that an invocation samples, 1 or 4.
    Rows(BufferSlice<'a>, bool, u32),
    /// Lists that `select_filter` made: keys, ids, states.
    Lists(BufferSlice<'a>, BufferSlice<'a>, BufferSlice<'a>),
}

/// Records the kernel. `selected` are keys, ids and counts of the results.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    from: Source<'_>,
    selected: [BufferSlice<'_>; 3],
) -> Result<()> {
    let (constants, values, [ids, states]) = match from {
        Source::Rows(values, floats, held) => ([floats.into(), held, 0], values, [values; 2]),
        Source::Lists(keys, ids, states) => ([0, 1, 1], keys, [ids, states]),
    };
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    let buffers = [values, values, ids, states, selected[0], selected[1], selected[2]];
    commands.dispatch(&pipeline, params, &buffers, Grid::Linear(params.rows.into()))
}

/// The k smallest of a row by (key, position), without ABSENT ones.
pub fn reference(keys: &[u32], k: usize) -> Vec<(u32, u64)> {
    let ids: Vec<u64> = (0..keys.len() as u64).collect();
    crate::kernels::select::select_k::reference(keys, &ids, k)
}
