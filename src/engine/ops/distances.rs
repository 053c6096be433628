//! All distances of two sets on a GPU.

use std::sync::Arc;

use crate::engine::device::matrices::{DeviceMatrix, DistanceMatrix};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Gpu};
use crate::kernels::distance_pairs::{self, Output};
use crate::metric::Metric;

/// The distance, or the similarity, of every query to every row; both have one dim and live on this GPU.
pub(crate) async fn all(
    gpu: &Arc<Gpu>,
    queries: &DeviceMatrix,
    rows: &DeviceMatrix,
    metric: Metric,
    output: Output,
) -> Result<DistanceMatrix> {
    // Reductions read whole vectors of four.
    let bytes = (queries.rows() as u64 * rows.rows() as u64 * 4).next_multiple_of(16);
    gpu.check_binding("distances", bytes)?;
    let buffer = gpu.create_storage("distances", bytes)?;
    let mut commands = Commands::new(gpu, None);
    let pairs = distance_pairs::Pairs {
        metric,
        unit_vectors: false,
        output,
        queries: queries.as_slice()?,
        query_count: queries.rows() as u32,
        query_stride: queries.stride() as u32,
        rows: rows.as_slice()?,
        row_count: rows.rows() as u32,
        row_stride: rows.stride() as u32,
        dim: rows.dim() as u32,
        distances: BufferSlice::all(&buffer),
        distance_stride: rows.rows() as u32,
    };
    distance_pairs::encode(&mut commands, &pairs)?;
    commands.submit();
    gpu.check_faults().await?;
    Ok(DistanceMatrix::in_buffer(gpu, buffer, [queries.rows(), rows.rows()]))
}
