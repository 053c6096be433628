//! Batches of a search in lists: scratch buffers, the probed lists of each query, candidates, and the nearest of them.

use crate::engine::device::queries::{Queries, QueryNumbers};
use crate::engine::lists::coarse::{CoarseBuffers, CoarseQueries};
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::plan::{ProbePlan, Way};
use crate::engine::lists::tables::ALIGNED_WORDS;
use crate::engine::pass::{CandidateLists, Rescoring, Selection, keys_and_ids};
use crate::engine::rows::narrowed::TERMS_BYTES;
use crate::engine::search::batches::QueryBuffers;
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, Profile, Reserved, scratch};
use crate::kernels::{BLOCK_ROWS, probe_slots, select_k};

scratch! {
    /// The scratch buffers of a batch.
    pub(crate) struct ProbeBuffers {
        queries, query_norms, refused, coarse_narrowed, coarse_terms, coarse_candidates, keys, ids, coarse_survivors,
        // First the scores of the coarse step.
        candidates,
        probed_keys, probed, probed_counts, states, selected_keys, selected_ids, selected_counts, spare_keys, spare_ids,
        allowed,
        // Used only by a screen.
        narrowed,
        // Used only by a screen list by list.
        list_counts, ranks, starts, blocks,
    }
}

/// A plan with its scratch buffers, which its batches use one after another.
pub(super) struct ProbeBatches<'a> {
    pub(super) probing: Probing<'a>,
    pub(super) plan: ProbePlan,
    pub(super) buffers: Reserved<ProbeBuffers>,
}

impl<'a> ProbeBatches<'a> {
    /// Takes the scratch buffers of a plan.
    pub(super) async fn reserve(probing: Probing<'a>, plan: ProbePlan) -> Result<Self> {
        let ProbePlan { coarse, batch, capacity, way, .. } = plan;
        let (rows, scope) = (probing.rows, probing.request.scope());
        let (count, k, capacity) = (u64::from(batch), u64::from(plan.k), u64::from(capacity));
        let coarse_bytes = coarse.bytes(probing.centroids);
        let pairs = count * u64::from(probing.probes);
        let (is_screened, is_by_list) = (way != Way::Rows, way == Way::Lists);
        let if_by_list = |bytes: u64| if is_by_list { bytes } else { 0 };
        let entries = count * capacity;
        let if_many = |many: u32| if many > select_k::SORTED_MAX { count * u64::from(many) } else { 0 };
        let spare = if_many(plan.k).max(if_many(probing.probes));
        let lists = u64::from(probing.lists());
        let padded = u64::from(coarse.batch);
        let screened = rows.narrowed.as_ref().filter(|_| is_screened);
        let terms = count.next_multiple_of(BLOCK_ROWS.into()) * TERMS_BYTES;
        let narrowed = screened.map_or(0, |narrowed| narrowed.plane_bytes(count) + terms);
        let bytes = ProbeBuffers {
            queries: padded * rows.query_bytes(),
            query_norms: padded * 8,
            refused: 8,
            coarse_narrowed: coarse_bytes.narrowed,
            coarse_terms: coarse_bytes.terms,
            coarse_candidates: coarse_bytes.candidates,
            candidates: coarse_bytes.scores.max(entries * if is_screened { 12 } else { 4 }),
            keys: coarse_bytes.keys.max(entries * 4),
            ids: coarse_bytes.ids.max(entries * 8),
            coarse_survivors: count * 4,
            probed_keys: pairs * 4,
            probed: pairs * 8,
            probed_counts: count * 4,
            states: 3 * count.next_multiple_of(ALIGNED_WORDS as u64) * 4,
            selected_keys: count * k * 4,
            selected_ids: count * k * 8,
            selected_counts: count * 4,
            spare_keys: spare * 4,
            spare_ids: spare * 8,
            allowed: scope.bits_bytes(),
            narrowed,
            list_counts: probing.count_words(way) * 4,
            ranks: if_by_list(count * u64::from(probing.longest_round()) * 4),
            starts: if_by_list((lists + 1) * 4),
            blocks: probing.table_bytes(way, batch),
        };
        let buffers = bytes.reserve(&rows.gpu).await?;
        scope.upload_bits(rows, &buffers.allowed).await?;
        Ok(Self { probing, plan, buffers })
    }

    /// Copies queries to the device, and begins a recording with their norms and the lists that each of them probes.
    pub(super) async fn begin<'c>(
        &'c self,
        queries: &Queries<'_>,
        numbers: &QueryNumbers,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let Probing { rows, centroids, probes, .. } = self.probing;
        let buffers = &*self.buffers;
        let ProbeBuffers { queries: values, query_norms: norms, refused, .. } = buffers;
        let batch = QueryBuffers { values, norms, refused };
        let mut commands = batch.begin(&rows.gpu, queries, numbers, profile).await?;
        let ProbeBuffers { coarse_narrowed: narrowed, coarse_terms: terms, .. } = buffers;
        let ProbeBuffers { candidates: scores, coarse_candidates: candidates, keys, ids, .. } = buffers;
        let scratch = CoarseBuffers { narrowed, terms, scores, candidates, keys, ids };
        let ProbeBuffers { probed_keys, probed, probed_counts, spare_keys, spare_ids, .. } = buffers;
        let spare = [spare_keys, spare_ids];
        let selection = Selection::into(probes, probed_keys, probed, probed_counts, spare);
        let count = numbers.len() as u32;
        let queries = CoarseQueries { vectors: batch.vectors(rows.dim), norms: norms.into(), count };
        let into = (selection, (&buffers.coarse_survivors).into());
        self.plan.coarse.encode(&mut commands, centroids, queries, &scratch, into)?;
        Ok(commands)
    }

    /// Distance between the states of different kinds, in words.
    pub(super) fn room(&self) -> u32 {
        self.plan.batch.next_multiple_of(ALIGNED_WORDS as u32)
    }

    /// The number of candidates of each query, its threshold, and whether it has too many candidates.
    pub(super) fn states(&self, count: u32) -> [BufferSlice<'_>; 3] {
        let bytes = u64::from(self.room()) * 4;
        [0, 1, 2].map(|kind| BufferSlice::range(&self.buffers.states, kind * bytes, u64::from(count) * 4))
    }

    /// A bit for each slot: 1 for the rows that may be found.
    fn allowed(&self) -> &Buffer {
        let Probing { rows, tables, request, .. } = self.probing;
        match request.allowed {
            Some(_) => &self.buffers.allowed,
            None => rows.alive_buffer().unwrap_or(&tables.full),
        }
    }

    /// Makes all rows of the probed lists candidates.
    pub(super) fn encode_all_rows(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        commands.stage("probe_slots");
        for (number, tables) in self.probing.tables.segments.iter().enumerate() {
            let params = probe_slots::Params {
                queries: count,
                probes: self.probing.probes,
                lists: self.probing.lists(),
                capacity: self.plan.capacity,
                is_first: (number == 0).into(),
            };
            let buffers = probe_slots::Buffers {
                probed: &self.buffers.probed,
                list_tiles: tables.starts(),
                tiles: tables.pages(),
                allowed: self.allowed(),
                counts: self.states(count)[0],
                candidates: &self.buffers.candidates,
            };
            probe_slots::encode(commands, &params, &buffers)?;
        }
        Ok(())
    }

    /// The candidates of each query.
    fn lists(&self, count: u32) -> CandidateLists<'_> {
        let (slots, counts) = ((&self.buffers.candidates).into(), self.states(count)[0]);
        CandidateLists { slots, counts, capacity: self.plan.capacity }
    }

    /// Computes the distances of the candidates.
    pub(super) fn encode_rescore(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let Probing { rows, request, .. } = self.probing;
        let found = keys_and_ids(&self.buffers.keys, &self.buffers.ids);
        let (metric, queries) = (request.metric, (&self.buffers.queries).into());
        let candidates = self.lists(count).to_rescore();
        rows.encode_rescoring(commands, &Rescoring { metric, queries, count, candidates, found })
    }

    /// Computes the distances of the candidates, and selects the nearest.
    pub(super) fn encode_results(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        commands.stage("rescore");
        self.encode_rescore(commands, count)?;
        commands.stage("select");
        let ProbeBuffers { selected_keys, selected_ids, selected_counts, spare_keys, spare_ids, .. } =
            &*self.buffers;
        let spare = [spare_keys, spare_ids];
        let selection = Selection::into(self.plan.k, selected_keys, selected_ids, selected_counts, spare);
        let found = keys_and_ids(&self.buffers.keys, &self.buffers.ids);
        selection.encode(commands, found, self.lists(count).to_select(), count)
    }
}
