//! The coarse step: finds the nearest centroids of each query, for `Ivf` and for k-means.

use crate::engine::lists::centroids::Centroids;
use crate::engine::pass::{BufferVectors, CandidateLists, Rescoring, Selection, keys_and_ids};
use crate::engine::rows::narrowed::{Integers, NarrowedRows, NarrowedSegment, TERMS_BYTES};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, budget_for, usable};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::winnow::K_MAX;
use crate::kernels::{BLOCK_ROWS, Part, Scored, rescore, select_k, winnow};

/// For up to this many queries all distances are computed: that is less work than the dozen dispatches of a screen.
const FEW: u64 = 64;

/// How the nearest centroids of a batch are found: by a screen, or from the distances of all centroids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coarse {
    /// Centroids wanted.
    pub(crate) k: u32,
    /// Queries at a time, a multiple of [`Coarse::unit`].
    pub(crate) batch: u32,
    /// Candidates that a query's list holds; 0 if there is no screen.
    capacity: u32,
}

/// The scratch buffers of a coarse step, or their bytes. Other steps may use the same buffers afterwards.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CoarseBuffers<T> {
    pub(crate) narrowed: T,
    pub(crate) terms: T,
    pub(crate) scores: T,
    pub(crate) candidates: T,
    pub(crate) keys: T,
    pub(crate) ids: T,
}

/// Queries on the device with their norms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoarseQueries<'a> {
    pub(crate) vectors: BufferVectors<'a>,
    pub(crate) norms: BufferSlice<'a>,
    pub(crate) count: u32,
}

impl Coarse {
    /// A screen for many queries if the centroids have a narrowed copy, and otherwise all distances.
    pub(crate) fn new(centroids: &Centroids, k: u32, queries: u64) -> Self {
        let screened =
            centroids.narrowed.is_some() && queries > FEW && k <= K_MAX && k * 8 <= centroids.lists;
        let capacity = if screened { (8 * k).next_power_of_two().max(256) } else { 0 };
        Self { k, batch: 0, capacity }
    }

    /// The step without a screen, for queries whose candidates overflowed.
    pub(crate) fn exhaustive(self) -> Self {
        Self { capacity: 0, ..self }
    }

    pub(crate) fn is_screened(self) -> bool {
        self.capacity > 0
    }

    /// Whether a query with this many candidates has more than its list holds.
    pub(crate) fn overflowed(self, candidates: u32) -> bool {
        self.is_screened() && candidates > self.capacity
    }

    /// Batches are a multiple of this many queries, because screens score tiles.
    pub(crate) fn unit(self) -> u32 {
        if self.is_screened() { TILE_QUERIES } else { 1 }
    }

    /// The step for batches of this many queries.
    pub(crate) fn of(self, batch: u32) -> Self {
        Self { batch: batch.next_multiple_of(self.unit()), ..self }
    }

    /// The largest number of distances computed for a query.
    pub(crate) fn entries(self, centroids: &Centroids) -> u64 {
        if self.is_screened() { self.capacity.into() } else { columns(centroids) }
    }

    /// Scratch bytes of a query's scores.
    pub(crate) fn score_bytes(self, centroids: &Centroids) -> u64 {
        if self.is_screened() { columns(centroids) * 4 } else { 0 }
    }

    /// Scratch bytes of a query in a screen, without the distances of its candidates.
    pub(crate) fn screen_bytes(self, centroids: &Centroids) -> u64 {
        let Some((narrowed, _)) = centroids.narrowed.as_ref().filter(|_| self.is_screened()) else {
            return 0;
        };
        narrowed.vector_bytes() + TERMS_BYTES + self.score_bytes(centroids) + u64::from(self.capacity) * 12
    }

    /// The step with batches as large as the budget permits, if each query takes `beside` bytes besides those of this step. `kept` bytes of
    /// the budget are used otherwise: at most a quarter of it, if they are many.
    pub(crate) fn fit(
        self,
        centroids: &Centroids,
        beside: u64,
        [budget, kept]: [u64; 2],
        queries: u64,
    ) -> Result<Self> {
        let binding = centroids.gpu.adapter.capabilities.max_binding_bytes;
        let each = self.screen_bytes(centroids) + self.entries(centroids) * 12 + beside;
        let widest = (columns(centroids) * 8).max(u64::from(self.capacity) * 12).max(beside);
        let available = usable(budget).saturating_sub(kept);
        let most = (available / each).min(binding / widest).min(1 << 15);
        // Slices of buffers start at multiples of 256 bytes, and tiles are 128 queries high.
        let unit = u64::from(TILE_QUERIES);
        let batch = (most / unit * unit).min(queries.next_multiple_of(unit));
        if batch == 0 && queries > 0 {
            let purpose = format!("the nearest of {} centroids", centroids.lists);
            // If the binding limit is the cause, a larger budget would not help.
            centroids.gpu.check_binding(&purpose, widest * unit)?;
            // `kept` grows with the budget.
            let needed = budget_for((each * unit).div_ceil(3) * 4 + kept);
            return Err(Error::Budget { purpose, needed, budget });
        }
        Ok(Self { batch: batch as u32, ..self })
    }

    /// The scratch bytes of a batch.
    pub(crate) fn bytes(self, centroids: &Centroids) -> CoarseBuffers<u64> {
        let batch = u64::from(self.batch);
        let entries = batch * self.entries(centroids);
        let keys = CoarseBuffers { keys: entries * 4, ids: entries * 8, ..CoarseBuffers::default() };
        match &centroids.narrowed {
            Some((narrowed, _)) if self.is_screened() => CoarseBuffers {
                narrowed: narrowed.plane_bytes(batch),
                terms: batch * TERMS_BYTES,
                scores: batch * columns(centroids) * 4,
                candidates: entries * 12,
                ..keys
            },
            _ => keys,
        }
    }

    /// Records the step. `survivors` receives how many candidates a screen found for each query, u32: where that is too many
    /// ([`Coarse::overflowed`]), the answer is wrong.
    pub(crate) fn encode(
        self,
        commands: &mut Commands<'_>,
        centroids: &Centroids,
        queries: CoarseQueries<'_>,
        buffers: &CoarseBuffers<&Buffer>,
        (selection, survivors): (Selection<'_>, BufferSlice<'_>),
    ) -> Result<()> {
        let pitch = columns(centroids) as u32;
        let (candidates, rows) = match &centroids.narrowed {
            Some((narrowed, copy)) if self.is_screened() => {
                let slots = buffers.candidates.into();
                let lists = CandidateLists { slots, counts: survivors, capacity: self.capacity };
                self.encode_screen(commands, centroids, (narrowed, copy), queries, buffers, survivors)?;
                (lists.to_rescore(), lists.to_select())
            }
            _ => {
                let length = centroids.lists;
                (rescore::Candidates::all(length, pitch), select_k::Rows::Equal { length, pitch })
            }
        };
        commands.stage("coarse_rescore");
        let found = keys_and_ids(buffers.keys, buffers.ids);
        let (metric, count) = (centroids.metric, queries.count);
        let rescoring = Rescoring { metric, queries: queries.vectors.values, count, candidates, found };
        rescoring.encode(commands, centroids.table(), true)?;
        commands.stage("coarse_select");
        selection.encode(commands, found, rows, count)
    }

    /// Records the screen: the centroids that cannot be excluded become candidates.
    fn encode_screen(
        self,
        commands: &mut Commands<'_>,
        centroids: &Centroids,
        (narrowed, copy): (&NarrowedRows, &NarrowedSegment),
        CoarseQueries { vectors, norms, count }: CoarseQueries<'_>,
        buffers: &CoarseBuffers<&Buffer>,
        counts: BufferSlice<'_>,
    ) -> Result<()> {
        let &CoarseBuffers { narrowed: integers, terms, scores, candidates, .. } = buffers;
        let (room, blocks) = (self.batch, centroids.lists.div_ceil(BLOCK_ROWS));
        commands.stage("coarse_narrow");
        let into = Integers::single(integers.into(), terms.into());
        narrowed.encode_vectors(commands, (vectors, norms), [0, count], into, None)?;
        commands.stage("coarse_scores");
        let part = Part { segment: 0, block_first: 0, block_step: 1, blocks, column_first: 0 };
        let scored = Scored { queries: integers, count, rows: &copy.rows, scores, room, part };
        narrowed.encode_tile(commands, &scored)?;
        commands.stage("coarse_winnow");
        let intervals = narrowed.intervals();
        let params = winnow::Params {
            queries: count,
            k: self.k,
            capacity: self.capacity,
            plane: count * self.capacity,
            room,
            blocks,
            rows: centroids.lists,
            ..winnow::Params::of(intervals.margin)
        };
        let (row_terms, query_terms) = (&copy.terms, terms);
        let buffers = winnow::Buffers { scores, row_terms, query_terms, counts, candidates };
        winnow::encode(commands, intervals.form, &params, &buffers)
    }
}

/// Columns of the scores of all centroids.
fn columns(centroids: &Centroids) -> u64 {
    u64::from(centroids.lists.next_multiple_of(BLOCK_ROWS))
}
