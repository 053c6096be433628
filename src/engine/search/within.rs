//! All rows within a radius: the screening route with a fixed threshold.

use std::ops::Range;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::keys_and_ids;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::batch::{Batch, SearchBuffers, read_at_once, usual_entries};
use crate::engine::search::batches::{CandidateSource, Sink};
use crate::engine::search::exhaustive::Exhaustive;
use crate::engine::search::nearest::SearchState;
use crate::engine::search::plan::Plan;
use crate::engine::search::planning::is_selective;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::search::screening::Screening;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::gpu::{Commands, Reading, words};
use crate::kernels::{compact, value_of};
use crate::memory;

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
            let (mut overflowed, mut usual) = (vec![], 0);
            let mut before: Option<Listed> = None;
            for numbers in open.batches(plan.batch as usize) {
                let (reading, room) = within.submit(&screening, &numbers, usual, &mut state).await?;
                // The host sorts the rows of one batch while the device finds those of the next.
                if let Some(listed) = before.take() {
                    within.answer_all(listed, &mut state)?;
                }
                let mut listed = within.read(&screening, numbers, reading, room).await?;
                usual = usual_entries(listed.entries.len() as u64 / ENTRY_BYTES, listed.numbers);
                overflowed.append(&mut listed.overflowed);
                before = Some(listed);
            }
            if let Some(listed) = before {
                within.answer_all(listed, &mut state)?;
            }
            state.statistics.scored += open.len() as u64 * rows.end();
            state.statistics.searched_again += overflowed.len() as u64;
            capacity = overflowed.iter().map(|&(_, needed)| u64::from(needed)).fold(capacity, u64::max);
            capacity = capacity.next_power_of_two();
            open = QueryNumbers::List(overflowed.into_iter().map(|(number, _)| number).collect());
        }
        state.finish(rows).await
    })
}

/// Words of a row that was found: the key of its distance and its id.
const WORDS: u32 = 3;

const ENTRY_BYTES: u64 = WORDS as u64 * 4;

/// The rows that a batch of queries found.
struct Listed {
    /// Key and id of each, query by query.
    entries: Vec<u8>,
    /// How many queries the batch has.
    numbers: usize,
    /// The bytes of each query's rows.
    places: Vec<(usize, Range<usize>)>,
    /// Queries whose rows are not among them, and how many each has.
    overflowed: Vec<(usize, u32)>,
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

    /// Whether a row with this key is within the radius. Absent rows have the distance NaN, which is not below it.
    fn takes(&self, key: u32) -> bool {
        self.request.takes(value_of(key))
    }

    /// Submits a batch: collects candidates, computes their distances, and reads these with their ids, as many as the batch before had.
    /// Gives how many are read.
    async fn submit(
        &self,
        screening: &Screening<'_>,
        numbers: &QueryNumbers,
        usual: u64,
        state: &mut SearchState<'_>,
    ) -> Result<(Reading, u64)> {
        let Batch { room, buffers, .. } = &screening.batch;
        let SearchBuffers { refused, counts, keys, ids, selected_counts: starts, .. } = &**buffers;
        let count = numbers.len() as u32;
        let thresholds = vec![state.threshold(0); numbers.len()];
        let profile = state.profile.as_mut();
        let mut commands = screening.record(self.queries, numbers, Some(&thresholds), profile).await?;
        commands.stage("refine");
        screening.batch.encode_refine(&mut commands, count)?;
        commands.stage("compact");
        let lists = compact::Buffers {
            counts: counts.into(),
            heads: keys,
            rests: ids,
            starts,
            // Nobody needs the candidates any more, which take as many words.
            compacted: &buffers.candidates,
        };
        let params = compact::Params { queries: count, capacity: room.capacity, words: WORDS, offset: 0 };
        compact::encode(&mut commands, &params, &lists)?;
        let count = u64::from(count);
        let read = read_at_once(count, usual, room.capacity);
        let ranges = [
            (refused, 0, 8),
            (counts, 0, count * 4),
            (starts, 0, (1 + count) * 4),
            (&buffers.candidates, 0, read * ENTRY_BYTES),
        ];
        Ok((commands.submit_with_readback(&ranges)?, read))
    }

    /// Reads the rows of a batch, of which `room` are on their way.
    async fn read(
        &self,
        screening: &Screening<'_>,
        numbers: QueryNumbers,
        reading: Reading,
        room: u64,
    ) -> Result<Listed> {
        let gpu = &self.rows.gpu;
        let (mut parts, mut all, mut reserved) = (vec![], 0, Ok(()));
        let mut entries = vec![];
        let mut show = |number: usize, bytes: &[u8]| match number {
            3 => {
                // The range before begins with their number.
                let starts: Option<&Vec<u8>> = parts.get(2);
                all = starts.and_then(|starts| words::<u32>(starts).next()).map_or(0, u64::from);
                reserved = memory::reserve(&mut entries, (all * ENTRY_BYTES) as usize);
                if reserved.is_ok() {
                    entries.extend_from_slice(&bytes[..(all.min(room) * ENTRY_BYTES) as usize]);
                }
            }
            _ => parts.push(bytes.to_vec()),
        };
        reading.show(gpu, &mut show).await?;
        reserved?;
        numbers.check(&parts[0])?;
        if all > room {
            let rest = (&screening.batch.buffers.candidates, room * ENTRY_BYTES, (all - room) * ENTRY_BYTES);
            let mut show = |_, bytes: &[u8]| entries.extend_from_slice(bytes);
            Commands::new(gpu, None).read_each(&[rest], &mut show).await?;
        }
        let (mut places, mut overflowed) = (memory::with_room(numbers.len())?, vec![]);
        let starts = words::<u32>(&parts[2]).skip(1);
        for ((number, count), start) in numbers.iter().zip(words::<u32>(&parts[1])).zip(starts) {
            if count > screening.batch.room.capacity {
                overflowed.push((number, count));
            } else {
                let start = start as usize;
                places.push((
                    number,
                    start * ENTRY_BYTES as usize..(start + count as usize) * ENTRY_BYTES as usize,
                ));
            }
        }
        Ok(Listed { entries, numbers: numbers.len(), places, overflowed })
    }

    /// Sets the hits of a batch's queries.
    fn answer_all(&self, listed: Listed, state: &mut SearchState<'_>) -> Result<()> {
        let Listed { entries, places, .. } = listed;
        let answered = places.len();
        for (number, place) in places {
            let missing = || Error::internal("rows within the radius were not read");
            let found = words::<[u32; 3]>(entries.get(place).ok_or_else(missing)?);
            state.statistics.refined += found.len() as u64;
            let found = found.map(|[key, low, high]| (key, u64::from(low) | u64::from(high) << 32));
            self.answer(number, found.filter(|&(key, _)| self.takes(key)).collect(), &mut state.answers)?;
        }
        state.note_answered(answered);
        Ok(())
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
                let (keys, ids) = (&parts[1][from * 4..to * 4], &parts[2][from * 8..to * 8]);
                found.extend(words(keys).zip(words(ids)).filter(|&(key, _)| self.takes(key)));
            }
        }
        for (number, found) in numbers.iter().zip(found) {
            self.answer(number, found, answers)?;
        }
        Ok(())
    }
}
