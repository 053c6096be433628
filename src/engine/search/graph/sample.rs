//! The sample of rows that gives each row of a graph its first threshold.

use std::collections::VecDeque;

use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::score::ScoreKernel;
use crate::engine::search::batch::SearchBuffers;
use crate::engine::search::graph::table::Table;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::SearchRequest;
use crate::engine::search::screening::Screening;
use crate::error::Result;
use crate::gpu::{BufferSlice, Reading, words};
use crate::interrupt;
use crate::kernels::BLOCK_ROWS;
use crate::memory;

/// Rows beside the sample, in multiples of its rows, at least: of fewer, sampling takes what scoring each pair once saves.
const UNSAMPLED: u32 = 3;

/// Batches that are submitted before the first of them is read.
const IN_FLIGHT: usize = 2;

/// The sample that gives rows their first thresholds.
pub(super) struct Sample<'a> {
    rows: &'a GpuRows,
    pub(super) request: &'a SearchRequest<'a>,
    pub(super) plan: Plan,
    pub(super) kernel: &'static ScoreKernel,
}

impl<'a> Sample<'a> {
    /// None if a search of all rows would take no sample, or one of more than a quarter of the rows.
    pub(super) fn new(rows: &'a GpuRows, request: &'a SearchRequest<'a>, queries: usize) -> Option<Self> {
        let plan = Plan::screened(rows, queries as u64, request.k as u64, request.scope())?;
        let Route::Screened { kernel, chunks, stored_chunks: 1, .. } = plan.route else { return None };
        let kernel = kernel.kernel();
        let is_of_tiles = kernel.collects.is_some() && kernel.is_quantized();
        (is_of_tiles && chunks > UNSAMPLED).then_some(Self { rows, request, plan, kernel })
    }

    /// Scores the sample for each row and reads the thresholds back. Grows the table while the device works. None if the plan of searches has no
    /// `winnow`.
    pub(super) async fn thresholds(&self, slots: &[u32], table: &mut Table) -> Result<Option<Sampled>> {
        let &Self { rows, request, ref plan, .. } = self;
        let Some(mut screening) = Screening::reserve(rows, request, plan).await? else { return Ok(None) };
        if !screening.winnows() {
            return Ok(None);
        }
        screening.rounds.clear();
        let mut sampled = Sampled { thresholds: memory::with_room(slots.len())?, passing: 0 };
        let list = rows.gpu.create_storage("slots", slots.len() as u64 * 4)?;
        rows.gpu.upload_bytes(&list, 0, bytemuck::cast_slice(slots)).await?;
        let has_parts = screening.chunks.iter().any(|parts| parts.len() > 1);
        let SearchBuffers { thresholds, counts, selected_counts, .. } = &*screening.batch.buffers;
        let mut pending: VecDeque<Reading> = VecDeque::new();
        let batch = plan.batch.next_multiple_of(BLOCK_ROWS);
        for first in (0..slots.len()).step_by(batch as usize) {
            interrupt::check()?;
            let count = (slots.len() - first).min(batch as usize);
            let own = BufferSlice::range(&list, first as u64 * 4, count as u64 * 4);
            let commands = screening.begin_with_rows((own, count), None).await?;
            let count = count as u32;
            let mut commands = screening.encode_chunks(commands, count).await?;
            // `winnow` keeps the nearest of each segment's part.
            if has_parts {
                screening.batch.encode_tighten(&mut commands, count, false, false)?;
            }
            let bytes = u64::from(count) * 4;
            commands.copy((counts, 0), (selected_counts, 0), bytes);
            screening.batch.encode_sharpen(&mut commands, count)?;
            let read = [thresholds, selected_counts].map(|words| (words, 0, bytes));
            pending.push_back(commands.submit_with_readback(&read)?);
            // The device works meanwhile.
            table.grow(count as usize)?;
            if pending.len() == IN_FLIGHT
                && let Some(first) = pending.pop_front()
            {
                sampled.add(&first.wait(&rows.gpu).await?);
            }
        }
        for reading in pending {
            sampled.add(&reading.wait(&rows.gpu).await?);
        }
        Ok(Some(sampled))
    }
}

/// Thresholds from a sample, for all rows.
pub(super) struct Sampled {
    /// A key for each row, at least that of its k-th distance.
    pub(super) thresholds: Vec<u32>,
    /// Candidates that the sample left before they were refined, summed over all rows.
    pub(super) passing: u64,
}

impl Sampled {
    /// Takes the thresholds and counts of a batch.
    fn add(&mut self, read: &[Vec<u8>]) {
        self.thresholds.extend(words::<u32>(&read[0]));
        self.passing += words::<u32>(&read[1]).map(u64::from).sum::<u64>();
    }
}
