//! Scores of the rows of lists against the queries that probe them, on cooperative matrices.

use crate::gpu::{INTEGERS, Kernel, wgsl};
use crate::kernels::lengths::GRANULES;
use crate::kernels::lists::screen_lists_i8::{BUFFERS, LIST_BLOCKS};

pub use crate::kernels::lists::screen_lists_i8::{Params, reference};

/// The declaration. `screen_lists_i8::encode` records it on adapters where `screen_tile_coop::is_usable`.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_lists_coop")
    .library(&[INTEGERS, LIST_BLOCKS])
    .source(wgsl!("lists/screen_lists_coop"))
    .buffers(BUFFERS)
    .multiplies_matrices()
    .lengths(&[GRANULES])
    .workgroup(128, (32 + 128) * 10 * 8);
