//! `Neighbors`: the result of a search.

use std::ops::Range;
use std::sync::OnceLock;

use crate::parallel::*;

use crate::error::{Error, Result};
use crate::memory;

/// With fewer words, one thread is faster than several.
const WORDS_A_THREAD: usize = 1 << 16;

/// Queries whose neighbours a thread merges at a time.
const MERGED_AT_ONCE: usize = 1024;

/// A row found by a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// The row's id.
    pub id: u64,
    /// Its distance from the query in the index's metric. Smaller is nearer.
    pub distance: f32,
}

/// The nearest rows of each query, `[queries, up to k]`, nearest first, ties by the smaller id.
///
/// A query has fewer than k neighbours if there are fewer rows; nothing is padded. [`row`](Self::row) and iteration give the
/// neighbours of one query at a time. [`ids`](Self::ids), [`distances`](Self::distances) and [`offsets`](Self::offsets) give
/// plain arrays.
///
/// ```no_run
/// # use nearfield::{Device, Flat, MatrixView, Metric};
/// # let index = Flat::builder(&Device::best()?, Metric::L2, 2).build()?;
/// let found = index.search(MatrixView::new(&[0.0f32, 1.0, 2.0, 3.0], 2)?, 5)?;
/// for row in &found {
///     println!("{:?}", row.first().map(|nearest| nearest.id));
/// }
/// let second = found.offsets()[1]..found.offsets()[2];
/// println!("{:?} at {:?}", &found.ids()[second.clone()], &found.distances()[second]);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Neighbors {
    hits: Vec<Neighbor>,
    /// The start of each query's hits, and the end of the last.
    offsets: Vec<usize>,
    /// Separate ids and distances, created on first use.
    arrays: OnceLock<(Vec<u64>, Vec<f32>)>,
}

impl PartialEq for Neighbors {
    fn eq(&self, other: &Self) -> bool {
        self.hits == other.hits && self.offsets == other.offsets
    }
}

impl Default for Neighbors {
    /// The result of no queries.
    fn default() -> Self {
        Self { hits: vec![], offsets: vec![0], arrays: OnceLock::new() }
    }
}

impl Neighbors {
    /// The result of no queries, with room for this many and their hits.
    pub(crate) fn with_room(queries: usize, hits: usize) -> Result<Self> {
        let mut offsets = memory::with_room(queries + 1)?;
        offsets.push(0);
        Ok(Self { hits: memory::with_room(hits)?, offsets, arrays: OnceLock::new() })
    }

    /// Takes hits in the order of the queries. `places` has the range of each query's hits.
    pub(crate) fn of(hits: Vec<Neighbor>, places: &[Range<usize>]) -> Self {
        let offsets = std::iter::once(0).chain(places.iter().map(|place| place.end)).collect();
        Self { hits, offsets, arrays: OnceLock::new() }
    }

    /// Candidates that the caller names, for [`Flat::refine`](crate::Flat::refine): query `q` has `ids[offsets[q]..offsets[q + 1]]`. They
    /// have no distances yet: those are NaN.
    ///
    /// # Errors
    /// [`Error::Argument`] for offsets that do not ascend from 0 to the number of ids; [`Error::OutOfMemory`].
    ///
    /// ```
    /// let candidates = nearfield::Neighbors::of_ids(&[7, 3, 9], &[0, 2, 3])?;
    /// assert_eq!((candidates.queries(), candidates.row(0)[1].id), (2, 3));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn of_ids(ids: &[u64], offsets: &[usize]) -> Result<Self> {
        let fits = offsets.first() == Some(&0) && offsets.last() == Some(&ids.len()) && offsets.is_sorted();
        if !fits {
            let needed = format!("numbers that ascend from 0 to {}, the number of ids", ids.len());
            let ends =
                [offsets.first(), offsets.last()].map(|end| end.map_or("none".into(), usize::to_string));
            return Err(Error::argument("offsets", needed, format!("{} to {}", ends[0], ends[1])));
        }
        let hits = memory::collect(ids.iter().map(|&id| Neighbor { id, distance: f32::NAN }))?;
        Ok(Self { hits, offsets: memory::copied(offsets)?, arrays: OnceLock::new() })
    }

    pub(crate) fn push_row(&mut self, hits: impl IntoIterator<Item = Neighbor>) {
        self.hits.extend(hits);
        self.offsets.push(self.hits.len());
    }

    /// Appends rows of k words, which `hit` converts. A row with fewer hits is padded with `nothing`.
    pub(crate) fn push_words(
        &mut self,
        words: &[u64],
        k: usize,
        nothing: u64,
        hit: impl Fn(u64) -> Neighbor + Sync + Send,
    ) {
        if words.iter().skip(k - 1).step_by(k).any(|&last| last == nothing) {
            for words in words.chunks_exact(k) {
                self.push_row(words.iter().take_while(|&&word| word != nothing).map(|&word| hit(word)));
            }
            return;
        }
        let start = self.hits.len();
        if words.len() < WORDS_A_THREAD {
            self.hits.extend(words.iter().map(|&word| hit(word)));
        } else {
            self.hits.par_extend(words.par_iter().map(|&word| hit(word)));
        }
        self.offsets.extend((1..=words.len() / k).map(|row| start + row * k));
    }

    /// Drops the hits that are not nearer than a radius.
    pub(crate) fn cut_at(&mut self, radius: f32) {
        let (mut start, mut kept) = (0, 0);
        for end in &mut self.offsets[1..] {
            let near = self.hits[start..*end].partition_point(|hit| hit.distance < radius);
            self.hits.copy_within(start..start + near, kept);
            start = std::mem::replace(end, kept + near);
            kept = *end;
        }
        self.hits.truncate(kept);
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The neighbours of one query, nearest first.
    ///
    /// # Panics
    /// If `query` is not below [`queries`](Self::queries).
    pub fn row(&self, query: usize) -> &[Neighbor] {
        &self.hits[self.offsets[query]..self.offsets[query + 1]]
    }

    /// The neighbours of all queries, query by query. [`offsets`](Self::offsets) separates the queries.
    pub fn hits(&self) -> &[Neighbor] {
        &self.hits
    }

    /// The ids of all neighbours, in the order of [`hits`](Self::hits). The first call copies them.
    pub fn ids(&self) -> &[u64] {
        &self.arrays().0
    }

    /// The distances of all neighbours, in the order of [`hits`](Self::hits). The first call copies them.
    pub fn distances(&self) -> &[f32] {
        &self.arrays().1
    }

    fn arrays(&self) -> &(Vec<u64>, Vec<f32>) {
        self.arrays.get_or_init(|| self.hits.iter().map(|hit| (hit.id, hit.distance)).unzip())
    }

    /// The start of each query's neighbours in [`hits`](Self::hits), [`ids`](Self::ids) and [`distances`](Self::distances), and
    /// the end of the last, `[queries + 1]`: the row pointers of a CSR matrix.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Iterates over the neighbours of each query.
    pub fn iter(&self) -> Iter<'_> {
        Iter { hits: &self.hits, ends: self.offsets.windows(2) }
    }

    /// Merges the results of several indexes for the same queries: the k nearest of all, by (distance, id). A row found in several
    /// indexes is kept several times. The neighbours of each part are nearest first, as a search gives them.
    ///
    /// # Errors
    /// [`Error::Argument`] if the parts have different numbers of queries.
    ///
    /// ```no_run
    /// # use nearfield::{Flat, MatrixView, Neighbors};
    /// # fn both(old: &Flat, new: &Flat, queries: MatrixView<'_, f32>) -> Result<(), nearfield::Error> {
    /// let found = Neighbors::merge(&[old.search(queries, 10)?, new.search(queries, 10)?], 10)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(parts: &[Self], k: usize) -> Result<Self> {
        let queries = parts.first().map_or(0, Self::queries);
        if let Some(other) = parts.iter().find(|part| part.queries() != queries) {
            let needed = format!("answers to {queries} queries, as the first part has");
            return Err(Error::argument("parts", needed, other.queries()));
        }
        let found = |query: usize| parts.iter().map(|part| part.row(query).len()).sum::<usize>().min(k);
        let all: usize = (0..queries).map(found).sum();
        let mut merged = Self::with_room(queries, all)?;
        merged.offsets.extend((0..queries).scan(0, |end, query| {
            *end += found(query);
            Some(*end)
        }));
        merged.hits.resize(all, Neighbor { id: 0, distance: 0.0 });
        let mut blocks = vec![];
        let mut rest = &mut *merged.hits;
        for first in (0..queries).step_by(MERGED_AT_ONCE) {
            let block = first..queries.min(first + MERGED_AT_ONCE);
            let hits = merged.offsets[block.end] - merged.offsets[first];
            let (of_block, behind) = rest.split_at_mut(hits);
            rest = behind;
            blocks.push((block, of_block));
        }
        let offsets = &merged.offsets;
        let merge_block = |(block, mut hits): (Range<usize>, &mut [Neighbor])| {
            let mut heads: Vec<Head<'_>> = vec![];
            for query in block {
                let (row, behind) = hits.split_at_mut(offsets[query + 1] - offsets[query]);
                hits = behind;
                heads.clear();
                heads.extend(parts.iter().map(|part| Head::of(part.row(query))));
                merge_row(&mut heads, row);
            }
        };
        if blocks.len() < 2 {
            blocks.into_iter().for_each(merge_block);
        } else {
            blocks.into_par_iter().for_each(merge_block);
        }
        Ok(merged)
    }

    /// The neighbours of the queries of several parts, one part after the other.
    pub(crate) fn join(parts: &[Self]) -> Result<Self> {
        let sum = |of: fn(&Self) -> usize| parts.iter().map(of).sum();
        let mut joined = Self::with_room(sum(Self::queries), sum(|part| part.hits.len()))?;
        for part in parts {
            joined.offsets.extend(part.offsets[1..].iter().map(|end| joined.hits.len() + end));
            joined.hits.extend_from_slice(&part.hits);
        }
        Ok(joined)
    }

    /// Makes room for more queries and hits.
    pub(crate) fn reserve(&mut self, queries: usize, hits: usize) -> Result<()> {
        memory::reserve_more(&mut self.hits, hits)?;
        memory::reserve_more(&mut self.offsets, queries)
    }

    /// Replaces squared distances by their roots. Squares in order have roots in order.
    pub(crate) fn take_roots(&mut self) {
        self.hits.iter_mut().for_each(|hit| hit.distance = hit.distance.sqrt());
    }

    /// Replaces the neighbours of some queries by those of other ones, in the order of `queries`, which ascend.
    pub(crate) fn replace(&mut self, queries: &[usize], others: &Self) -> Result<()> {
        let mut all = Self::with_room(self.queries(), self.hits.len() + others.hits.len())?;
        let mut replaced = queries.iter().zip(others).peekable();
        for query in 0..self.queries() {
            match replaced.next_if(|(other, _)| **other == query) {
                Some((_, row)) => all.push_row(row.iter().copied()),
                None => all.push_row(self.row(query).iter().copied()),
            }
        }
        *self = all;
        Ok(())
    }
}

/// The neighbours of a query in one of several parts that are still to be merged.
struct Head<'a> {
    /// Orders the first of them by (distance, id).
    key: u128,
    rest: &'a [Neighbor],
}

impl<'a> Head<'a> {
    fn of(rest: &'a [Neighbor]) -> Self {
        // -0 and +0 are the same distance. No row has the key of nothing left.
        let key = rest.first().map_or(u128::MAX, |hit| {
            let bits = (hit.distance + 0.0).to_bits();
            let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            u128::from(ascending) << 64 | u128::from(hit.id)
        });
        Self { key, rest }
    }
}

/// Fills `row` with the nearest of `heads`, which together have at least as many. Which of them is nearer cannot be predicted, so the choice
/// is made without branches.
fn merge_row(heads: &mut [Head<'_>], row: &mut [Neighbor]) {
    for hit in row {
        let (mut nearest, mut least) = (0, u128::MAX);
        for (place, head) in heads.iter().enumerate() {
            let is_less = head.key < least;
            nearest = if is_less { place } else { nearest };
            least = if is_less { head.key } else { least };
        }
        let Some((first, rest)) = heads.get(nearest).and_then(|head| head.rest.split_first()) else { return };
        *hit = *first;
        heads[nearest] = Head::of(rest);
    }
}

/// An iterator over the neighbours of each query, returned by [`Neighbors::iter`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    hits: &'a [Neighbor],
    ends: std::slice::Windows<'a, usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [Neighbor];

    fn next(&mut self) -> Option<Self::Item> {
        self.ends.next().map(|ends| &self.hits[ends[0]..ends[1]])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Neighbors {
    type Item = &'a [Neighbor];
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[&[(u64, f32)]]) -> Neighbors {
        let mut answer = Neighbors::default();
        for row in rows {
            answer.push_row(row.iter().map(|&(id, distance)| Neighbor { id, distance }));
        }
        answer
    }

    #[test]
    fn arrays_and_rows_are_the_same_neighbours() {
        let found = answer(&[&[(7, 0.5), (3, 1.5)], &[], &[(9, -2.0)]]);
        assert_eq!(found.ids(), [7, 3, 9]);
        assert_eq!(found.distances(), [0.5, 1.5, -2.0]);
        assert_eq!(found.offsets(), [0, 2, 2, 3]);
        assert_eq!((&found).into_iter().len(), 3);
        for (query, row) in found.iter().enumerate() {
            assert_eq!(row, found.row(query));
        }
        assert_eq!(found, found.clone(), "arrays that were asked for do not count");
    }

    #[test]
    fn many_queries_are_merged_as_one_alone() {
        let count = 2 * MERGED_AT_ONCE + 7;
        // Rows of 0 to 4 neighbours, many at the same distance.
        let part = |start: usize| {
            let mut part = Neighbors::default();
            for query in 0..count {
                let hit = |place: usize| Neighbor { id: (2 * place + start) as u64, distance: place as f32 };
                part.push_row((query % 3..query % 3 + (query + start) % 5).map(hit));
            }
            part
        };
        let parts = [part(0), part(1)];
        let merged = Neighbors::merge(&parts, 5).expect("as many queries");
        assert_eq!(merged.queries(), count);
        for query in 0..count {
            let mut wanted = [parts[0].row(query), parts[1].row(query)].concat();
            wanted.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
            wanted.truncate(5);
            assert_eq!(merged.row(query), wanted, "query {query}");
        }
    }

    #[test]
    fn a_merge_orders_by_distance_and_id_across_parts() {
        let first = answer(&[&[(1, 0.0), (8, 2.0)], &[(5, 1.0)]]);
        let second = answer(&[&[(0, -0.0), (2, 2.0), (4, 3.0)], &[]]);
        let merged = Neighbors::merge(&[first.clone(), second], 3).expect("as many queries");
        assert_eq!(merged, answer(&[&[(0, 0.0), (1, 0.0), (2, 2.0)], &[(5, 1.0)]]));
        assert_eq!(Neighbors::merge(&[], 3).expect("no part"), Neighbors::default());
        let error = Neighbors::merge(&[first, answer(&[&[]])], 3).expect_err("other queries");
        assert!(matches!(error, Error::Argument { argument: "parts", .. }), "{error}");
    }
}
