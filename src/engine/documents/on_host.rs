//! Searches for documents on the host.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::elements::{ElementKind, HostVectors, Matrix, MatrixView};
use crate::engine::documents::request::{DocumentRequest, Found, Scored};
use crate::engine::documents::shortlist::Shortlist;
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::search::host::Turn;
use crate::error::{Error, Result};
use crate::host::documents::{DocumentRows, TokenQueries};
use crate::host::{Host, HostRows, checked};
use crate::interrupt;
use crate::lock::lock;
use crate::memory;
use crate::metric::Metric;
use crate::parallel::*;

/// Slots whose documents a thread takes at a time.
const PIECE: u32 = 4096;

/// Tokens of queries that are searched together: rows are read once for all of them.
const TOKENS: usize = 384;

/// Candidates whose scores a thread computes between two looks at whether the others can still be found.
const AT_ONCE: usize = 8;

/// Rows on the host, and queries for their documents.
pub(super) struct OnHost<'a> {
    rows: &'a HostRows,
    queries: &'a TokenVectors<'a>,
    squared: Vec<f64>,
}

/// The documents of largest MaxSim for each query.
pub(super) async fn search(
    rows: &HostRows,
    queries: &TokenVectors<'_>,
    request: &DocumentRequest<'_>,
) -> Result<Found> {
    let own = OnHost::new(rows, queries)?;
    let (mut found, mut first, mut turn) = (Found::default(), 0, Turn::new());
    while first < queries.len() {
        turn.leave().await;
        let batch = queries.batch(first, TOKENS);
        own.with_queries(batch.clone(), request, |some| {
            let documents = DocumentRows { rows, ends: request.ends };
            let candidates = match request.candidates(batch.clone()) {
                Some(nominated) => nominated,
                None => {
                    found.bounded += request.found().len() as u64 * some.len() as u64;
                    let shortlists = bounded(&documents, some, request)?;
                    shortlists.into_iter().map(Shortlist::into_candidates).collect()
                }
            };
            for (scored, computed) in best(&documents, some, candidates, request.k)? {
                found.computed += computed;
                found.by_query.push(scored);
            }
            Ok(())
        })?;
        if let Some(progress) = request.progress {
            progress(batch.end);
        }
        first = batch.end;
    }
    Ok(found)
}

/// The scores of all queries and documents, `[queries, documents]`.
pub(super) fn all(
    host: &Arc<Host>,
    queries: &TokenVectors<'_>,
    documents: &TokenVectors<'_>,
    (ends, weights): (&[u32], &[f32]),
) -> Result<Vec<f32>> {
    start_threads()?;
    let [own, others] = [queries, documents].map(|tokens| tokens.vectors().on_host());
    let (own, others) = (own?, others?);
    let (squared, of_documents) = (checked("queries", own)?, checked("documents", others)?);
    let widened = |vectors: HostVectors<'_>| {
        let mut wide = Matrix::with_room(ElementKind::F32, vectors.rows(), vectors.dim())?;
        wide.extend(vectors)?;
        Ok::<_, Error>(wide.into_f32())
    };
    let (values, wide) = (Arc::new(widened(others)?), widened(own)?);
    let rows = HostRows::of_matrix(host.clone(), Metric::OF_TOKENS, own.dim(), values, &of_documents)?;
    let queries = TokenQueries {
        vectors: MatrixView::new(&wide, own.dim())?,
        squared: &squared,
        offsets: queries.offsets(),
        weights,
    };
    let documents = DocumentRows { rows: &rows, ends };
    let places = memory::collect(0..ends.len() as u32)?;
    let mut scores = memory::filled(queries.len().saturating_mul(places.len()), 0.0)?;
    let products = wide.len().saturating_mul(rows.len());
    interrupt::watch(products, |stop| {
        for (query, scores) in scores.chunks_mut(places.len()).enumerate() {
            let parts = scores.par_chunks_mut(AT_ONCE).zip(places.par_chunks(AT_ONCE));
            parts.try_for_each(|(scores, places)| {
                stop.check()?;
                scores.copy_from_slice(&documents.scores(&queries, query, places, stop)?);
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    })?;
    Ok(scores)
}

impl<'a> OnHost<'a> {
    /// Checks the queries, which are in the host's memory.
    pub(super) fn new(rows: &'a HostRows, queries: &'a TokenVectors<'a>) -> Result<Self> {
        start_threads()?;
        let squared = checked("queries", queries.vectors().on_host()?)?;
        Ok(Self { rows, queries, squared })
    }

    /// The scores of the candidates of some queries, and how many were computed.
    pub(super) fn scored(
        &self,
        range: Range<usize>,
        request: &DocumentRequest<'_>,
        candidates: Vec<Vec<(f32, u32)>>,
    ) -> Result<Vec<(Vec<Scored>, u64)>> {
        let documents = DocumentRows { rows: self.rows, ends: request.ends };
        self.with_queries(range, request, |own| best(&documents, own, candidates, request.k))
    }

    /// Calls `run` with some queries in f32.
    fn with_queries<T>(
        &self,
        range: Range<usize>,
        request: &DocumentRequest<'_>,
        run: impl FnOnce(&TokenQueries<'_>) -> Result<T>,
    ) -> Result<T> {
        let offsets = self.queries.offsets();
        let tokens = offsets[range.start]..offsets[range.end];
        let some = self.queries.slice(range)?;
        let (vectors, mut wide) = (some.vectors().on_host()?, vec![]);
        if !vectors.kind().is_wide() {
            memory::reserve(&mut wide, tokens.len() * vectors.dim())?;
        }
        let values = vectors.elements().widened_in(&mut wide);
        run(&TokenQueries {
            vectors: MatrixView::new(values, vectors.dim())?,
            squared: &self.squared[tokens.clone()],
            offsets: some.offsets(),
            weights: &request.weights[tokens],
        })
    }
}

/// Bounds the scores of all documents.
fn bounded(
    documents: &DocumentRows<'_>,
    queries: &TokenQueries<'_>,
    request: &DocumentRequest<'_>,
) -> Result<Vec<Shortlist>> {
    let shortlists: Vec<_> = (0..queries.len()).map(|_| Mutex::new(Shortlist::new(request.k))).collect();
    let mut pieces: Vec<&[u32]> = vec![];
    let mut rest = request.found();
    while let Some(&first) = rest.first() {
        let end = request.ends[first as usize].saturating_add(PIECE);
        let (piece, others) =
            rest.split_at(rest.partition_point(|&place| request.ends[place as usize] <= end));
        pieces.push(piece);
        rest = others;
    }
    let slots =
        request.found().len().saturating_mul(queries.weights.len()).saturating_mul(documents.rows.dim());
    interrupt::watch(slots, |stop| {
        pieces.par_iter().try_for_each(|piece| {
            stop.check()?;
            let bounds = documents.bounds(queries, piece, stop)?;
            for (query, list) in shortlists.iter().enumerate() {
                let mut list = lock(list);
                let own = bounds.iter().skip(query).step_by(queries.len());
                piece.iter().zip(own).for_each(|(&place, &bounds)| list.add(place, bounds));
            }
            Ok::<_, Error>(())
        })
    })?;
    Ok(shortlists.into_iter().map(|list| list.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}

/// The k candidates of largest score of each query, and how many scores were computed. Candidates of larger upper bounds come first: where k
/// scores lie above all bounds that are left, the others need not be computed.
fn best(
    documents: &DocumentRows<'_>,
    queries: &TokenQueries<'_>,
    candidates: Vec<Vec<(f32, u32)>>,
    k: usize,
) -> Result<Vec<(Vec<Scored>, u64)>> {
    let all: usize = candidates.iter().map(Vec::len).sum();
    // One query has all threads.
    let at_once = AT_ONCE * current_num_threads().div_ceil(candidates.len().max(1)).max(1);
    interrupt::watch(all.saturating_mul(documents.rows.dim() * AT_ONCE), |stop| {
        let of = |(query, candidates): (usize, &Vec<(f32, u32)>)| {
            let (mut scored, mut computed): (Vec<Scored>, u64) = (vec![], 0);
            for piece in candidates.chunks(at_once.max(k)) {
                stop.check()?;
                let least = scored.get(k - 1).map(|scored: &Scored| scored.score);
                if least.is_some_and(|least| piece[0].0 < least) {
                    break;
                }
                let places = memory::collect(piece.iter().map(|&(_, place)| place))?;
                let parts: Vec<&[u32]> = places.chunks(AT_ONCE).collect();
                let scores: Vec<Result<Vec<f32>>> =
                    parts.par_iter().map(|part| documents.scores(queries, query, part, stop)).collect();
                for (part, scores) in parts.into_iter().zip(scores) {
                    let new = part.iter().zip(scores?).map(|(&place, score)| Scored { place, score });
                    scored.extend(new);
                }
                computed += places.len() as u64;
                // Ties are settled by ids, which the caller knows: whatever equals the k-th stays.
                scored.sort_unstable_by(|a, b| b.score.total_cmp(&a.score));
                if let Some(&Scored { score: least, .. }) = scored.get(k - 1) {
                    scored.truncate(scored.partition_point(|one| one.score >= least));
                }
            }
            Ok((scored, computed))
        };
        let all: Vec<Result<_>> = candidates.par_iter().enumerate().map(of).collect();
        all.into_iter().collect()
    })
}
