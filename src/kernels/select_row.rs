//! The k smallest of each row by (key, position), one workgroup a row, reading it once.

use super::select_sample::Params;
use crate::error::Result;
use crate::gpu::{Access, BufferSlice, Commands, Grid, Kernel, WORKGROUP};
use crate::matrix::ElementKind;

/// The declaration. Its parameters are those of `select_sample`.
pub static KERNEL: Kernel = Kernel {
    name: "select_row",
    source: &[
        include_str!("../../wgsl/lib/keys.wgsl"),
        include_str!("../../wgsl/lib/grid.wgsl"),
        include_str!("../../wgsl/lib/states.wgsl"),
        include_str!("../../wgsl/lib/passing.wgsl"),
        include_str!("../../wgsl/lib/held.wgsl"),
        include_str!("../../wgsl/lib/buckets.wgsl"),
        include_str!("../../wgsl/lib/exact.wgsl"),
        include_str!("../../wgsl/lib/sample.wgsl"),
        include_str!("../../wgsl/lib/stream.wgsl"),
        include_str!("../../wgsl/lib/pool.wgsl"),
        include_str!("../../wgsl/select_row.wgsl"),
    ],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[
        ("values", Access::Read),
        ("words", Access::Read),
        ("listed_ids", Access::Read),
        ("states", Access::Read),
        ("selected_keys", Access::Write),
        ("selected_ids", Access::Write),
        ("selected_counts", Access::Write),
    ],
    overrides: &[(WORKGROUP, &[32, 64, 128, 256]), ("FLOATS", &[0, 1]), ("FROM", &[0, 1, 2, 3])],
    loads_rows: false,
    sums_lanes: true,
    adds_floats: false,
    workgroup_size: 256,
    workgroup_bytes: 1536 * 8 + (512 + 32 + 128) * 4 + 6 * 16,
};

/// Elements of the longest row that a workgroup holds in registers.
pub(super) const SHORT: u32 = 16 * 256;

/// Elements that workgroup memory has room for.
pub(super) const ROOM: u64 = 1536;

/// Where a row's elements are.
#[derive(Debug, Clone, Copy)]
pub(super) enum From<'a> {
    /// Rows of up to [`SHORT`] elements.
    Short(BufferSlice<'a>),
    /// Longer rows, with a sample of so many vectors an invocation, 1 or 4.
    Long(BufferSlice<'a>, u32),
    /// Lists that `select_filter` made: keys, ids, states.
    Lists(BufferSlice<'a>, BufferSlice<'a>, BufferSlice<'a>),
}

/// Records the kernel; `selected` are keys, ids and counts of the results.
pub(super) fn encode(
    commands: &mut Commands<'_>,
    params: &Params,
    floats: bool,
    from: From<'_>,
    selected: [BufferSlice<'_>; 3],
) -> Result<()> {
    let (form, workgroup, values, [ids, states]) = match from {
        From::Short(values) => {
            // Few invocations a row, so that many rows are in work at once; a group of lanes at least.
            let lanes = commands.gpu().subgroup_sizes().map_or(32, |(least, _)| least.clamp(32, 64));
            let workgroup = params.length.div_ceil(16).next_power_of_two().clamp(lanes, 256);
            (0, workgroup, values, [values; 2])
        }
        From::Long(values, held) => (if held > 1 { 3 } else { 1 }, 256, values, [values; 2]),
        From::Lists(keys, ids, states) => (2, 256, keys, [ids, states]),
    };
    let constants = [workgroup, floats.into(), form];
    let pipeline = commands.gpu().pipeline(&KERNEL, ElementKind::F32, &constants)?;
    let buffers = [values, values, ids, states, selected[0], selected[1], selected[2]];
    commands.dispatch(&pipeline, params, &buffers, Grid::Linear(params.rows.into()))
}

/// The k smallest of a row by (key, position), without ABSENT ones.
pub fn reference(keys: &[u32], k: usize) -> Vec<(u32, u64)> {
    let ids: Vec<u64> = (0..keys.len() as u64).collect();
    super::select_k::reference(keys, &ids, k)
}
