//! The distances of all pairs, on a GPU.

use std::sync::Arc;

use crate::engine::device::distance_matrix::DistanceMatrix;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::search::chunks::submission_flops;
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu};
use crate::kernels::pairs::Pairs;
use crate::kernels::{all_pairs, pairs_tile_coop};
use crate::metric::{Form, Precision};
use crate::options::distance::DistanceOptions;

/// The distance, or the similarity, of every query to every row; both have one dim and live on this GPU.
pub(crate) async fn on_gpu(
    gpu: &Arc<Gpu>,
    queries: &DeviceMatrix,
    rows: &DeviceMatrix,
    options: DistanceOptions,
    kept: Option<&mut DistanceMatrix>,
) -> Result<DistanceMatrix> {
    // Reductions read whole vectors of four.
    let bytes = (queries.rows() as u64 * rows.rows() as u64 * 4).next_multiple_of(16);
    gpu.check_binding("distances", bytes)?;
    let buffer = match kept.and_then(|kept| kept.reusable_buffer(gpu, bytes)) {
        Some(buffer) => buffer,
        None => gpu.create_storage("distances", bytes)?,
    };
    let takes_halves = options.precision == Precision::Half
        && all_pairs::has_tiles(queries.rows())
        && gpu.compiler.check_limits(&pairs_tile_coop::KERNEL).is_ok()
        && Tiles::tested(gpu, Form::OF_INTEGERS, true).await? == Tiles::Matrices;
    if takes_halves {
        queries.make_halves(gpu)?;
        rows.make_halves(gpu)?;
    }
    let pairs = pairs_of([queries, rows], options, takes_halves, &buffer)?;
    submit_bands(gpu, &pairs, queries_a_submission(gpu, &pairs)).await?;
    gpu.check_faults().await?;
    Ok(DistanceMatrix::in_buffer(gpu, buffer, [queries.rows(), rows.rows()]))
}

/// The same with as few queries a submission as there can be.
#[cfg(feature = "internals")]
pub(crate) async fn in_smallest_bands(
    gpu: &Arc<Gpu>,
    [queries, rows]: [&DeviceMatrix; 2],
    options: DistanceOptions,
) -> Result<DistanceMatrix> {
    let counts = [queries.rows(), rows.rows()];
    let bytes = (counts[0] as u64 * counts[1] as u64 * 4).next_multiple_of(16);
    let buffer = gpu.create_storage("distances", bytes)?;
    let pairs = pairs_of([queries, rows], options, true, &buffer)?;
    submit_bands(gpu, &pairs, Pairs::UNIT).await?;
    Ok(DistanceMatrix::in_buffer(gpu, buffer, counts))
}

/// All pairs of queries and rows, whose distances go to a buffer.
fn pairs_of<'a>(
    [queries, rows]: [&'a DeviceMatrix; 2],
    options: DistanceOptions,
    takes_halves: bool,
    buffer: &'a Buffer,
) -> Result<Pairs<'a>> {
    Ok(Pairs {
        options,
        unit_vectors: false,
        norms: Some([queries.norms()?, rows.norms()?]),
        halves: queries.halves().zip(rows.halves()).filter(|_| takes_halves).map(|(q, x)| [q, x]),
        queries: queries.as_slice()?,
        query_count: queries.rows() as u32,
        query_stride: queries.stride() as u32,
        rows: rows.as_slice()?,
        row_count: rows.rows() as u32,
        row_stride: rows.stride() as u32,
        // The zeros behind a vector add nothing.
        dim: rows.stride() as u32,
        distances: BufferSlice::all(buffer),
        distance_stride: rows.rows() as u32,
    })
}

/// Submits the distances of `band` queries at a time.
async fn submit_bands(gpu: &Gpu, pairs: &Pairs<'_>, band: u32) -> Result<()> {
    for first in (0..pairs.query_count).step_by(band as usize) {
        let mut commands = Commands::new(gpu, None);
        let count = band.min(pairs.query_count - first);
        all_pairs::encode(&mut commands, &pairs.of_queries(first, count))?;
        commands.submit_piece().await?;
    }
    Ok(())
}

/// How many queries one submission computes, so that no system takes a weak GPU for hung.
fn queries_a_submission(gpu: &Gpu, pairs: &Pairs<'_>) -> u32 {
    // An element of a compensated sum takes about thirty instructions.
    let cost = if pairs.options.precision == Precision::Compensated { 32 } else { 2 };
    let query_flops = cost * u64::from(pairs.row_count) * u64::from(pairs.dim);
    let queries = submission_flops(gpu.adapter.kind) / query_flops.max(1);
    let unit = Pairs::UNIT;
    (queries.min(1 << 30) as u32 / unit * unit).max(unit)
}
