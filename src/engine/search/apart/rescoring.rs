//! Candidates on their way from the device to the host, which computes their distances.

use crate::engine::device::queries::QueryNumbers;
use crate::engine::search::screening::Screening;
use crate::error::{Error, Result};
use crate::gpu::{Commands, Reading, words};
use crate::host::Shortlist;
use crate::memory;

/// Candidates that are read at least, because a short readback takes as long.
const LEAST: u64 = 4096;

/// The number of candidates that are read with their counts: the others take a second readback. It follows what earlier batches had.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Candidates of a query.
    each: u64,
}

impl Room {
    /// For the k nearest rows, before any batch.
    pub(super) fn of(k: u32) -> Self {
        Self { each: 4 * u64::from(k) + 32 }
    }

    fn of_batch(self, screening: &Screening<'_>, count: u64) -> u64 {
        (count * self.each).max(LEAST).min(count * u64::from(screening.capacity))
    }

    /// Notes how many candidates a batch had.
    fn note(&mut self, count: u64, all: u64) {
        self.each = (all + all / 4).div_ceil(count.max(1)) + 8;
    }
}

/// Candidates of a batch that the device collects.
pub(super) struct Candidates {
    pub(super) numbers: QueryNumbers,
    reading: Reading,
    /// Which of the two places the candidates are in.
    is_other: bool,
    room: u64,
}

/// What was read of a batch.
pub(super) struct Read {
    pub(super) numbers: QueryNumbers,
    /// Candidates of all queries.
    slots: Vec<u32>,
    /// Where those of each query start, and how many it has.
    places: Vec<(u32, u32)>,
    is_flagged: Vec<bool>,
}

/// Reads candidates of batch after batch, from two places in turn: a batch may be read a second time when the next one is submitted.
pub(super) struct Collector {
    room: Room,
    is_other: bool,
}

impl Collector {
    pub(super) fn new(room: Room) -> Self {
        Self { room, is_other: false }
    }

    /// Submits commands that made rows candidates, with the readback of those.
    pub(super) fn submit(
        &mut self,
        screening: &Screening<'_>,
        mut commands: Commands<'_>,
        numbers: QueryNumbers,
        has_flags: bool,
    ) -> Result<Candidates> {
        let count = numbers.len() as u64;
        let is_other = self.is_other;
        self.is_other = !is_other;
        screening.encode_compact(&mut commands, count as u32, is_other)?;
        let (room, flags) = (self.room.of_batch(screening, count), if has_flags { count * 4 } else { 0 });
        let buffers = &*screening.buffers;
        let [starts, compacted] = screening.compacted(is_other);
        let reading = commands.submit_with_readback(&[
            (&buffers.refused, 0, 8),
            (&buffers.counts, 0, count * 4),
            (&buffers.overflowed, 0, flags),
            (starts, 0, (1 + count) * 4),
            (compacted, 0, room * 4),
        ])?;
        Ok(Candidates { numbers, reading, is_other, room })
    }

    /// Waits for the candidates of a batch.
    pub(super) async fn read(&mut self, screening: &Screening<'_>, candidates: Candidates) -> Result<Read> {
        let Candidates { numbers, reading, is_other, room } = candidates;
        let gpu = &*screening.rows.gpu;
        let parts = reading.wait(gpu).await?;
        numbers.check(&parts[0])?;
        let mut starts = words::<u32>(&parts[3]);
        let all = u64::from(starts.next().unwrap_or(0));
        let mut slots = memory::with_room(all as usize)?;
        slots.extend(words::<u32>(&parts[4]).take(all as usize));
        if all > room {
            let [_, compacted] = screening.compacted(is_other);
            let rest = (compacted, room * 4, (all - room) * 4);
            let rest = Commands::new(gpu, None).read(&[rest]).await?;
            slots.extend(words::<u32>(&rest[0]));
        }
        self.room.note(numbers.len() as u64, all);
        let mut places = memory::with_room(numbers.len())?;
        places.extend(starts.zip(words::<u32>(&parts[1])));
        let is_flagged = words::<u32>(&parts[2]).map(|flag| flag != 0).collect();
        Ok(Read { numbers, slots, places, is_flagged })
    }
}

impl Read {
    /// The shortlists of queries, and those that have more candidates than their lists hold, each with their number.
    pub(super) fn shortlists(&self, capacity: u32) -> Result<(Vec<Shortlist<'_>>, Vec<(usize, u32)>)> {
        let mut shortlists = memory::with_room(self.places.len())?;
        let mut overflowed = vec![];
        for (place, (query, &(start, count))) in self.numbers.iter().zip(&self.places).enumerate() {
            if count > capacity || self.is_flagged.get(place).is_some_and(|&flag| flag) {
                overflowed.push((query, count));
                continue;
            }
            let slots = self.slots.get(start as usize..start as usize + count as usize);
            let missing = || Error::internal("a query's candidates were not read");
            shortlists.push(Shortlist { query, slots: slots.ok_or_else(missing)? });
        }
        Ok((shortlists, overflowed))
    }
}
