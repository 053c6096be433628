//! Centroids on a GPU, in one segment.

use std::sync::Arc;

use crate::elements::{ElementKind, MatrixView};
use crate::engine::pass::{BufferVectors, Table, encode_norms, reset_refused};
use crate::engine::screens::int8::codes::{QuantizedRows, QuantizedSegment};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout, words};
use crate::kernels::BLOCK_ROWS;
use crate::memory;
use crate::metric::Metric;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// Centroids in the order of their lists: f32 with norms, and a quantised copy if the index keeps one.
#[derive(Debug, Clone)]
pub(crate) struct Centroids {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) lists: u32,
    /// `[lists, dim]`, padded as rows are.
    pub(crate) rows: Buffer,
    norms: Buffer,
    /// The number of each list, u64.
    ids: Buffer,
    pub(crate) quantized: Option<(QuantizedRows, QuantizedSegment)>,
}

impl Centroids {
    /// Buffers for centroids that are written later. They are quantised around `centre`, or not at all without one.
    pub(crate) fn new<'f>(
        gpu: &'f Arc<Gpu>,
        metric: Metric,
        dim: usize,
        lists: u32,
        centre: Option<Vec<f32>>,
    ) -> Boxed<'f, Self> {
        Box::pin(async move {
            let layout = RowLayout::padded(ElementKind::F32, dim);
            let padded = u64::from(lists.next_multiple_of(BLOCK_ROWS));
            gpu.check_binding("centroids", padded * layout.row_bytes())?;
            let ids = gpu.create_storage("numbers of lists", padded * 8)?;
            let numbers: Vec<u64> = (0..padded).collect();
            gpu.upload_bytes(&ids, 0, bytemuck::cast_slice(&numbers)).await?;
            let quantized = match centre {
                None => None,
                Some(centre) => {
                    let quantized = QuantizedRows::around(gpu, metric, dim, centre).await?;
                    quantized.allocate(gpu, padded)?.map(|copy| (quantized, copy))
                }
            };
            Ok(Self {
                gpu: gpu.clone(),
                metric,
                dim,
                lists,
                rows: gpu.create_storage("centroids", padded * layout.row_bytes())?,
                norms: gpu.create_storage("norms of centroids", padded * 8)?,
                ids,
                quantized,
            })
        })
    }

    /// These centroids, `[lists, dim]`, on a GPU.
    pub(crate) async fn of_host(
        gpu: &Arc<Gpu>,
        metric: Metric,
        rows: MatrixView<'_, f32>,
        is_quantized: bool,
    ) -> Result<Self> {
        // A different centre than in training; answers do not depend on it.
        let centre = is_quantized.then(|| mean(rows));
        let centroids = Self::new(gpu, metric, rows.dim(), rows.rows() as u32, centre).await?;
        gpu.upload_rows(&centroids.rows, 0, centroids.layout(), rows.into(), &mut |_| ()).await?;
        // Never read: a mean may be shorter than rows have to be.
        let refused = gpu.create_storage("refused", 8)?;
        reset_refused(gpu, &refused).await?;
        let mut commands = Commands::new(gpu, None);
        centroids.encode_update(&mut commands, BufferSlice::all(&refused))?;
        commands.submit();
        Ok(centroids)
    }

    pub(crate) fn layout(&self) -> RowLayout {
        RowLayout::padded(ElementKind::F32, self.dim)
    }

    fn vectors(&self) -> BufferVectors<'_> {
        BufferVectors { values: BufferSlice::all(&self.rows), layout: self.layout() }
    }

    /// The centroids as candidates of a search, with the numbers of their lists as ids.
    pub(crate) fn table(&self) -> Table<'_> {
        let ids = BufferSlice::all(&self.ids);
        Table { vectors: self.vectors(), rows: self.lists, first_slot: 0, ids }
    }

    /// Records the norms and the quantised copy of centroids that were written. `refused` is that of [`encode_norms`].
    pub(crate) fn encode_update(&self, commands: &mut Commands<'_>, refused: BufferSlice<'_>) -> Result<()> {
        let (range, norms) = ([0, self.lists], BufferSlice::all(&self.norms));
        encode_norms(commands, self.vectors(), (range, 0), (norms, refused))?;
        let Some((quantized, copy)) = &self.quantized else { return Ok(()) };
        quantized.encode_vectors(commands, (self.vectors(), norms), range, copy.integers(), None, false)
    }

    pub(crate) async fn to_host(&self) -> Result<Vec<f32>> {
        let layout = self.layout();
        let bytes = u64::from(self.lists) * layout.row_bytes();
        let mut values = memory::with_room(bytes as usize / 4)?;
        let take = &mut |_, bytes: &[u8]| values.extend(words::<f32>(bytes));
        Commands::new(&self.gpu, None).read_each(&[(&self.rows, 0, bytes)], take).await?;
        layout.remove_padding(&mut values, self.dim);
        Ok(values)
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        let copy = self.quantized.as_ref().map_or(0, |(_, copy)| copy.rows.size() + copy.terms.size());
        let bytes = self.rows.size() + self.norms.size() + self.ids.size() + copy;
        memory.add("centroids", Residency::Device, bytes);
    }
}

/// The mean of all rows, at least one.
fn mean(rows: MatrixView<'_, f32>) -> Vec<f32> {
    let mut sums = vec![0.0; rows.dim()];
    for row in rows.values().chunks_exact(rows.dim()) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    sums.iter().map(|sum| (sum / rows.rows() as f64) as f32).collect()
}
