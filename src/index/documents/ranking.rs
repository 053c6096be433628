//! The result of a search for documents.

use crate::gpu::StageTime;

/// A document that a search found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DocumentScore {
    /// The document's id.
    pub id: u64,
    /// Its MaxSim: the sum, over the query's tokens, of the largest inner product with a token of the document. Larger is nearer.
    pub score: f32,
}

/// The documents of largest score for each query, `[queries, up to k]`, the largest first, equal ones by the smaller id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    pub(crate) hits: Vec<DocumentScore>,
    /// The end of each query's documents.
    pub(crate) ends: Vec<usize>,
    pub(crate) statistics: MaxSimStatistics,
}

/// The work of a search for documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MaxSimStatistics {
    /// Documents whose scores were bounded, summed over the queries: none where lists nominate them.
    pub bounded: u64,
    /// Documents that bounds did not exclude, or that lists nominated, summed over the queries: their scores were computed as they are reported.
    pub computed: u64,
    /// Device time of each stage, if the options asked for it and the adapter has timestamps.
    pub stages: Vec<StageTime>,
}

impl Ranking {
    /// How many queries were answered.
    pub fn queries(&self) -> usize {
        self.ends.len()
    }

    /// The documents found for a query.
    ///
    /// # Panics
    /// When there is no such query.
    pub fn row(&self, query: usize) -> &[DocumentScore] {
        let start = if query == 0 { 0 } else { self.ends[query - 1] };
        &self.hits[start..self.ends[query]]
    }

    /// The documents found for each query.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[DocumentScore]> {
        (0..self.queries()).map(|query| self.row(query))
    }

    /// The work of the search.
    pub fn statistics(&self) -> &MaxSimStatistics {
        &self.statistics
    }
}
