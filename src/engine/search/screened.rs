//! The candidates of a screen of all rows: score, collect, tighten; or with thresholds that are known, score and collect.

use std::mem::take;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::search::batch::Batch;
use crate::engine::search::batches::CandidateSource;
use crate::engine::search::chunks::{rounds, submission_flops};
use crate::engine::search::screening::{Screening, blocks};
use crate::error::Result;
use crate::gpu::{Commands, Profile};
use crate::kernels::BLOCK_ROWS;
use crate::kernels::collect::{GROUP, Round};
use crate::kernels::distance_tile::TILE_QUERIES;

impl CandidateSource for Screening<'_> {
    fn batch(&self) -> &Batch<'_> {
        &self.batch
    }

    async fn record<'c>(
        &'c self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        thresholds: Option<&[u32]>,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let count = numbers.len() as u32;
        let commands = self.begin(queries, numbers, thresholds, profile).await?;
        match thresholds {
            Some(_) => self.encode_within(commands, count).await,
            None => self.encode_chunks(commands, count).await,
        }
    }

    /// `tighten` shortens a list that overflowed, and flags its query. Where it does not run, the count of the list tells.
    fn has_flags(&self) -> bool {
        !self.rounds.is_empty() || !self.winnows() && !self.chunks.iter().all(|parts| self.picks(parts))
    }

    fn scored(&self, queries: u64, _refined: u64, _others: &[Vec<u8>]) -> u64 {
        queries * self.batch.screened().end()
    }
}

impl Screening<'_> {
    /// Records the scores of all rows, and makes those candidates whose distances may be within the threshold of a query.
    async fn encode_within<'c>(&self, mut commands: Commands<'c>, count: u32) -> Result<Commands<'c>> {
        commands.clear(&self.batch.buffers.counts, 0, u64::from(count) * 4);
        for parts in &self.chunks {
            let scoring = self.scoring(count, parts);
            commands.stage(self.scores_with.stage);
            for part in parts {
                scoring.encode(&mut commands, *part)?;
            }
            commands.stage("collect");
            for part in parts {
                let round = Round { step: 1, skip: 0 };
                self.encode_collect(&mut commands, count, *part, round, None)?;
            }
            commands = commands.submit_and_go_on().await?;
        }
        for part in self.rounds.iter().flatten() {
            if let Some(collecting) = self.kernel.collects {
                self.encode_collect_tile(&mut commands, collecting, count, part)?;
                commands = commands.submit_and_go_on().await?;
            }
        }
        Ok(commands)
    }

    fn clear_overflowed(&self, commands: &mut Commands<'_>, count: u32) {
        let [_, _, overflowed] = self.batch.states(count);
        commands.clear(overflowed.buffer, overflowed.offset, overflowed.bytes);
    }

    fn encode_tighten(&self, commands: &mut Commands<'_>, count: u32, is_first: bool) -> Result<()> {
        commands.stage("tighten");
        self.batch.encode_tighten(commands, count, is_first, false)
    }

    /// Records the scores of all chunks, the rounds that make rows candidates, and the rounds that score and collect at once.
    pub(super) async fn encode_chunks<'c>(
        &self,
        mut commands: Commands<'c>,
        count: u32,
    ) -> Result<Commands<'c>> {
        let (rows, room) = (self.batch.screened(), self.batch.room);
        let (padded, all) = (room.padded as u32, rows.end());
        let padded_rows: u64 =
            rows.segments.iter().map(|segment| u64::from(segment.blocks()) * u64::from(BLOCK_ROWS)).sum();
        let most_flops = submission_flops(rows.gpu.adapter.kind) * self.kernel.speed;
        let flops_of = |rows_of_chunk| 2 * u64::from(padded) * rows_of_chunk * rows.layout.stride as u64;
        let (mut seen, mut tightened, mut unsent) = (0, 0, 0);
        let mut is_first = true;
        // For few queries, the dispatches of refining take longer than the rows that they save. It needs the rows on the device.
        let mut is_sharpened = !self.kernel.is_quantized() || padded <= TILE_QUERIES || !rows.keeps_rows;
        if self.winnows() {
            // `tighten` is never the first then.
            self.clear_overflowed(&mut commands, count);
        }
        for parts in &self.chunks {
            let scoring = self.scoring(count, parts);
            commands.stage(self.scores_with.stage);
            for part in parts {
                scoring.encode(&mut commands, *part)?;
            }
            let chunk_rows = u64::from(blocks(parts)) * u64::from(BLOCK_ROWS);
            let flops = flops_of(chunk_rows);
            unsent += flops;
            // The device starts while the rest is recorded, unless it would be done before. Later chunks are submitted several at a
            // time, because it waits a little between submissions.
            let is_short = !self.rounds.is_empty() && padded <= TILE_QUERIES;
            if (seen == 0 && !is_short) || unsent + flops > most_flops {
                commands = commands.submit_and_go_on().await?;
                unsent = 0;
            }
            if self.picks(parts) {
                self.encode_pick(&mut commands, &scoring, parts)?;
                // Neighbouring allowed rows may lie in fewer than k blocks of the sample. Then there is no threshold yet, and all of them are
                // candidates: the rounds would fill the lists.
                if self.batch.request.allowed.is_some() && !self.rounds.is_empty() {
                    self.clear_overflowed(&mut commands, count);
                    is_first = false;
                    self.encode_tighten(&mut commands, count, false)?;
                }
                seen += chunk_rows;
                continue;
            }
            if self.winnows() {
                commands.stage("winnow");
                for part in parts {
                    self.encode_winnow(&mut commands, &scoring, *part, take(&mut is_first))?;
                }
                // The list has the k nearest rows of each part, and `sharpen` would find those of all. Without rounds nothing needs them,
                // and counts tell what overflowed.
                if parts.len() > 1 && is_sharpened && !self.rounds.is_empty() {
                    self.encode_tighten(&mut commands, count, false)?;
                }
                seen += chunk_rows;
                tightened = seen;
                continue;
            }
            let rounds = rounds(blocks(parts), seen, room.k, room.capacity, self.kernel.spread);
            for (number, round) in rounds.iter().enumerate() {
                let is_large = seen + chunk_rows / u64::from(round.step) >= all / 2;
                if !is_sharpened && (seen > 0 || round.skip > 0) && (is_large || seen >= all / 16) {
                    self.batch.encode_sharpen(&mut commands, count)?;
                    is_sharpened = true;
                }
                let is_sample = (seen, round.skip) == (0, 0);
                let sample = is_sample.then(|| blocks(parts) * (BLOCK_ROWS / GROUP));
                commands.stage("collect");
                for part in parts {
                    self.encode_collect(&mut commands, count, *part, *round, sample)?;
                }
                // After few more rows the threshold would hardly fall.
                let is_last = seen + chunk_rows >= padded_rows;
                if number + 1 < rounds.len() || is_last || seen + chunk_rows >= 2 * tightened {
                    self.encode_tighten(&mut commands, count, take(&mut is_first))?;
                    tightened = seen + chunk_rows / u64::from(round.step);
                }
            }
            seen += chunk_rows;
        }
        let Some(collecting) = self.kernel.collects else { return Ok(commands) };
        commands = commands.submit_and_go_on().await?;
        unsent = 0;
        for (number, parts) in self.rounds.iter().enumerate() {
            let blocks: u32 = parts.iter().map(|part| part.blocks).sum();
            let round_rows = u64::from(blocks) * u64::from(BLOCK_ROWS);
            if !is_sharpened && (seen + round_rows >= all / 2 || seen >= all / 16) {
                self.batch.encode_sharpen(&mut commands, count)?;
                is_sharpened = true;
            }
            for part in parts {
                let flops = flops_of(u64::from(part.blocks) * u64::from(BLOCK_ROWS));
                if unsent + flops > most_flops {
                    commands = commands.submit_and_go_on().await?;
                    unsent = 0;
                }
                self.encode_collect_tile(&mut commands, collecting, count, part)?;
                unsent += flops;
            }
            self.encode_tighten(&mut commands, count, take(&mut is_first))?;
            seen += round_rows;
            // The device works on the first round while the others are recorded.
            if number == 0 {
                commands = commands.submit_and_go_on().await?;
                unsent = 0;
            }
        }
        Ok(commands)
    }
}
