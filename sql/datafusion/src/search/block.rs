//! The search of one block of rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result, exec_err};
use nearfield::{Device, Flat, MatrixView, Metric, interruptible};
use rayon::prelude::*;

use crate::error::external;
use crate::metric::{distance, norm, ordering};
use crate::plan::node::Wanted;
use crate::search::certificate::{Extent, Moved, least};
use crate::search::hits::{Hit, Hits};
use crate::search::queries::{Given, Queries};
use crate::vectors::{Number, Vectors, with_elements};

/// With fewer queries, comparing them with every row takes less time than quantising the rows does.
const LEAST_QUERIES: usize = 8;
/// With fewer pairs too.
pub(crate) const LEAST_PAIRS: usize = 1 << 12;
/// Rows that the library names beyond k, so that nearly all queries are certain at once.
pub(crate) const MORE: usize = 8;
/// Rows that a thread compares with all queries at a time.
const ROWS_AT_ONCE: usize = 2048;
/// The lengths of vectors that the library takes, other than 0, with a factor of two to spare for its rounding.
const LENGTHS: std::ops::RangeInclusive<f64> = 1.0 / (1u64 << 49) as f64..=(1u64 << 49) as f64;

/// A search: its queries and its device.
#[derive(Clone)]
pub(crate) struct Search {
    pub(crate) wanted: Wanted,
    pub(crate) queries: Arc<Queries>,
    pub(crate) device: Device,
    /// Set when nobody waits for the answer any more.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Counts the work of a search.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// Pairs that the library compared by integers or in f32.
    pub(crate) screened: usize,
    /// Pairs that got a distance in f64.
    pub(crate) refined: usize,
    /// Queries that were compared with every row, or looked for again in a graph, because the library's answer left a doubt.
    pub(crate) in_doubt: usize,
}

/// Rows of a block, in one or several arrays.
struct Rows {
    parts: Vec<Vectors>,
    /// The number of the first row of each part.
    starts: Vec<usize>,
    len: usize,
}

impl Rows {
    fn new(columns: &[ArrayRef]) -> Result<Self> {
        let mut rows = Self { parts: vec![], starts: vec![], len: 0 };
        for column in columns {
            rows.starts.push(rows.len);
            rows.parts.push(Vectors::new(column)?);
            rows.len += column.len();
        }
        Ok(rows)
    }

    fn place(&self, row: usize) -> (usize, usize) {
        let part = self.starts.partition_point(|&start| start <= row) - 1;
        (part, row - self.starts[part])
    }

    /// The distance of a row, or none where it has none.
    fn distance(&self, metric: Metric, query: &[f64], row: usize) -> Option<f64> {
        let (part, row) = self.place(row);
        let range = self.parts[part].range(row)?;
        with_elements!(self.parts[part].elements, |values| distance(metric, query, &values[range]))
    }

    /// Checks that every vector has as many elements as the queries, and counts them.
    fn check_dim(&self, dim: usize, column: &str) -> Result<usize> {
        let mut count = 0;
        for part in &self.parts {
            for range in (0..part.len()).filter_map(|row| part.range(row)) {
                if range.len() != dim {
                    return exec_err!(
                        "column {column:?}: needed vectors of {dim} elements as the queries have, given {}",
                        range.len()
                    );
                }
                count += 1;
            }
        }
        Ok(count)
    }
}

/// The rows that the library takes, in f32.
pub(crate) struct Converted {
    pub(crate) values: Vec<f32>,
    /// The number of each in the block.
    pub(crate) numbers: Vec<usize>,
    /// How far conversion moved each.
    pub(crate) moves: Vec<Moved>,
    /// Rows that it does not take: very long or short ones, and those with elements that are not finite.
    pub(crate) others: Vec<usize>,
    pub(crate) extent: Extent,
}

impl Converted {
    fn with_room(vectors: usize, dim: usize) -> Result<Self> {
        let mut values = vec![];
        let lacking =
            |_| DataFusionError::ResourcesExhausted(format!("no memory for {vectors} vectors of {dim} f32"));
        values.try_reserve_exact(vectors * dim).map_err(lacking)?;
        Ok(Self { values, numbers: vec![], moves: vec![], others: vec![], extent: Extent::default() })
    }

    fn new(rows: &Rows, vectors: usize, dim: usize, metric: Metric) -> Result<Self> {
        let mut converted = Self::with_room(vectors, dim)?;
        for (part, &start) in rows.parts.iter().zip(&rows.starts) {
            for row in 0..part.len() {
                let Some(range) = part.range(row) else { continue };
                with_elements!(part.elements, |values| converted.push(&values[range], start + row, metric));
            }
        }
        Ok(converted)
    }

    /// The rows of a table that are its own queries.
    pub(crate) fn of_queries(queries: &Queries, metric: Metric) -> Result<Self> {
        let mut converted = Self::with_room(queries.count(), queries.dim())?;
        for place in 0..queries.count() {
            match queries.given(place) {
                Given::F32(row) => converted.push(row, place, metric),
                Given::F64(row) => converted.push(row, place, metric),
            }
        }
        Ok(converted)
    }

    /// An index of them, whose ids are their places here.
    pub(crate) fn index(&self, device: &Device, metric: Metric, dim: usize) -> nearfield::Result<Flat> {
        let mut index = Flat::builder(device, ordering(metric), dim).build()?;
        index.add(MatrixView::new(&self.values, dim)?)?;
        Ok(index)
    }

    fn push<T: Number>(&mut self, row: &[T], number: usize, metric: Metric) {
        let start = self.values.len();
        self.values.extend(row.iter().map(|x| x.to_f32()));
        match moved(row, &self.values[start..]) {
            // The cosine of a zero vector is NULL, which is never a neighbour.
            Some(Moved { norm: 0.0, .. }) if metric == Metric::Cosine => self.values.truncate(start),
            Some(move_of_row @ Moved { norm, moved }) => {
                let extent = &mut self.extent;
                extent.norm = extent.norm.max(norm);
                extent.moved = extent.moved.max(moved);
                extent.turned = extent.turned.max(if norm == 0.0 { 0.0 } else { moved / norm });
                self.numbers.push(number);
                self.moves.push(move_of_row);
            }
            None => {
                self.values.truncate(start);
                self.others.push(number);
            }
        }
    }
}

/// How far conversion moved a vector, or none where the library does not take the result.
pub(crate) fn moved<T: Number>(row: &[T], converted: &[f32]) -> Option<Moved> {
    let length = norm(row);
    let is_taken = |length: f64| length == 0.0 || LENGTHS.contains(&length);
    let takes = is_taken(length) && is_taken(norm(converted));
    let moved = distance(Metric::L2, row, converted)?;
    takes.then_some(Moved { norm: length, moved })
}

/// Adds the nearest rows of a block to `hits`. `first` is the number of the block's first row.
pub(crate) fn search(
    search: &Search,
    metric: Metric,
    columns: &[ArrayRef],
    first: u64,
    hits: Hits,
) -> Result<(Hits, Work)> {
    let rows = Rows::new(columns)?;
    let count = search.queries.count();
    if count == 0 || rows.len == 0 {
        return Ok((hits, Work::default()));
    }
    let vectors = rows.check_dim(search.queries.dim(), &search.wanted.column)?;
    let mut block = Block { search, metric, rows, first, hits, work: Work::default() };
    // Those of bits count them where they lie. The library would convert them to f32.
    let is_of_bits = Metric::OF_BITS.contains(&metric);
    match is_of_bits || count < LEAST_QUERIES || count * block.rows.len < LEAST_PAIRS {
        true => block.compare_all(&(0..count).collect::<Vec<_>>())?,
        false => block.by_library(vectors)?,
    }
    Ok((block.hits, block.work))
}

/// The search of a block.
struct Block<'a> {
    search: &'a Search,
    metric: Metric,
    rows: Rows,
    /// The number of the first row.
    first: u64,
    hits: Hits,
    work: Work,
}

impl Block<'_> {
    /// A row by its distance from a query, if it has one.
    fn hit(&self, query: usize, row: usize) -> Option<Hit> {
        let distance = self.rows.distance(self.metric, self.search.queries.query(query), row)?;
        Some(Hit { distance, row: self.first + row as u64 })
    }

    fn by_library(&mut self, vectors: usize) -> Result<()> {
        let Search { queries, wanted: Wanted { k, .. }, .. } = self.search;
        let (metric, dim) = (self.metric, queries.dim());
        let converted = Converted::new(&self.rows, vectors, dim, metric)?;
        let in_f32 = |place: usize| &queries.to_f32()[place * dim..][..dim];
        let moved_of = |place: usize| {
            // The cosines of a zero vector are NULL, which is for the scalar function to say.
            moved(queries.query(place), in_f32(place))
                .filter(|moved| moved.norm > 0.0 || metric != Metric::Cosine)
        };
        let moves: Vec<Option<Moved>> = (0..queries.count()).map(moved_of).collect();
        let (taken, mut doubtful): (Vec<usize>, Vec<usize>) =
            (0..queries.count()).partition(|&place| moves[place].is_some() && !converted.numbers.is_empty());
        let mut certain = vec![];
        if !taken.is_empty() {
            let asked: Vec<f32> = taken.iter().flat_map(|&place| in_f32(place)).copied().collect();
            let most = k.saturating_add(MORE).min(converted.numbers.len());
            let found = with_library(self.search, metric, &converted, &asked, most)?;
            self.work.screened += taken.len() * converted.numbers.len();
            self.work.refined += found.hits().len();
            let answers: Vec<(Hits, bool)> = (taken.par_iter().enumerate())
                .map(|(number, &place)| {
                    let named = found.row(number);
                    let mut best = Hits::new(1, *k);
                    let rows = named.iter().map(|named| converted.numbers[named.id as usize]);
                    best.add(0, rows.filter_map(|row| self.hit(place, row)));
                    let threshold = best.threshold(0).min(self.hits.threshold(place));
                    let is_certain = named.len() == converted.numbers.len()
                        || (named.last().zip(moves[place])).is_some_and(|(last, moved)| {
                            least(metric, dim, last.distance.into(), moved, converted.extent) > threshold
                        });
                    (best, is_certain)
                })
                .collect();
            for (&place, (best, is_certain)) in taken.iter().zip(answers) {
                if is_certain {
                    self.hits.add(place, best.of_query(0).iter().copied());
                    certain.push(place);
                } else {
                    doubtful.push(place);
                }
            }
        }
        self.work.in_doubt += doubtful.len();
        self.compare(&certain, &converted.others)?;
        self.compare_all(&doubtful)
    }

    fn compare_all(&mut self, queries: &[usize]) -> Result<()> {
        self.compare(queries, &(0..self.rows.len).collect::<Vec<_>>())
    }

    /// Compares some queries with some rows by the scalar function.
    fn compare(&mut self, queries: &[usize], rows: &[usize]) -> Result<()> {
        let (k, stop) = (self.search.wanted.k, &self.search.stop);
        let of_some = |rows: &[usize]| {
            let mut best = Hits::new(queries.len(), k);
            for (number, &place) in queries.iter().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return Err(DataFusionError::Execution("the search was cancelled".into()));
                }
                best.add(number, rows.iter().filter_map(|&row| self.hit(place, row)));
            }
            Ok(best)
        };
        let none = || Hits::new(queries.len(), k);
        let found = rows.par_chunks(ROWS_AT_ONCE).map(of_some).try_reduce(none, |a, b| Ok(a.merge(b)))?;
        for (number, &place) in queries.iter().enumerate() {
            self.hits.add(place, found.of_query(number).iter().copied());
        }
        self.work.refined += queries.len() * rows.len();
        Ok(())
    }
}

fn with_library(
    search: &Search,
    metric: Metric,
    converted: &Converted,
    queries: &[f32],
    k: usize,
) -> Result<nearfield::Neighbors> {
    let (stop, dim) = (search.stop.clone(), search.queries.dim());
    let run = || -> nearfield::Result<nearfield::Neighbors> {
        let index = converted.index(&search.device, metric, dim)?;
        index.search(MatrixView::new(queries, dim)?, k)
    };
    interruptible(move || !stop.load(Ordering::Relaxed), run).map_err(external)
}
