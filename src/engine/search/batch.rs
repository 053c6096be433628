//! A batch of queries on the device: its scratch buffers, its candidates, and the steps from these to the nearest rows. Every way to find
//! candidates takes the same ones.

use crate::elements::ElementKind;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::tables::ALIGNED_WORDS;
use crate::engine::pass::{
    BufferVectors, CandidateLists, NONE_REFUSED, Refining, Selection, encode_norms, keys_and_ids,
};
use crate::engine::rows::gathered::GatheredBuffers;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::request::SearchRequest;
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, ReadRange, Reading, Reserved, RowLayout, scratch};
use crate::kernels::{select_k, tighten};

scratch! {
    /// The scratch buffers of a batch. A way to find candidates leaves those empty that it does not use.
    #[derive(Default)]
    pub(crate) struct SearchBuffers {
        queries, query_norms, refused, quantized, query_terms, allowed,
        counts, thresholds, overflowed, candidates, keys, ids,
        selected_keys, selected_ids, selected_counts, spare_keys, spare_ids,
        // The scores of a screen of all rows, and the codes of rows that it gathers.
        scores, best, gathered, gathered_terms,
        // The coarse step of a search in lists, and what it finds.
        coarse_queries, coarse_norms, coarse_quantized, coarse_terms, coarse_candidates, coarse_survivors, probed_keys, probed, probed_counts,
        // Queries grouped by list.
        list_counts, ranks, starts, blocks,
    }
}

/// How much room a batch needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) queries: u64,
    /// The same, rounded up to what kernels score at a time.
    pub(crate) padded: u64,
    pub(crate) k: u32,
    /// Candidates that a query's list holds.
    pub(crate) capacity: u32,
    pub(crate) candidate: Candidate,
}

/// The size of a candidate in a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) bytes: u64,
    /// Words that the host reads where it computes distances: the slot, and with two also the lower end of its interval.
    pub(crate) words: u32,
}

impl SearchBuffers<u64> {
    /// The bytes that every way to find candidates needs.
    pub(crate) fn of(rows: &GpuRows, request: &SearchRequest<'_>, room: Room) -> Self {
        let Room { queries, padded, k, capacity, candidate } = room;
        let (k, entries) = (u64::from(k), queries * u64::from(capacity));
        // Where the host computes distances, the places of the nearest rows are those that it reads candidates from: two, because the next
        // batch begins before one is read.
        let if_stored = |bytes: u64, to_read: u64| if rows.keeps_rows { bytes } else { to_read };
        let compacted = entries * u64::from(candidate.words) * 4;
        let spare = if k > u64::from(select_k::SORTED_MAX) { if_stored(queries * k, 0) } else { 0 };
        Self {
            queries: padded * rows.query_bytes(),
            query_norms: padded * 8,
            refused: 8,
            allowed: request.scope().bits_bytes(),
            counts: queries * 4,
            thresholds: queries * 4,
            overflowed: queries * 4,
            candidates: entries * candidate.bytes,
            keys: if_stored(entries * 4, 0),
            ids: if_stored(entries * 8, 0),
            selected_keys: if_stored(queries * k * 4, compacted),
            selected_ids: if_stored(queries * k * 8, compacted),
            selected_counts: (1 + queries) * 4,
            spare_keys: spare * 4,
            spare_ids: spare * 8,
            ..Self::default()
        }
    }
}

/// Entries of a compacted list that are read with the counts: as many as usual, not fewer than a short readback takes as long for, and not so
/// many that one readback holds much memory. The others take a second one, in pieces.
pub(crate) fn read_at_once(queries: u64, usual: u64, capacity: u32) -> u64 {
    (queries * usual).clamp(4096, 1 << 20).min(queries * u64::from(capacity))
}

/// Entries of a query that the next batch may be expected to have, after one with these.
pub(crate) fn usual_entries(entries: u64, queries: usize) -> u64 {
    (entries + entries / 4).div_ceil(queries.max(1) as u64) + 8
}

/// Rows to gather, and the slots that they come from.
pub(crate) type Gathered = (GpuRows, Vec<u32>);

/// Lists of candidates in the buffers of a batch, from number `first` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListRange {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The first `count` lists.
impl From<u32> for ListRange {
    fn from(count: u32) -> Self {
        Self { first: 0, count }
    }
}

/// A batch of up to `room.queries` queries. The batches of a search use its buffers one after another.
pub(crate) struct Batch<'a> {
    pub(crate) rows: &'a GpuRows,
    pub(crate) request: &'a SearchRequest<'a>,
    /// Rows in another order, if these are screened. Candidates are then their places; the slots are in `allowed`.
    gathered: Option<GpuRows>,
    pub(crate) room: Room,
    /// Whether `counts` has the thresholds and the flags of full lists too, as kernels of lists take them.
    is_packed: bool,
    /// How many lists the buffers have, where each row has one: queries are then rows. None where each query of the batch has one.
    pub(crate) lists: Option<u32>,
    pub(crate) buffers: Reserved<SearchBuffers>,
}

impl<'a> Batch<'a> {
    /// Takes scratch buffers of these bytes. Rows that are to be gathered are copied into them.
    pub(crate) async fn reserve(
        (rows, gathered): (&'a GpuRows, Option<Gathered>),
        request: &'a SearchRequest<'a>,
        room: Room,
        bytes: SearchBuffers<u64>,
    ) -> Result<Self> {
        let buffers = bytes.reserve(&rows.gpu).await?;
        let SearchBuffers { allowed: slots, gathered: codes, gathered_terms: terms, .. } = &*buffers;
        let gathered = match gathered {
            Some((gathered, list)) => {
                Some(gathered.gather(rows, &list, GatheredBuffers { slots, codes, terms }).await?)
            }
            None => {
                request.scope().upload_bits(rows, &buffers.allowed).await?;
                None
            }
        };
        Ok(Self { rows, request, gathered, room, is_packed: bytes.thresholds == 0, lists: None, buffers })
    }

    /// The rows that are screened.
    pub(crate) fn screened(&self) -> &GpuRows {
        self.gathered.as_ref().unwrap_or(self.rows)
    }

    pub(crate) fn queries(&self) -> QueryBuffers<'_> {
        let SearchBuffers { queries: values, query_norms: norms, refused, .. } = &*self.buffers;
        QueryBuffers { values, norms, refused }
    }

    /// The number of candidates of each list, its threshold, and whether it lacks candidates.
    pub(crate) fn states(&self, lists: impl Into<ListRange>) -> [BufferSlice<'_>; 3] {
        let ListRange { first, count } = lists.into();
        let [first, bytes] = [first, count].map(|number| u64::from(number) * 4);
        let SearchBuffers { counts, thresholds, overflowed, .. } = &*self.buffers;
        if self.is_packed {
            let pitch = u64::from(self.state_pitch()) * 4;
            return [0, 1, 2].map(|kind| BufferSlice::range(counts, kind * pitch, bytes));
        }
        let slice = |buffer| match self.lists {
            Some(_) => BufferSlice::range(buffer, first, bytes),
            None => BufferSlice::all(buffer),
        };
        [counts, thresholds, overflowed].map(slice)
    }

    /// The candidates of lists, and how many candidates all lists have.
    fn candidates(&self, ListRange { first, count }: ListRange) -> (BufferSlice<'_>, u32) {
        let (buffer, capacity) = (&self.buffers.candidates, self.room.capacity);
        let Some(lists) = self.lists else { return (buffer.into(), count * capacity) };
        let [all, before] = [lists, first].map(|lists| u64::from(lists) * u64::from(capacity) * 4);
        (BufferSlice::range(buffer, before, 3 * all - before), lists * capacity)
    }

    /// Distance between the states of different kinds where one buffer has them all, in words.
    pub(crate) fn state_pitch(&self) -> u32 {
        (self.room.queries as u32).next_multiple_of(ALIGNED_WORDS as u32)
    }

    /// A bit for each slot: 1 for rows that may be found. None if all may be.
    pub(crate) fn allowed(&self) -> Option<&Buffer> {
        let bits = self.request.allowed.map(|_| &self.buffers.allowed).or(self.rows.alive_buffer());
        bits.filter(|_| self.gathered.is_none())
    }

    pub(crate) fn lists(&self, lists: impl Into<ListRange>) -> CandidateLists<'_> {
        let lists = lists.into();
        let (slots, counts) = (self.candidates(lists).0, self.states(lists)[0]);
        CandidateLists { slots, counts, capacity: self.room.capacity }
    }

    /// Lowers the threshold of each list to the k-th smallest upper end among its candidates, and drops candidates above it. With `is_exact`
    /// the distances of candidates are known.
    pub(crate) fn encode_tighten(
        &self,
        commands: &mut Commands<'_>,
        lists: impl Into<ListRange>,
        is_first: bool,
        is_exact: bool,
    ) -> Result<()> {
        let lists = lists.into();
        let ([counts, thresholds, overflowed], (candidates, plane)) =
            (self.states(lists), self.candidates(lists));
        let exact = &self.buffers.keys;
        let buffers = tighten::Buffers { thresholds, counts, candidates, overflowed, exact };
        let Room { k, capacity, .. } = self.room;
        let params = tighten::Params::new(lists.count, k, (capacity, plane), is_first);
        tighten::encode(commands, is_exact, &params, &buffers)
    }

    /// Replaces the intervals of the candidates by the distances that will be reported. The threshold is then the k-th of true distances,
    /// without the width of an interval, and fewer of the later rows reach it.
    pub(crate) fn encode_sharpen(
        &self,
        commands: &mut Commands<'_>,
        lists: impl Into<ListRange>,
    ) -> Result<()> {
        let lists = lists.into();
        commands.stage("sharpen");
        self.encode_refine(commands, lists)?;
        commands.stage("tighten");
        self.encode_tighten(commands, lists, false, true)
    }

    /// Computes the distances of the candidates as they are reported.
    pub(crate) fn encode_refine(
        &self,
        commands: &mut Commands<'_>,
        lists: impl Into<ListRange>,
    ) -> Result<()> {
        let lists = lists.into();
        let SearchBuffers { queries, keys, ids, .. } = &*self.buffers;
        let SearchRequest { metric, integral, .. } = *self.request;
        let queries = queries.into();
        let slots = self.gathered.as_ref().map(|gathered| {
            let entries = gathered.end();
            (BufferSlice::range(&self.buffers.allowed, 0, entries * 4), entries as u32)
        });
        let (count, candidates) = (lists.count, self.lists(lists).to_refine(slots));
        let found = keys_and_ids(keys, ids);
        self.rows.encode_refining(commands, &Refining { metric, queries, count, integral, candidates, found })
    }

    /// Selects the nearest candidates, submits, and reads them: what was refused, keys, ids and counts of the nearest, counts of candidates,
    /// flags of lists if there are any, and other ranges.
    pub(crate) fn submit(
        &self,
        mut commands: Commands<'_>,
        lists: impl Into<ListRange>,
        has_flags: bool,
        others: &[ReadRange<'_>],
    ) -> Result<Reading> {
        let lists = lists.into();
        let count = lists.count;
        commands.stage("refine");
        self.encode_refine(&mut commands, lists)?;
        commands.stage("select");
        let buffers = &*self.buffers;
        let SearchBuffers { selected_keys, selected_ids, selected_counts, spare_keys, spare_ids, .. } =
            buffers;
        let spare = [spare_keys, spare_ids];
        let selection = Selection::into(self.room.k, selected_keys, selected_ids, selected_counts, spare);
        let refined = keys_and_ids(&buffers.keys, &buffers.ids);
        selection.encode(&mut commands, refined, self.lists(lists).to_select(), count)?;
        let [counts, _, flags] = self.states(lists);
        let count = u64::from(count);
        let results = count * u64::from(self.room.k);
        let mut ranges = vec![
            (&buffers.refused, 0, 8),
            (selected_keys, 0, results * 4),
            (selected_ids, 0, results * 8),
            (selected_counts, 0, count * 4),
            (counts.buffer, counts.offset, count * 4),
            (flags.buffer, flags.offset, if has_flags { count * 4 } else { 0 }),
        ];
        ranges.extend_from_slice(others);
        commands.submit_with_readback(&ranges)
    }
}

/// The scratch buffers of a batch's queries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryBuffers<'a> {
    /// f32, padded as rows are.
    pub(crate) values: &'a Buffer,
    pub(crate) norms: &'a Buffer,
    /// Two words: see [`QueryNumbers::check`].
    pub(crate) refused: &'a Buffer,
}
impl<'a> QueryBuffers<'a> {
    /// Copies queries to the device, and records their norms and the check of their values.
    pub(crate) async fn begin(
        self,
        commands: &mut Commands<'_>,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
    ) -> Result<()> {
        commands.write((self.refused, 0), &NONE_REFUSED).await?;
        self.add(commands, queries, numbers, 0).await
    }

    /// The same for copies of the rows in the slots of a list.
    pub(crate) async fn begin_with_rows(
        self,
        commands: &mut Commands<'_>,
        rows: &GpuRows,
        list: (BufferSlice<'_>, usize),
    ) -> Result<()> {
        commands.write((self.refused, 0), &NONE_REFUSED).await?;
        rows.encode_copies(commands, list, self.values)?;
        self.prepare(commands, rows.dim, [0, list.1 as u32])
    }

    /// Copies a part of a batch's queries to the device, from place `first` on, and records their norms and the check of their values.
    pub(crate) async fn add(
        self,
        commands: &mut Commands<'_>,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        first: usize,
    ) -> Result<()> {
        queries.copy_to(commands, numbers, (self.values, first)).await?;
        self.prepare(commands, queries.dim(), [first as u32, (first + numbers.len()) as u32])
    }

    /// Records norms, and the check of values.
    fn prepare(self, commands: &mut Commands<'_>, dim: usize, range: [u32; 2]) -> Result<()> {
        commands.stage("prepare");
        let (norms, refused) = (self.norms.into(), self.refused.into());
        encode_norms(commands, self.vectors(dim), (range, range[0]), (norms, refused))
    }

    /// The queries as vectors.
    pub(crate) fn vectors(self, dim: usize) -> BufferVectors<'a> {
        BufferVectors {
            values: BufferSlice::all(self.values),
            layout: RowLayout::padded(ElementKind::F32, dim),
        }
    }
}
