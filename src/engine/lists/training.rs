//! Rows on a GPU that centroids are trained on: which centroid is nearest to each, and the means of those that share one.

use std::sync::Arc;

use crate::engine::Assigned;
use crate::engine::lists::centroids::{BUFFERS, Buffers, Centroids, Coarse, Found};
use crate::engine::lists::sample::Sample;
use crate::engine::rows::write::RowSource;
use crate::engine::search::pipeline::distance_of;
use crate::engine::search::plan::usable;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Request, RowLayout, words};
use crate::kernels::average::{self, Normalize};
use crate::kernels::{norms, rescore, select_k, value_of};
use crate::matrix::{Element, ElementKind};
use crate::metric::Metric;

/// Rows to train on, f32, and the centroids so far.
#[derive(Debug)]
pub(crate) struct GpuTraining {
    gpu: Arc<Gpu>,
    layout: RowLayout,
    rows: wgpu::Buffer,
    norms: wgpu::Buffer,
    count: usize,
    centroids: Centroids,
    /// Rows list by list, and where lists start.
    order: wgpu::Buffer,
    offsets: wgpu::Buffer,
    /// What a kernel writes beside distances.
    numbers: wgpu::Buffer,
    refused: wgpu::Buffer,
}

/// As many rows as a kernel can see at once.
pub(crate) fn most_rows(gpu: &Gpu, dim: usize) -> usize {
    let row_bytes = RowLayout::padded(ElementKind::F32, dim).row_bytes();
    (gpu.adapter.capabilities.max_binding_bytes / row_bytes).min(u32::MAX.into()) as usize
}

impl GpuTraining {
    /// The rows with these numbers, ascending, and room for so many centroids. The metric is squared L2 or cosine, for which means have
    /// length 1.
    pub(crate) async fn new<T: Element>(
        gpu: &Arc<Gpu>,
        metric: Metric,
        source: Sample<'_, T>,
        numbers: &[u64],
        lists: u32,
        is_narrowed: bool,
    ) -> Result<Self> {
        let (count, dim) = (numbers.len(), source.dim());
        let layout = RowLayout::padded(ElementKind::F32, dim);
        let rows = source.to_buffer(gpu, layout, numbers).await?;
        let norms = gpu.create_storage("norms", count as u64 * 8)?;
        let refused = gpu.create_storage("refused", 8)?;
        gpu.upload_bytes(&refused, 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(gpu, None);
        let norming = norms::Norms {
            rows: BufferSlice::all(&rows),
            elements: ElementKind::F32,
            vectors: (layout.stride / 4) as u32,
            range: [0, count as u32],
            first_number: 0,
            norms: BufferSlice::all(&norms),
            refused: BufferSlice::all(&refused),
        };
        norms::encode(&mut commands, &norming)?;
        let parts = commands.read(&[(&refused, 0, 8)]).await?;
        norms::check("rows", &parts[0])?;
        let order = gpu.create_storage("order of rows", count as u64 * 4)?;
        let offsets = gpu.create_storage("starts of lists", (u64::from(lists) + 1) * 4)?;
        let numbers = gpu.create_storage("numbers of rows", count as u64 * 8)?;
        let centroids = Centroids::new(gpu, metric, dim, lists, None).await?;
        let gpu = gpu.clone();
        let mut training =
            Self { gpu, layout, rows, norms, count, centroids, order, offsets, numbers, refused };
        if is_narrowed {
            // Narrowed around the mean of the first rows, as an index narrows around that of its first ones.
            let some = count.min(4096);
            let all: Vec<u32> = (0..some as u32).collect();
            training.encode_means(&all, &[0, some as u32]).await?.submit();
            let centre = training.centroid(0).await?;
            let gpu = training.gpu.clone();
            training.centroids = Centroids::new(&gpu, metric, dim, lists, Some(centre)).await?;
        }
        Ok(training)
    }

    /// Makes rows centroids: each list gets the row beside it, as the mean of that row alone.
    pub(crate) async fn seed(&self, seeds: &[(u32, u32)]) -> Result<()> {
        let mut seeds = seeds.to_vec();
        seeds.sort_unstable();
        let order: Vec<u32> = seeds.iter().map(|&(_, row)| row).collect();
        let start = |list| seeds.partition_point(|&(other, _)| other < list) as u32;
        let offsets: Vec<u32> = (0..=self.centroids.lists).map(start).collect();
        self.update(&order, &offsets).await
    }

    /// The distance of every row to the centroid that one of them would be. Two vectors have the same distance whichever is the query,
    /// so these are the bits that [`assign`] has.
    pub(crate) async fn distances(&self, row: u32) -> Result<Vec<f32>> {
        // It takes the place of the first centroid, because a query has to start where a slice of a buffer can.
        let mut commands = self.encode_means(&[row], &[0, 1]).await?;
        let rescoring = rescore::Rescore {
            metric: self.centroids.metric,
            queries: BufferSlice::all(&self.centroids.rows),
            count: 1,
            rows: BufferSlice::all(&self.rows),
            elements: ElementKind::F32,
            vectors: (self.layout.stride / 4) as u32,
            row_count: self.count as u32,
            first_slot: 0,
            // Some words in place of numbers of rows, which nobody wants to know.
            ids: BufferSlice::all(&self.norms),
            candidates: rescore::Candidates::Dense {
                first: 0,
                count: self.count as u32,
                found_pitch: 0,
                found_first: 0,
                allowed: None,
            },
            // The order of one row was read by then.
            keys: BufferSlice::all(&self.order),
            found_ids: BufferSlice::all(&self.numbers),
            mark_absent: true,
        };
        rescore::encode(&mut commands, &rescoring)?;
        let parts = commands.read(&[(&self.order, 0, self.count as u64 * 4)]).await?;
        Ok(words(&parts[0]).map(value_of).collect())
    }

    /// The nearest of the centroids for every row.
    pub(crate) async fn assign(&self) -> Result<Vec<Assigned>> {
        let rows: Assigning<'_, f32> =
            Assigning::Known { rows: &self.rows, norms: &self.norms, count: self.count };
        assign(&self.centroids, &rows).await
    }

    /// Centroids become the means of their rows. `order` has rows list by list, those of list `l` from `offsets[l]` on. Lists without
    /// rows keep their centroid.
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
        let averaging = average::Average {
            rows: &self.rows,
            norms: &self.norms,
            vectors: (self.layout.stride / 4) as u32,
            order: &self.order,
            offsets: &self.offsets,
            lists: offsets.len() as u32 - 1,
            means: &self.centroids.rows,
            normalize: match self.centroids.metric {
                Metric::Cosine => Normalize::MeansAndRows,
                _ => Normalize::Nothing,
            },
        };
        average::encode(&mut commands, &averaging)?;
        Ok(commands)
    }

    async fn centroid(&self, list: u32) -> Result<Vec<f32>> {
        let bytes = self.layout.row_bytes();
        let range = (&self.centroids.rows, u64::from(list) * bytes, self.centroids.dim as u64 * 4);
        let parts = Commands::new(&self.gpu, None).read(&[range]).await?;
        Ok(words(&parts[0]).collect())
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self) -> Result<Vec<f32>> {
        self.centroids.to_host().await
    }

    /// The centroids, on the device.
    pub(crate) fn into_centroids(self) -> Centroids {
        self.centroids
    }
}

impl Centroids {
    /// All centroids, `[lists, dim]`.
    pub(crate) async fn to_host(&self) -> Result<Vec<f32>> {
        let (lists, stride) = (self.lists as usize, self.layout().stride);
        let range = (&self.rows, 0, (lists * stride * 4) as u64);
        let parts = Commands::new(&self.gpu, None).read(&[range]).await?;
        let padded: Vec<f32> = words(&parts[0]).collect();
        Ok(padded.chunks(stride).flat_map(|row| row[..self.dim].iter().copied()).collect())
    }
}

/// Rows whose nearest centroid is wanted.
pub(crate) enum Assigning<'a, T> {
    /// So many on the device, f32, with their norms.
    Known { rows: &'a wgpu::Buffer, norms: &'a wgpu::Buffer, count: usize },
    /// Rows that are still to be looked at.
    New(RowSource<'a, T>),
}

impl<T: Element> Assigning<'_, T> {
    fn count(&self) -> usize {
        match self {
            Self::Known { count, .. } => *count,
            Self::New(source) => source.rows(),
        }
    }

    /// Scratch bytes a row: of those that are not on the device, and of norms that are not known.
    fn staged_bytes(&self, row_bytes: u64) -> [u64; 2] {
        match self {
            Self::Known { .. } => [0, 0],
            Self::New(RowSource::Device(_)) => [0, 8],
            Self::New(RowSource::Host(_)) => [row_bytes, 8],
        }
    }
}

/// The nearest of the centroids for each row, under the budget of the device.
pub(crate) async fn assign<T: Element>(
    centroids: &Centroids,
    rows: &Assigning<'_, T>,
) -> Result<Vec<Assigned>> {
    let (gpu, count) = (&centroids.gpu, rows.count());
    let budget = gpu.options.budget_bytes;
    let layout = centroids.layout();
    let row_bytes = layout.row_bytes();
    let staged_bytes = rows.staged_bytes(row_bytes);
    let mut assigned = Vec::with_capacity(count);
    // Results of many batches are read at once. A quarter of the scratch is theirs.
    let at_once = (usable(budget) / 4 / RESULT_BYTES / 128 * 128).max(128) as usize;
    let mut coarse = Coarse::new(centroids, 1, count as u64);
    let mut done = 0;
    while done < count {
        let part = at_once.min(count - done);
        let kept = part as u64 * RESULT_BYTES;
        let fit =
            |coarse: Coarse| coarse.fit(centroids, staged_bytes.iter().sum(), [budget, kept], part as u64);
        // Where there is no room for a screen, there may be for the distances of all centroids.
        let fitting = match fit(coarse) {
            Err(_) if coarse.is_screened() => fit(coarse.exhaustive())?,
            fitting => fitting?,
        };
        let request_of = |purpose, bytes| Request { purpose, bytes };
        let staged =
            staged_bytes.map(|bytes| request_of("rows on their way", bytes * u64::from(fitting.batch)));
        let results = [("keys", 4), ("lists", 8), ("counts", 4), ("survivors", 4)]
            .map(|(purpose, bytes)| request_of(purpose, part as u64 * bytes));
        let all: Vec<Request> = (fitting.bytes(centroids).into_iter())
            .map(|bytes| request_of("nearest centroids", bytes))
            .chain(results)
            .chain(staged)
            .chain([request_of("refused", 8)])
            .collect();
        let scratch = gpu.reserve(&all).await?;
        let buffers = Buffers {
            narrowed: &scratch[0],
            terms: &scratch[1],
            scores: &scratch[2],
            lists: &scratch[3],
            keys: &scratch[4],
            ids: &scratch[5],
        };
        let (staged_rows, staged_norms, refused) =
            (&scratch[BUFFERS + 4], &scratch[BUFFERS + 5], &scratch[BUFFERS + 6]);
        gpu.upload_bytes(refused, 0, &[0xff; 8]).await?;
        let result = |which: usize, start: usize, bytes: u64, many: usize| {
            BufferSlice::range(&scratch[BUFFERS + which], start as u64 * bytes, many as u64 * bytes)
        };
        for start in (0..part).step_by(fitting.batch as usize) {
            let many = (part - start).min(fitting.batch as usize);
            let first = (done + start) as u64;
            let slice = |buffer, each: u64| BufferSlice::range(buffer, first * each, many as u64 * each);
            let (queries, norms) = match rows {
                Assigning::Known { rows, norms, .. } => (slice(*rows, row_bytes), slice(*norms, 8)),
                Assigning::New(RowSource::Device(matrix)) => {
                    (slice(matrix.buffer()?, row_bytes), BufferSlice::all(staged_norms))
                }
                Assigning::New(RowSource::Host(view)) => {
                    let piece = view.slice(done + start..done + start + many);
                    gpu.upload_rows(staged_rows, 0, layout, piece, |_| ()).await?;
                    (BufferSlice::all(staged_rows), BufferSlice::all(staged_norms))
                }
            };
            let mut commands = Commands::new(gpu, None);
            if let Assigning::New(_) = rows {
                let norming = norms::Norms {
                    rows: queries,
                    elements: ElementKind::F32,
                    vectors: (layout.stride / 4) as u32,
                    range: [0, many as u32],
                    first_number: first as u32,
                    norms,
                    refused: BufferSlice::all(refused),
                };
                norms::encode(&mut commands, &norming)?;
            }
            let found = Found {
                selected: select_k::Selected {
                    keys: result(0, start, 4, many),
                    ids: result(1, start, 8, many),
                },
                spare: None,
                counts: result(2, start, 4, many),
                survivors: result(3, start, 4, many),
            };
            fitting.encode(&mut commands, centroids, (queries, norms, many as u32), &buffers, &found)?;
            commands.submit();
        }
        let range = |which: usize, bytes: u64| (&scratch[BUFFERS + which], 0, part as u64 * bytes);
        let ranges = [range(0, 4), range(1, 8), range(3, 4), (refused, 0, 8)];
        let parts = Commands::new(gpu, None).read(&ranges).await?;
        norms::check("rows", &parts[3])?;
        if words::<u32>(&parts[2]).any(|survivors| fitting.overflowed(survivors)) {
            // These rows, and what follows, by the distances of all centroids.
            coarse = coarse.exhaustive();
            continue;
        }
        let lists = words::<[u32; 2]>(&parts[1]).map(|id| id[0]);
        let metric = centroids.metric;
        let found = words::<u32>(&parts[0]).zip(lists);
        assigned.extend(found.map(|(key, list)| Assigned { list, distance: distance_of(metric, key) }));
        done += part;
    }
    match assigned.iter().position(|row| row.list >= centroids.lists) {
        None => Ok(assigned),
        Some(row) => Err(Error::Device { message: format!("row {row} has no nearest centroid") }),
    }
}

/// Scratch bytes of a row's results.
const RESULT_BYTES: u64 = 20;
