//! Scores few narrowed queries on cooperative matrices and collects the rows that a screen cannot exclude, in one kernel.

use crate::gpu::{CANDIDATES, COLLECT_TILE, INTEGERS, Kernel, SWEEP_COOP, wgsl};
use crate::kernels::blocks::STRIP_COOP;
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::screen::collect_tile_i8::{BUFFERS, CollectingKernel, OVERRIDES};

pub use crate::kernels::screen::collect_tile_i8::Params;

/// Queries of a strip.
pub const HEIGHT: u32 = 32;

/// The declaration. `collect_tile_i8::encode` records it on adapters where [`is_usable`](crate::kernels::screen_tile_coop::is_usable).
pub static KERNEL: Kernel = Kernel::new::<Params>("collect_strip_coop")
    .library(&[KEYS, INTERVALS, CANDIDATES, COLLECT_TILE, INTEGERS, STRIP_COOP, SWEEP_COOP])
    .source(wgsl!("screen/collect_strip_coop"))
    .buffers(BUFFERS)
    .overrides(OVERRIDES)
    .multiplies_matrices()
    .workgroup(128, (32 + 128) * 10 * 8 + 4 * 1024);

/// The kernel, as `collect_tile_i8::encode` takes it.
pub(crate) static COLLECTING: CollectingKernel = CollectingKernel { kernel: &KERNEL, height: HEIGHT };
