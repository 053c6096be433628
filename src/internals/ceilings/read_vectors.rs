//! The ceiling of reading: sums of vectors in memory.

use crate::gpu::{Access, GRID, Kernel, params, wgsl};

params! {
    /// Parameters of `read_vectors`.
    pub struct Params {
        /// Vectors of 16 bytes to read.
        vectors: u32,
    }
}

/// Vectors that a workgroup reads.
pub const VECTORS_A_WORKGROUP: u32 = 4096;
/// Sums that a workgroup writes.
pub const SUMS_A_WORKGROUP: u32 = 256;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("read_vectors")
    .library(&[GRID])
    .source(wgsl!("internals/ceilings/read_vectors", VECTORS_A_WORKGROUP))
    .buffers(&[("values", Access::Read), ("sums", Access::Write)])
    .workgroup(256, 0);

/// The sum of one invocation of a workgroup, in f64.
pub fn reference(values: &[f32], workgroup: u32, invocation: u32) -> f64 {
    let first = (workgroup * VECTORS_A_WORKGROUP + invocation) as usize;
    let places = (0..VECTORS_A_WORKGROUP as usize / 256).map(|turn| first + turn * 256);
    let vectors = places.filter_map(|place| values.get(place * 4..place * 4 + 4));
    vectors.flatten().map(|&value| f64::from(value)).sum()
}
