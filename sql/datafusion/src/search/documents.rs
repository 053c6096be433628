//! Documents of several token vectors: the search of a block of them by MaxSim, and the scores of rows.
//!
//! Both compute on the device, in f32, what the library reports: a search finds what `ORDER BY` the score on the same device does.

use std::slice::from_ref;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::{Array, ArrayRef, Float32Array};
use datafusion::common::{DataFusionError, Result, exec_err};
use nearfield::{Device, Error, MatrixView, MultiVector, Ranking, TokenVectors, interruptible};

use crate::error::external;
use crate::metric::of_score;
use crate::search::block::{Search, Work};
use crate::search::hits::{Hit, Hits};
use crate::search::queries::Queries;

/// Elements of documents that are scored at a time: a device may have to hold them in one binding, of 128 MiB at least.
const AT_ONCE: usize = 1 << 24;

/// Adds the documents of a block that have the largest scores to `hits`. `first` is the number of the block's first row.
pub(crate) fn search(
    search: &Search,
    columns: &[ArrayRef],
    first: u64,
    mut hits: Hits,
) -> Result<(Hits, Work)> {
    let Search { wanted, queries, device, stop } = search;
    let documents = Queries::of_documents(columns, &format!("column {:?}", wanted.column), first)?;
    if documents.count() == 0 {
        return Ok((hits, Work::default()));
    }
    if documents.dim() != queries.dim() {
        return exec_err!(
            "column {:?}: needed tokens of {} elements as the queries have, given {}",
            wanted.column,
            queries.dim(),
            documents.dim()
        );
    }
    let run = || -> nearfield::Result<Ranking> {
        let mut index = MultiVector::builder(device, documents.dim()).build()?;
        index.add(&documents.tokens()?)?;
        index.search(&queries.tokens()?, wanted.k)
    };
    let stop = stop.clone();
    let found = interruptible(move || !stop.load(Ordering::Relaxed), run);
    let found = found.map_err(|error| {
        named(error, [&|token| queries.number_of_token(token), &|token| documents.number_of_token(token)])
    })?;
    for (query, found) in found.iter().enumerate() {
        let row = |id: u64| documents.numbers()[id as usize];
        hits.add(query, found.iter().map(|hit| Hit { distance: of_score(hit.score), row: row(hit.id) }));
    }
    let statistics = found.statistics();
    let [screened, refined] = [statistics.bounded, statistics.computed].map(|count| count as usize);
    Ok((hits, Work { screened, refined, in_doubt: 0 }))
}

/// A row with neither NULL: the places of its query and of its document.
struct Pair {
    row: usize,
    query: usize,
    document: usize,
}

/// The scores of as many rows, NULL where the query or the document is. An array of one stands for as many of it as the other has.
pub(crate) fn scores(device: &Device, both: [&ArrayRef; 2], rows: usize) -> Result<Float32Array> {
    let read = |place: usize, name| Queries::of_documents(from_ref(both[place]), name, 0);
    let (queries, documents) = (read(0, "maxsim: query")?, read(1, "maxsim: document")?);
    let of_row = |all: &Queries, place: usize, row: usize| {
        let number = if both[place].len() == 1 { 0 } else { row as u64 };
        all.numbers().binary_search(&number).ok()
    };
    let pair = |row| {
        let (query, document) = (of_row(&queries, 0, row)?, of_row(&documents, 1, row)?);
        Some(Pair { row, query, document })
    };
    let pairs: Vec<Pair> = (0..rows).filter_map(pair).collect();
    if !pairs.is_empty() && queries.dim() != documents.dim() {
        return exec_err!(
            "maxsim: needed tokens of the same length, given {} and {} elements",
            queries.dim(),
            documents.dim()
        );
    }
    // The device scores all queries for all documents: neighbouring rows of one query, or of a document that is a literal, share a call.
    let is_of_one_document = both[1].len() == 1;
    let share = |a: &Pair, b: &Pair| {
        is_of_one_document || a.query == b.query || queries.document(a.query) == queries.document(b.query)
    };
    let most = (AT_ONCE / (queries.dim() * queries.longest().max(documents.longest())).max(1)).max(1);
    let mut scores = vec![None; rows];
    for run in pairs.chunk_by(share).flat_map(|run| run.chunks(most)) {
        let (own, others) = match is_of_one_document {
            true => (run, &run[..1]),
            false => (&run[..1], run),
        };
        let own = tokens(&queries, own.iter().map(|pair| pair.query))?;
        let others = tokens(&documents, others.iter().map(|pair| pair.document))?;
        let row = |of: &TokenVectors<'_>, token| {
            run[of.offsets().partition_point(|&start| start <= token) - 1].row as u64
        };
        let found = device.maxsim(&own, &others);
        let found =
            found.map_err(|error| named(error, [&|token| row(&own, token), &|token| row(&others, token)]))?;
        run.iter().zip(found).for_each(|(pair, score)| scores[pair.row] = Some(score));
    }
    Ok(scores.into())
}

/// The tokens of some documents.
fn tokens(documents: &Queries, places: impl Iterator<Item = usize>) -> Result<TokenVectors<'_>> {
    let views = places.map(|place| MatrixView::new(documents.document(place), documents.dim()));
    views.collect::<nearfield::Result<Vec<_>>>().and_then(TokenVectors::of_matrices).map_err(external)
}

/// An error of the library with the number of a row or query in the place of a token's, of the queries and of the documents.
fn named(error: Error, [of_query, of_document]: [&dyn Fn(usize) -> u64; 2]) -> DataFusionError {
    let is_of_query = matches!(&error, Error::NormOutOfRange { argument: "queries", .. });
    let number = if is_of_query { of_query } else { of_document };
    external(error.with_rows(|token| number(token as usize)))
}
