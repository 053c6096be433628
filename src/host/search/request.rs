//! The host engine's search request, and its result.

use crate::bits::Bits;
use crate::host::rows::store::HostRows;
use crate::host::search::nominees::{Hit, Nominees};

/// The options of a search, without its queries.
#[derive(Clone, Copy)]
pub(crate) struct HostRequest<'a> {
    pub(crate) limit: SearchLimit,
    /// Bytes of scratch memory.
    pub(crate) budget: u64,
    /// One bit per slot: the rows that may be found, all of them present. None allows every row.
    pub(crate) allowed: Option<&'a Bits>,
    /// Called with the number of queries answered so far.
    pub(crate) progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
}

/// The limit of a search: a number of rows, or a distance.
#[derive(Clone, Copy)]
pub(crate) enum SearchLimit {
    /// The k nearest.
    Nearest(usize),
    /// All rows whose distance (for L2 its square) is not above this; a few more may be found.
    Within(f32),
}

impl SearchLimit {
    /// How many of `candidates` rows a query finds; 0 if only a distance limits them.
    pub(crate) fn k_of(self, candidates: usize) -> usize {
        match self {
            Self::Nearest(k) => k.min(candidates),
            Self::Within(_) => 0,
        }
    }
}

impl HostRequest<'_> {
    /// The state of a query before any row was scored, for a search of `candidates` rows.
    pub(crate) fn nominees(&self, candidates: usize) -> Nominees {
        match self.limit {
            SearchLimit::Nearest(k) => Nominees::nearest(k.min(candidates), candidates),
            SearchLimit::Within(limit) => Nominees::within(limit, candidates),
        }
    }

    /// The number of rows that can be found at all.
    pub(crate) fn candidates(&self, rows: &HostRows) -> usize {
        self.allowed.map_or(rows.len(), Bits::count_ones)
    }
}

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// The rows found for each query, nearest first.
    pub(crate) queries: Vec<Vec<Hit>>,
    /// Rows that were scored, over all queries.
    pub(crate) scored: u64,
    /// Rows whose distance was computed, over all queries.
    pub(crate) rescored: u64,
}
