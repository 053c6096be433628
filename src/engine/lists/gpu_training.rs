//! K-means on a GPU: the rows to train on, the nearest centroid of each, and the means of the rows of each list.

use std::sync::Arc;

use crate::elements::ElementKind;
use crate::engine::lists::assign::{Assigned, Assigning, assign_into};
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::sample::{Piece, Sample};
use crate::engine::pass::{BufferVectors, Refining, Table, encode_norms, keys_and_ids, reset_refused};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout, words};
use crate::kernels::average::{self, Normalize};
use crate::kernels::{norms, refine, value_of};
use crate::memory;
use crate::metric::Metric;

/// Rows to train on, f32, and the centroids so far.
#[derive(Debug)]
pub(crate) struct GpuTraining {
    gpu: Arc<Gpu>,
    layout: RowLayout,
    pieces: Vec<TrainingPiece>,
    count: usize,
    pub(crate) centroids: Centroids,
    /// The numbers of rows, list by list.
    order: Buffer,
    /// Where each list starts in `order`.
    offsets: Buffer,
    /// Receives the ids that a kernel writes beside distances. They are not read.
    unread_ids: Buffer,
    refused: Buffer,
}

/// Rows to train on that share a buffer.
#[derive(Debug)]
struct TrainingPiece {
    /// Number of the first row.
    first: u32,
    count: u32,
    rows: Buffer,
    norms: Buffer,
}

impl TrainingPiece {
    fn vectors(&self, layout: RowLayout) -> BufferVectors<'_> {
        BufferVectors { values: BufferSlice::all(&self.rows), layout }
    }
}

/// The largest number of rows to train on: an id for each fits one binding.
pub(crate) fn most_rows(gpu: &Gpu) -> usize {
    (gpu.adapter.capabilities.max_binding_bytes / 8).min(u32::MAX.into()) as usize
}

impl GpuTraining {
    /// Training of `lists` centroids on the rows with these numbers, which ascend. The metric is squared L2, or cosine with means of
    /// length 1.
    pub(crate) fn new<'f>(
        gpu: &'f Arc<Gpu>,
        metric: Metric,
        source: Sample<'f>,
        numbers: &'f [u64],
        lists: u32,
        is_quantized: bool,
    ) -> Boxed<'f, Self> {
        Box::pin(async move {
            let (count, dim) = (numbers.len(), source.dim());
            let layout = RowLayout::padded(ElementKind::F32, dim);
            let refused = gpu.create_storage("refused", 8)?;
            reset_refused(gpu, &refused).await?;
            let (mut pieces, mut first) = (vec![], 0);
            for Piece { rows, count } in source.to_pieces(gpu, layout, numbers).await? {
                let (count, norms) = (count as u32, gpu.create_storage("norms", count as u64 * 8)?);
                pieces.push(TrainingPiece { first, count, rows, norms });
                first += count;
            }
            let mut commands = Commands::new(gpu, None);
            for piece in &pieces {
                let into = ((&piece.norms).into(), (&refused).into());
                encode_norms(&mut commands, piece.vectors(layout), ([0, piece.count], piece.first), into)?;
            }
            let parts = commands.read(&[(&refused, 0, 8)]).await?;
            norms::check("rows", &parts[0])?;
            let order = gpu.create_storage("order of rows", count as u64 * 4)?;
            let offsets = gpu.create_storage("starts of lists", (u64::from(lists) + 1) * 4)?;
            let unread_ids = gpu.create_storage("numbers of rows", count as u64 * 8)?;
            let centroids = Centroids::new(gpu, metric, dim, lists, None).await?;
            let gpu = gpu.clone();
            let mut training =
                Self { gpu, layout, pieces, count, centroids, order, offsets, unread_ids, refused };
            if is_quantized {
                // The centre is the mean of the first rows, as in an index.
                let first = count.min(4096);
                let order: Vec<u32> = (0..first as u32).collect();
                training.encode_means(&order, &[0, first as u32]).await?.submit();
                let centre = training.centroid(0).await?;
                let gpu = training.gpu.clone();
                training.centroids = Centroids::new(&gpu, metric, dim, lists, Some(centre)).await?;
            }
            Ok(training)
        })
    }

    pub(crate) async fn seed(&self, seeds: &[(u32, u32)]) -> Result<()> {
        let mut seeds = seeds.to_vec();
        seeds.sort_unstable();
        let order: Vec<u32> = seeds.iter().map(|&(_, row)| row).collect();
        let start = |list| seeds.partition_point(|&(other, _)| other < list) as u32;
        let offsets: Vec<u32> = (0..=self.centroids.lists).map(start).collect();
        self.update(&order, &offsets).await
    }

    /// The distance of every row to the centroid that row `row` would be. Two vectors have the same distance whichever of them is the
    /// query, so the bits are those of [`assign`].
    pub(crate) async fn distances(&self, row: u32) -> Result<Vec<f32>> {
        // The centroid overwrites the first one, because a query has to start where a slice of a buffer can.
        let mut commands = self.encode_means(&[row], &[0, 1]).await?;
        for piece in &self.pieces {
            let table = Table {
                vectors: piece.vectors(self.layout),
                rows: piece.count,
                first_slot: piece.first,
                // Placeholder: ids are not read back.
                ids: BufferSlice::all(&piece.norms),
            };
            let refining = Refining {
                metric: self.centroids.metric,
                queries: BufferSlice::all(&self.centroids.rows),
                count: 1,
                integral: false,
                candidates: refine::Candidates::Dense {
                    first: piece.first,
                    count: piece.count,
                    found_pitch: 0,
                    found_first: piece.first,
                    allowed: None,
                },
                // The means were computed from `order` by then.
                found: keys_and_ids(&self.order, &self.unread_ids),
            };
            refining.encode(&mut commands, table, true)?;
        }
        let parts = commands.read(&[(&self.order, 0, self.count as u64 * 4)]).await?;
        let mut distances = memory::with_room(self.count)?;
        distances.extend(words(&parts[0]).map(value_of));
        Ok(distances)
    }

    pub(crate) async fn assign(&self, assigned: &mut [Assigned]) -> Result<()> {
        assigned.fill(Assigned::NOWHERE);
        for TrainingPiece { first, rows, norms, count } in &self.pieces {
            let (first, count) = (*first as usize, *count as usize);
            let known = Assigning::Known { rows, norms, count };
            assign_into(&self.centroids, &known, &mut assigned[first..first + count]).await?;
        }
        Ok(())
    }

    pub(crate) async fn update(&self, order: &[u32], offsets: &[u32]) -> Result<()> {
        let mut commands = self.encode_means(order, offsets).await?;
        self.centroids.encode_update(&mut commands, BufferSlice::all(&self.refused))?;
        commands.submit();
        Ok(())
    }

    async fn encode_means(&self, order: &[u32], offsets: &[u32]) -> Result<Commands<'_>> {
        self.gpu.upload_bytes(&self.order, 0, bytemuck::cast_slice(order)).await?;
        self.gpu.upload_bytes(&self.offsets, 0, bytemuck::cast_slice(offsets)).await?;
        let mut commands = Commands::new(&self.gpu, None);
        let normalize = match self.centroids.metric.compares_directions() {
            true => Normalize::MeansAndRows,
            false => Normalize::Nothing,
        };
        let (lists, vectors) = (offsets.len() as u32 - 1, (self.layout.stride / 4) as u32);
        let Self { order, offsets, centroids, .. } = self;
        for TrainingPiece { first, count, rows, norms: row_norms } in &self.pieces {
            let (first_row, end_row) = (*first, first + count);
            let is_last = (end_row as usize == self.count).into();
            let buffers = average::Buffers { rows, row_norms, order, offsets, means: &centroids.rows };
            let params = average::Params { lists, vectors, first_row, end_row, is_last };
            average::encode(&mut commands, normalize, &params, &buffers)?;
        }
        Ok(commands)
    }

    async fn centroid(&self, list: u32) -> Result<Vec<f32>> {
        let bytes = self.layout.row_bytes();
        let range = (&self.centroids.rows, u64::from(list) * bytes, self.centroids.dim as u64 * 4);
        let parts = Commands::new(&self.gpu, None).read(&[range]).await?;
        Ok(words(&parts[0]).collect())
    }
}
