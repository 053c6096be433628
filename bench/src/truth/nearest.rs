//! The k nearest of every query, in f64.
//!
//! Several rows are compared with several queries at a time, each pair in its own lane. So each distance is summed in the
//! order of the elements and equals `Metric::exact` bit for bit, while the compiler can still vectorise. Nothing is
//! reordered, estimated or excluded, so there is no bound to prove.

use std::collections::BinaryHeap;
use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Error, Result, ensure};
use nearfield::{Element, Matrix, Metric};
use rayon::prelude::*;

use nearfield_cli::memory;
use nearfield_cli::terminal::output::counted;

/// Vectors side by side.
const LANES: usize = 4;
/// The fewest groups of queries per thread: all threads share the memory that rows come from.
const LEAST_GROUPS: usize = 16;
/// The most groups of queries per share, so that no thread has much more to do than the others.
const MOST_GROUPS: usize = 64;
/// Bytes of rows that stay in a thread's cache while it compares them with its queries.
const CACHE_BYTES: usize = 256 << 10;

/// The same element of vectors side by side.
type Lanes = [f64; LANES];

/// Vectors in f64, [`LANES`] of them side by side.
pub(super) struct Block {
    /// `[groups, dim]`. The last group is padded with zeros.
    values: Vec<Lanes>,
    /// `[groups]`.
    norms: Vec<Lanes>,
    rows: usize,
    dim: usize,
}

impl Block {
    /// Copies vectors. `not_finite` is the error for the first that holds a NaN or an infinity.
    pub(super) fn new(vectors: &Matrix, not_finite: impl Fn(usize) -> Error) -> Result<Self> {
        match vectors {
            Matrix::F32(values, dim) => Self::of(values, *dim, not_finite),
            Matrix::F16(values, dim) => Self::of(values, *dim, not_finite),
        }
    }

    fn of<T: Element>(vectors: &[T], dim: usize, not_finite: impl Fn(usize) -> Error) -> Result<Self> {
        let rows = vectors.len() / dim;
        let groups = rows.div_ceil(LANES);
        let about = || format!("no memory for {rows} vectors of dim {dim} in f64");
        let mut values = memory::filled(groups.checked_mul(dim), [0.0; LANES], about)?;
        let mut norms = memory::filled(Some(groups), [0.0; LANES], about)?;
        let broken = AtomicUsize::new(usize::MAX);
        let groups = values.par_chunks_exact_mut(dim).zip(&mut norms).zip(vectors.par_chunks(LANES * dim));
        groups.enumerate().for_each(|(group, ((values, norms), vectors))| {
            for (lane, vector) in vectors.chunks_exact(dim).enumerate() {
                let mut squares = 0.0;
                for (value, element) in values.iter_mut().zip(vector) {
                    let element = f64::from(element.widen());
                    value[lane] = element;
                    squares += element * element;
                }
                norms[lane] = f64::sqrt(squares);
                // The squares of finite f32 sum to far less than f64 holds.
                if !squares.is_finite() {
                    broken.fetch_min(group * LANES + lane, Ordering::Relaxed);
                }
            }
        });
        match broken.into_inner() {
            usize::MAX => Ok(Self { values, norms, rows, dim }),
            row => Err(not_finite(row)),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn group(&self, group: usize) -> &[Lanes] {
        &self.values[group * self.dim..][..self.dim]
    }
}

/// A row and its distance, ordered by distance, then by id.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hit {
    distance: f64,
    id: u64,
}

impl Eq for Hit {}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.distance.total_cmp(&other.distance).then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The nearest rows of a query so far. Rows come by ascending id.
#[derive(Debug)]
struct Best {
    /// The farthest on top.
    hits: BinaryHeap<Hit>,
    /// A row has to be nearer than this to enter.
    limit: f64,
    /// There was no memory for some row.
    is_incomplete: bool,
}

impl Best {
    fn add(&mut self, k: usize, hit: Hit) {
        if self.hits.len() == k {
            self.hits.pop();
        } else if self.hits.try_reserve(1).is_err() {
            self.is_incomplete = true;
            self.limit = f64::NEG_INFINITY;
            return;
        }
        self.hits.push(hit);
        if self.hits.len() == k
            && let Some(farthest) = self.hits.peek()
        {
            self.limit = farthest.distance;
        }
    }
}

/// Some queries, and the part of each block's rows that they are compared with.
struct Share {
    /// Groups of queries.
    groups: Range<usize>,
    /// Part `part` of `parts` of a block's groups of rows.
    part: usize,
    parts: usize,
    /// One for each query.
    best: Vec<Best>,
}

/// The nearest rows of every query among those compared so far.
pub(super) struct Nearest<'a> {
    metric: Metric,
    queries: &'a Block,
    k: usize,
    shares: Vec<Share>,
}

impl<'a> Nearest<'a> {
    pub(super) fn new(metric: Metric, queries: &'a Block, k: usize) -> Self {
        let threads = rayon::current_num_threads();
        let groups = queries.norms.len();
        let each = groups.div_ceil(4 * threads).clamp(LEAST_GROUPS, MOST_GROUPS);
        // Equal shares.
        let each = groups.div_ceil(groups.div_ceil(each).max(1)).max(1);
        // Few queries: threads share the rows instead.
        let parts = threads.div_ceil(groups.div_ceil(each).max(1));
        let best = || Best { hits: BinaryHeap::new(), limit: f64::INFINITY, is_incomplete: false };
        let shares = (0..groups).step_by(each).flat_map(|first| {
            let groups = first..(first + each).min(groups);
            (0..parts).map(move |part| {
                let best = iter::repeat_with(best).take(groups.len() * LANES).collect();
                Share { groups: groups.clone(), part, parts, best }
            })
        });
        Self { metric, queries, k, shares: shares.collect() }
    }

    /// Compares all queries with more rows, whose ids start at `first`.
    pub(super) fn compare(&mut self, rows: &Block, first: u64) {
        let (metric, queries, k) = (self.metric, self.queries, self.k);
        self.shares.par_iter_mut().for_each(|share| match metric {
            Metric::L2Squared | Metric::L2 => share.compare(queries, rows, first, k, squared, |sum, _| sum),
            // Only one sign of zero, because the total order distinguishes two.
            Metric::InnerProduct => share.compare(queries, rows, first, k, product, |sum, _| 0.0 - sum),
            Metric::Cosine => share.compare(queries, rows, first, k, product, |sum, norms| {
                if norms == 0.0 { 1.0 } else { 1.0 - (sum / norms).clamp(-1.0, 1.0) }
            }),
            other => unreachable!("no reference for {other:?}"),
        });
    }

    /// Hands over the neighbours of each query, nearest first: its number, and distances and ids.
    pub(super) fn finish(
        mut self,
        mut take: impl FnMut(usize, &mut dyn Iterator<Item = (f64, u64)>) -> Result<()>,
    ) -> Result<()> {
        let (k, metric, count) = (self.k, self.metric, self.queries.rows);
        // L2 is ordered by its square.
        let root = |hit: &Hit| if metric == Metric::L2 { hit.distance.sqrt() } else { hit.distance };
        let parts = self.shares.first().map_or(1, |share| share.parts);
        let mut hits: Vec<Hit> = vec![];
        let about =
            || format!("--k: no memory for the {k} nearest rows of {}", counted(count, "query", "queries"));
        for shares in self.shares.chunks_mut(parts) {
            let first = shares[0].groups.start * LANES;
            for query in first..count.min(shares[0].groups.end * LANES) {
                hits.clear();
                for share in shares.iter_mut() {
                    let best = &mut share.best[query - first];
                    let reserved = hits.try_reserve(best.hits.len());
                    ensure!(!best.is_incomplete && reserved.is_ok(), about());
                    hits.extend(best.hits.drain());
                }
                hits.sort_unstable();
                take(query, &mut hits.iter().take(k).map(|hit| (root(hit), hit.id)))?;
            }
        }
        Ok(())
    }
}

impl Share {
    /// `term` is the contribution of a pair of elements. `distance` turns the sum and the product of the norms into a distance.
    fn compare(
        &mut self,
        queries: &Block,
        rows: &Block,
        first: u64,
        k: usize,
        term: impl Fn(f64, f64) -> f64 + Copy,
        distance: impl Fn(f64, f64) -> f64,
    ) {
        let all = rows.norms.len();
        let mine = all * self.part / self.parts..all * (self.part + 1) / self.parts;
        let some = (CACHE_BYTES / (rows.dim * size_of::<Lanes>())).max(1);
        for start in mine.clone().step_by(some) {
            for (best, query_group) in self.best.chunks_exact_mut(LANES).zip(self.groups.clone()) {
                let query_norms = &queries.norms[query_group];
                for row_group in start..(start + some).min(mine.end) {
                    let sums = sums(queries.group(query_group), rows.group(row_group), term);
                    let row = row_group * LANES;
                    for ((best, sums), query_norm) in best.iter_mut().zip(&sums).zip(query_norms) {
                        let lanes = sums.iter().zip(&rows.norms[row_group]).take(rows.rows - row);
                        for (lane, (&sum, norm)) in lanes.enumerate() {
                            let distance = distance(sum, query_norm * norm);
                            if distance < best.limit {
                                best.add(k, Hit { distance, id: first + (row + lane) as u64 });
                            }
                        }
                    }
                }
            }
        }
    }
}

fn squared(query: f64, row: f64) -> f64 {
    (query - row) * (query - row)
}

fn product(query: f64, row: f64) -> f64 {
    query * row
}

/// Sums of terms over the elements, `[queries, rows]`, each from the first element to the last.
#[inline(always)]
fn sums(queries: &[Lanes], rows: &[Lanes], term: impl Fn(f64, f64) -> f64) -> [Lanes; LANES] {
    let mut sums = [[0.0; LANES]; LANES];
    for (queries, rows) in queries.iter().zip(rows) {
        for (sums, &query) in sums.iter_mut().zip(queries) {
            for (sum, &row) in sums.iter_mut().zip(rows) {
                *sum += term(query, row);
            }
        }
    }
    sums
}
