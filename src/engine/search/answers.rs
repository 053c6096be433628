//! Results as the device writes them, and the hits of all queries, which arrive in any order.

use std::ops::Range;

use crate::kernels::value_of;
use crate::metric::Metric;
use crate::neighbors::{Neighbor, Neighbors};

/// The distance of a key: L2 is computed as its square.
pub(crate) fn distance_of(metric: Metric, key: u32) -> f32 {
    match metric {
        Metric::L2 => value_of(key).sqrt(),
        _ => value_of(key),
    }
}

/// Results as the device writes them: keys and ids `[queries, pitch]`, and how many of the first k each query has.
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

    /// The number of queries.
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

/// The hits of each query.
pub(crate) struct Answers {
    hits: Vec<Neighbor>,
    /// Which of `hits` each query has.
    ranges: Vec<Range<usize>>,
}

impl Answers {
    /// No hits yet, with room for `hits` of them.
    pub(crate) fn new(queries: usize, hits: usize) -> Self {
        Self { hits: Vec::with_capacity(hits), ranges: vec![0..0; queries] }
    }

    /// Sets the hits of a query. Later hits replace earlier ones.
    pub(crate) fn put(&mut self, query: usize, hits: impl IntoIterator<Item = Neighbor>) {
        let start = self.hits.len();
        self.hits.extend(hits);
        self.ranges[query] = start..self.hits.len();
    }

    /// The number of hits of a query.
    pub(crate) fn len_of(&self, query: usize) -> usize {
        self.ranges[query].len()
    }

    /// The hits in the order of the queries.
    pub(crate) fn collected(self) -> Neighbors {
        let Self { hits, ranges } = self;
        let mut end = 0;
        let is_in_order = ranges.iter().all(|range| std::mem::replace(&mut end, range.end) == range.start);
        if is_in_order && end == hits.len() {
            return Neighbors::of(hits, &ranges);
        }
        let all = ranges.iter().map(Range::len).sum();
        let mut neighbors = Neighbors::with_capacity(ranges.len(), all);
        ranges.into_iter().for_each(|range| neighbors.push_row(hits[range].iter().copied()));
        neighbors
    }
}
