//! A screen of all rows: its scratch buffers, and the steps that make rows candidates: score, pick and collect.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::{Integers, TERMS_BYTES};
use crate::engine::screens::score::{Collecting, ScoreKernel, Scoring};
use crate::engine::search::batch::{Batch, Candidate, Room, SearchBuffers};
use crate::engine::search::chunks::{
    block_rounds, chunk_limit, chunk_parts, neighbouring_parts, round_parts,
};
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::SearchRequest;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{BufferSlice, Commands, Profile};
use crate::kernels::collect::Round;
use crate::kernels::collect_tile_i8::RoundPart;
use crate::kernels::pick::Picked;
use crate::kernels::{BLOCK_ROWS, Part, collect, key_of, winnow};
use crate::screen::certificate::Intervals;

/// Blocks for each of the k nearest rows, from which on the best row of each block makes a good threshold.
pub(crate) const PICKED_BLOCKS: u64 = 4;

/// A screening search: its plan, and the scratch buffers that its batches use one after another.
pub(crate) struct Screening<'a> {
    pub(crate) batch: Batch<'a>,
    pub(crate) kernel: &'static ScoreKernel,
    /// The kernel that scores `chunks`.
    pub(crate) scores_with: &'static ScoreKernel,
    /// The rows whose scores go to memory, chunk by chunk.
    pub(crate) chunks: Vec<Vec<Part>>,
    /// The other rows, round by round: they are collected as they are scored.
    pub(crate) rounds: Vec<Vec<RoundPart>>,
    /// Planes of integers that queries are quantised to; 0 for f32.
    pub(super) planes: u32,
    pub(super) intervals: Intervals,
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
            let gathered = if plan.gathers { rows.to_gather(request.scope()) } else { None };
            let screened = gathered.as_ref().unwrap_or(rows);
            let kernel = kernel.kernel().tested(&rows.gpu, request.metric, plan.batch.into()).await?;
            let scores_with = kernel.scores_with(plan.batch.into());
            let (count, k) = (u64::from(plan.batch), u64::from(plan.k));
            let padded = kernel.padded(count);
            let most = chunk_limit(screened, kernel, padded) as u32;
            let rounds = match stored_chunks {
                0 => vec![Round { step: 1, skip: 0 }],
                1 if chunks > 1 => block_rounds(chunks, plan.k, capacity, kernel.spread, count),
                _ => vec![],
            };
            let rounds =
                rounds.into_iter().map(|round| round_parts(&screened.segments, round, most)).collect();
            // Where every chunk finds a threshold, rows need not be alike in all of them.
            let all_blocks: u64 = screened.segments.iter().map(|segment| u64::from(segment.blocks())).sum();
            let picks_all = scores_with.has_bests()
                && stored_chunks == chunks
                && all_blocks >= PICKED_BLOCKS * k * u64::from(chunks.max(1));
            let parts_of = if picks_all { neighbouring_parts } else { chunk_parts };
            let chunks: Vec<Vec<Part>> =
                (0..stored_chunks).map(|chunk| parts_of(&screened.segments, chunk, chunks)).collect();
            let columns = chunks.iter().map(|parts| blocks(parts)).max().unwrap_or(0) * BLOCK_ROWS;
            let planes = kernel.planes(count);
            let plane_bytes = rows.quantized.as_ref().map_or(0, |quantized| quantized.plane_bytes(padded));
            let candidate = Candidate { bytes: 12, words: 2 };
            let room = Room { queries: count, padded, k: plan.k, capacity, candidate };
            let of_rows = SearchBuffers::of(rows, request, room);
            let [allowed, gathered_codes, gathered_terms] =
                gathered.as_ref().map_or([of_rows.allowed, 0, 0], GpuRows::gathered_bytes);
            let bytes = SearchBuffers {
                allowed,
                gathered: gathered_codes,
                gathered_terms,
                scores: padded * u64::from(columns) * 4,
                best: if scores_with.has_bests() { padded * u64::from(columns / BLOCK_ROWS) * 8 } else { 0 },
                quantized: u64::from(planes) * plane_bytes,
                query_terms: u64::from(planes.min(1)) * padded * TERMS_BYTES,
                ..of_rows
            };
            let gathered = gathered.zip(request.allowed).map(|(gathered, allowed)| {
                (gathered, allowed.bits.ones_in_order().map(|slot| slot as u32).collect())
            });
            let batch = Batch::reserve((rows, gathered), request, room, bytes).await?;
            let intervals = (kernel.intervals)(rows, request.metric)?;
            Ok(Some(Self { batch, kernel, scores_with, chunks, rounds, planes, intervals }))
        })
    }

    /// Copies queries and thresholds, if there are some, to the device, and begins a recording with the queries' norms and, for screens on
    /// integers, their quantising.
    pub(crate) async fn begin<'p>(
        &'p self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        thresholds: Option<&[u32]>,
        profile: Option<&'p mut Profile>,
    ) -> Result<Commands<'p>> {
        let Batch { rows, buffers, .. } = &self.batch;
        let mut commands = Commands::new(&rows.gpu, profile);
        if let Some(thresholds) = thresholds {
            commands.write((&buffers.thresholds, 0), bytemuck::cast_slice(thresholds)).await?;
        } else if self.chunks.iter().any(|parts| self.picks(parts)) {
            let none = vec![key_of(f32::MAX); numbers.len()];
            commands.write((&buffers.thresholds, 0), bytemuck::cast_slice(&none)).await?;
            commands.clear(&buffers.counts, 0, numbers.len() as u64 * 4);
        }
        self.batch.queries().begin(&mut commands, queries, numbers).await?;
        self.encode_quantize(&mut commands, numbers.len() as u32)?;
        Ok(commands)
    }

    /// The same with rows as queries, which lie in the slots of a list. Screens that pick need queries of the caller's.
    pub(crate) async fn begin_with_rows<'p>(
        &'p self,
        list: (BufferSlice<'_>, usize),
        profile: Option<&'p mut Profile>,
    ) -> Result<Commands<'p>> {
        let mut commands = Commands::new(&self.batch.rows.gpu, profile);
        self.batch.queries().begin_with_rows(&mut commands, self.batch.rows, list).await?;
        self.encode_quantize(&mut commands, list.1 as u32)?;
        Ok(commands)
    }

    fn encode_quantize(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let Batch { rows, buffers, request, .. } = &self.batch;
        let (Some(quantized), true) = (&rows.quantized, self.kernel.is_quantized()) else { return Ok(()) };
        let on_device = self.batch.queries();
        let into = Integers {
            values: (&buffers.quantized).into(),
            terms: (&buffers.query_terms).into(),
            planes: self.planes,
            // A batch of fewer queries than the plan's has smaller planes.
            plane_bytes: quantized.plane_bytes(self.kernel.padded(count.into())),
        };
        let vectors = (on_device.vectors(rows.dim), on_device.norms.into());
        quantized.encode_vectors(commands, vectors, [0, count], into, None, request.integral)
    }

    /// The scoring of a batch and a chunk.
    pub(crate) fn scoring(&self, count: u32, parts: &[Part]) -> Scoring<'_> {
        let Batch { request, room, buffers, .. } = &self.batch;
        Scoring {
            kernel: self.scores_with,
            rows: self.batch.screened(),
            metric: request.metric,
            queries: &buffers.queries,
            quantized_queries: &buffers.quantized,
            count,
            scores: &buffers.scores,
            padded: room.padded as u32,
            planes: self.planes,
            intervals: self.intervals,
            query_terms: &buffers.query_terms,
            allowed: self.batch.allowed(),
            best: &buffers.best,
            blocks: blocks(parts),
        }
    }

    /// Whether the best intervals of this chunk give good thresholds.
    pub(crate) fn picks(&self, parts: &[Part]) -> bool {
        self.scores_with.has_bests()
            && u64::from(blocks(parts)) >= PICKED_BLOCKS * u64::from(self.batch.room.k)
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
    pub(super) fn lists(&self, queries: u32) -> Picked<'_> {
        let SearchBuffers { thresholds, counts, candidates, .. } = &*self.batch.buffers;
        let Room { k, capacity, .. } = self.batch.room;
        Picked { queries, k, thresholds, counts, candidates, capacity, pairs: None }
    }

    /// Whether a sample of tiles is winnowed: `collect` and `tighten` would take several passes over it.
    pub(crate) fn winnows(&self) -> bool {
        let takes_all = !self.scores_with.has_bests() && self.kernel.collects.is_some();
        takes_all && self.kernel.is_quantized() && self.batch.room.k <= winnow::K_MAX
    }

    /// Takes thresholds from the scores of a sample's part, and makes its rows candidates that these do not exclude.
    pub(crate) fn encode_winnow(
        &self,
        commands: &mut Commands<'_>,
        scoring: &Scoring<'_>,
        part: Part,
        is_first: bool,
    ) -> Result<()> {
        let Batch { room, buffers, .. } = &self.batch;
        let scan = scoring.scan(part)?;
        let params = winnow::Params {
            queries: scoring.count,
            part_blocks: part.blocks,
            k: room.k,
            capacity: room.capacity,
            plane: scoring.count * room.capacity,
            is_first: is_first.into(),
            ..scan.params(room.padded as u32, part)
        };
        let into = winnow::Buffers {
            scores: &buffers.scores,
            row_terms: scan.row_terms,
            query_terms: scan.query_terms,
            counts: (&buffers.counts).into(),
            thresholds: (&buffers.thresholds).into(),
            candidates: &buffers.candidates,
            allowed: scan.allowed.unwrap_or(scan.query_terms),
        };
        winnow::encode(commands, (scan.form, scan.allowed.is_some()), &params, &into)
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
        let Batch { room, buffers, .. } = &self.batch;
        let segment = &self.batch.screened().segments[part.segment];
        let (row_terms, query_terms) = match &segment.quantized {
            Some(quantized) if self.kernel.is_quantized() => (&quantized.terms, &buffers.query_terms),
            _ => (&segment.stored()?.norms, &buffers.query_norms),
        };
        let allowed = self.batch.allowed();
        let collecting =
            collect::Collect { form: self.intervals.form, part, has_bits: allowed.is_some(), round, sample };
        let params = collect::Params {
            queries: count,
            room: room.padded as u32,
            rows: segment.len,
            first_slot: segment.first_slot,
            capacity: room.capacity,
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
}

pub(crate) fn blocks(parts: &[Part]) -> u32 {
    parts.iter().map(|part| part.blocks).sum()
}
