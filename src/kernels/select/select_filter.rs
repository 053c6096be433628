//! Lists the elements that pass each row's threshold.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, EXACT, Grid, Kernel, PASSING, STREAM, wgsl};
use crate::kernels::keys::KEYS;
use crate::kernels::select::select_k::Selected;
use crate::kernels::select::select_sample::{Params, batches_of_a_piece};

/// Elements that a workgroup collects, at most.
const COLLECTED_MAX: u32 = 1024;

/// The declaration. Its parameters are those of `select_sample`.
pub static KERNEL: Kernel = Kernel::new::<Params>("select_filter")
    .library(&[KEYS, PASSING, EXACT, STREAM])
    .source(wgsl!("select/select_filter", COLLECTED_MAX))
    .buffers(bindings!(values: Read, words: Read, states: Write, listed_keys: Write, listed_ids: Write))
    .overrides(&[("FLOATS", &[0, 1]), ("MANY", &[0, 1])])
    .workgroup(256, COLLECTED_MAX * 8 + 32);

/// Vectors of four elements that a workgroup has in flight.
const BATCH: u32 = 4 * 256;

/// Vectors of four elements per piece, and pieces per row.
pub(crate) fn pieces(rows: u32, length: u32) -> (u32, u32) {
    // A row may start and end within a vector.
    let vectors = length.div_ceil(4) + 1;
    let batches = u64::from(rows) * u64::from(vectors.div_ceil(BATCH));
    let piece = BATCH * batches_of_a_piece(batches);
    (piece, vectors.div_ceil(piece))
}

/// Records the kernel. At most `passing` elements of a row are expected to pass.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    (floats, passing): (bool, u64),
    values: BufferSlice<'_>,
    states: BufferSlice<'_>,
    lists: Selected<'_>,
) -> Result<()> {
    let (piece, pieces) = pieces(params.rows, params.length);
    // Too many per piece for a workgroup to collect them.
    let many = passing / u64::from(pieces) > 700;
    let pipeline = commands.gpu().pipeline(&KERNEL, &[floats.into(), many.into()])?;
    let buffers = [values, values, states, lists.keys, lists.ids];
    let params = Params { piece, ..*params };
    commands.dispatch(&pipeline, &params, &buffers, Grid::Tiles(pieces, params.rows))
}
