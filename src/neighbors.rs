//! The answer of a search.

use rayon::prelude::*;

/// Words that are worth a thread.
const WORDS_A_THREAD: usize = 1 << 16;

/// A row that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// The row's id.
    pub id: u64,
    /// Its distance from the query, by the index's metric. Smaller is nearer.
    pub distance: f32,
}

/// The nearest rows of each query, `[queries, up to k]`, nearest first, ties by the smaller id.
///
/// A query has fewer than k neighbours when there are fewer rows; nothing is padded.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    hits: Vec<Neighbor>,
    /// Where each query's hits start in `hits`, and the end of the last.
    offsets: Vec<usize>,
}

impl Default for Neighbors {
    /// The answer to no query.
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl Neighbors {
    pub(crate) fn with_capacity(queries: usize, hits: usize) -> Self {
        let mut offsets = Vec::with_capacity(queries + 1);
        offsets.push(0);
        Self { hits: Vec::with_capacity(hits), offsets }
    }

    /// The hits of each query, which lie one query behind the other, from the first on and to the last.
    pub(crate) fn of(hits: Vec<Neighbor>, places: &[std::ops::Range<usize>]) -> Self {
        let offsets = std::iter::once(0).chain(places.iter().map(|place| place.end)).collect();
        Self { hits, offsets }
    }

    pub(crate) fn push_row(&mut self, hits: impl IntoIterator<Item = Neighbor>) {
        self.hits.extend(hits);
        self.offsets.push(self.hits.len());
    }

    /// Adds rows of k words that stand for hits; a row of fewer ends with words that say so.
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

    /// How many queries were answered.
    pub fn queries(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The neighbours of one query, nearest first.
    ///
    /// # Panics
    /// When `query` is not below [`queries`](Self::queries).
    pub fn row(&self, query: usize) -> &[Neighbor] {
        &self.hits[self.offsets[query]..self.offsets[query + 1]]
    }

    /// The neighbours of all queries, one query behind the other: with [`offsets`](Self::offsets) a CSR list.
    pub fn hits(&self) -> &[Neighbor] {
        &self.hits
    }

    /// Where each query's neighbours start in [`hits`](Self::hits), and the end of the last: one more than there are queries.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// The neighbours of every query in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Neighbor]> {
        self.offsets.windows(2).map(|ends| &self.hits[ends[0]..ends[1]])
    }
}
