//! K-means on a GPU: the rows to train on, the nearest centroid of each, and the means of the rows of each list.

use std::sync::Arc;

use crate::engine::lists::assign::{Assigned, Assigning, assign};
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::sample::Sample;
use crate::engine::pass::{BufferVectors, Rescoring, Table, encode_norms, keys_and_ids, reset_refused};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout, words};
use crate::kernels::average::{self, Normalize};
use crate::kernels::{norms, rescore, value_of};
use crate::matrix::ElementKind;
use crate::metric::Metric;

/// Rows to train on, f32, and the centroids so far.
#[derive(Debug)]
pub(crate) struct GpuTraining {
    gpu: Arc<Gpu>,
    layout: RowLayout,
    rows: Buffer,
    norms: Buffer,
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

/// The largest number of rows to train on: as many as fit one binding.
pub(crate) fn most_rows(gpu: &Gpu, dim: usize) -> usize {
    let row_bytes = RowLayout::padded(ElementKind::F32, dim).row_bytes();
    (gpu.adapter.capabilities.max_binding_bytes / row_bytes).min(u32::MAX.into()) as usize
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
        is_narrowed: bool,
    ) -> Boxed<'f, Self> {
        Box::pin(async move {
            let (count, dim) = (numbers.len(), source.dim());
            let layout = RowLayout::padded(ElementKind::F32, dim);
            let rows = source.to_buffer(gpu, layout, numbers).await?;
            let norms = gpu.create_storage("norms", count as u64 * 8)?;
            let refused = gpu.create_storage("refused", 8)?;
            reset_refused(gpu, &refused).await?;
            let mut commands = Commands::new(gpu, None);
            let vectors = BufferVectors { values: BufferSlice::all(&rows), layout };
            encode_norms(
                &mut commands,
                vectors,
                ([0, count as u32], 0),
                ((&norms).into(), (&refused).into()),
            )?;
            let parts = commands.read(&[(&refused, 0, 8)]).await?;
            norms::check("rows", &parts[0])?;
            let order = gpu.create_storage("order of rows", count as u64 * 4)?;
            let offsets = gpu.create_storage("starts of lists", (u64::from(lists) + 1) * 4)?;
            let unread_ids = gpu.create_storage("numbers of rows", count as u64 * 8)?;
            let centroids = Centroids::new(gpu, metric, dim, lists, None).await?;
            let gpu = gpu.clone();
            let mut training =
                Self { gpu, layout, rows, norms, count, centroids, order, offsets, unread_ids, refused };
            if is_narrowed {
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

    /// Makes rows centroids: each pair is a list and the row that becomes its centroid, as the mean of that row alone.
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
        let count = self.count as u32;
        let table = Table {
            vectors: BufferVectors { values: BufferSlice::all(&self.rows), layout: self.layout },
            rows: count,
            first_slot: 0,
            // Placeholder: ids are not read back.
            ids: BufferSlice::all(&self.norms),
        };
        let rescoring = Rescoring {
            metric: self.centroids.metric,
            queries: BufferSlice::all(&self.centroids.rows),
            count: 1,
            candidates: rescore::Candidates::all(count, 0),
            // The means were computed from `order` by then.
            found: keys_and_ids(&self.order, &self.unread_ids),
        };
        rescoring.encode(&mut commands, table, true)?;
        let parts = commands.read(&[(&self.order, 0, self.count as u64 * 4)]).await?;
        Ok(words(&parts[0]).map(value_of).collect())
    }

    /// The nearest of the centroids for every row.
    pub(crate) async fn assign(&self) -> Result<Vec<Assigned>> {
        let rows = Assigning::Known { rows: &self.rows, norms: &self.norms, count: self.count };
        assign(&self.centroids, &rows).await
    }

    /// Replaces centroids by the means of their rows. `order` has the rows list by list, those of list `l` from `offsets[l]` on. Lists
    /// without rows keep their centroid.
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
        let normalize = match self.centroids.metric {
            Metric::Cosine => Normalize::MeansAndRows,
            _ => Normalize::Nothing,
        };
        let (lists, vectors) = (offsets.len() as u32 - 1, (self.layout.stride / 4) as u32);
        let Self { rows, norms: row_norms, order, offsets, centroids, .. } = self;
        let buffers = average::Buffers { rows, row_norms, order, offsets, means: &centroids.rows };
        average::encode(&mut commands, normalize, &average::Params { lists, vectors }, &buffers)?;
        Ok(commands)
    }

    async fn centroid(&self, list: u32) -> Result<Vec<f32>> {
        let bytes = self.layout.row_bytes();
        let range = (&self.centroids.rows, u64::from(list) * bytes, self.centroids.dim as u64 * 4);
        let parts = Commands::new(&self.gpu, None).read(&[range]).await?;
        Ok(words(&parts[0]).collect())
    }
}
