//! The screening route: score, collect, tighten, refine and select, with one readback.

use std::mem::take;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::{Selection, keys_and_ids};
use crate::engine::search::chunks::{rounds, submission_flops};
use crate::engine::search::screening::{ScreenBuffers, Screening, blocks};
use crate::error::Result;
use crate::gpu::{Commands, Profile, Reading};
use crate::kernels::collect::GROUP;
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::{BLOCK_ROWS, key_of};

impl Screening<'_> {
    /// Records a batch: scores all rows chunk by chunk, and keeps candidates. Much of it is submitted.
    pub(crate) async fn screened<'p>(
        &'p self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        profile: Option<&'p mut Profile>,
    ) -> Result<Commands<'p>> {
        if self.chunks.iter().any(|parts| self.picks(parts)) {
            let ScreenBuffers { thresholds, counts, .. } = &*self.buffers;
            for (buffer, value) in [(thresholds, key_of(f32::MAX)), (counts, 0)] {
                let values = vec![value; numbers.len()];
                self.rows.gpu.upload_bytes(buffer, 0, bytemuck::cast_slice(&values)).await?;
            }
        }
        let commands = self.begin(queries, numbers, profile).await?;
        self.encode_chunks(commands, numbers.len() as u32).await
    }

    /// Submits a batch: keeps candidates, and reports the nearest of them. The next batch may be submitted before this one is finished.
    pub(crate) async fn submit(
        &self,
        queries: &Vectors<'_>,
        numbers: QueryNumbers,
        profile: Option<&mut Profile>,
    ) -> Result<(QueryNumbers, Reading)> {
        let count = numbers.len() as u32;
        let mut commands = self.screened(queries, &numbers, profile).await?;
        commands.stage("refine");
        self.encode_refine(&mut commands, count)?;
        commands.stage("select");
        let buffers = &*self.buffers;
        let ScreenBuffers { selected_keys, selected_ids, selected_counts, spare_keys, spare_ids, .. } =
            buffers;
        let spare = [spare_keys, spare_ids];
        let selection = Selection::into(self.k, selected_keys, selected_ids, selected_counts, spare);
        let refined = keys_and_ids(&buffers.keys, &buffers.ids);
        selection.encode(&mut commands, refined, self.candidates().to_select(), count)?;
        let results = u64::from(count) * u64::from(self.k);
        // Without `tighten`, nothing is dropped from a list but what exceeds its capacity.
        let flags = if self.tightens() { u64::from(count) * 4 } else { 0 };
        let reading = commands.submit_with_readback(&[
            (&buffers.refused, 0, 8),
            (selected_keys, 0, results * 4),
            (selected_ids, 0, results * 8),
            (selected_counts, 0, u64::from(count) * 4),
            (&buffers.overflowed, 0, flags),
            (&buffers.counts, 0, u64::from(count) * 4),
        ])?;
        Ok((numbers, reading))
    }

    /// Records the scores of all chunks, the rounds that make rows candidates, and the rounds that score and collect at once.
    async fn encode_chunks<'c>(&self, mut commands: Commands<'c>, count: u32) -> Result<Commands<'c>> {
        let rows = self.rows;
        let all = rows.end();
        let padded_rows: u64 =
            rows.segments.iter().map(|segment| u64::from(segment.blocks()) * u64::from(BLOCK_ROWS)).sum();
        let most_flops = submission_flops(rows.gpu.adapter.kind) * self.kernel.speed;
        let flops_of = |rows_of_chunk| 2 * u64::from(self.padded) * rows_of_chunk * rows.layout.stride as u64;
        let (mut seen, mut tightened, mut unsent) = (0, 0, 0);
        let mut is_first = true;
        // For few queries, the dispatches of refining take longer than the rows that they save. It needs the rows on the device.
        let mut is_sharpened = !self.kernel.is_quantized() || self.padded <= TILE_QUERIES || !rows.keeps_rows;
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
            let is_short = !self.rounds.is_empty() && self.padded <= TILE_QUERIES;
            if (seen == 0 && !is_short) || unsent + flops > most_flops {
                commands.submit_and_go_on().await?;
                unsent = 0;
            }
            if self.picks(parts) {
                self.encode_pick(&mut commands, &scoring, parts)?;
                seen += chunk_rows;
                continue;
            }
            let rounds = rounds(blocks(parts), seen, self.k, self.capacity, self.kernel.spread);
            for (number, round) in rounds.iter().enumerate() {
                let is_large = seen + chunk_rows / u64::from(round.step) >= all / 2;
                if !is_sharpened && (seen > 0 || round.skip > 0) && (is_large || seen >= all / 16) {
                    self.encode_refining(&mut commands, count)?;
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
                    self.encode_tighten(&mut commands, count, take(&mut is_first), false)?;
                    tightened = seen + chunk_rows / u64::from(round.step);
                }
            }
            seen += chunk_rows;
        }
        let Some(collecting) = self.kernel.collects else { return Ok(commands) };
        commands.submit_and_go_on().await?;
        unsent = 0;
        for (number, parts) in self.rounds.iter().enumerate() {
            let blocks: u32 = parts.iter().map(|part| part.blocks).sum();
            let round_rows = u64::from(blocks) * u64::from(BLOCK_ROWS);
            if !is_sharpened && (seen + round_rows >= all / 2 || seen >= all / 16) {
                self.encode_refining(&mut commands, count)?;
                is_sharpened = true;
            }
            for part in parts {
                let flops = flops_of(u64::from(part.blocks) * u64::from(BLOCK_ROWS));
                if unsent + flops > most_flops {
                    commands.submit_and_go_on().await?;
                    unsent = 0;
                }
                self.encode_collect_tile(&mut commands, collecting, count, part)?;
                unsent += flops;
            }
            self.encode_tighten(&mut commands, count, take(&mut is_first), false)?;
            seen += round_rows;
            // The device works on the first round while the others are recorded.
            if number == 0 {
                commands.submit_and_go_on().await?;
                unsent = 0;
            }
        }
        Ok(commands)
    }
}
