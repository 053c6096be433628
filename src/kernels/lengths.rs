//! The numbers of elements that kernels can be compiled for, and the parameters that follow from them.

use crate::gpu::Length;

/// Elements of a granule, one byte each.
pub(crate) const GRANULE: usize = 16;

/// Granules of a quantised vector: whole slices of 32 dimensions, as the tiles take them.
pub fn granules(dim: usize) -> u32 {
    (dim.div_ceil(2 * GRANULE) * 2) as u32
}

/// The usual numbers of elements of a vector.
pub const DIMENSIONS: [u32; 11] = [64, 96, 100, 128, 256, 384, 512, 768, 1024, 1536, 3072];

/// Elements of a vector.
pub(crate) const DIM: Length = Length { field: "dim", of: |dimension| dimension };

/// Vectors of four elements in a padded one.
pub(crate) const VECTORS: Length = Length { field: "vectors", of: |dimension| dimension.div_ceil(4) };

/// Granules of a quantised vector.
pub(crate) const GRANULES: Length =
    Length { field: "granules", of: |dimension| granules(dimension as usize) };
