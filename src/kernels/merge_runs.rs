//! Merges neighbouring sorted runs.

use super::select_k::{Lengths, SORTED_MAX, Selected};
use crate::error::Result;
use crate::gpu::{Access, Commands, Grid, Kernel, params};
use crate::matrix::ElementKind;

params! {
    /// Parameters of `merge_runs`.
    pub struct Params {
        /// Elements a row, of lists at most.
        length: u32,
        /// Distance between the starts of two rows.
        pitch: u32,
        /// Elements of a sorted run, a power of two.
        run: u32,
        /// Elements of a row that are wanted merged.
        merged_length: u32,
        /// Distance between the starts of two merged rows.
        merged_pitch: u32,
        /// Whether what a row lacks is written as ABSENT.
        fills: u32,
        /// Elements wanted of a list.
        k: u32,
        /// Entries that a list has room for.
        capacity: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "merge_runs",
    source: &[
        include_str!("../../wgsl/lib/order.wgsl"),
        include_str!("../../wgsl/lib/states.wgsl"),
        include_str!("../../wgsl/lib/lengths.wgsl"),
        include_str!("../../wgsl/merge_runs.wgsl"),
    ],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("keys", Access::Read),
        ("ids", Access::Read),
        ("merged_keys", Access::Write),
        ("merged_ids", Access::Write),
        ("states", Access::Read),
        ("counts", Access::Read),
    ],
    overrides: &[("LISTS", &[0, 1])],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 256,
    workgroup_bytes: 1024 * 12 + 4 * 4,
};

/// Records the kernel for `rows` rows, whose runs of `run` elements are sorted. `to` gets the first `merged_length` of a row,
/// at its pitch; of the `last` merge also what a row lacks of them.
pub(super) fn encode(
    commands: &mut Commands<'_>,
    (from, pitch): (Selected<'_>, u32),
    (to, merged_pitch): (Selected<'_>, u32),
    rows: u32,
    lengths: &Lengths<'_>,
    (run, merged_length, last): (u32, u32, bool),
) -> Result<()> {
    let gpu = commands.gpu();
    let pipeline = gpu.pipeline(&KERNEL, ElementKind::F32, &[lengths.states.is_some().into()])?;
    let grid = Grid::Tiles(lengths.length.max(merged_length).div_ceil(SORTED_MAX), rows);
    let states = lengths.states.unwrap_or(lengths.counts);
    let buffers = [from.keys, from.ids, to.keys, to.ids, states, lengths.counts];
    let params = Params {
        length: lengths.length,
        pitch,
        run,
        merged_length,
        merged_pitch,
        fills: last.into(),
        k: lengths.k,
        capacity: lengths.length,
    };
    commands.dispatch(&pipeline, &params, &buffers, grid)
}

/// The row with neighbouring runs merged.
pub fn reference(row: &[(u32, u64)], run: usize) -> Vec<(u32, u64)> {
    let mut merged = row.to_vec();
    merged.chunks_mut(2 * run).for_each(<[_]>::sort_unstable);
    merged
}
