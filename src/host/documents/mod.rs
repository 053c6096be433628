//! MaxSim on the host: bounds of the scores of documents, and the scores that are reported.
//!
//! The score of a document is the sum, over a query's tokens, of the largest inner product with a token of the document. Codes of 8 bits, or
//! products in f32, bound each of these products (docs/certified-search.md).

pub(crate) mod bounds;
mod scores;

use std::ops::Range;

use crate::elements::MatrixView;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::Batch;

/// Queries of one or more tokens each.
#[derive(Clone, Copy)]
pub(crate) struct TokenQueries<'a> {
    /// All tokens, `[tokens, dim]`.
    pub(crate) vectors: MatrixView<'a, f32>,
    pub(crate) squared: &'a [f64],
    /// Where the tokens of each query begin, and the end of the last.
    pub(crate) offsets: &'a [usize],
    /// The weight of each token, none below 0.
    pub(crate) weights: &'a [f32],
}

impl<'a> TokenQueries<'a> {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn batch(&self, range: Range<usize>) -> Batch<'a> {
        Batch { vectors: self.vectors, squared: self.squared }.slice(range)
    }
}

/// The documents of rows: their tokens lie in neighbouring slots.
#[derive(Clone, Copy)]
pub(crate) struct DocumentRows<'a> {
    pub(crate) rows: &'a HostRows,
    /// One past the last slot of each place.
    pub(crate) ends: &'a [u32],
}

impl DocumentRows<'_> {
    /// The slots of a document's tokens.
    fn slots(&self, place: u32) -> Range<usize> {
        let slots = slots_of(self.ends, place);
        slots.start as usize..slots.end as usize
    }
}

/// The slots of a place, where each place ends at one of `ends`.
pub(crate) fn slots_of(ends: &[u32], place: u32) -> Range<u32> {
    let place = place as usize;
    let start = if place == 0 { 0 } else { ends[place - 1] };
    start..ends[place]
}
