//! The screened ways: rows of the probed lists become candidates unless their integers exclude them.

use std::ops::Range;

use crate::engine::lists::probing::batch::ProbeBatches;
use crate::engine::lists::probing::needs::Way;
use crate::engine::lists::probing::plan::NEAR;
use crate::engine::lists::tables::{ALIGNED_WORDS, SegmentTables};
use crate::engine::rows::segments::Segment;
use crate::engine::screens::int8::codes::{Integers, QuantizedRows, QuantizedSegment, TERMS_BYTES};
use crate::engine::search::batch::SearchBuffers;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands};
use crate::kernels::{BLOCK_ROWS, collect_lists, group, list_work, probe_thresholds, screen_probes};

/// A segment with its quantised copy and the tables of its lists.
type Part<'a> = (&'a Segment, &'a QuantizedSegment, &'a SegmentTables);

impl ProbeBatches<'_> {
    /// Makes the rows of the probed lists candidates, unless their scores exclude them.
    pub(super) fn encode_screened(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let Some(quantized) = &self.probing.rows.quantized else { return Ok(()) };
        self.encode_quantizing(commands, quantized, count)?;
        commands.stage("probe_thresholds");
        for (number, part) in self.parts().enumerate() {
            self.encode_thresholds(commands, quantized, part, (count, number == 0))?;
        }
        let way = self.plan.way;
        if way == Way::Lists {
            commands.clear(&self.batch.buffers.list_counts, 0, self.probing.count_words(&self.plan) * 4);
        }
        for (number, round) in self.plan.rounds.iter().enumerate() {
            // By the distances of the nearest rows so far the threshold loses the width of an interval, before most rows are looked at.
            if NEAR.contains(&round.start) && self.probing.rows.keeps_rows {
                self.batch.encode_sharpen(commands, count)?;
            }
            match way {
                Way::Lists => self.encode_lists(commands, quantized, (count, number), round)?,
                _ => self.encode_probes(commands, quantized, count, round)?,
            }
            commands.stage("tighten");
            self.batch.encode_tighten(commands, count, false, false)?;
        }
        Ok(())
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let segments = self.probing.rows.segments.iter().zip(&self.probing.tables.segments);
        segments.filter_map(|(segment, tables)| Some((segment, segment.quantized.as_ref()?, tables)))
    }

    /// Where the terms of `count` quantised queries start, in bytes.
    fn terms_start(quantized: &QuantizedRows, count: u32) -> u64 {
        quantized.plane_bytes(count.into())
    }

    /// Quantises the queries. Their terms lie behind their integers.
    fn encode_quantizing(
        &self,
        commands: &mut Commands<'_>,
        quantized: &QuantizedRows,
        count: u32,
    ) -> Result<()> {
        commands.stage("quantize");
        let (buffers, queries) = (&self.batch.buffers, self.batch.queries());
        let start = Self::terms_start(quantized, count);
        let padded = u64::from(count.next_multiple_of(BLOCK_ROWS));
        let values = BufferSlice::range(&buffers.quantized, 0, start);
        let terms = BufferSlice::range(&buffers.quantized, start, padded * TERMS_BYTES);
        quantized.encode_vectors(
            commands,
            (queries.vectors(self.probing.rows.dim), queries.norms.into()),
            [0, count],
            Integers::single(values, terms),
            None,
            self.batch.request.integral,
        )
    }

    /// Takes first thresholds from the nearest lists.
    fn encode_thresholds(
        &self,
        commands: &mut Commands<'_>,
        quantized: &QuantizedRows,
        (segment, copy, tables): Part<'_>,
        (count, is_first): (u32, bool),
    ) -> Result<()> {
        let intervals = quantized.intervals();
        let (allowed, has_bits) = self.bits();
        let [wanted, probes, turns] = self.probing.first_rows(self.plan.k);
        let params = probe_thresholds::Params {
            granules: quantized.granules(),
            queries: count,
            query_terms: (Self::terms_start(quantized, count) / TERMS_BYTES) as u32,
            room: self.batch.state_pitch(),
            k: self.plan.k,
            probes,
            stride: self.probing.probes,
            lists: self.probing.lists(),
            tiles: tables.tiles,
            wanted,
            turns,
            rows: segment.len,
            first_slot: segment.first_slot,
            is_first: is_first.into(),
            ..probe_thresholds::Params::of(intervals.margin)
        };
        let SearchBuffers { quantized: queries, counts: states, probed, .. } = &*self.batch.buffers;
        let (rows, row_terms, tables) = (&copy.rows, &copy.terms, &tables.tables);
        let buffers = probe_thresholds::Buffers { queries, rows, row_terms, allowed, states, probed, tables };
        probe_thresholds::encode(commands, (intervals.form, has_bits), &params, &buffers)
    }

    /// Collects from the lists of a round query by query.
    fn encode_probes(
        &self,
        commands: &mut Commands<'_>,
        quantized: &QuantizedRows,
        count: u32,
        round: &Range<u32>,
    ) -> Result<()> {
        commands.stage("screen_probes");
        let intervals = quantized.intervals();
        let (allowed, has_bits) = self.bits();
        for (segment, copy, tables) in self.parts() {
            let params = screen_probes::Params {
                granules: quantized.granules(),
                queries: count,
                query_terms: (Self::terms_start(quantized, count) / TERMS_BYTES) as u32,
                room: self.batch.state_pitch(),
                first: round.start,
                probes: round.end - round.start,
                stride: self.probing.probes,
                lists: self.probing.lists(),
                tiles: tables.tiles,
                rows: segment.len,
                first_slot: segment.first_slot,
                capacity: self.plan.capacity,
                plane: count * self.plan.capacity,
                ..screen_probes::Params::of(intervals.margin)
            };
            let SearchBuffers { quantized: queries, counts: states, probed, candidates, .. } =
                &*self.batch.buffers;
            let (rows, row_terms, tables) = (&copy.rows, &copy.terms, &tables.tables);
            let buffers = screen_probes::Buffers {
                queries,
                rows,
                row_terms,
                allowed,
                states,
                probed,
                tables,
                candidates,
            };
            screen_probes::encode(commands, (intervals.form, has_bits), &params, &buffers)?;
        }
        Ok(())
    }

    /// Groups queries by the lists that they probe in a round, and collects from these list by list.
    fn encode_lists(
        &self,
        commands: &mut Commands<'_>,
        quantized: &QuantizedRows,
        (count, number): (u32, usize),
        round: &Range<u32>,
    ) -> Result<()> {
        let intervals = quantized.intervals();
        let (allowed, has_bits) = self.bits();
        let lists = self.probing.lists();
        let SearchBuffers { quantized: queries, counts: states, probed, candidates, .. } =
            &*self.batch.buffers;
        let SearchBuffers { list_counts, ranks, starts, blocks, .. } = &*self.batch.buffers;
        let words = u64::from(lists).next_multiple_of(ALIGNED_WORDS as u64);
        let counts = BufferSlice::range(list_counts, number as u64 * words * 4, words * 4);
        let probes = round.end - round.start;
        let kernel = self.probing.list_kernel(count, probes);
        for (number, (segment, copy, tables)) in self.parts().enumerate() {
            commands.stage("group");
            let params = group::Params {
                queries: count,
                first: round.start,
                probes,
                stride: self.probing.probes,
                lists,
                tiles: tables.tiles,
                height: kernel.height,
            };
            let grouped = group::Buffers { probed, counts, ranks, starts, tables: &tables.tables, blocks };
            if number == 0 {
                group::encode(commands, false, &params, &grouped)?;
            }
            list_work::encode(commands, (lists, kernel.height), counts, &tables.tables, starts)?;
            group::encode(commands, true, &params, &grouped)?;
            commands.stage("collect_lists");
            let params = collect_lists::Params {
                granules: quantized.granules(),
                queries: count,
                query_terms: (Self::terms_start(quantized, count) / TERMS_BYTES) as u32,
                room: self.batch.state_pitch(),
                rows: segment.len,
                first_slot: segment.first_slot,
                capacity: self.plan.capacity,
                plane: count * self.plan.capacity,
                ..collect_lists::Params::of(intervals.margin)
            };
            let (rows, row_terms) = (&copy.rows, &copy.terms);
            let buffers =
                collect_lists::Buffers { queries, rows, row_terms, allowed, states, blocks, candidates };
            let constants = (intervals.form, has_bits);
            let most = tables.most_blocks(count, probes, kernel.height);
            collect_lists::encode(commands, kernel, constants, &params, &buffers, most)?;
        }
        Ok(())
    }
}
