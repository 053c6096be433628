//! Batches of a search in lists: scratch buffers, the probed lists of each query, candidates, and the nearest of them.

use crate::elements::ElementKind;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::coarse::{CoarseBuffers, CoarseQueries};
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::needs::{ProbeBuffers, ProbePlan, Way};
use crate::engine::lists::tables::ALIGNED_WORDS;
use crate::engine::pass::{BufferVectors, CandidateLists, Refining, Selection, keys_and_ids, reset_refused};
use crate::engine::search::batches::QueryBuffers;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::search::hybrid::refining::CandidatePlaces;
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, Profile, Reserved, RowLayout};
use crate::kernels::probe_slots;
use crate::kernels::select_k::Selected;

/// A plan with its scratch buffers, which its batches use one after another.
pub(super) struct ProbeBatches<'a> {
    pub(super) probing: Probing<'a>,
    pub(super) plan: ProbePlan,
    pub(super) buffers: Reserved<ProbeBuffers>,
}

impl<'a> ProbeBatches<'a> {
    pub(super) async fn reserve(probing: Probing<'a>, plan: ProbePlan) -> Result<Self> {
        let (rows, scope) = (probing.rows, probing.request.scope());
        let buffers = ProbeBuffers::of(&probing, &plan).reserve(&rows.gpu).await?;
        scope.upload_bits(rows, &buffers.allowed).await?;
        Ok(Self { probing, plan, buffers })
    }

    /// Copies queries to the device, and begins a recording with their norms and the lists that each of them probes. The device finds the
    /// lists of some queries while the next ones are on their way.
    pub(super) async fn begin<'c>(
        &'c self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let rows = self.probing.rows;
        let ProbeBuffers { queries: values, query_norms: norms, refused, .. } = &*self.buffers;
        let batch = QueryBuffers { values, norms, refused };
        reset_refused(&rows.gpu, refused).await?;
        let mut commands = Commands::new(&rows.gpu, profile);
        let mut first = 0;
        for part in numbers.batches(self.plan.coarse.batch as usize) {
            if first > 0 {
                commands.submit_and_go_on().await?;
            }
            batch.add(&mut commands, queries, &part, first).await?;
            self.encode_coarse(&mut commands, first, part.len() as u32)?;
            first += part.len();
        }
        Ok(commands)
    }

    /// Records the search for the lists of `count` queries from place `first` on.
    fn encode_coarse(&self, commands: &mut Commands<'_>, first: usize, count: u32) -> Result<()> {
        let Probing { rows, centroids, probes, .. } = self.probing;
        let slice =
            |buffer, each: u64| BufferSlice::range(buffer, first as u64 * each, u64::from(count) * each);
        let ProbeBuffers { coarse_quantized: quantized, coarse_terms: terms, .. } = &*self.buffers;
        let ProbeBuffers { candidates: scores, coarse_candidates: candidates, keys, ids, .. } =
            &*self.buffers;
        let scratch = CoarseBuffers { quantized, terms, scores, candidates, keys, ids };
        let ProbeBuffers { probed_keys, probed, probed_counts, spare_keys, spare_ids, .. } = &*self.buffers;
        let pairs = u64::from(probes);
        let selection = Selection {
            k: probes,
            selected: Selected { keys: slice(probed_keys, pairs * 4), ids: slice(probed, pairs * 8) },
            pitch: probes,
            counts: slice(probed_counts, 4),
            spare: Some(keys_and_ids(spare_keys, spare_ids)),
        };
        let layout = RowLayout::padded(ElementKind::F32, rows.dim);
        let ProbeBuffers { queries, query_norms, coarse_survivors, .. } = &*self.buffers;
        let vectors = BufferVectors { values: slice(queries, layout.row_bytes()), layout };
        let queries = CoarseQueries { vectors, norms: slice(query_norms, 8), count };
        self.plan.coarse.encode(
            commands,
            centroids,
            queries,
            &scratch,
            (selection, slice(coarse_survivors, 4)),
        )
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

    fn lists(&self, count: u32) -> CandidateLists<'_> {
        let (slots, counts) = ((&self.buffers.candidates).into(), self.states(count)[0]);
        CandidateLists { slots, counts, capacity: self.plan.capacity }
    }

    pub(super) fn encode_refine(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let Probing { rows, request, .. } = self.probing;
        let found = keys_and_ids(&self.buffers.keys, &self.buffers.ids);
        let (metric, queries) = (request.metric, (&self.buffers.queries).into());
        let candidates = self.lists(count).to_refine();
        rows.encode_refining(commands, &Refining { metric, queries, count, candidates, found })
    }

    #[cfg(not(target_arch = "wasm32"))]
    /// The candidates of a batch, where the host reads them.
    pub(super) fn places(&self, count: u32) -> CandidatePlaces<'_> {
        let [counts, _, flags] = self.states(count);
        let buffers = &*self.buffers;
        CandidatePlaces {
            refused: &buffers.refused,
            counts,
            flags: (self.plan.way != Way::Rows).then_some(flags),
            lists: &buffers.candidates,
            capacity: self.plan.capacity,
            starts: &buffers.selected_counts,
            words: 1,
            compacted: [&buffers.selected_keys, &buffers.selected_ids],
        }
    }

    /// Computes the distances of the candidates, and selects the nearest.
    pub(super) fn encode_results(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        commands.stage("refine");
        self.encode_refine(commands, count)?;
        commands.stage("select");
        let ProbeBuffers { selected_keys, selected_ids, selected_counts, spare_keys, spare_ids, .. } =
            &*self.buffers;
        let spare = [spare_keys, spare_ids];
        let selection = Selection::into(self.plan.k, selected_keys, selected_ids, selected_counts, spare);
        let found = keys_and_ids(&self.buffers.keys, &self.buffers.ids);
        selection.encode(commands, found, self.lists(count).to_select(), count)
    }
}
