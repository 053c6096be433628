//! Sorts runs of 1,024 results in place.

use crate::error::Result;
use crate::gpu::{Access, Commands, Grid, Kernel, ORDER, PASSING, params, wgsl};
use crate::kernels::keys::KEYS;
use crate::kernels::select::select_k::{SORT, SORTED_MAX, Selected};

params! {
    /// Parameters of `sort_runs`.
    pub struct Params {
        /// Elements per row.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("sort_runs")
    .library(&[KEYS, ORDER, PASSING, SORT])
    .source(wgsl!("select/sort_runs"))
    .buffers(&[("keys", Access::Write), ("ids", Access::Write)])
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
    commands.dispatch(&pipeline, &Params { length, pitch }, &[elements.keys, elements.ids], grid)
}
