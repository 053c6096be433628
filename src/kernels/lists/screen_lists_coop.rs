//! Scores of the rows of lists against the queries that probe them, on cooperative matrices.

use crate::error::Result;
use crate::gpu::{Commands, Kernel, Variant, wgsl};
use crate::kernels::lists::screen_lists_i8::{BUFFERS, LIST_BLOCKS, ListBlocks};

pub use crate::kernels::lists::screen_lists_i8::{Params, reference};

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_lists_coop")
    .source(&[wgsl!("lib/integers"), LIST_BLOCKS, wgsl!("lists/screen_lists_coop")])
    .buffers(BUFFERS)
    .multiplies_matrices()
    .workgroup(128, (32 + 128) * 10 * 8);

/// Records the kernel for matrices of this side, which the adapter must have (`screen_tile_coop::side`).
pub(crate) fn encode(commands: &mut Commands<'_>, blocks: &ListBlocks<'_>, side: u32) -> Result<()> {
    let variant = Variant { matrix_side: side, ..Variant::default() };
    let pipeline = commands.gpu().pipeline_of(&KERNEL, variant)?;
    commands.dispatch(&pipeline, &blocks.params(), &blocks.buffers(), blocks.grid())
}
