//! Sorts runs of 1,024 results in place.

use crate::error::Result;
use crate::gpu::{Commands, Grid, Kernel, ORDER, PASSING, wgsl};
use crate::kernels::keys::KEYS;
pub use crate::kernels::select::merge_runs::Params;
use crate::kernels::select::select_k::{SORT, SORTED_MAX, Selected};

/// The declaration. Its parameters are those of `merge_runs`.
pub static KERNEL: Kernel = Kernel::new::<Params>("sort_runs")
    .library(&[KEYS, ORDER, PASSING, SORT])
    .source(wgsl!("select/sort_runs"))
    .buffers(bindings!(keys: Write, ids: Write))
    .workgroup(256, SORTED_MAX * 12);

/// Records the kernel for `rows` rows of `length` elements.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    elements: Selected<'_>,
    rows: u32,
    length: u32,
    pitch: u32,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let grid = Grid::Tiles(length.div_ceil(SORTED_MAX), rows);
    let params = Params { length, pitch, ..Params::default() };
    commands.dispatch(&pipeline, &params, &[elements.keys, elements.ids], grid)
}
