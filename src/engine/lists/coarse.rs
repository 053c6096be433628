//! The coarse step: finds the nearest centroids of each query, for `Ivf` and for k-means.
//!
//! A screen stores the scores of all centroids or, where there are many, of a sample of their blocks. The sample gives a threshold, and
//! one kernel then scores the other blocks and collects what the threshold does not exclude.

use crate::engine::lists::centroids::Centroids;
use crate::engine::pass::{BufferVectors, CandidateLists, Refining, Selection, keys_and_ids};
use crate::engine::screens::int8::codes::{Integers, QuantizedRows, QuantizedSegment, TERMS_BYTES};
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::search::chunks::submission_flops;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, budget_for, usable};
use crate::kernels::collect::Round;
use crate::kernels::collect_tile_i8::{RoundPart, Tile};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::winnow::K_MAX;
use crate::kernels::{
    BLOCK_ROWS, Part, Scored, collect_tile_coop, collect_tile_i8, refine, select_k, tighten, winnow,
};

/// For up to this many queries all distances are computed: that is less work than the dozen dispatches of a screen.
const FEW: u64 = 64;

/// A sample needs at least this many scores to save more than its two dispatches cost. Fewer scores leave a large GPU partly idle when two
/// kernels share them.
const MANY_SCORES: u64 = 1 << 23;

/// With at most this many centroids, a sample pays only for k = 1. At k = 16, 10,000 queries took 1.44 ms with a sample and 1.08 without
/// (H200).
const MANY_LISTS: u32 = 4096;

/// The fewest blocks of centroids in a sample.
const SAMPLE_BLOCKS: u32 = 8;

/// A sample has at least every sixteenth block.
const LARGEST_STEP: u32 = 16;

/// How the nearest centroids of a batch are found: by a screen, or from the distances of all centroids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coarse {
    /// Centroids wanted.
    pub(crate) k: u32,
    /// Queries at a time, a multiple of [`Coarse::unit`].
    pub(crate) batch: u32,
    /// Candidates that a query's list holds; 0 if there is no screen.
    capacity: u32,
    /// A screen stores the scores of every `step`-th block of centroids.
    step: u32,
}

/// The scratch buffers of a coarse step, or their bytes. Other steps may use the same buffers afterwards.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CoarseBuffers<T> {
    pub(crate) quantized: T,
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
    /// A screen for many queries if the centroids have a quantised copy, and otherwise all distances.
    pub(crate) fn new(centroids: &Centroids, k: u32, queries: u64) -> Self {
        let lists = centroids.lists;
        let screened = centroids.quantized.is_some() && queries > FEW && k <= K_MAX && k * 8 <= lists;
        if !screened {
            return Self { k, batch: 0, capacity: 0, step: 1 };
        }
        let capacity = (8 * k).next_power_of_two().max(256);
        if queries * u64::from(lists) < MANY_SCORES || (k > 1 && lists <= MANY_LISTS) {
            return Self { k, batch: 0, capacity, step: 1 };
        }
        let step = sample_step(lists, k);
        // Assignments have memory to spare. In k-means, wide intervals let hundreds of centroids pass at first.
        let capacity = if k == 1 { capacity.max(64 * step) } else { capacity };
        // Some `step * k` centroids pass, and more where intervals are wide.
        let step = step.min(capacity / (3 * k + 24)).max(1);
        Self { k, batch: 0, capacity, step }
    }

    /// The step without a screen, for queries whose candidates overflowed.
    pub(crate) fn exhaustive(self) -> Self {
        Self { capacity: 0, step: 1, ..self }
    }

    /// The step for queries whose candidates overflowed in this one: the scores of all centroids give fewer, and distances need none.
    pub(crate) fn without_overflow(self) -> Self {
        if self.step > 1 { Self { step: 1, ..self } } else { self.exhaustive() }
    }

    pub(crate) fn is_screened(self) -> bool {
        self.capacity > 0
    }

    /// Whether a query has more candidates than its list holds, by what [`Coarse::encode`] wrote to `survivors`.
    pub(crate) fn overflowed(self, survivors: u32) -> bool {
        self.is_screened() && survivors > if self.step > 1 { 0 } else { self.capacity }
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

    pub(crate) fn score_bytes(self, centroids: &Centroids) -> u64 {
        if self.is_screened() { u64::from(self.stored_blocks(centroids) * BLOCK_ROWS) * 4 } else { 0 }
    }

    /// Blocks of centroids whose scores a screen stores.
    fn stored_blocks(self, centroids: &Centroids) -> u32 {
        centroids.lists.div_ceil(BLOCK_ROWS).div_ceil(self.step)
    }

    /// Bytes of a query in the largest of [`Coarse::bytes`].
    fn widest(self, centroids: &Centroids) -> u64 {
        let entry = if self.is_screened() { 12 } else { 8 };
        self.score_bytes(centroids).max(self.entries(centroids) * entry)
    }

    /// Scratch bytes of a query in a screen, without the distances of its candidates.
    pub(crate) fn screen_bytes(self, centroids: &Centroids) -> u64 {
        let Some((quantized, _)) = centroids.quantized.as_ref().filter(|_| self.is_screened()) else {
            return 0;
        };
        quantized.vector_bytes() + TERMS_BYTES + self.score_bytes(centroids) + u64::from(self.capacity) * 12
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
        let widest = self.widest(centroids).max(beside);
        let available = usable(budget).saturating_sub(kept);
        // Slices of buffers start at multiples of 256 bytes, and tiles are 128 queries high.
        let unit = u64::from(TILE_QUERIES);
        // Neither integer products nor `refine` are slower than a tenth of what the bound of a submission assumes.
        let flops = submission_flops(centroids.gpu.adapter.kind);
        let quick = flops / (2 * columns(centroids) * centroids.layout().stride as u64);
        let most = (available / each).min(binding / widest).min(quick.max(unit)).min(1 << 15);
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

    pub(crate) fn bytes(self, centroids: &Centroids) -> CoarseBuffers<u64> {
        let batch = u64::from(self.batch);
        let entries = batch * self.entries(centroids);
        let keys = CoarseBuffers { keys: entries * 4, ids: entries * 8, ..CoarseBuffers::default() };
        match &centroids.quantized {
            Some((quantized, _)) if self.is_screened() => CoarseBuffers {
                quantized: quantized.plane_bytes(batch),
                terms: batch * TERMS_BYTES,
                scores: batch * self.score_bytes(centroids),
                candidates: entries * 12,
                ..keys
            },
            _ => keys,
        }
    }

    /// Records the step. `survivors` receives a u32 for each query. Where that tells of too many candidates ([`Coarse::overflowed`]), the
    /// answer is wrong.
    pub(crate) fn encode(
        self,
        commands: &mut Commands<'_>,
        centroids: &Centroids,
        queries: CoarseQueries<'_>,
        buffers: &CoarseBuffers<&Buffer>,
        (selection, survivors): (Selection<'_>, BufferSlice<'_>),
    ) -> Result<()> {
        let pitch = columns(centroids) as u32;
        let (candidates, rows) = match &centroids.quantized {
            Some((quantized, copy)) if self.is_screened() => {
                let slots = buffers.candidates.into();
                let lists = CandidateLists { slots, counts: survivors, capacity: self.capacity };
                self.encode_screen(commands, centroids, (quantized, copy), queries, buffers, survivors)?;
                (lists.to_refine(None), lists.to_select())
            }
            _ => {
                let length = centroids.lists;
                (refine::Candidates::all(length, pitch), select_k::Rows::Equal { length, pitch })
            }
        };
        commands.stage("coarse_refine");
        let found = keys_and_ids(buffers.keys, buffers.ids);
        let (metric, count) = (centroids.metric, queries.count);
        let (queries, integral) = (queries.vectors.values, false);
        let refining = Refining { metric, queries, count, integral, candidates, found };
        refining.encode(commands, centroids.table(), true)?;
        commands.stage("coarse_select");
        selection.encode(commands, found, rows, count)?;
        if self.step > 1 {
            // `tighten` shortened the lists and told which had been too long.
            let bytes = u64::from(count) * 4;
            commands.copy((buffers.scores, 0), (survivors.buffer, survivors.offset), bytes);
        }
        Ok(())
    }

    /// Records the screen: the centroids that cannot be excluded become candidates.
    fn encode_screen(
        self,
        commands: &mut Commands<'_>,
        centroids: &Centroids,
        (quantized, copy): (&QuantizedRows, &QuantizedSegment),
        CoarseQueries { vectors, norms, count }: CoarseQueries<'_>,
        buffers: &CoarseBuffers<&Buffer>,
        counts: BufferSlice<'_>,
    ) -> Result<()> {
        // Thresholds lie where the distances will be: `refine` comes last.
        let &CoarseBuffers { quantized: integers, terms, scores, candidates, keys: thresholds, .. } = buffers;
        let (room, blocks) = (self.batch, self.stored_blocks(centroids));
        let (capacity, plane) = (self.capacity, count * self.capacity);
        commands.stage("coarse_quantize");
        let into = Integers::single(integers.into(), terms.into());
        quantized.encode_vectors(commands, (vectors, norms), [0, count], into, None, false)?;
        commands.stage("coarse_scores");
        let part = Part { segment: 0, block_first: 0, block_step: self.step, blocks, column_first: 0 };
        let scored = Scored { queries: integers, count, rows: &copy.rows, scores, room, part };
        quantized.encode_tile(commands, Tiles::expected(commands.gpu()), &scored)?;
        commands.stage("coarse_winnow");
        let intervals = quantized.intervals();
        let params = winnow::Params {
            queries: count,
            k: self.k,
            capacity,
            plane,
            room,
            part_blocks: blocks,
            block_step: self.step,
            rows: centroids.lists,
            is_first: 1,
            ..winnow::Params::of(intervals.margin)
        };
        let (row_terms, query_terms) = (&copy.terms, terms);
        let into = winnow::Buffers {
            scores,
            row_terms,
            query_terms,
            counts,
            thresholds: thresholds.into(),
            candidates,
            allowed: terms,
        };
        winnow::encode(commands, (intervals.form, false), &params, &into)?;
        if self.step == 1 {
            return Ok(());
        }
        commands.stage("coarse_collect");
        let round = Round { step: 1, skip: self.step };
        let others = centroids.lists.div_ceil(BLOCK_ROWS) - blocks;
        let part = RoundPart { segment: 0, round, base: 0, first: 0, blocks: others };
        let params = collect_tile_i8::Params {
            granules: quantized.granules(),
            queries: count,
            rows: centroids.lists,
            capacity,
            plane,
            ..collect_tile_i8::Params::of(intervals.margin)
        };
        let into = collect_tile_i8::Buffers {
            queries: integers,
            rows: &copy.rows,
            row_terms,
            query_terms,
            thresholds,
            allowed: thresholds,
            counts,
            candidates,
        };
        let kernel = Tiles::expected(commands.gpu()).collects();
        let height = collect_tile_coop::height_for(commands.gpu(), kernel, false, params.queries);
        let tile = Tile { form: intervals.form, has_bitset: false, of_pairs: false, height };
        collect_tile_i8::encode(commands, kernel, tile, &part, params, &into)?;
        commands.stage("coarse_tighten");
        // The lists have the k smallest upper ends of all centroids, so no earlier threshold is needed.
        let params = tighten::Params::new(count, self.k, (capacity, plane), true);
        let [thresholds, overflowed, candidates] = [thresholds, scores, candidates].map(BufferSlice::all);
        let into = tighten::Buffers { thresholds, counts, candidates, overflowed, exact: terms };
        tighten::encode(commands, false, &params, &into)
    }
}

/// The distance between blocks of a sample; 1 for all blocks.
///
/// It costs time to store and read 1 / step of the scores, and to collect the step * k candidates, about, that a sample lets pass. The sum
/// is least near this step (H200, 16,384 centroids).
fn sample_step(lists: u32, k: u32) -> u32 {
    let best = (1024 / k.max(1)).isqrt().min(LARGEST_STEP);
    best.min(lists.div_ceil(BLOCK_ROWS) / SAMPLE_BLOCKS).max(1)
}

/// Columns of the scores of all centroids.
fn columns(centroids: &Centroids) -> u64 {
    u64::from(centroids.lists.next_multiple_of(BLOCK_ROWS))
}
