//! Elements of rows to buckets between splitters.

use crate::kernels::sample_runs::Params;
use crate::kernels::select_k::Selected;
use crate::error::Result;
use crate::gpu::{Access, BufferSlice, Commands, Grid, Kernel};
use crate::matrix::ElementKind;

/// The declaration. Its parameters are those of `sample_runs`.
pub static KERNEL: Kernel = Kernel {
    name: "scatter_buckets",
    source: &[
        wgsl!("lib/keys"),
        wgsl!("lib/splitters"),
        wgsl!("lib/passing"),
        wgsl!("lib/exact"),
        wgsl!("select/scatter_buckets"),
    ],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("words", Access::Read),
        ("states", Access::Write),
        ("sample_keys", Access::Read),
        ("sample_ids", Access::Read),
        ("entries", Access::Write),
    ],
    overrides: &[("FLOATS", &[0, 1]), ("MANY", &[0, 1])],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 256,
    workgroup_bytes: 1024 * 8 + 3 * 512 * 4 + 4 * 16,
};

/// Splitters that workgroup memory has room for.
pub(crate) const SPLITTERS: u32 = 512;

/// Entries that a bucket has room for.
pub(crate) const ROOM: u32 = 1024;

/// Elements that a workgroup has in flight.
const BATCH: u32 = 16 * 256;

/// Workgroups that keep a large card busy, with some to spare.
const WORKGROUPS: u64 = 2048;

/// Elements of a piece of a row: as many as leave the card busy, because a workgroup loads all splitters.
pub(crate) fn piece(selection: &Params) -> u32 {
    let batches = u64::from(selection.rows) * u64::from(selection.length.div_ceil(BATCH));
    BATCH * (batches / WORKGROUPS).clamp(1, 8) as u32
}

/// Records the kernel.
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
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let buffers = [values, states, sample.keys, sample.ids, entries];
    let grid = Grid::Tiles(params.length.div_ceil(params.piece), params.rows);
    commands.dispatch(&pipeline, params, &buffers, grid)
}

/// The elements up to the threshold, keys and places, by their buckets: each has those up to its splitter, the last one the rest.
pub fn reference(keys: &[u32], splitters: &[(u32, u32)], threshold: (u32, u32)) -> Vec<Vec<(u32, u32)>> {
    let mut buckets = vec![vec![]; splitters.len() + 1];
    for element in crate::kernels::select_filter::reference(keys, threshold) {
        buckets[splitters.iter().filter(|&&splitter| splitter < element).count()].push(element);
    }
    buckets
}
