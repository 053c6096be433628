//! Recall: the part of the true neighbours that a search found.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nearfield::io::{Ids, read_distances, read_ids};
use nearfield::{MatrixView, Metric, Neighbor, Neighbors};

/// A hit may be this much farther than the k-th true neighbour, as in ann-benchmarks.
const TOLERANCE: f64 = 1e-3;
/// Queries whose true distances are recomputed to check that the file's use the metric of the search.
const SAMPLE: usize = 8;

/// The vectors of a search, from which distances are recomputed.
pub struct Vectors<'a> {
    pub metric: Metric,
    pub queries: MatrixView<'a, f32>,
    /// The row of an id.
    pub row: &'a dyn Fn(u64) -> Result<Vec<f32>>,
}

/// The true neighbours of each query.
pub struct Truth {
    ids: Ids,
    /// One for each id, in the file's own convention.
    distances: Option<Vec<f32>>,
}

/// Recall of a search.
pub struct Recall {
    /// Compared neighbours per query: k, or fewer if the truth has fewer.
    pub at: usize,
    pub found: Option<Found>,
    /// The source of the k-th true distances: `file`, `file, negated` (inner products, which are larger for nearer rows), or
    /// `recomputed` from the ids and the rows, because the file has no distances, or those of another metric.
    pub origin: &'static str,
}

/// The parts of the results that are no farther than the k-th true neighbour, and of the true ids that were found.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    pub by_distance: f64,
    pub by_id: f64,
}

/// A found row, and its true distance.
#[derive(Debug, Clone, Copy)]
pub struct TrueHit {
    pub id: u64,
    pub distance: f64,
}

/// Compares answers with those of an exact search. Only true distances count, not reported ones.
pub fn between(metric: Metric, found: &[Vec<TrueHit>], truth: &[Vec<TrueHit>]) -> Option<Found> {
    tally(found.iter().zip(truth).map(|(hits, truth)| {
        let limit = truth.iter().map(|hit| hit.distance).fold(f64::NEG_INFINITY, f64::max);
        let near = hits.iter().filter(|hit| counts(metric, hit.distance, limit)).count();
        let ids = truth.iter().filter(|one| hits.iter().any(|hit| hit.id == one.id)).count();
        [truth.len(), near, ids]
    }))
}

/// Recall over queries, each with its numbers of true neighbours, of near enough results and of found ids. Nothing without
/// true neighbours.
fn tally(queries: impl Iterator<Item = [usize; 3]>) -> Option<Found> {
    let [wanted, near, ids] =
        queries.fold([0; 3], |sums, one| [sums[0] + one[0], sums[1] + one[1], sums[2] + one[2]]);
    let part = |count: usize| count as f64 / wanted as f64;
    (wanted > 0).then(|| Found { by_distance: part(near), by_id: part(ids) })
}

/// Whether a result is near enough. ann-benchmarks compares distances by L2, not their squares.
fn counts(metric: Metric, distance: f64, limit: f64) -> bool {
    match metric {
        Metric::L2Squared => distance.max(0.0).sqrt() <= limit.max(0.0).sqrt() + TOLERANCE,
        _ => distance <= limit + TOLERANCE,
    }
}

impl Truth {
    /// Reads a truth for this number of queries, with ids below `rows`.
    pub fn open(path: &Path, queries: usize, rows: usize) -> Result<Self> {
        let ids = read_ids(path).context("--truth")?;
        ensure!(ids.rows == queries, "--truth: needed {queries} rows, one a query, given {}", ids.rows);
        if let Some(place) = ids.values.iter().position(|&id| id >= rows as i64) {
            let (id, query) = (ids.values[place], place / ids.width);
            anyhow::bail!(
                "--truth: needed ids below {rows}, the number of rows, given {id} for query {query}"
            );
        }
        let distances = read_distances(path).context("--truth")?;
        if let Some((distances, width)) = &distances {
            let same = *width == ids.width && distances.len() == ids.values.len();
            ensure!(same, "--truth: needed a distance for each id, given {width} a query");
        }
        Ok(Self { ids, distances: distances.map(|(distances, _)| distances) })
    }

    pub fn width(&self) -> usize {
        self.ids.width
    }

    /// Compares results with the first k true neighbours.
    pub fn score(&self, found: &Neighbors, k: usize, vectors: &Vectors<'_>) -> Result<Recall> {
        let at = k.min(self.ids.width);
        let (limits, origin) = self.limits(at, vectors)?;
        let found = tally(found.iter().zip(&limits).enumerate().map(|(query, (hits, limit))| {
            let truth = self.row(query, at);
            let hits = &hits[..hits.len().min(truth.len())];
            let is_near = |hit: &&Neighbor| counts(vectors.metric, f64::from(hit.distance), *limit);
            let ids = hits.iter().filter(|hit| truth.iter().any(|&id| id as u64 == hit.id)).count();
            [truth.len(), hits.iter().filter(is_near).count(), ids]
        }));
        Ok(Recall { at, found, origin })
    }

    /// The first `at` true ids of a query, up to the padding of a short row.
    fn row(&self, query: usize, at: usize) -> &[i64] {
        let row = &self.ids.values[query * self.ids.width..][..at];
        &row[..row.iter().position(|&id| id < 0).unwrap_or(at)]
    }

    /// The distance of the last of the first `at` true neighbours of each query.
    fn limits(&self, at: usize, vectors: &Vectors<'_>) -> Result<(Vec<f64>, &'static str)> {
        // A query without true neighbours has no results that count, so its limit does not matter.
        let last = |query: usize| self.row(query, at).len().checked_sub(1);
        if let Some(distances) = &self.distances {
            let stored = |query: usize| {
                last(query).map_or(0.0, |place| f64::from(distances[query * self.ids.width + place]))
            };
            let sample: Vec<usize> =
                (0..self.ids.rows).filter(|&query| last(query).is_some()).take(SAMPLE).collect();
            let exact = self.exact(&sample, at, vectors)?;
            let agree = |sign: f64| {
                let mut pairs = sample.iter().zip(&exact);
                pairs.all(|(&query, exact)| {
                    (sign * stored(query) - exact).abs() <= TOLERANCE * exact.abs().max(1.0)
                })
            };
            let signs = [(1.0, "file"), (-1.0, "file, negated")];
            let signs = &signs[..if vectors.metric == Metric::InnerProduct { 2 } else { 1 }];
            if let Some((sign, origin)) = signs.iter().find(|(sign, _)| agree(*sign)) {
                return Ok(((0..self.ids.rows).map(|query| sign * stored(query)).collect(), *origin));
            }
        }
        let all: Vec<usize> = (0..self.ids.rows).collect();
        Ok((self.exact(&all, at, vectors)?, "recomputed"))
    }

    /// [`limits`](Self::limits) of some queries, from the vectors.
    fn exact(&self, numbers: &[usize], at: usize, vectors: &Vectors<'_>) -> Result<Vec<f64>> {
        let Vectors { metric, queries, row } = vectors;
        let wanted = numbers.iter().enumerate();
        let wanted = wanted.filter_map(|(place, &query)| Some((*self.row(query, at).last()?, place, query)));
        let mut wanted: Vec<(i64, usize, usize)> = wanted.collect();
        // Rows in order, so that a compressed member is read only once.
        wanted.sort_unstable();
        let mut exact = vec![0.0; numbers.len()];
        for (id, place, query) in wanted {
            exact[place] = metric.exact(queries.row(query), &row(id as u64)?);
        }
        Ok(exact)
    }
}
