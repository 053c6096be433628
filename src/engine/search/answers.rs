//! Results as the device writes them, and the hits of all queries, which arrive in any order.

use std::ops::Range;

use crate::engine::search::request::SearchRequest;
use crate::error::Result;
use crate::gpu::words;
use crate::kernels::value_of;
use crate::memory;
use crate::neighbors::{Neighbor, Neighbors};

/// Results as the device writes them: keys and ids `[queries, pitch]`, and how many of the first k each query has.
pub(crate) struct Results {
    k: usize,
    pitch: usize,
    /// u32.
    keys: Vec<u8>,
    /// u64.
    ids: Vec<u8>,
    /// u32.
    counts: Vec<u8>,
}

impl Results {
    /// The results for up to k rows a query, `pitch` of them apart, from what was read of keys, ids and counts.
    pub(crate) fn new([k, pitch]: [usize; 2], [keys, ids, counts]: [Vec<u8>; 3]) -> Self {
        Self { k, pitch, keys, ids, counts }
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len() / 4
    }

    /// What each query found, nearest first: keys of distances, which for L2 are squares, and ids.
    pub(crate) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = (u32, u64)>> {
        let keys = self.keys.chunks((self.pitch * 4).max(4)).zip(self.ids.chunks((self.pitch * 8).max(8)));
        keys.zip(words::<u32>(&self.counts)).map(|((keys, ids), count)| {
            let many = self.k.min(count as usize);
            words(keys).zip(words(ids)).take(many)
        })
    }
}

/// The hits of each query.
pub(crate) struct Answers {
    hits: Vec<Neighbor>,
    /// Which of `hits` each query has.
    ranges: Vec<Range<usize>>,
}

impl Answers {
    /// No hits yet, with room for `hits` of them.
    pub(crate) fn new(queries: usize, hits: usize) -> Result<Self> {
        Ok(Self { hits: memory::with_room(hits)?, ranges: memory::filled(queries, 0..0)? })
    }

    /// Sets the hits of a query to what it found, as far as the request takes it. Later hits replace earlier ones.
    pub(crate) fn put(
        &mut self,
        query: usize,
        found: impl Iterator<Item = (u32, u64)>,
        request: &SearchRequest<'_>,
    ) -> Result<()> {
        let start = self.hits.len();
        memory::reserve_more(&mut self.hits, found.size_hint().1.unwrap_or_default())?;
        let hits = found.map(|(key, id)| Neighbor { id, distance: value_of(key) });
        self.hits.extend(hits.filter(|hit| request.takes(hit.distance)));
        self.ranges[query] = start..self.hits.len();
        Ok(())
    }

    pub(crate) fn len_of(&self, query: usize) -> usize {
        self.ranges[query].len()
    }

    /// The hits in the order of the queries.
    pub(crate) fn collected(self) -> Result<Neighbors> {
        let Self { hits, ranges } = self;
        let mut end = 0;
        let is_in_order = ranges.iter().all(|range| std::mem::replace(&mut end, range.end) == range.start);
        if is_in_order && end == hits.len() {
            return Ok(Neighbors::of(hits, &ranges));
        }
        let all = ranges.iter().map(Range::len).sum();
        let mut neighbors = Neighbors::with_room(ranges.len(), all)?;
        ranges.into_iter().for_each(|range| neighbors.push_row(hits[range].iter().copied()));
        Ok(neighbors)
    }
}
