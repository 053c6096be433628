//! The list-major way: queries are grouped by the lists they probe, and screened by tiles of integers.

use crate::engine::lists::probing::batch::{ProbeBatches, ProbeBuffers};
use crate::engine::lists::tables::SegmentTables;
use crate::engine::pass::BufferVectors;
use crate::engine::rows::narrowed::{Integers, NarrowedRows, NarrowedSegment};
use crate::engine::rows::segments::Segment;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, RowLayout};
use crate::kernels::screen_lists_i8::{self, HEIGHT};
use crate::kernels::{group, list_work, tighten, winnow};
use crate::matrix::ElementKind;

impl ProbeBatches<'_> {
    /// Makes the rows of the probed lists candidates, unless their scores exclude them.
    pub(super) fn encode_list_major(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let Some(narrowed) = &self.probing.rows.narrowed else { return Ok(()) };
        let buffers = &*self.buffers;
        commands.stage("narrow");
        let layout = RowLayout::padded(ElementKind::F32, self.probing.rows.dim);
        let queries = BufferVectors { values: BufferSlice::all(&buffers.queries), layout };
        let into = Integers::single(&buffers.narrowed, &buffers.terms);
        let norms = BufferSlice::all(&buffers.query_norms);
        narrowed.encode_vectors(commands, (queries, norms), [0, count], into, None)?;
        commands.stage("group");
        let (lists, probes) = (self.probing.lists(), self.probing.probes);
        let ProbeBuffers { probed, list_counts: counts, ranks, starts, grouped, pairs, .. } = buffers;
        commands.clear(&buffers.list_counts, 0, u64::from(lists) * 4);
        let mut is_first = true;
        for (segment, tables) in self.probing.rows.segments.iter().zip(&self.probing.tables.segments) {
            let list_tiles = &tables.list_tiles;
            let params = group::Params { pairs: count * probes, probes, lists, height: HEIGHT };
            let buffers = group::Buffers { probed, counts, ranks, starts, list_tiles, grouped, pairs };
            commands.stage("group");
            if is_first {
                group::encode(commands, false, &params, &buffers)?;
            }
            list_work::encode(commands, (lists, HEIGHT), counts, list_tiles, starts)?;
            group::encode(commands, true, &params, &buffers)?;
            if let Some(copy) = &segment.narrowed {
                self.encode_screen(commands, narrowed, (segment, copy, tables), count, &mut is_first)?;
            }
        }
        // The threshold of all blocks is lower than those of the turns.
        commands.stage("tighten");
        let tightening = tighten::Params::new(count, self.plan.k, self.plan.capacity, true);
        let tightened = tighten::Buffers {
            thresholds: &buffers.thresholds,
            counts: &buffers.counts,
            candidates: &buffers.candidates,
            overflowed: &buffers.overflowed,
            // Not read.
            exact: &buffers.keys,
        };
        tighten::encode(commands, false, &tightening, &tightened)
    }

    /// Scores the blocks of a segment, as many in each turn as there are buffers for, and winnows them.
    fn encode_screen(
        &self,
        commands: &mut Commands<'_>,
        narrowed: &NarrowedRows,
        (segment, copy, tables): (&Segment, &NarrowedSegment, &SegmentTables),
        count: u32,
        is_first: &mut bool,
    ) -> Result<()> {
        let buffers = &*self.buffers;
        let probes = self.probing.probes;
        let intervals = narrowed.intervals();
        let most = tables.most_blocks(count, probes, HEIGHT);
        let mut first = 0;
        while u64::from(first) < most {
            commands.stage("screen_lists");
            let blocks = self.plan.blocks;
            let scoring = screen_lists_i8::Params {
                lists: self.probing.lists(),
                granules: narrowed.granules(),
                block_first: first,
                blocks,
                first_slot: segment.first_slot,
                rows: segment.capacity,
            };
            let scored = screen_lists_i8::Buffers {
                queries: &buffers.narrowed,
                rows: &copy.rows,
                starts: &buffers.starts,
                list_tiles: &tables.list_tiles,
                tiles: &tables.tiles,
                grouped: &buffers.grouped,
                scores: &buffers.scores,
            };
            narrowed.encode_list_blocks(commands, &scoring, &scored, most)?;
            commands.stage("winnow");
            let winnowing = winnow::Params {
                queries: count,
                probes,
                k: self.plan.k,
                capacity: self.plan.capacity,
                plane: count * self.plan.capacity,
                is_first: (*is_first).into(),
                room: HEIGHT,
                block_first: first,
                blocks,
                rows: segment.len,
                first_slot: segment.first_slot,
                ..winnow::Params::of(intervals.margin)
            };
            let winnowed = winnow::Buffers {
                scores: &buffers.scores,
                row_terms: &copy.terms,
                query_terms: &buffers.terms,
                allowed: self.allowed(),
                pairs: &buffers.pairs,
                tiles: &tables.tiles,
                counts: (&buffers.counts).into(),
                candidates: &buffers.candidates,
            };
            winnow::encode(commands, (intervals.form, true), &winnowing, &winnowed)?;
            *is_first = false;
            first += self.plan.blocks;
        }
        Ok(())
    }
}
