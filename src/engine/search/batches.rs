//! Runs batches of queries: finds candidates, refines them on the device or on the host, and takes the nearest. Two batches are in flight.

use std::collections::VecDeque;
use std::mem::take;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::search::answers::Results;
use crate::engine::search::batch::{Batch, ListRange};
use crate::engine::search::request::Statistics;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::{
    rows::hybrid::windows::give_way,
    search::hybrid::refining::{Asked, Collecting, Collector},
};
use crate::error::Result;
use crate::gpu::{Commands, Profile, ReadRange, Reading, words};

/// Batches that are submitted before the first of them is read. They share scratch buffers, because the device runs them in order.
const IN_FLIGHT: usize = 2;

/// A way to find candidates.
pub(crate) trait CandidateSource {
    fn batch(&self) -> &Batch<'_>;

    /// Copies queries to the device, and records what makes rows candidates. Much of it is submitted. With thresholds, keys of distances,
    /// rows above a query's threshold are none; otherwise rows are candidates that may be among the k nearest.
    async fn record<'c>(
        &'c self,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        thresholds: Option<&[u32]>,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>>;

    /// Whether flags tell which lists lack candidates. Otherwise their counts tell.
    fn has_flags(&self) -> bool;

    /// The lists of a batch's queries.
    fn lists(&self, numbers: &QueryNumbers) -> ListRange {
        (numbers.len() as u32).into()
    }

    /// What else is read of `count` queries.
    fn others(&self, _count: u32) -> Vec<ReadRange<'_>> {
        vec![]
    }

    /// Whether what else was read tells that the query at a place of the batch has no full answer.
    fn is_incomplete(&self, _others: &[Vec<u8>], _place: usize) -> bool {
        false
    }

    /// Rows with a score or a distance, of this many queries with `refined` distances.
    fn scored(&self, queries: u64, refined: u64, others: &[Vec<u8>]) -> u64;
}

/// Takes the answers of queries.
pub(crate) trait Sink {
    fn profile(&mut self) -> Option<&mut Profile>;

    fn statistics(&mut self) -> &mut Statistics;

    /// The largest key of a distance that a candidate of this query may have.
    fn threshold(&self, query: usize) -> u32;

    /// Takes the rows of a query: keys of their distances, which for L2 are squares, and their ids, ascending.
    fn put(&mut self, query: usize, found: impl Iterator<Item = (u32, u64)>) -> Result<()>;

    /// Counts queries that have their answers now, and reports progress.
    fn note_answered(&mut self, queries: usize);
}

/// A search through batches with one plan.
pub(crate) struct Pass<'a, S, T> {
    source: S,
    queries: &'a Vectors<'a>,
    sink: &'a mut T,
    is_within: bool,
    #[cfg(not(target_arch = "wasm32"))]
    host: Option<OnHost<'a>>,
    again: Again,
}

/// The queries that have to be searched again.
#[derive(Debug, Default)]
pub(crate) struct Again {
    pub(crate) queries: Vec<usize>,
    /// Candidates that one of them has, at most, where the host refines.
    pub(crate) most: u64,
}

#[cfg(not(target_arch = "wasm32"))]
/// The host, where it computes distances.
struct OnHost<'a> {
    asked: Asked<'a>,
    collector: Collector<'a>,
    /// The first slot of a window of its rows; none where the device screens all rows.
    window: Option<u32>,
}

/// A batch that the device works on: its nearest rows, or candidates that the host refines.
enum Pending {
    Found(QueryNumbers, Reading),
    #[cfg(not(target_arch = "wasm32"))]
    Candidates(Collecting),
}

impl<'a, S: CandidateSource, T: Sink> Pass<'a, S, T> {
    /// The nearest rows, by the device.
    pub(crate) fn new(source: S, queries: &'a Vectors<'a>, sink: &'a mut T) -> Self {
        Self {
            source,
            queries,
            sink,
            is_within: false,
            #[cfg(not(target_arch = "wasm32"))]
            host: None,
            again: Again::default(),
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    /// The host computes distances: of the nearest rows, or of all within the sink's thresholds. The device's slots are those of a window of
    /// the host's rows, if it has a first slot.
    pub(crate) fn on_host(mut self, asked: Asked<'a>, is_within: bool, window: Option<u32>) -> Self {
        let k = if is_within { 0 } else { self.source.batch().room.k };
        (self.is_within, self.host) =
            (is_within, Some(OnHost { asked, collector: Collector::new(k, asked.usual), window }));
        self
    }

    /// Runs batches in order. The device works on one batch while the host prepares the next and reads the last.
    pub(crate) async fn run(mut self, queries: &QueryNumbers, at_once: u32) -> Result<Again> {
        let mut batches = queries.batches(at_once as usize).into_iter();
        let mut pending = VecDeque::new();
        loop {
            while pending.len() < IN_FLIGHT
                && let Some(numbers) = batches.next()
            {
                pending.push_back(self.submit(numbers).await?);
            }
            match pending.pop_front() {
                Some(Pending::Found(numbers, reading)) => self.finish(&numbers, reading).await?,
                #[cfg(not(target_arch = "wasm32"))]
                Some(Pending::Candidates(collecting)) => self.refine(collecting).await?,
                None => break,
            }
        }
        self.sink.statistics().searched_again += self.again.queries.len() as u64;
        Ok(self.again)
    }

    /// Submits a batch, without waiting for the device.
    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Pending> {
        let Self { source, queries, sink, is_within, .. } = self;
        let thresholds: Option<Vec<u32>> =
            is_within.then(|| numbers.iter().map(|query| sink.threshold(query)).collect());
        let count = numbers.len() as u32;
        let commands = source.record(queries, &numbers, thresholds.as_deref(), sink.profile()).await?;
        let (has_flags, others) = (source.has_flags() && !*is_within, source.others(count));
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(host) = &mut self.host {
            let collecting = host.collector.submit(commands, numbers, source.batch(), has_flags, &others)?;
            return Ok(Pending::Candidates(collecting));
        }
        let lists = source.lists(&numbers);
        let reading = source.batch().submit(commands, lists, has_flags, &others)?;
        Ok(Pending::Found(numbers, reading))
    }

    /// Takes the nearest rows of a batch.
    async fn finish(&mut self, numbers: &QueryNumbers, reading: Reading) -> Result<()> {
        let Self { source, sink, again, .. } = self;
        let Batch { rows, room, .. } = source.batch();
        let mut parts = reading.wait(&rows.gpu).await?;
        numbers.check(&parts[0])?;
        let found = Results::new([room.k as usize; 2], [1, 2, 3].map(|part| take(&mut parts[part])));
        let (mut flags, others) = (words::<u32>(&parts[5]), &parts[6..]);
        let (before, mut refined) = (again.queries.len(), 0);
        let results = numbers.iter().zip(found.rows()).zip(words::<u32>(&parts[4])).enumerate();
        for (place, ((number, row), count)) in results {
            let is_flagged = flags.next().is_some_and(|flag| flag != 0);
            if is_flagged || count > room.capacity || source.is_incomplete(others, place) {
                again.queries.push(number);
                continue;
            }
            refined += u64::from(count);
            sink.put(number, row)?;
        }
        let answered = numbers.len() - (again.queries.len() - before);
        Self::note(sink, (answered, refined), source.scored(numbers.len() as u64, refined, others));
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    /// Answers a batch whose candidates the host compares with its queries.
    async fn refine(&mut self, collecting: Collecting) -> Result<()> {
        let Self { source, sink, host, again, .. } = self;
        let Some(OnHost { asked, collector, window }) = host else {
            return Err(crate::error::Error::internal("candidates without the host's rows"));
        };
        let batch = source.batch();
        let mut collected = collector.read(batch, collecting).await?;
        if let Some(first) = *window {
            collected = collected.behind(first);
            // The device would be idle if the next window were not sent while the host computes.
            give_way().await;
        }
        let others = take(&mut collected.others);
        let is_full =
            |place: usize, count| count > batch.room.capacity || source.is_incomplete(&others, place);
        let (shortlists, too_many) = collected.shortlists(is_full)?;
        let hits = asked.refined(&shortlists, batch.request.limit())?;
        for (shortlist, row) in shortlists.iter().zip(hits.iter()) {
            sink.put(shortlist.query, row.iter().copied())?;
        }
        for (query, count) in too_many {
            again.queries.push(query);
            again.most = again.most.max(count.into());
        }
        let scored = source.scored(collected.numbers.len() as u64, hits.refined, &others);
        Self::note(sink, (shortlists.len(), hits.refined), scored);
        Ok(())
    }

    fn note(sink: &mut T, (answered, refined): (usize, u64), scored: u64) {
        let statistics = sink.statistics();
        statistics.refined += refined;
        statistics.scored += scored;
        sink.note_answered(answered);
    }
}
