//! Counts the vectors of four that a kernel sees in a buffer: tests hold padding to it.
//!
//! Elements behind the last whole vector are out of a kernel's bounds; Metal reads the last whole one in their place.

use crate::gpu::{Access, Kernel, params, wgsl};

params! {
    /// Parameters of `vectors_seen`.
    pub struct Params {
        /// Where the count is written.
        place: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("vectors_seen")
    .source(wgsl!("internals/vectors_seen"))
    .buffers(&[("values", Access::Read), ("counts", Access::Write)])
    .loads_rows()
    .workgroup(1, 0);
