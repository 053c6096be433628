//! Scores of the rows of lists and the queries that probe them, on cooperative matrices.

use crate::kernels::screen_lists_i8::{BUFFERS, ListBlocks};
use crate::error::Result;
use crate::gpu::{Commands, Kernel, Variant};

pub use crate::kernels::screen_lists_i8::{Params, reference};

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "screen_lists_coop",
    source: &[
        wgsl!("lib/integers"),
        wgsl!("lib/list_blocks"),
        wgsl!("lists/screen_lists_coop"),
    ],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: BUFFERS,
    overrides: &[],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: true,
    workgroup_size: 128,
    workgroup_bytes: (32 + 128) * 10 * 8,
};

/// Records the kernel for matrices of this side, which the adapter must have (`screen_tile_coop::side`).
pub(crate) fn encode(commands: &mut Commands<'_>, blocks: &ListBlocks<'_>, side: u32) -> Result<()> {
    let variant = Variant { matrix_side: side, ..Variant::default() };
    let pipeline = commands.gpu().pipeline_of(&KERNEL, variant)?;
    commands.dispatch(&pipeline, &blocks.params(), &blocks.buffers(), blocks.grid())
}
