//! The ceiling that memory traffic is measured against: a copy on the device.

use crate::gpu::{Access, Kernel, params};

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
pub static KERNEL: Kernel = Kernel {
    name: "copy",
    source: &[wgsl!("lib/grid"), wgsl!("internals/ceilings/copy")],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[("original", Access::Read), ("duplicate", Access::Write)],
    overrides: &[],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 256,
    workgroup_bytes: 0,
};

/// The copy.
pub fn reference(original: &[f32]) -> Vec<f32> {
    original.to_vec()
}
