//! The pairs of rows of a graph: their lists, the batches of queries that fill them, and where the neighbours go.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::engine::screens::score::Collecting;
use crate::engine::search::batch::{Batch, ListRange, SearchBuffers};
use crate::engine::search::batches::{CandidateSource, Sink};
use crate::engine::search::chunks::chunk_limit;
use crate::engine::search::graph::shape::{Shape, Step};
use crate::engine::search::graph::table::Table;
use crate::engine::search::nearest::SearchState;
use crate::engine::search::request::{SearchRequest, Statistics};
use crate::engine::search::screening::Screening;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Profile};
use crate::kernels::collect::Round;
use crate::kernels::collect_tile_i8::RoundPart;
use crate::kernels::pick::Picked;

/// The pairs of rows: their lists, and the scratch buffers of batches.
pub(super) struct Pairs<'a> {
    screening: Screening<'a>,
    collecting: Collecting,
    shape: Shape,
    steps: Vec<Step>,
}

impl<'a> Pairs<'a> {
    pub(super) async fn reserve(
        (rows, codes): (&'a GpuRows, &QuantizedRows),
        request: &'a SearchRequest<'a>,
        (shape, steps): (Shape, Vec<Step>),
        (slots, thresholds): (Vec<u32>, Vec<u32>),
    ) -> Result<Option<Self>> {
        let Shape { kernel, batch, .. } = shape;
        let gathered = rows.in_order(shape.rows.into(), request.budget);
        let (Some(gathered), Some(collecting)) = (gathered, kernel.collects) else { return Ok(None) };
        let bytes = shape.bytes((rows, codes), request);
        let mut batch_of =
            Batch::reserve((rows, Some((gathered, slots))), request, shape.room(), bytes).await?;
        batch_of.lists = Some(shape.rows);
        let SearchBuffers { counts, overflowed, thresholds: of_rows, .. } = &*batch_of.buffers;
        rows.gpu.upload_bytes(of_rows, 0, bytemuck::cast_slice(&thresholds)).await?;
        let mut commands = Commands::new(&rows.gpu, None);
        for words in [counts, overflowed] {
            commands.clear(words, 0, u64::from(shape.rows) * 4);
        }
        commands.submit();
        let screening = Screening {
            batch: batch_of,
            kernel,
            scores_with: kernel,
            chunks: vec![],
            rounds: vec![],
            planes: kernel.planes(batch.into()),
            intervals: (kernel.intervals)(rows, request.metric)?,
        };
        Ok(Some(Self { screening, collecting, shape, steps }))
    }
}

/// Rows are the queries, whose numbers are those of the order.
impl CandidateSource for Pairs<'_> {
    fn batch(&self) -> &Batch<'_> {
        &self.screening.batch
    }

    fn lists(&self, numbers: &QueryNumbers) -> ListRange {
        let first = numbers.iter().next().unwrap_or_default();
        ListRange { first: first as u32, count: numbers.len() as u32 }
    }

    async fn record<'c>(
        &'c self,
        _queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        _thresholds: Option<&[u32]>,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let Self { screening, collecting, shape, steps } = self;
        let (lists, batch) = (self.lists(numbers), &screening.batch);
        let [start, bytes] = [lists.first, lists.count].map(|number| u64::from(number) * 4);
        let slots = BufferSlice::range(&batch.buffers.allowed, start, bytes);
        let mut commands = screening.begin_with_rows((slots, numbers.len()), profile).await?;
        let Some(step) = steps.get((lists.first / shape.batch) as usize) else { return Ok(commands) };
        if step.tightens {
            commands.stage("tighten");
            let behind = ListRange { count: shape.rows - lists.first, ..lists };
            batch.encode_tighten(&mut commands, behind, false, false)?;
        }
        let scoring = screening.scoring(lists.count, &[]);
        let into = Picked { pairs: Some([lists.first, shape.rows]), ..screening.lists(lists.count) };
        let most = chunk_limit(batch.screened(), shape.kernel, u64::from(shape.batch)) as u32;
        for blocks in &step.blocks {
            for first in blocks.clone().step_by(most as usize) {
                let round = Round { step: 1, skip: 0 };
                let blocks = most.min(blocks.end - first);
                let part = RoundPart { segment: 0, round, base: 0, first, blocks };
                commands.stage(collecting.kernel.name);
                (collecting.encode)(&scoring, &mut commands, collecting.kernel, &part, &into)?;
                if blocks == most {
                    commands = commands.submit_and_go_on().await?;
                }
            }
            commands.stage("tighten");
            batch.encode_tighten(&mut commands, lists, false, false)?;
        }
        Ok(commands)
    }

    fn has_flags(&self) -> bool {
        true
    }

    fn scored(&self, queries: u64, _refined: u64, _others: &[Vec<u8>]) -> u64 {
        queries * u64::from(self.shape.rows) / 2
    }
}

/// Puts the neighbours of rows into the table.
pub(super) struct InOrder<'s, 'r> {
    pub(super) state: &'s mut SearchState<'r>,
    pub(super) table: &'s mut Table,
    /// The numbers of the rows, in order.
    pub(super) order: &'s [u32],
    /// The numbers of rows with fewer neighbours than wanted.
    pub(super) alone: &'s mut Vec<usize>,
}

impl Sink for InOrder<'_, '_> {
    fn profile(&mut self) -> Option<&mut Profile> {
        self.state.profile()
    }

    fn statistics(&mut self) -> &mut Statistics {
        self.state.statistics()
    }

    fn threshold(&self, query: usize) -> u32 {
        self.state.threshold(query)
    }

    fn put(&mut self, query: usize, found: impl Iterator<Item = (u32, u64)>) -> Result<()> {
        let row = self.order[query] as usize;
        if !self.table.put(row, found) {
            self.alone.push(row);
        }
        Ok(())
    }

    fn note_answered(&mut self, queries: usize) {
        self.state.note_answered(queries);
    }
}
