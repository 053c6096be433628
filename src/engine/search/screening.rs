//! A screening search on the device: its scratch buffers, and the steps that keep rows as candidates: score, collect, tighten, sharpen
//! and refine.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::{CandidateLists, Refining, keys_and_ids};
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::{Integers, TERMS_BYTES};
use crate::engine::screens::score::{Collecting, ScoreKernel, Scoring};
use crate::engine::search::batches::QueryBuffers;
use crate::engine::search::chunks::{
    block_rounds, chunk_limit, chunk_parts, neighbouring_parts, round_parts,
};
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::SearchRequest;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Buffer, BufferSlice, Commands, Profile, Reserved, scratch};
use crate::kernels::collect::Round;
use crate::kernels::collect_tile_i8::RoundPart;
use crate::kernels::pick::Picked;
use crate::kernels::{BLOCK_ROWS, Part, collect, select_k, tighten};
use crate::screen::certificate::Intervals;

/// Blocks for each of the k nearest rows, from which on the best row of each block makes a good threshold.
pub(crate) const PICKED_BLOCKS: u64 = 4;

scratch! {
    /// The scratch buffers of a screened batch.
    pub(crate) struct ScreenBuffers {
        queries, query_norms, refused, scores, best, thresholds, counts, overflowed, candidates, keys, ids, selected_keys,
        selected_ids, selected_counts, spare_keys, spare_ids, quantized_queries, query_terms, allowed,
    }
}

/// A screening search: its plan, and the scratch buffers that its batches use one after another.
pub(crate) struct Screening<'a> {
    pub(crate) rows: &'a GpuRows,
    pub(crate) request: &'a SearchRequest<'a>,
    pub(crate) kernel: &'static ScoreKernel,
    /// The kernel that scores `chunks`.
    pub(crate) scores_with: &'static ScoreKernel,
    pub(crate) k: u32,
    /// Candidates that each query's list holds.
    pub(crate) capacity: u32,
    /// The rows whose scores go to memory, chunk by chunk.
    pub(crate) chunks: Vec<Vec<Part>>,
    /// The other rows, round by round: they are collected as they are scored.
    pub(crate) rounds: Vec<Vec<RoundPart>>,
    /// Queries that buffers hold.
    pub(crate) padded: u32,
    /// Planes of integers that queries are quantised to; 0 for f32.
    pub(crate) planes: u32,
    intervals: Intervals,
    pub(crate) buffers: Reserved<ScreenBuffers>,
}

impl<'a> Screening<'a> {
    /// Takes the scratch buffers of a plan. None if the plan does not screen.
    pub(crate) fn reserve(
        rows: &'a GpuRows,
        request: &'a SearchRequest<'a>,
        plan: &'a Plan,
    ) -> Boxed<'a, Option<Self>> {
        Box::pin(async move {
            let Route::Screened { kernel, capacity, chunks, stored_chunks, .. } = plan.route else {
                return Ok(None);
            };
            let kernel = kernel.kernel().tested(&rows.gpu, request.metric).await?;
            let scores_with = kernel.scores_with(plan.batch.into());
            let (count, k) = (u64::from(plan.batch), u64::from(plan.k));
            let padded = kernel.padded(count);
            let most = chunk_limit(rows, kernel, padded) as u32;
            let rounds = match stored_chunks {
                0 => vec![Round { step: 1, skip: 0 }],
                1 if chunks > 1 => block_rounds(chunks, plan.k, capacity, kernel.spread, count),
                _ => vec![],
            };
            let rounds = rounds.into_iter().map(|round| round_parts(&rows.segments, round, most)).collect();
            // Where every chunk finds a threshold, rows need not be alike in all of them.
            let all_blocks: u64 = rows.segments.iter().map(|segment| u64::from(segment.blocks())).sum();
            let picks_all = scores_with.has_bests()
                && stored_chunks == chunks
                && all_blocks >= PICKED_BLOCKS * k * u64::from(chunks.max(1));
            let parts_of = if picks_all { neighbouring_parts } else { chunk_parts };
            let chunks: Vec<Vec<Part>> =
                (0..stored_chunks).map(|chunk| parts_of(&rows.segments, chunk, chunks)).collect();
            let columns = chunks.iter().map(|parts| blocks(parts)).max().unwrap_or(0) * BLOCK_ROWS;
            let entries = count * u64::from(capacity);
            let spare = if plan.k > select_k::SORTED_MAX { count * k } else { 0 };
            let planes = kernel.planes(count);
            // Where the host computes distances, these are the places that it reads candidates from.
            let if_stored = |bytes: u64, to_read: u64| if rows.keeps_rows { bytes } else { to_read };
            let plane_bytes = rows.quantized.as_ref().map_or(0, |quantized| quantized.plane_bytes(padded));
            let bytes = ScreenBuffers {
                queries: padded * rows.query_bytes(),
                query_norms: padded * 8,
                refused: 8,
                scores: padded * u64::from(columns) * 4,
                best: if scores_with.has_bests() { padded * u64::from(columns / BLOCK_ROWS) * 8 } else { 0 },
                thresholds: count * 4,
                counts: count * 4,
                overflowed: count * 4,
                candidates: entries * 12,
                keys: if_stored(entries * 4, entries * 8),
                ids: entries * 8,
                selected_keys: if_stored(count * k * 4, (1 + count) * 4),
                selected_ids: if_stored(count * k * 8, 0),
                selected_counts: if_stored(count * 4, 0),
                spare_keys: if_stored(spare * 4, 0),
                spare_ids: if_stored(spare * 8, 0),
                quantized_queries: u64::from(planes) * plane_bytes,
                query_terms: u64::from(planes.min(1)) * padded * TERMS_BYTES,
                allowed: request.scope().bits_bytes(),
            };
            let buffers = bytes.reserve(&rows.gpu).await?;
            request.scope().upload_bits(rows, &buffers.allowed).await?;
            let intervals = (kernel.intervals)(rows, request.metric)?;
            let (k, padded) = (plan.k, padded as u32);
            Ok(Some(Self {
                rows,
                request,
                kernel,
                scores_with,
                k,
                capacity,
                chunks,
                rounds,
                padded,
                planes,
                intervals,
                buffers,
            }))
        })
    }

    /// Copies queries to the device, and begins a recording with their norms and, for screens on integers, their quantising.
    pub(crate) async fn begin<'p>(
        &'p self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        profile: Option<&'p mut Profile>,
    ) -> Result<Commands<'p>> {
        let ScreenBuffers { queries: values, query_norms: norms, refused, .. } = &*self.buffers;
        let batch = QueryBuffers { values, norms, refused };
        let mut commands = batch.begin(&self.rows.gpu, queries, numbers, profile).await?;
        if let (Some(quantized), true) = (&self.rows.quantized, self.kernel.is_quantized()) {
            let into = Integers {
                values: (&self.buffers.quantized_queries).into(),
                terms: (&self.buffers.query_terms).into(),
                planes: self.planes,
                // A batch of fewer queries than the plan's has smaller planes.
                plane_bytes: quantized.plane_bytes(self.kernel.padded(numbers.len() as u64)),
            };
            let vectors = (batch.vectors(self.rows.dim), norms.into());
            quantized.encode_vectors(&mut commands, vectors, [0, numbers.len() as u32], into, None)?;
        }
        Ok(commands)
    }

    /// One bit per slot, if some rows may not be found.
    fn allowed(&self) -> Option<&Buffer> {
        self.request.allowed.map(|_| &self.buffers.allowed).or(self.rows.alive_buffer())
    }

    /// The scoring of a batch and a chunk.
    pub(crate) fn scoring(&self, count: u32, parts: &[Part]) -> Scoring<'_> {
        Scoring {
            kernel: self.scores_with,
            rows: self.rows,
            metric: self.request.metric,
            queries: &self.buffers.queries,
            quantized_queries: &self.buffers.quantized_queries,
            count,
            scores: &self.buffers.scores,
            padded: self.padded,
            planes: self.planes,
            intervals: self.intervals,
            query_terms: &self.buffers.query_terms,
            allowed: self.allowed(),
            best: &self.buffers.best,
            blocks: blocks(parts),
        }
    }

    /// Whether the best intervals of this chunk give good thresholds.
    pub(crate) fn picks(&self, parts: &[Part]) -> bool {
        self.scores_with.has_bests() && u64::from(blocks(parts)) >= PICKED_BLOCKS * u64::from(self.k)
    }

    pub(crate) fn tightens(&self) -> bool {
        !self.rounds.is_empty() || !self.chunks.iter().all(|parts| self.picks(parts))
    }

    /// Makes the rows of a chunk candidates, unless the best intervals exclude them.
    pub(crate) fn encode_pick(
        &self,
        commands: &mut Commands<'_>,
        scoring: &Scoring<'_>,
        parts: &[Part],
    ) -> Result<()> {
        commands.stage("pick");
        let Some(picks) = scoring.kernel.picks else { return Ok(()) };
        parts.iter().try_for_each(|part| picks(scoring, commands, *part, &self.lists(scoring.count)))
    }

    /// The candidate lists of a batch.
    fn lists(&self, queries: u32) -> Picked<'_> {
        let ScreenBuffers { thresholds, counts, candidates, .. } = &*self.buffers;
        Picked { queries, k: self.k, thresholds, counts, candidates, capacity: self.capacity }
    }

    pub(crate) fn candidates(&self) -> CandidateLists<'_> {
        let ScreenBuffers { candidates, counts, .. } = &*self.buffers;
        CandidateLists { slots: candidates.into(), counts: counts.into(), capacity: self.capacity }
    }

    /// Makes the rows of a round candidates, unless their scores exclude them. In a chunk of `sample` groups there are no thresholds yet, and
    /// every row is kept.
    pub(crate) fn encode_collect(
        &self,
        commands: &mut Commands<'_>,
        count: u32,
        part: Part,
        round: Round,
        sample: Option<u32>,
    ) -> Result<()> {
        let Self { rows, buffers, .. } = self;
        let segment = &rows.segments[part.segment];
        let (row_terms, query_terms) = match &segment.quantized {
            Some(quantized) if self.kernel.is_quantized() => (&quantized.terms, &buffers.query_terms),
            _ => (&segment.stored()?.norms, &buffers.query_norms),
        };
        let allowed = self.allowed();
        let collecting =
            collect::Collect { form: self.intervals.form, part, has_bits: allowed.is_some(), round, sample };
        let params = collect::Params {
            queries: count,
            room: self.padded,
            rows: segment.len,
            first_slot: segment.first_slot,
            capacity: self.capacity,
            ..collect::Params::of(self.intervals.margin)
        };
        let buffers = collect::Buffers {
            scores: &buffers.scores,
            row_terms,
            query_terms,
            thresholds: &buffers.thresholds,
            allowed: allowed.unwrap_or(&buffers.thresholds),
            counts: &buffers.counts,
            candidates: &buffers.candidates,
        };
        collect::encode(commands, &collecting, params, &buffers)
    }

    /// Scores blocks of rows, and makes those candidates that their scores do not exclude.
    pub(crate) fn encode_collect_tile(
        &self,
        commands: &mut Commands<'_>,
        Collecting { kernel, encode }: Collecting,
        count: u32,
        part: &RoundPart,
    ) -> Result<()> {
        commands.stage(kernel.name);
        encode(&self.scoring(count, &[]), commands, kernel, part, &self.lists(count))
    }

    /// Lowers each query's threshold to the k-th smallest upper end among its candidates, and drops candidates above it.
    pub(crate) fn encode_tighten(
        &self,
        commands: &mut Commands<'_>,
        count: u32,
        is_first: bool,
        is_exact: bool,
    ) -> Result<()> {
        commands.stage("tighten");
        let ScreenBuffers { thresholds, counts, candidates, overflowed, .. } = &*self.buffers;
        let exact = if is_exact { &self.buffers.keys } else { &self.buffers.queries };
        let [thresholds, counts, overflowed] = [thresholds, counts, overflowed].map(BufferSlice::all);
        let buffers = tighten::Buffers { thresholds, counts, candidates, overflowed, exact };
        let params = tighten::Params::new(count, self.k, self.capacity, is_first);
        tighten::encode(commands, is_exact, &params, &buffers)
    }

    /// Replaces the intervals of the candidates by the distances that will be reported. The threshold is then the k-th of true distances,
    /// without the width of an interval, and fewer of the later rows reach it.
    pub(crate) fn encode_refining(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        commands.stage("sharpen");
        self.encode_refine(commands, count)?;
        self.encode_tighten(commands, count, false, true)
    }

    /// Computes the distances of the candidates as they are reported.
    pub(crate) fn encode_refine(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let ScreenBuffers { queries, keys, ids, .. } = &*self.buffers;
        let refining = Refining {
            metric: self.request.metric,
            queries: queries.into(),
            count,
            candidates: self.candidates().to_refine(),
            found: keys_and_ids(keys, ids),
        };
        self.rows.encode_refining(commands, &refining)
    }
}

pub(crate) fn blocks(parts: &[Part]) -> u32 {
    parts.iter().map(|part| part.blocks).sum()
}
