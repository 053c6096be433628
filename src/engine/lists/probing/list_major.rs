//! The list-major way: queries are grouped by the lists they probe, and screened by tiles of integers.

use crate::engine::lists::probing::batch::ProbeBatches;
use crate::engine::lists::tables::SegmentTables;
use crate::engine::pass::BufferVectors;
use crate::engine::rows::narrowed::{Integers, NarrowedRows, NarrowedSegment};
use crate::engine::rows::segments::Segment;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, RowLayout};
use crate::kernels::screen_lists_i8::{HEIGHT, ListBlocks};
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
        let lists = self.probing.lists();
        commands.clear(&buffers.list_counts, 0, u64::from(lists) * 4);
        let mut is_first = true;
        for (segment, tables) in self.probing.rows.segments.iter().zip(&self.probing.tables.segments) {
            let grouping = group::Group {
                probed: &buffers.probed,
                queries: count,
                probes: self.probing.probes,
                lists,
                height: HEIGHT,
                counts: &buffers.list_counts,
                ranks: &buffers.ranks,
                starts: &buffers.starts,
                list_tiles: &tables.list_tiles,
                grouped: &buffers.grouped,
                pairs: &buffers.pairs,
            };
            commands.stage("group");
            if is_first {
                group::encode(commands, &grouping, false)?;
            }
            let (counts, starts) = (&buffers.list_counts, &buffers.starts);
            list_work::encode(commands, (lists, HEIGHT), counts, &tables.list_tiles, starts)?;
            group::encode(commands, &grouping, true)?;
            if let Some(copy) = &segment.narrowed {
                self.encode_screen(commands, narrowed, (segment, copy, tables), count, &mut is_first)?;
            }
        }
        // The threshold of all blocks is lower than those of the turns.
        commands.stage("tighten");
        let tightening = tighten::Tighten {
            thresholds: &buffers.thresholds,
            counts: &buffers.counts,
            lists: &buffers.candidates,
            overflowed: &buffers.overflowed,
            exact: None,
            unused: &buffers.keys,
            queries: count,
            k: self.plan.k,
            capacity: self.plan.capacity,
            is_first: true,
        };
        tighten::encode(commands, &tightening)
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
            let blocks = [first, self.plan.blocks];
            let scoring = ListBlocks {
                queries: &buffers.narrowed,
                rows: &copy.rows,
                segment: [segment.first_slot, segment.capacity],
                granules: narrowed.granules(),
                lists: self.probing.lists(),
                starts: &buffers.starts,
                list_tiles: &tables.list_tiles,
                tiles: &tables.tiles,
                grouped: &buffers.grouped,
                scores: &buffers.scores,
                blocks,
                most,
            };
            narrowed.encode_list_blocks(commands, &scoring)?;
            commands.stage("winnow");
            let (pairs, tiles, allowed) = (&buffers.pairs, &tables.tiles, self.allowed());
            let winnowing = winnow::Winnow {
                form: intervals.form,
                margin: intervals.margin,
                scores: &buffers.scores,
                room: HEIGHT,
                blocks,
                row_terms: &copy.terms,
                rows: segment.len,
                first_slot: segment.first_slot,
                query_terms: &buffers.terms,
                queries: count,
                k: self.plan.k,
                probed: Some(winnow::Probed { probes, pairs, tiles, allowed }),
                counts: BufferSlice::all(&buffers.counts),
                lists: &buffers.candidates,
                capacity: self.plan.capacity,
                is_first: *is_first,
            };
            winnow::encode(commands, &winnowing)?;
            *is_first = false;
            first += self.plan.blocks;
        }
        Ok(())
    }
}
