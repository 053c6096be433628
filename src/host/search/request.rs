//! The host engine's search request, and its result.

use std::mem;

use crate::bits::Bits;
use crate::error::Result;
use crate::host::rows::store::HostRows;
use crate::host::search::candidates::{Candidates, Hit};
use crate::memory;

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
    /// How many of `eligible` rows a query finds; 0 if only a distance limits them.
    pub(crate) fn k_of(self, eligible: usize) -> usize {
        match self {
            Self::Nearest(k) => k.min(eligible),
            Self::Within(_) => 0,
        }
    }
}

impl HostRequest<'_> {
    /// The states of `queries` before any row was scored, for a search of `eligible` rows.
    pub(crate) fn candidates(&self, queries: usize, eligible: usize) -> Result<Vec<Candidates>> {
        let mut all = memory::with_room(queries)?;
        for _ in 0..queries {
            all.push(match self.limit {
                SearchLimit::Nearest(k) => Candidates::nearest(k.min(eligible), eligible)?,
                SearchLimit::Within(limit) => Candidates::within(limit, eligible)?,
            });
        }
        memory::check_small(queries * Candidates::bytes(self.limit.k_of(eligible)))?;
        Ok(all)
    }

    /// The number of rows that can be found at all.
    pub(crate) fn eligible(&self, rows: &HostRows) -> usize {
        self.allowed.map_or(rows.len(), Bits::count_ones)
    }
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Hits {
    /// The rows found, query by query, nearest first.
    pub(crate) rows: Vec<Hit>,
    /// Where the rows of each query end.
    pub(crate) ends: Vec<usize>,
    /// Rows that were scored, over all queries.
    pub(crate) scored: u64,
    /// Rows whose distance was computed, over all queries.
    pub(crate) refined: u64,
}

impl Hits {
    /// No hits, with room for those of `queries`.
    pub(crate) fn with_room(queries: usize) -> Result<Self> {
        Ok(Self { rows: vec![], ends: memory::with_room(queries)?, scored: 0, refined: 0 })
    }

    /// The rows found for each query.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[Hit]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.rows[mem::replace(&mut start, end)..end])
    }

    /// Replaces what some queries found, whose numbers ascend.
    pub(crate) fn replace(&mut self, some: &[usize], found: &Self) -> Result<()> {
        let mut rows = memory::with_room(self.rows.len() + found.rows.len())?;
        let mut ends = memory::with_room(self.ends.len())?;
        let mut replaced = some.iter().zip(found.iter()).peekable();
        for (query, before) in self.iter().enumerate() {
            let now = replaced.next_if(|&(&number, _)| number == query).map_or(before, |(_, now)| now);
            rows.extend_from_slice(now);
            ends.push(rows.len());
        }
        (self.rows, self.ends) = (rows, ends);
        self.scored += found.scored;
        self.refined += found.refined;
        Ok(())
    }

    /// Appends what a query found.
    pub(crate) fn push(&mut self, candidates: &Candidates) -> Result<()> {
        let found = candidates.found()?;
        memory::reserve_more(&mut self.rows, found.len())?;
        self.rows.extend_from_slice(found);
        self.ends.push(self.rows.len());
        self.refined += candidates.refined;
        Ok(())
    }
}
