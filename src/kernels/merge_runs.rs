//! Merges neighbouring sorted runs.

use super::select_k::Selected;
use crate::error::Result;
use crate::gpu::{Access, Commands, Grid, Kernel, params};
use crate::matrix::ElementKind;

params! {
    /// Parameters of `merge_runs`.
    pub struct Params {
        /// Elements a row.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// Elements of a sorted run, a power of two.
        run: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "merge_runs",
    source: &[include_str!("../../wgsl/lib/order.wgsl"), include_str!("../../wgsl/merge_runs.wgsl")],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("keys", Access::Read),
        ("ids", Access::Read),
        ("merged_keys", Access::Write),
        ("merged_ids", Access::Write),
    ],
    overrides: &[],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 256,
    workgroup_bytes: 0,
};

/// Records the kernel for `rows` rows of `length` elements, whose runs of `run` elements are sorted.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    from: Selected<'_>,
    to: Selected<'_>,
    rows: u32,
    length: u32,
    pitch: u32,
    run: u32,
) -> Result<()> {
    let gpu = commands.gpu();
    let pipeline = gpu.pipeline(&KERNEL, ElementKind::F32, &[])?;
    // The kernel strides over longer rows.
    let grid = Grid::Tiles(length.div_ceil(256).min(gpu.adapter.capabilities.max_workgroups), rows);
    let buffers = [from.keys, from.ids, to.keys, to.ids];
    commands.dispatch(&pipeline, &Params { length, pitch, run }, &buffers, grid)
}

/// The row with neighbouring runs merged.
pub fn reference(row: &[(u32, u64)], run: usize) -> Vec<(u32, u64)> {
    let mut merged = row.to_vec();
    merged.chunks_mut(2 * run).for_each(<[_]>::sort_unstable);
    merged
}
