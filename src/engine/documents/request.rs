//! The request and the result of a search for documents.

use std::ops::Range;

use crate::engine::documents::cache::DocumentCache;
use crate::engine::documents::tokens::TokenVectors;
use crate::error::{Error, Result};
use crate::gpu::StageTime;
use crate::host::documents::slots_of;
use crate::memory;
use crate::options::Progress;

/// A search for the documents of largest MaxSim.
#[derive(Clone, Copy)]
pub(crate) struct DocumentRequest<'a> {
    /// One past the last slot of each place: a document's tokens lie in the slots from the end of the place before it on.
    pub(crate) ends: &'a [u32],
    /// The places of the documents, ascending.
    pub(crate) places: &'a [u32],
    /// Those of the documents that may be found; none for all.
    pub(crate) allowed: Option<&'a [u32]>,
    /// The documents that are scored for each query, by their places; none for all that may be found.
    pub(crate) nominated: Option<&'a [Vec<u32>]>,
    /// The documents as a GPU keeps them from one search to the next.
    pub(crate) cache: &'a DocumentCache,
    /// How many documents each query wants.
    pub(crate) k: usize,
    /// The weight of each token of all queries.
    pub(crate) weights: &'a [f32],
    /// Bytes of scratch memory.
    pub(crate) budget: u64,
    pub(crate) progress: Option<Progress<'a>>,
    /// Whether to time the stages on the device.
    pub(crate) profile: bool,
}

impl DocumentRequest<'_> {
    /// The candidates of some queries that were nominated: no bound excludes one.
    pub(in crate::engine) fn candidates(&self, queries: Range<usize>) -> Option<Vec<Vec<(f32, u32)>>> {
        let lists = &self.nominated?[queries];
        let of = |places: &Vec<u32>| places.iter().map(|&place| (f32::INFINITY, place)).collect();
        Some(lists.iter().map(of).collect())
    }

    /// The slots of the tokens of a place.
    pub(in crate::engine) fn slots(&self, place: u32) -> Range<u32> {
        slots_of(self.ends, place)
    }

    /// The places of the documents that may be found.
    pub(crate) fn found(&self) -> &[u32] {
        self.allowed.unwrap_or(self.places)
    }
}

/// A document that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scored {
    pub(crate) place: u32,
    pub(crate) score: f32,
}

/// The documents found for each query, those of larger scores first, and how many scores were computed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) by_query: Vec<Vec<Scored>>,
    pub(crate) bounded: u64,
    pub(crate) computed: u64,
    pub(crate) stages: Vec<StageTime>,
}

/// The weights of the tokens of queries: the caller's, or 1. With `mean` they are divided by their sum, query by query.
pub(crate) fn weights(queries: &TokenVectors<'_>, given: Option<&[f32]>, mean: bool) -> Result<Vec<f32>> {
    let tokens = queries.tokens();
    let mut weights = match given {
        None => memory::filled(tokens, 1.0)?,
        Some(given) if given.len() == tokens => memory::copied(given)?,
        Some(given) => {
            let needed = format!("{tokens} numbers, one for each token of the queries");
            return Err(Error::argument("weights", needed, given.len()));
        }
    };
    if let Some(weight) = weights.iter().find(|&&weight| !(0.0..=1e6).contains(&weight)) {
        return Err(Error::argument("weights", "numbers from 0 to 1,000,000", weight));
    }
    if mean {
        for ends in queries.offsets().windows(2) {
            let own = &mut weights[ends[0]..ends[1]];
            let sum: f64 = own.iter().map(|&weight| f64::from(weight)).sum();
            if sum > 0.0 {
                own.iter_mut().for_each(|weight| *weight = (f64::from(*weight) / sum) as f32);
            }
        }
    }
    Ok(weights)
}
