//! Centroids on the device, and the nearest of them: what k-means and the coarse step of an `Ivf` compute with.

use std::sync::Arc;

use crate::engine::rows::narrowed::{NarrowedRows, NarrowedSegment};
use crate::engine::search::plan::{budget_for, usable};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::winnow::K_MAX;
use crate::kernels::{
    BLOCK_ROWS, Part, narrow, norms, rescore, screen_tile_coop, screen_tile_i8, select_k, winnow,
};
use crate::matrix::ElementKind;
use crate::metric::Metric;

/// Centroids in one segment, list by list: f32 with their norms, and where the rows' metric is screened narrowed.
#[derive(Debug, Clone)]
pub(crate) struct Centroids {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) lists: u32,
    /// `[lists, dim]`, padded as rows are.
    pub(crate) rows: wgpu::Buffer,
    pub(crate) norms: wgpu::Buffer,
    /// The number of each list, u64.
    ids: wgpu::Buffer,
    narrowed: Option<(NarrowedRows, NarrowedSegment)>,
}

/// Queries up to which the distances of all centroids are computed as they are reported: less work than a dozen dispatches.
const FEW: u64 = 64;

impl Centroids {
    /// Centroids that are still to be written. `centre` is what is taken off before they are narrowed; without one they are not.
    pub(crate) async fn new(
        gpu: &Arc<Gpu>,
        metric: Metric,
        dim: usize,
        lists: u32,
        centre: Option<Vec<f32>>,
    ) -> Result<Self> {
        let layout = RowLayout::padded(ElementKind::F32, dim);
        let padded = u64::from(lists.next_multiple_of(BLOCK_ROWS));
        gpu.check_binding("centroids", padded * layout.row_bytes())?;
        let ids = gpu.create_storage("numbers of lists", padded * 8)?;
        let numbers: Vec<u64> = (0..padded).collect();
        gpu.upload_bytes(&ids, 0, bytemuck::cast_slice(&numbers)).await?;
        let narrowed = match centre {
            None => None,
            Some(centre) => {
                let narrowed = NarrowedRows::around(gpu, metric, dim, centre).await?;
                narrowed.room(gpu, padded)?.map(|copy| (narrowed, copy))
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
            narrowed,
        })
    }

    pub(crate) fn layout(&self) -> RowLayout {
        RowLayout::padded(ElementKind::F32, self.dim)
    }

    fn vectors(&self) -> u32 {
        (self.layout().stride / 4) as u32
    }

    /// Norms and narrowed copies of centroids that were written. `refused` holds two words, as [`norms::Norms`] wants it.
    pub(crate) fn encode_update(&self, commands: &mut Commands<'_>, refused: BufferSlice<'_>) -> Result<()> {
        let rows = BufferSlice::all(&self.rows);
        let (elements, vectors, range) = (ElementKind::F32, self.vectors(), [0, self.lists]);
        let norms = BufferSlice::all(&self.norms);
        norms::encode(
            commands,
            &norms::Norms { rows, elements, vectors, range, first_number: 0, norms, refused },
        )?;
        let Some((narrowed, copy)) = &self.narrowed else { return Ok(()) };
        let narrowing = narrow::Narrow {
            metric: self.metric,
            dim: self.dim,
            rows,
            elements,
            vectors,
            norms,
            centre: BufferSlice::all(&narrowed.centre_buffer),
            range,
            narrowed: BufferSlice::all(&copy.rows),
            terms: BufferSlice::all(&copy.terms),
            planes: 1,
            plane_bytes: copy.rows.size(),
            slots: None,
        };
        narrow::encode(commands, &narrowing)
    }
}

/// How the nearest centroids of a batch are found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coarse {
    /// Centroids wanted.
    pub(crate) k: u32,
    /// Queries at a time, a multiple of [`Coarse::unit`].
    pub(crate) batch: u32,
    /// Entries of the lists of a screen; 0 where the distances of all centroids are computed.
    capacity: u32,
}

/// The scratch buffers of a coarse step, as large as [`Coarse::bytes`] says. Their contents are of no use afterwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers<'a> {
    pub(crate) narrowed: &'a wgpu::Buffer,
    pub(crate) terms: &'a wgpu::Buffer,
    pub(crate) scores: &'a wgpu::Buffer,
    pub(crate) lists: &'a wgpu::Buffer,
    pub(crate) keys: &'a wgpu::Buffer,
    pub(crate) ids: &'a wgpu::Buffer,
}

/// How many there are.
pub(crate) const BUFFERS: usize = 6;

/// Where a coarse step puts what it finds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// `[queries, k]` keys and numbers of lists.
    pub(crate) selected: select_k::Selected<'a>,
    /// A second place for them, for more than [`select_k::SORTED_MAX`].
    pub(crate) spare: Option<select_k::Selected<'a>>,
    /// `[queries]`, u32.
    pub(crate) counts: BufferSlice<'a>,
    /// `[queries]`, u32, written by a screen: how many entries its lists would have. Where that is too many ([`Coarse::overflowed`]) the
    /// answer is to be found another way.
    pub(crate) survivors: BufferSlice<'a>,
}

impl Coarse {
    /// A screen for many queries where there is a narrowed copy, all distances otherwise.
    pub(crate) fn new(centroids: &Centroids, k: u32, queries: u64) -> Self {
        let screened =
            centroids.narrowed.is_some() && queries > FEW && k <= K_MAX && k * 8 <= centroids.lists;
        let capacity = if screened { (8 * k).next_power_of_two().max(256) } else { 0 };
        Self { k, batch: 0, capacity }
    }

    /// The same by the distances of all centroids, for what a screen could not answer.
    pub(crate) fn exhaustive(self) -> Self {
        Self { capacity: 0, ..self }
    }

    pub(crate) fn is_screened(self) -> bool {
        self.capacity > 0
    }

    /// Whether a query's lists overflowed, of which so many rows survived.
    pub(crate) fn overflowed(self, survivors: u32) -> bool {
        self.is_screened() && survivors > self.capacity
    }

    /// Queries of a batch are so many times a number: those that are screened go by tiles.
    pub(crate) fn unit(self) -> u32 {
        if self.is_screened() { TILE_QUERIES } else { 1 }
    }

    /// The same for batches of so many queries.
    pub(crate) fn of(self, batch: u32) -> Self {
        Self { batch: batch.next_multiple_of(self.unit()), ..self }
    }

    /// Distances a query that are computed at most.
    pub(crate) fn entries(self, centroids: &Centroids) -> u64 {
        if self.is_screened() { self.capacity.into() } else { Self::columns(centroids) }
    }

    /// Scratch bytes a query of scores.
    pub(crate) fn score_bytes(self, centroids: &Centroids) -> u64 {
        if self.is_screened() { Self::columns(centroids) * 4 } else { 0 }
    }

    /// Bytes a query of the largest of [`Coarse::bytes`].
    pub(crate) fn widest(self, centroids: &Centroids) -> u64 {
        let entry = if self.is_screened() { 12 } else { 8 };
        self.score_bytes(centroids).max(self.entries(centroids) * entry)
    }

    /// Scratch bytes a query of all that a screen needs, the distances of its survivors apart.
    pub(crate) fn screen_bytes(self, centroids: &Centroids) -> u64 {
        if !self.is_screened() {
            return 0;
        }
        let narrowed = narrow::plane_bytes(u64::from(BLOCK_ROWS), centroids.dim) / u64::from(BLOCK_ROWS);
        narrowed + 16 + self.score_bytes(centroids) + u64::from(self.capacity) * 12
    }

    fn columns(centroids: &Centroids) -> u64 {
        u64::from(centroids.lists.next_multiple_of(BLOCK_ROWS))
    }

    /// As many queries at a time as the budget has room for, of which each takes so many bytes beside those of this step. `kept` bytes of
    /// the budget are others', a quarter of it at most where they are many.
    pub(crate) fn fit(
        self,
        centroids: &Centroids,
        beside: u64,
        [budget, kept]: [u64; 2],
        queries: u64,
    ) -> Result<Self> {
        let binding = centroids.gpu.adapter.capabilities.max_binding_bytes;
        let each = self.screen_bytes(centroids) + self.entries(centroids) * 12 + beside;
        let widest = (Self::columns(centroids) * 8).max(u64::from(self.capacity) * 12).max(beside);
        let room = usable(budget).saturating_sub(kept);
        let most = (room / each).min(binding / widest).min(1 << 15);
        // Slices of buffers start at multiples of 256 bytes, and tiles are 128 queries high.
        let unit = u64::from(TILE_QUERIES);
        let batch = (most / unit * unit).min(queries.next_multiple_of(unit));
        if batch == 0 && queries > 0 {
            let purpose = format!("the nearest of {} centroids", centroids.lists);
            // More budget would not help where the adapter does not see so much at once.
            centroids.gpu.check_binding(&purpose, widest * unit)?;
            // Of a larger budget more is kept.
            let needed = budget_for((each * unit).div_ceil(3) * 4 + kept);
            return Err(Error::Budget { purpose, needed, budget });
        }
        Ok(Self { batch: batch as u32, ..self })
    }

    /// Bytes of [`Buffers`] for a batch, in their order.
    pub(crate) fn bytes(self, centroids: &Centroids) -> [u64; BUFFERS] {
        let batch = u64::from(self.batch);
        let if_screened = |bytes: u64| if self.is_screened() { bytes } else { 0 };
        let entries =
            batch * if self.is_screened() { self.capacity.into() } else { Self::columns(centroids) };
        [
            if_screened(narrow::plane_bytes(batch, centroids.dim)),
            if_screened(batch * 16),
            if_screened(batch * Self::columns(centroids) * 4),
            if_screened(entries * 12),
            entries * 4,
            entries * 8,
        ]
    }

    /// Records the step for `count` queries, whose norms are known.
    pub(crate) fn encode(
        self,
        commands: &mut Commands<'_>,
        centroids: &Centroids,
        (queries, norms, count): (BufferSlice<'_>, BufferSlice<'_>, u32),
        buffers: &Buffers<'_>,
        found: &Found<'_>,
    ) -> Result<()> {
        let counts = found.survivors;
        let candidates = match &centroids.narrowed {
            Some((narrowed, copy)) if self.is_screened() => {
                self.encode_screen(
                    commands,
                    centroids,
                    (narrowed, copy),
                    (queries, norms, count),
                    buffers,
                    counts,
                )?;
                let candidates = BufferSlice::all(buffers.lists);
                rescore::Candidates::Lists { candidates, counts, pitch: self.capacity }
            }
            _ => rescore::Candidates::Dense {
                first: 0,
                count: centroids.lists,
                found_pitch: Self::columns(centroids) as u32,
                found_first: 0,
                allowed: None,
            },
        };
        commands.stage("coarse_rescore");
        let rescoring = rescore::Rescore {
            metric: centroids.metric,
            queries,
            count,
            rows: BufferSlice::all(&centroids.rows),
            elements: ElementKind::F32,
            vectors: centroids.vectors(),
            row_count: centroids.lists,
            first_slot: 0,
            ids: BufferSlice::all(&centroids.ids),
            candidates,
            keys: buffers.keys.into(),
            found_ids: buffers.ids.into(),
            mark_absent: true,
        };
        rescore::encode(commands, &rescoring)?;
        commands.stage("coarse_select");
        let rows = if self.is_screened() {
            select_k::Rows::Lists { counts, pitch: self.capacity }
        } else {
            select_k::Rows::Equal { length: centroids.lists, pitch: Self::columns(centroids) as u32 }
        };
        let select = select_k::Select {
            keys: buffers.keys.into(),
            ids: Some(buffers.ids.into()),
            floats: false,
            rows,
            count,
            k: self.k,
            selected: found.selected,
            selected_pitch: self.k,
            selected_counts: found.counts,
            spare: found.spare,
            scratch: None,
        };
        crate::kernels::selection::encode(commands, &select)
    }

    fn encode_screen(
        self,
        commands: &mut Commands<'_>,
        centroids: &Centroids,
        (narrowed, copy): (&NarrowedRows, &NarrowedSegment),
        (queries, norms, count): (BufferSlice<'_>, BufferSlice<'_>, u32),
        buffers: &Buffers<'_>,
        counts: BufferSlice<'_>,
    ) -> Result<()> {
        let &Buffers { narrowed: integers, terms, scores: scored, .. } = buffers;
        let (room, blocks) = (self.batch, centroids.lists.div_ceil(BLOCK_ROWS));
        commands.stage("coarse_narrow");
        let narrowing = narrow::Narrow {
            metric: centroids.metric,
            dim: centroids.dim,
            rows: queries,
            elements: ElementKind::F32,
            vectors: centroids.vectors(),
            norms,
            centre: BufferSlice::all(&narrowed.centre_buffer),
            range: [0, count],
            narrowed: BufferSlice::all(integers),
            terms: BufferSlice::all(terms),
            planes: 1,
            plane_bytes: integers.size(),
            slots: None,
        };
        narrow::encode(commands, &narrowing)?;
        commands.stage("coarse_scores");
        let part = Part { segment: 0, block_first: 0, block_step: 1, blocks, column_first: 0 };
        let granules = narrow::granules(centroids.dim);
        let tile = screen_tile_i8::Tile {
            queries: integers,
            count,
            rows: &copy.rows,
            granules,
            scores: scored,
            room,
            part,
        };
        match narrowed.side {
            Some(side) => screen_tile_coop::encode(commands, &tile, side)?,
            None => screen_tile_i8::encode(commands, &tile)?,
        }
        commands.stage("coarse_winnow");
        let (form, margin) = narrowed.margin();
        let winnowing = winnow::Winnow {
            form,
            margin,
            scores: scored,
            room,
            blocks: [0, blocks],
            row_terms: &copy.terms,
            rows: centroids.lists,
            first_slot: 0,
            query_terms: terms,
            queries: count,
            k: self.k,
            probed: None,
            counts,
            lists: buffers.lists,
            capacity: self.capacity,
            is_first: true,
        };
        winnow::encode(commands, &winnowing)
    }
}
