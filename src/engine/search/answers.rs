//! Answers on their way to the caller: results as the device has them, and the hits of all queries, which come in any order.

use std::ops::Range;

use crate::engine::search::pipeline::distance_of;
use crate::metric::Metric;
use crate::neighbors::{Neighbor, Neighbors};

/// Rows of results from the device: keys and ids `[queries, pitch]`, and how many of the first k are there.
pub(crate) struct Results {
    metric: Metric,
    k: usize,
    pitch: usize,
    keys: Vec<u32>,
    ids: Vec<[u32; 2]>,
    counts: Vec<u32>,
}

impl Results {
    pub(crate) fn new(
        metric: Metric,
        [k, pitch]: [usize; 2],
        keys: &[u8],
        ids: &[u8],
        counts: &[u8],
    ) -> Self {
        Self {
            metric,
            k,
            pitch,
            keys: bytemuck::pod_collect_to_vec(keys),
            ids: bytemuck::pod_collect_to_vec(ids),
            counts: bytemuck::pod_collect_to_vec(counts),
        }
    }

    /// How many queries were answered.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The hits of each query, nearest first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = Neighbor>> {
        self.counts.iter().enumerate().map(|(query, &count)| {
            let range = query * self.pitch..query * self.pitch + self.k.min(count as usize);
            let ids =
                self.ids[range.clone()].iter().map(|&[low, high]| u64::from(high) << 32 | u64::from(low));
            let keys = self.keys[range].iter();
            keys.zip(ids).map(|(&key, id)| Neighbor { id, distance: distance_of(self.metric, key) })
        })
    }
}

/// The hits of each query, none so far.
pub(crate) struct Answers {
    /// Those of a query lie side by side.
    hits: Vec<Neighbor>,
    places: Vec<Range<usize>>,
}

impl Answers {
    pub(crate) fn new(queries: usize) -> Self {
        Self { hits: vec![], places: vec![0..0; queries] }
    }

    /// Answers a query, anew where it was answered before.
    pub(crate) fn put(&mut self, query: usize, hits: impl IntoIterator<Item = Neighbor>) {
        let start = self.hits.len();
        self.hits.extend(hits);
        self.places[query] = start..self.hits.len();
    }

    /// How many hits a query has.
    pub(crate) fn len_of(&self, query: usize) -> usize {
        self.places[query].len()
    }

    /// The hits query by query.
    pub(crate) fn collected(self) -> Neighbors {
        let Self { hits, places } = self;
        let mut end = 0;
        let is_in_order = places.iter().all(|place| std::mem::replace(&mut end, place.end) == place.start);
        if is_in_order && end == hits.len() {
            return Neighbors::of(hits, &places);
        }
        let all = places.iter().map(Range::len).sum();
        let mut neighbors = Neighbors::with_capacity(places.len(), all);
        places.into_iter().for_each(|place| neighbors.push_row(hits[place].iter().copied()));
        neighbors
    }
}
