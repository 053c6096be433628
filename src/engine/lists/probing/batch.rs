//! Batches of a search in lists: the probed lists of each query, and all of their rows as candidates.

use crate::elements::{ElementKind, HostVectors};
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::coarse::{CoarseBuffers, CoarseQueries};
use crate::engine::lists::probing::Probing;
use crate::engine::lists::probing::needs::ProbePlan;
use crate::engine::pass::{BufferVectors, NONE_REFUSED, Selection, encode_norms, keys_and_ids};
use crate::engine::search::batch::{Batch, SearchBuffers};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Profile, RowLayout};
use crate::kernels::probe_slots;
use crate::kernels::select_k::Selected;
use crate::memory;

/// A plan with its scratch buffers, which its batches use one after another.
pub(super) struct ProbeBatches<'a> {
    pub(super) probing: Probing<'a>,
    pub(super) plan: ProbePlan,
    pub(super) batch: Batch<'a>,
}

impl<'a> ProbeBatches<'a> {
    pub(super) async fn reserve(probing: Probing<'a>, plan: ProbePlan) -> Result<Self> {
        let (room, bytes) = (probing.room(&plan), probing.buffers(&plan));
        let batch = Batch::reserve((probing.rows, None), probing.request, room, bytes).await?;
        Ok(Self { probing, plan, batch })
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
        let batch = self.batch.queries();
        let mut commands = Commands::new(&rows.gpu, profile);
        commands.write((batch.refused, 0), &NONE_REFUSED).await?;
        let mut first = 0;
        for part in numbers.batches(self.plan.coarse.batch as usize) {
            if first > 0 {
                commands = commands.submit_and_go_on().await?;
            }
            batch.add(&mut commands, queries, &part, first).await?;
            if self.probing.of_bits() {
                let Vectors::Host(queries) = queries else {
                    return Err(Error::internal("queries of bits for lists are on a device"));
                };
                self.add_bits(&mut commands, *queries, &part).await?;
            }
            self.encode_coarse(&mut commands, first, part.len() as u32)?;
            first += part.len();
        }
        Ok(commands)
    }

    /// Copies queries of bits to the device as centroids see them, with their norms.
    async fn add_bits(
        &self,
        commands: &mut Commands<'_>,
        queries: HostVectors<'_>,
        numbers: &QueryNumbers,
    ) -> Result<()> {
        let SearchBuffers { coarse_queries, coarse_norms, refused, .. } = &*self.batch.buffers;
        let layout = self.probing.centroids.layout();
        let mut list = memory::with_room(numbers.len())?;
        list.extend(numbers.iter());
        let chosen = queries.chosen(&list)?;
        if let Some(bits) = HostVectors::from(&chosen).as_numbers()? {
            commands.upload_rows((coarse_queries, 0), layout, (&bits).into()).await?;
        }
        let vectors = BufferVectors { values: coarse_queries.into(), layout };
        let range = ([0, numbers.len() as u32], 0);
        encode_norms(commands, vectors, range, (coarse_norms.into(), refused.into()))
    }

    /// Records the search for the lists of `count` queries from place `first` on.
    fn encode_coarse(&self, commands: &mut Commands<'_>, first: usize, count: u32) -> Result<()> {
        let Probing { rows, centroids, probes, .. } = self.probing;
        let slice =
            |buffer, each: u64| BufferSlice::range(buffer, first as u64 * each, u64::from(count) * each);
        let buffers = &*self.batch.buffers;
        let SearchBuffers { coarse_quantized: quantized, coarse_terms: terms, keys, ids, .. } = buffers;
        let SearchBuffers { candidates: scores, coarse_candidates: candidates, .. } = buffers;
        let scratch = CoarseBuffers { quantized, terms, scores, candidates, keys, ids };
        let SearchBuffers { probed_keys, probed, probed_counts, spare_keys, spare_ids, .. } = buffers;
        let pairs = u64::from(probes);
        let selection = Selection {
            k: probes,
            selected: Selected { keys: slice(probed_keys, pairs * 4), ids: slice(probed, pairs * 8) },
            pitch: probes,
            counts: slice(probed_counts, 4),
            spare: Some(keys_and_ids(spare_keys, spare_ids)),
        };
        let SearchBuffers { queries, query_norms, coarse_survivors, .. } = buffers;
        let queries = match self.probing.of_bits() {
            true => {
                let layout = centroids.layout();
                let vectors = BufferVectors { values: (&buffers.coarse_queries).into(), layout };
                CoarseQueries { vectors, norms: (&buffers.coarse_norms).into(), count }
            }
            false => {
                let layout = RowLayout::padded(ElementKind::F32, rows.dim);
                let vectors = BufferVectors { values: slice(queries, layout.row_bytes()), layout };
                CoarseQueries { vectors, norms: slice(query_norms, 8), count }
            }
        };
        self.plan.coarse.encode(
            commands,
            centroids,
            queries,
            &scratch,
            (selection, slice(coarse_survivors, 4)),
        )
    }

    /// A bit for each slot, and whether some rows may not be found.
    pub(super) fn bits(&self) -> (BufferSlice<'_>, bool) {
        let bits = self.batch.allowed();
        (bits.unwrap_or(&self.probing.tables.full).into(), bits.is_some())
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
                probed: &self.batch.buffers.probed,
                list_tiles: tables.starts(),
                tiles: tables.pages(),
                allowed: self.batch.allowed().unwrap_or(&self.probing.tables.full),
                counts: self.batch.states(count)[0],
                candidates: &self.batch.buffers.candidates,
            };
            probe_slots::encode(commands, &params, &buffers)?;
        }
        Ok(())
    }
}
