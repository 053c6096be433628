//! All rows within a radius: the screening route with a fixed threshold.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::keys_and_ids;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::batch::Batch;
use crate::engine::search::batches::{CandidateSource, Sink};
use crate::engine::search::exhaustive::Exhaustive;
use crate::engine::search::nearest::SearchState;
use crate::engine::search::plan::Plan;
use crate::engine::search::planning::is_selective;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Commands, words};
use crate::kernels::value_of;

/// Candidates that a query's list holds in the first pass. A list that overflows tells how many it needs.
pub(crate) const CAPACITY: u64 = 4096;

pub(crate) fn search<'f>(
    rows: &'f GpuRows,
    queries: &'f Vectors<'f>,
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(async move {
        let mut state = SearchState::new(rows, queries.rows(), request)?;
        let within = Within { rows, queries, request };
        // Queries without an answer, and the capacity that their lists need.
        let mut open = QueryNumbers::Range(0..queries.rows());
        if request.scope().found(rows) == 0 {
            queries.check_values("queries")?;
            open = QueryNumbers::Range(0..0);
        }
        let mut capacity = CAPACITY;
        while open.len() > 0 {
            let Some(plan) = Plan::within(rows, open.len() as u64, capacity, request.scope()) else {
                let plan = Plan::exhaustive(rows, open.len() as u64, 1, request.scope())?;
                // If a filter allows few rows, exhaustive search is the normal route and not a fallback.
                if !is_selective(rows, request.scope()) {
                    state.statistics.searched_exhaustively += open.len() as u64;
                }
                state.statistics.scored += open.len() as u64 * request.scope().visited(rows);
                for numbers in open.batches(plan.batch as usize) {
                    within.exhaustive(&plan, &numbers, &mut state.answers).await?;
                    state.note_answered(numbers.len());
                }
                break;
            };
            let Some(screening) = Screening::reserve(rows, request, &plan).await? else { break };
            let mut overflowed = vec![];
            for numbers in open.batches(plan.batch as usize) {
                let needed = within.screened(&screening, &numbers, &mut state).await?;
                capacity = needed.iter().map(|(_, needed)| u64::from(*needed)).fold(capacity, u64::max);
                state.note_answered(numbers.len() - needed.len());
                overflowed.extend(needed.into_iter().map(|(number, _)| number));
            }
            state.statistics.scored += open.len() as u64 * rows.end();
            state.statistics.searched_again += overflowed.len() as u64;
            capacity = capacity.next_power_of_two();
            open = QueryNumbers::List(overflowed);
        }
        state.finish(rows).await
    })
}

/// A search for all rows within a radius.
struct Within<'a> {
    rows: &'a GpuRows,
    queries: &'a Vectors<'a>,
    request: &'a SearchRequest<'a>,
}

impl Within<'_> {
    /// Sets the hits of a query: the rows among these keys and ids that are within the radius, nearest first.
    fn answer(&self, number: usize, mut found: Vec<(u32, u64)>, answers: &mut Answers) -> Result<()> {
        // By keys, not by distances: squares may differ where their roots are equal.
        found.sort_unstable();
        answers.put(number, found.into_iter(), self.request)
    }

    /// The keys and ids of the rows within the radius. Absent rows have the distance NaN, which is not below it.
    fn within(&self, keys: &[u8], ids: &[u8]) -> impl Iterator<Item = (u32, u64)> {
        words(keys).zip(words(ids)).filter(|&(key, _)| self.request.takes(value_of(key)))
    }

    /// Answers a batch from candidates. Returns the queries whose candidates overflowed, with how many each has.
    async fn screened(
        &self,
        screening: &Screening<'_>,
        numbers: &QueryNumbers,
        state: &mut SearchState<'_>,
    ) -> Result<Vec<(usize, u32)>> {
        let gpu = &self.rows.gpu;
        let Batch { room, buffers, .. } = &screening.batch;
        let count = numbers.len() as u32;
        let thresholds = vec![state.threshold(0); numbers.len()];
        let profile = state.profile.as_mut();
        let mut commands = screening.record(self.queries, numbers, Some(&thresholds), profile).await?;
        commands.stage("refine");
        screening.batch.encode_refine(&mut commands, count)?;
        let ranges = [(&buffers.refused, 0, 8), (&buffers.counts, 0, u64::from(count) * 4)];
        let parts = commands.read(&ranges).await?;
        numbers.check(&parts[0])?;
        let counts: Vec<u32> = words(&parts[1]).collect();
        let fits = |&count: &u32| count <= room.capacity;
        let mut ranges = vec![];
        for (query, &found) in counts.iter().enumerate().filter(|(_, found)| fits(found)) {
            let first = query as u64 * u64::from(room.capacity);
            ranges.push((&buffers.keys, first * 4, u64::from(found) * 4));
            ranges.push((&buffers.ids, first * 8, u64::from(found) * 8));
        }
        let mut read = Commands::new(gpu, None).read(&ranges).await?.into_iter();
        let mut overflowed = vec![];
        for (number, found) in numbers.iter().zip(&counts) {
            if !fits(found) {
                overflowed.push((number, *found));
                continue;
            }
            let (Some(keys), Some(ids)) = (read.next(), read.next()) else { break };
            state.statistics.refined += u64::from(*found);
            self.answer(number, self.within(&keys, &ids).collect(), &mut state.answers)?;
        }
        Ok(overflowed)
    }

    /// Answers a batch from the distances of all rows, chunk after chunk.
    async fn exhaustive(&self, plan: &Plan, numbers: &QueryNumbers, answers: &mut Answers) -> Result<()> {
        let Self { rows, queries, request, .. } = self;
        let count = numbers.len() as u32;
        let batch = Exhaustive::reserve(rows, request, plan, count, None).await?;
        let (buffers, pitch) = (&*batch.buffers, batch.pitch as usize);
        let mut commands = Some(batch.begin(queries, numbers, None).await?);
        let mut found = vec![vec![]; numbers.len()];
        for stretch in batch.stretches() {
            let mut recording = commands.take().unwrap_or_else(|| Commands::new(&rows.gpu, None));
            let place = keys_and_ids(&buffers.keys, &buffers.ids);
            batch.encode_chunk(&mut recording, stretch, 0, place)?;
            let entries = u64::from(count) * u64::from(batch.pitch);
            let ranges =
                [(&buffers.refused, 0, 8), (&buffers.keys, 0, entries * 4), (&buffers.ids, 0, entries * 8)];
            let parts = recording.read(&ranges).await?;
            numbers.check(&parts[0])?;
            for (place, found) in found.iter_mut().enumerate() {
                let from = place * pitch;
                let to = from + stretch.count as usize;
                found.extend(self.within(&parts[1][from * 4..to * 4], &parts[2][from * 8..to * 8]));
            }
        }
        for (number, found) in numbers.iter().zip(found) {
            self.answer(number, found, answers)?;
        }
        Ok(())
    }
}
