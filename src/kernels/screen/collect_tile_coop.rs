//! Scores many narrowed queries on cooperative matrices and collects the rows that a screen cannot exclude, in one kernel.

use crate::gpu::{CANDIDATES, COLLECT_TILE, INTEGERS, Kernel, wgsl};
use crate::kernels::blocks::TILE_COOP;
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::screen::collect_tile_i8::{BUFFERS, OVERRIDES};

pub use crate::kernels::screen::collect_tile_i8::Params;

/// The declaration. `collect_tile_i8::encode` records it on adapters where [`is_usable`](crate::kernels::screen_tile_coop::is_usable).
pub static KERNEL: Kernel = Kernel::new::<Params>("collect_tile_coop")
    .library(&[KEYS, INTERVALS, CANDIDATES, COLLECT_TILE, INTEGERS, TILE_COOP])
    .source(wgsl!("screen/collect_tile_coop"))
    .buffers(BUFFERS)
    .overrides(OVERRIDES)
    .multiplies_matrices()
    .workgroup(128, 2 * 128 * 10 * 8 + 4 * 1024);
