//! Vectors to f16, each multiplied by a power of two that brings it into the range of f16.

use half::f16;

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, params, wgsl};

params! {
    pub struct Params {
        rows: u32,
        /// Vectors of four elements in a row.
        vectors: u32,
        /// Vectors of four between two rows.
        row_pitch: u32,
        /// Vectors of four f16 between two rows.
        half_pitch: u32,
    }
}

/// Invocations per workgroup, one for each vector of four.
const INVOCATIONS: u32 = 256;

/// Vectors of four f16 that a row is padded to a multiple of: a slice of a tile.
const SLICE: u32 = 8;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("halve")
    .library(&[GRID])
    .source(wgsl!("distance/halve"))
    .buffers(bindings!(rows: Read, row_norms: Read, halves: Write, factors: Write))
    .workgroup(INVOCATIONS, 0);

/// Vectors of four f16 from row to row, for rows of `vectors` vectors.
pub fn pitch_of(vectors: u32) -> u32 {
    vectors.next_multiple_of(SLICE)
}

/// Records the kernel for rows of `vectors` vectors of four elements, one after another. Buffers are rows, their norms, the halves
/// and the factors.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    [rows, vectors]: [u32; 2],
    buffers: [BufferSlice<'_>; 4],
) -> Result<()> {
    let half_pitch = pitch_of(vectors);
    let params = Params { rows, vectors, row_pitch: vectors, half_pitch };
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let places = u64::from(rows) * u64::from(half_pitch);
    commands.dispatch(&pipeline, &params, &buffers, Grid::Linear(places.div_ceil(INVOCATIONS.into())))
}

/// The halves of a vector, and the factor from them back to the vector.
pub fn reference(vector: &[f32]) -> (Vec<f16>, f64) {
    let norm = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let exponent = if norm > 0.0 { norm.log2().floor() as i32 } else { 0 };
    let scale = 2f64.powi(14 - exponent);
    (vector.iter().map(|&x| f16::from_f64(f64::from(x) * scale)).collect(), 1.0 / scale)
}
