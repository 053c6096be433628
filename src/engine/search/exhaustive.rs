//! The exhaustive route: `refine` computes every distance. It serves small indexes, large k, and queries whose candidates overflowed,
//! because it works for any data.

use std::mem::take;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::{Refining, Selection, keys_and_ids};
use crate::engine::rows::allowed::{Stretch, Visited};
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Results;
use crate::engine::search::batch::QueryBuffers;
use crate::engine::search::plan::{Plan, Route};
use crate::engine::search::request::SearchRequest;
use crate::error::{Error, Result};
use crate::gpu::{Commands, Profile, Reserved, scratch};
use crate::kernels::select_k::{self, Selected};

scratch! {
    /// The scratch buffers of an exhaustive batch. Distances are computed into one of two places behind the k best so far, and
    /// the k best of them are selected into the other.
    pub(crate) struct ExhaustiveBuffers {
        queries, query_norms, refused, counts, keys, ids, other_keys, other_ids, spare_keys, spare_ids, allowed,
    }
}

/// The rows and scratch buffers of an exhaustive batch.
pub(crate) struct Exhaustive<'a> {
    rows: &'a GpuRows,
    request: &'a SearchRequest<'a>,
    visited: Visited<'a>,
    chunk_rows: u32,
    /// Distance between the results of two queries.
    pub(crate) pitch: u32,
    count: u32,
    pub(crate) buffers: Reserved<ExhaustiveBuffers>,
}

impl<'a> Exhaustive<'a> {
    /// Takes the scratch buffers of a batch, with a place for `kept` results of each query before those of a chunk. Two more places are
    /// taken if results are selected.
    pub(crate) async fn reserve(
        rows: &'a GpuRows,
        request: &'a SearchRequest<'a>,
        plan: &Plan,
        count: u32,
        kept: Option<u32>,
    ) -> Result<Self> {
        let Route::Exhaustive { chunk_rows } = plan.route else {
            return Err(Error::internal("a screening plan cannot run exhaustively"));
        };
        let pitch = kept.unwrap_or(0) + chunk_rows;
        let queries = u64::from(count);
        let place = queries * u64::from(pitch);
        let other = if kept.is_some() { place } else { 0 };
        let spare = if plan.k > select_k::SORTED_MAX { other } else { 0 };
        let bytes = ExhaustiveBuffers {
            queries: queries * rows.query_bytes(),
            query_norms: queries * 8,
            refused: 8,
            counts: queries * 4,
            keys: place * 4,
            ids: place * 8,
            other_keys: other * 4,
            other_ids: other * 8,
            spare_keys: spare * 4,
            spare_ids: spare * 8,
            allowed: request.scope().list_bytes(),
        };
        let buffers = bytes.reserve(&rows.gpu).await?;
        let visited = Visited::new(rows, request.scope());
        visited.upload(&buffers.allowed).await?;
        Ok(Self { rows, request, visited, chunk_rows, pitch, count, buffers })
    }

    /// Copies queries to the device, and begins a recording with their norms.
    pub(crate) async fn begin<'c>(
        &'c self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let ExhaustiveBuffers { queries: values, query_norms: norms, refused, .. } = &*self.buffers;
        let mut commands = Commands::new(&self.rows.gpu, profile);
        QueryBuffers { values, norms, refused }.begin(&mut commands, queries, numbers).await?;
        Ok(commands)
    }

    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        self.visited.stretches(self.chunk_rows)
    }

    /// Records the distances of a chunk, written behind the first `kept` results of each query.
    pub(crate) fn encode_chunk(
        &self,
        commands: &mut Commands<'_>,
        stretch: Stretch,
        kept: u32,
        found: Selected<'_>,
    ) -> Result<()> {
        let candidates = self.visited.candidates(stretch, [self.pitch, kept], &self.buffers.allowed);
        let SearchRequest { metric, integral, .. } = *self.request;
        let (queries, count) = ((&self.buffers.queries).into(), self.count);
        let refining = Refining { metric, queries, count, integral, candidates, found };
        refining.encode(commands, self.rows.segments[stretch.segment].table(self.rows.layout)?, true)
    }
}

/// Computes every distance of a batch, chunk after chunk, and keeps the k best so far in front of each chunk.
pub(crate) async fn exhaustive(
    rows: &GpuRows,
    queries: &Vectors<'_>,
    numbers: &QueryNumbers,
    request: &SearchRequest<'_>,
    plan: &Plan,
    profile: Option<&mut Profile>,
) -> Result<Results> {
    let (count, k) = (numbers.len() as u32, plan.k);
    let batch = Exhaustive::reserve(rows, request, plan, count, Some(k)).await?;
    let buffers = &*batch.buffers;
    let pitch = batch.pitch;
    let mut commands = batch.begin(queries, numbers, profile).await?;
    let mut from = (&buffers.keys, &buffers.ids);
    let mut to = (&buffers.other_keys, &buffers.other_ids);
    let mut kept = 0;
    let stretches = batch.stretches();
    for (number, &stretch) in stretches.iter().enumerate() {
        let place = keys_and_ids(from.0, from.1);
        commands.stage("refine");
        batch.encode_chunk(&mut commands, stretch, kept, place)?;
        commands.stage("select");
        let selection = Selection {
            k,
            selected: keys_and_ids(to.0, to.1),
            // The last results lie side by side, to be read at once: a copy for each query takes the driver some microseconds.
            pitch: if number + 1 == stretches.len() { k } else { pitch },
            counts: (&buffers.counts).into(),
            spare: Some(keys_and_ids(&buffers.spare_keys, &buffers.spare_ids)),
        };
        let rows = select_k::Rows::Equal { length: kept + stretch.count, pitch };
        selection.encode(&mut commands, place, rows, count)?;
        (from, to) = (to, from);
        kept = k;
        commands = commands.submit_and_go_on().await?;
    }
    let (keys, ids) = from;
    let queries = u64::from(count);
    let results = queries * u64::from(k);
    let ranges = [
        (&buffers.refused, 0, 8),
        (&buffers.counts, 0, queries * 4),
        (keys, 0, results * 4),
        (ids, 0, results * 8),
    ];
    let mut parts = commands.read(&ranges).await?;
    numbers.check(&parts[0])?;
    Ok(Results::new([k as usize; 2], [2, 3, 1].map(|part| take(&mut parts[part]))))
}
