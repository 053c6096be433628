//! The ceiling of memory traffic: a copy on the device.

use crate::gpu::{Access, GRID, Kernel, params, wgsl};

params! {
    /// Parameters of `copy`.
    pub struct Params {
        /// Vectors of 16 bytes to copy.
        vectors: u32,
    }
}

/// Vectors that an invocation copies.
pub const VECTORS_AN_INVOCATION: u32 = 4;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("copy")
    .library(&[GRID])
    .source(wgsl!("internals/ceilings/copy", VECTORS_AN_INVOCATION))
    .buffers(&[("original", Access::Read), ("duplicate", Access::Write)])
    .workgroup(256, 0);

/// The copy.
pub fn reference(original: &[f32]) -> Vec<f32> {
    original.to_vec()
}
