//! MaxSim of all queries and documents, without an index.

use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::documents::on_host;
use crate::engine::documents::pairs::{AT_ONCE, PAIR_BYTES, Pairs};
use crate::engine::documents::request::weights;
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::batch::QueryBuffers;
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::gpu::{Commands, Request, budget_for, usable};
use crate::memory;
use crate::metric::Metric;

impl Device {
    blocking_and_async! { self;
        /// The MaxSim of every query and every document, `[queries, documents]`: the sum, over the tokens of a query, of the largest inner
        /// product with a token of the document. Larger is nearer.
        ///
        /// Both may have any numbers of tokens. Documents on the host are uploaded first: those that stay belong in a
        /// [`MultiVector`](crate::MultiVector), which also finds the best of them faster than it computes all scores.
        ///
        /// # Errors
        /// [`Error::Argument`] for different dims, bits, or a matrix on another device; [`Error::NotFinite`] and
        /// [`Error::NormOutOfRange`] with a token's number; [`Error::Budget`]; [`Error::Unsupported`] when the documents do not fit one
        /// binding of the adapter; [`Error::OutOfMemory`].
        ///
        /// ```
        /// use nearfield::{Device, TokenVectors};
        /// let documents = [[1.0f32, 0.0], [0.0, 1.0], [0.5, 0.5]];
        /// let documents = TokenVectors::new(&documents, &[0, 2, 3])?;
        /// let scores = Device::host().maxsim(&(&[[1.0f32, 0.0], [0.0, 1.0]]).into(), &documents)?;
        /// assert_eq!(scores, [2.0, 1.0]);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn maxsim<'v>(&self, queries: &'v TokenVectors<'v>, documents: &'v TokenVectors<'v>) -> Result<Vec<f32>> {
            self.maxsim_boxed(queries, documents)
        }
        async maxsim_async;
    }

    fn maxsim_boxed<'a>(
        &'a self,
        queries: &'a TokenVectors<'a>,
        documents: &'a TokenVectors<'a>,
    ) -> Boxed<'a, Vec<f32>> {
        Box::pin(async move {
            let (tokens, own) = (queries.vectors(), documents.vectors());
            if tokens.dim() != own.dim() {
                let needed = format!("dim {}, as the documents have", own.dim());
                return Err(Error::argument("queries", needed, tokens.dim()));
            }
            for (argument, vectors) in [("queries", tokens), ("documents", own)] {
                vectors.kind().check_numbers(argument)?;
                vectors.check_device(argument, &self.engine)?;
            }
            Error::check_slots(own.rows() as u64)?;
            if queries.is_empty() || documents.is_empty() {
                return Ok(vec![]);
            }
            let ends = memory::collect(documents.offsets()[1..].iter().map(|&end| end as u32))?;
            let weights = weights(queries, None, false)?;
            match &self.engine {
                Engine::Host(host) => on_host::all(host, queries, documents, (&ends, &weights)),
                Engine::Gpu(_) => {
                    let rows = self.rows_of_vectors(own, Metric::OF_TOKENS).await;
                    let rows = rows.map_err(|error| error.for_argument("documents", 0))?;
                    let rows =
                        rows.on_gpu().ok_or_else(|| Error::internal("uploaded rows that lie elsewhere"))?;
                    all(rows, queries, (&ends, &weights), self.options().budget_bytes).await
                }
            }
        })
    }
}

/// All scores, `[queries, documents]`.
async fn all(
    rows: &GpuRows,
    queries: &TokenVectors<'_>,
    (ends, weights): (&[u32], &[f32]),
    budget: u64,
) -> Result<Vec<f32>> {
    let offsets = queries.offsets();
    let longest = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(1);
    let (of_pairs, query_bytes) = (AT_ONCE as u64 * PAIR_BYTES, rows.query_bytes() + 8);
    let rest = usable(budget).saturating_sub(of_pairs + 8);
    let room = (rest / 2 / 4).min((AT_ONCE * longest) as u64);
    let tokens = ((rest - 4 * room) / query_bytes).min(queries.tokens() as u64) as usize;
    if tokens < longest || room < longest as u64 {
        let needed = budget_for(of_pairs + 8 + 2 * longest as u64 * query_bytes.max(4));
        return Err(Error::Budget { purpose: format!("a query of {longest} tokens"), needed, budget });
    }
    let scratch = rows
        .gpu
        .reserve(&[
            Request { purpose: "queries", bytes: tokens as u64 * rows.query_bytes() },
            Request { purpose: "query norms", bytes: tokens as u64 * 8 },
            Request { purpose: "refused", bytes: 8 },
            Request { purpose: "pairs", bytes: of_pairs },
            Request { purpose: "similarities", bytes: 4 * room },
        ])
        .await?;
    let mut scores = memory::with_room(queries.len().saturating_mul(ends.len()))?;
    let mut first = 0;
    while first < queries.len() {
        let end = queries.batch(first, tokens).end;
        let numbers = QueryNumbers::Range(offsets[first]..offsets[end]);
        let on_device = QueryBuffers { values: &scratch[0], norms: &scratch[1], refused: &scratch[2] };
        let mut commands = Commands::new(&rows.gpu, None);
        on_device.begin(&mut commands, &queries.vectors(), &numbers).await?;
        numbers.check(&commands.read(&[(&scratch[2], 0, 8)]).await?[0])?;
        let offsets = &offsets[first..=end];
        let pairs = Pairs {
            rows,
            queries: &scratch[0],
            offsets,
            weights: &weights[offsets[0]..],
            ends,
            list: &scratch[3],
            nearest: &scratch[4],
            room: room as usize,
        };
        // Queries for few documents go together: a round trip each would take longer than their products.
        let together = (AT_ONCE / ends.len()).max(1);
        for query in (0..end - first).step_by(together) {
            let some = query..(query + together).min(end - first);
            let mut own = memory::with_room(some.len() * ends.len())?;
            some.for_each(|query| own.extend((0..ends.len() as u32).map(|place| (query, place))));
            pairs.score(&own, &mut None, &mut |_, score| scores.push(score)).await?;
        }
        first = end;
    }
    Ok(scores)
}
