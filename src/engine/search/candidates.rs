//! What a nominating search does with its lists of rows that cannot be excluded: collect, tighten, refine, rescore.

use crate::engine::search::nominate::{Buffer, Screen};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands};
use crate::kernels::collect::Round;
use crate::kernels::{Part, collect, rescore, tighten};

/// Whether a round has thresholds to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thresholds {
    /// They are set.
    Set,
    /// They are not: every row of the round is kept. The chunk has so many groups.
    Missing { groups: u32 },
}

impl Screen<'_> {
    /// Puts the rows of a round on the lists that their scores do not exclude.
    pub(crate) fn encode_collect(
        &self,
        commands: &mut Commands<'_>,
        count: u32,
        part: Part,
        round: Round,
        thresholds: Thresholds,
    ) -> Result<()> {
        let Self { rows, buffers, .. } = self;
        let (form, margin) = self.intervals;
        let segment = &rows.segments[part.segment];
        let (row_terms, query_terms) = match &segment.narrowed {
            Some(narrowed) if form.is_narrowed() => (&narrowed.terms, Buffer::QueryTerms),
            _ => (&segment.norms, Buffer::QueryNorms),
        };
        let collecting = collect::Collect {
            form,
            margin,
            scores: &buffers[Buffer::Scores],
            room: self.room,
            part,
            row_terms,
            rows: segment.len,
            first_slot: segment.first_slot,
            query_terms: &buffers[query_terms],
            queries: count,
            thresholds: &buffers[Buffer::Thresholds],
            allowed: self.allowed(),
            counts: &buffers[Buffer::Counts],
            lists: &buffers[Buffer::Lists],
            capacity: self.capacity,
            round,
            sample: match thresholds {
                Thresholds::Set => None,
                Thresholds::Missing { groups } => Some(groups),
            },
        };
        collect::encode(commands, &collecting)
    }

    /// Lowers the thresholds to the k-th smallest upper end of each list, and thins the lists.
    pub(crate) fn encode_tighten(
        &self,
        commands: &mut Commands<'_>,
        count: u32,
        is_first: bool,
        is_exact: bool,
    ) -> Result<()> {
        let buffers = &self.buffers;
        commands.stage("tighten");
        let tightening = tighten::Tighten {
            thresholds: &buffers[Buffer::Thresholds],
            counts: &buffers[Buffer::Counts],
            lists: &buffers[Buffer::Lists],
            overflowed: &buffers[Buffer::Overflowed],
            exact: is_exact.then(|| &buffers[Buffer::Keys]),
            unused: &buffers[Buffer::Queries],
            queries: count,
            k: self.k,
            capacity: self.capacity,
            is_first,
        };
        tighten::encode(commands, &tightening)
    }

    /// Replaces the intervals on the lists by the distances that will be reported. The threshold is then that of k true
    /// distances, without the width of an interval: fewer of the rows that are looked at later can reach it.
    pub(crate) fn encode_refining(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        commands.stage("refine");
        self.encode_rescore(commands, count)?;
        self.encode_tighten(commands, count, false, true)
    }

    /// The distances of the rows on the lists, as they are reported.
    pub(crate) fn encode_rescore(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let Self { rows, request, buffers, .. } = self;
        let candidates = rescore::Candidates::Lists {
            candidates: BufferSlice::all(&buffers[Buffer::Lists]),
            counts: BufferSlice::all(&buffers[Buffer::Counts]),
            pitch: self.capacity,
        };
        // Each segment in turn writes the distances of its own rows.
        for (number, segment) in rows.segments.iter().enumerate() {
            let rescoring = rescore::Rescore {
                metric: request.metric,
                queries: BufferSlice::all(&buffers[Buffer::Queries]),
                count,
                rows: segment.rows_slice(),
                elements: rows.layout.elements,
                vectors: rows.vectors(),
                row_count: segment.len,
                first_slot: segment.first_slot,
                ids: BufferSlice::all(&segment.ids),
                candidates,
                keys: BufferSlice::all(&buffers[Buffer::Keys]),
                found_ids: BufferSlice::all(&buffers[Buffer::Ids]),
                mark_absent: number == 0,
            };
            rescore::encode(commands, &rescoring)?;
        }
        Ok(())
    }
}
