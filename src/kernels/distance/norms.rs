//! Squared and inverse norms of rows, and the check that rows are valid.

use crate::elements::{Element, ElementKind, MatrixView};
use crate::error::{Error, Result};
use crate::gpu::{ACROSS, BufferSlice, Commands, GRID, Grid, Kernel, params, wgsl};
use crate::kernels::lengths::VECTORS;
use crate::kernels::sixteen::{AT_ONCE, INVOCATIONS, SIXTEEN};

params! {
    pub struct Params {
        /// Vectors of four elements per row.
        vectors: u32,
        /// First row of the buffer to process.
        first_row: u32,
        /// One past the last row.
        end_row: u32,
        /// The caller's number of the first row, for reports of invalid ones.
        first_number: u32,
    }
}

/// The bits of 2^-100 and 2^100: squared norms of rows that are not zero lie between them. Kernels compare bits, because
/// comparisons of floats may assume that there is no infinity.
const SMALLEST_SQUARED: u32 = (1.0 / (1u128 << 100) as f32).to_bits();
const LARGEST_SQUARED: u32 = ((1u128 << 100) as f32).to_bits();

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("norms")
    .library(&[GRID, ACROSS, SIXTEEN])
    .source(wgsl!("distance/norms", SMALLEST_SQUARED, LARGEST_SQUARED))
    .buffers(bindings!(rows: Read, row_norms: Write, refused: Write))
    .loads_rows_and_bits()
    .lengths(&[VECTORS])
    .workgroup(INVOCATIONS, INVOCATIONS * 16 + AT_ONCE * 4);

/// Records the kernel for rows of this element type. Buffers are rows, their norms, and `refused`, which holds two u32, both initially
/// `u32::MAX`.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    elements: ElementKind,
    params: &Params,
    buffers: [BufferSlice<'_>; 3],
) -> Result<()> {
    let pipeline = commands.gpu().pipeline_for(&KERNEL, elements, &[])?;
    let grid = Grid::Linear(u64::from(params.end_row - params.first_row).div_ceil(AT_ONCE.into()));
    commands.dispatch(&pipeline, params, &buffers, grid)
}

/// Turns the contents of `refused` into an error.
pub(crate) fn check(argument: &'static str, refused: &[u8]) -> Result<()> {
    let [not_finite, out_of_range] = bytemuck::pod_read_unaligned::<[u32; 2]>(&refused[..8]);
    if not_finite != u32::MAX {
        return Err(Error::NotFinite { argument, row: not_finite.into() });
    }
    if out_of_range != u32::MAX {
        return Err(Error::NormOutOfRange { argument, row: out_of_range.into() });
    }
    Ok(())
}

/// Squared and inverse norms in f64, `[rows]`.
pub fn reference<T: Element>(rows: MatrixView<'_, T>) -> Vec<[f64; 2]> {
    (0..rows.rows())
        .map(|row| {
            let squared: f64 = rows.row(row).iter().map(|&x| f64::from(x.widen()).powi(2)).sum();
            [squared, if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 }]
        })
        .collect()
}
