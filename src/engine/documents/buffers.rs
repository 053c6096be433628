//! The scratch memory of a search for documents, and how much of it fits a budget.

use crate::engine::documents::pairs::{AT_ONCE, PAIR_BYTES};
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::{QuantizedRows, TERMS_BYTES};
use crate::error::{Error, Result};
use crate::gpu::{budget_for, scratch, usable};
use crate::kernels::BLOCK_ROWS;

/// Tokens of queries that are searched together: tiles multiply them about as fast as more.
const TOKENS: usize = 2048;

/// Bytes of sums that are read at a time, while the device works on the next ones.
const SUMS: usize = 8 << 20;

scratch! {
    /// The buffers of a search.
    pub(super) struct DocumentBuffers {
        queries, query_norms, refused, codes, terms, offsets, weights,
        nearest, sums, pairs,
        // The blocks of documents under a filter.
        blocks,
    }
}

/// How much a search does at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The most tokens of a batch of queries.
    pub(super) tokens: usize,
    /// The places of a chunk.
    pub(super) chunk: usize,
    pub(super) bytes: DocumentBuffers<u64>,
}

impl Room {
    /// The room that a budget has, for this many places. `blocks` are the bytes of blocks under a filter.
    pub(super) fn new(
        (rows, codes): (&GpuRows, &QuantizedRows),
        queries: &TokenVectors<'_>,
        (places, blocks): (usize, u64),
        budget: u64,
    ) -> Result<Self> {
        let longest = queries.offsets().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        let mut tokens = longest.max(TOKENS.min(queries.tokens()));
        loop {
            // As many queries as may be in a batch, if all of them are short.
            let most = tokens.min(queries.len());
            let padded = (tokens as u64).next_multiple_of(BLOCK_ROWS.into());
            let fixed = DocumentBuffers {
                queries: padded * rows.query_bytes(),
                query_norms: padded * 8,
                refused: 8,
                codes: codes.plane_bytes(padded),
                terms: padded * TERMS_BYTES,
                offsets: (most as u64 + 1) * 4,
                weights: padded * 4,
                nearest: 0,
                sums: 0,
                pairs: AT_ONCE as u64 * PAIR_BYTES,
                blocks,
            };
            let taken: u64 = fixed.requests().map(|request| request.bytes).sum();
            let [nearest, sums] = [tokens as u64 * 4, most as u64 * 4];
            let fit = (usable(budget).saturating_sub(taken) / (nearest + sums))
                .min(rows.gpu.adapter.capabilities.max_binding_bytes / nearest.max(1));
            let chunk = (fit as usize).min(places.max(1)).min((SUMS / most.max(1) / 4).max(1));
            if chunk > 0 {
                let [nearest, sums] = [nearest, sums].map(|bytes| bytes * chunk as u64);
                return Ok(Self { tokens, chunk, bytes: DocumentBuffers { nearest, sums, ..fixed } });
            }
            if tokens == longest {
                let purpose = format!("a query of {longest} tokens");
                return Err(Error::Budget { purpose, needed: budget_for(taken + nearest + sums), budget });
            }
            tokens = longest.max(tokens / 2);
        }
    }
}
