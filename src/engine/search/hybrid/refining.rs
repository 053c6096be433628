//! Candidates on their way from the device to the host, which computes their distances.

use crate::elements::HostVectors;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::rows::hybrid::UsualCandidates;
use crate::engine::search::batch::{Batch, SearchBuffers, read_at_once, usual_entries};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Commands, ReadRange, Reading, words};
use crate::host::{Candidates, Hits, HostRequest, HostRows, SearchLimit, Shortlist};
use crate::kernels::compact;
use crate::memory;

/// Queries where the host reads them, checked, and their squared norms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) rows: &'a HostRows,
    pub(crate) queries: HostVectors<'a>,
    pub(crate) squared: &'a [f64],
    pub(crate) usual: &'a UsualCandidates,
}

/// Reads the candidates of batch after batch.
pub(crate) struct Collector<'a> {
    /// How many candidates of a query are read with their counts: the others take a second readback, which waits for the next batch.
    usual: &'a UsualCandidates,
    k: u32,
    /// Which of the two places is next.
    next: usize,
}

/// Candidates of a batch that the device collects.
pub(crate) struct Collecting {
    numbers: QueryNumbers,
    reading: Reading,
    place: usize,
    /// Candidates that are read with their counts.
    room: u64,
    words: u32,
}

/// The number of a query that has more candidates than its list holds, and how many it has.
pub(crate) type Overflowed = (usize, u32);

/// The candidates of a batch.
pub(crate) struct Collected {
    pub(crate) numbers: QueryNumbers,
    /// Those of all queries, with the lower ends of their intervals or without.
    bounded: Vec<[u32; 2]>,
    slots: Vec<u32>,
    /// Where those of each query start, and how many it has.
    places: Vec<(u32, u32)>,
    is_flagged: Vec<bool>,
    /// What else was read.
    pub(crate) others: Vec<Vec<u8>>,
}

impl<'a> Collector<'a> {
    /// For a search of the k nearest rows, or of all below a threshold if k is 0.
    pub(crate) fn new(k: u32, usual: &'a UsualCandidates) -> Self {
        Self { usual, k, next: 0 }
    }

    /// Submits commands that made rows candidates, and reads those, flags of lists that lack some if there are any, and other ranges.
    pub(crate) fn submit(
        &mut self,
        mut commands: Commands<'_>,
        numbers: QueryNumbers,
        batch: &Batch<'_>,
        has_flags: bool,
        others: &[ReadRange<'_>],
    ) -> Result<Collecting> {
        let SearchBuffers { refused, candidates, selected_counts: starts, .. } = &*batch.buffers;
        let (count, words) = (numbers.len() as u64, batch.room.candidate.words);
        let ([counts, _, flags], capacity) = (batch.states(count as u32), batch.room.capacity);
        let place = self.next;
        self.next = 1 - place;
        let compacted = compacted(batch, place);
        commands.stage("compact");
        // Slots, and behind those of all queries the lower ends of their intervals.
        let buffers = compact::Buffers { counts, heads: candidates, rests: candidates, starts, compacted };
        let (queries, offset) = (count as u32, count as u32 * capacity);
        compact::encode(&mut commands, &compact::Params { queries, capacity, words, offset }, &buffers)?;
        let room = read_at_once(count, self.usual.of(self.k), capacity);
        let mut ranges = vec![
            (refused, 0, 8),
            (counts.buffer, counts.offset, count * 4),
            (flags.buffer, flags.offset, if has_flags { count * 4 } else { 0 }),
            (starts, 0, (1 + count) * 4),
            (compacted, 0, room * u64::from(words) * 4),
        ];
        ranges.extend_from_slice(others);
        let reading = commands.submit_with_readback(&ranges)?;
        Ok(Collecting { numbers, reading, place, room, words })
    }

    /// Waits for the candidates of a batch.
    pub(crate) async fn read(&mut self, batch: &Batch<'_>, collecting: Collecting) -> Result<Collected> {
        let gpu = &batch.rows.gpu;
        let Collecting { numbers, reading, place, room, words: each } = collecting;
        let (mut bounded, mut slots) = (vec![], vec![]);
        let mut take = |bytes: &[u8], count: u64, rest: u64| -> Result<()> {
            let (count, all) = (count as usize, (count + rest) as usize);
            if each == 2 {
                memory::reserve_more(&mut bounded, all)?;
                bounded.extend(words::<[u32; 2]>(bytes).take(count));
            } else {
                memory::reserve_more(&mut slots, all)?;
                slots.extend(words::<u32>(bytes).take(count));
            }
            Ok(())
        };
        let (mut parts, mut all, mut taken) = (vec![], 0, Ok(()));
        let mut show = |number: usize, bytes: &[u8]| match number {
            4 => {
                // The range before begins with their number.
                all = parts
                    .get(3)
                    .and_then(|starts: &Vec<u8>| words::<u32>(starts).next())
                    .map_or(0, u64::from);
                taken = take(bytes, all.min(room), all.saturating_sub(room));
                parts.push(vec![]);
            }
            _ => parts.push(bytes.to_vec()),
        };
        reading.show(gpu, &mut show).await?;
        taken?;
        let others = parts.split_off(5);
        numbers.check(&parts[0])?;
        if all > room {
            let entry = u64::from(each) * 4;
            let rest = (compacted(batch, place), room * entry, (all - room) * entry);
            let rest = Commands::new(gpu, None).read(&[rest]).await?;
            take(&rest[0], all - room, 0)?;
        }
        self.usual.note(self.k, usual_entries(all, numbers.len()));
        let mut of_queries = memory::with_room(numbers.len())?;
        of_queries.extend(words::<u32>(&parts[3]).skip(1).zip(words::<u32>(&parts[1])));
        let is_flagged = words::<u32>(&parts[2]).map(|flag| flag != 0).collect();
        Ok(Collected { numbers, bounded, slots, places: of_queries, is_flagged, others })
    }
}

/// All candidates without room between them: in one of two places, because a batch may be read when the next one is submitted.
fn compacted<'b>(batch: &'b Batch<'_>, place: usize) -> &'b Buffer {
    [&batch.buffers.selected_keys, &batch.buffers.selected_ids][place]
}

impl Collected {
    /// The same candidates where the slots that the device counts start at this one.
    pub(crate) fn behind(mut self, first: u32) -> Self {
        let pairs = self.bounded.iter_mut().map(|[slot, _]| slot);
        self.slots.iter_mut().chain(pairs).for_each(|slot| *slot = slot.saturating_add(first));
        self
    }

    /// The candidates of each query, and the queries of whose candidates some are missing.
    pub(crate) fn shortlists(
        &self,
        has_overflowed: impl Fn(usize, u32) -> bool,
    ) -> Result<(Vec<Shortlist<'_>>, Vec<Overflowed>)> {
        let mut shortlists = memory::with_room(self.places.len())?;
        let mut overflowed = vec![];
        for (place, (query, &(start, count))) in self.numbers.iter().zip(&self.places).enumerate() {
            if has_overflowed(place, count) || self.is_flagged.get(place).is_some_and(|&flag| flag) {
                overflowed.push((query, count));
                continue;
            }
            let places = start as usize..start as usize + count as usize;
            let missing = || Error::internal("a query's candidates were not read");
            let bounded = self.bounded.get(places.clone()).map(Candidates::Bounded);
            let candidates = bounded.or_else(|| self.slots.get(places).map(Candidates::Slots));
            shortlists.push(Shortlist { query, candidates: candidates.ok_or_else(missing)? });
        }
        Ok((shortlists, overflowed))
    }
}

impl Asked<'_> {
    pub(crate) fn refined(self, shortlists: &[Shortlist<'_>], limit: SearchLimit) -> Result<Hits> {
        self.rows.refined((self.queries, self.squared), shortlists, limit)
    }

    /// What some of the queries find among all rows, by the host alone. Nobody holds scratch memory of the device meanwhile: the host's
    /// threads may be in searches that wait for it.
    pub(super) fn searched(self, numbers: &QueryNumbers, request: &HostRequest<'_>) -> Result<Hits> {
        let mut some = memory::with_room(numbers.len())?;
        some.extend(numbers.iter());
        let squared = memory::collect(some.iter().map(|&number| self.squared[number]))?;
        let queries = self.queries.chosen(&some)?;
        self.rows.search_checked(((&queries).into(), &squared), request)
    }
}
