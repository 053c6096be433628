//! The nearest rows of each query so far.

/// A row near to a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hit {
    pub(crate) distance: f64,
    /// Tells rows apart, and orders those of the same distance.
    pub(crate) row: u64,
}

impl Hit {
    fn key(&self) -> (i64, u64) {
        // The order of `f64::total_cmp`.
        let bits = self.distance.to_bits() as i64;
        (bits ^ (((bits >> 63) as u64) >> 1) as i64, self.row)
    }
}

/// The k nearest rows of each query, nearest first, rows of the same distance in their order.
#[derive(Debug, Clone)]
pub(crate) struct Hits {
    k: usize,
    of_queries: Vec<Vec<Hit>>,
}

impl Hits {
    pub(crate) fn new(queries: usize, k: usize) -> Self {
        Self { k, of_queries: vec![vec![]; queries] }
    }

    /// The distance that a row must not exceed to be one of the k nearest.
    pub(crate) fn threshold(&self, query: usize) -> f64 {
        let hits = &self.of_queries[query];
        match hits.last() {
            Some(last) if hits.len() == self.k => last.distance,
            _ => f64::INFINITY,
        }
    }

    /// Adds rows, if they are near enough. A distance that is no number never is.
    pub(crate) fn add(&mut self, query: usize, new: impl IntoIterator<Item = Hit>) {
        let (k, hits) = (self.k, &mut self.of_queries[query]);
        let mut farthest = if hits.len() == k { hits.last().map(Hit::key) } else { None };
        for hit in new {
            if k == 0 || hit.distance.is_nan() || farthest.is_some_and(|farthest| farthest <= hit.key()) {
                continue;
            }
            hits.push(hit);
            // Up to k too many: keeping them in order at all times would move up to k of them for each.
            if hits.len() >= k.saturating_mul(2) {
                farthest = Some(hits.select_nth_unstable_by_key(k - 1, Hit::key).1.key());
                hits.truncate(k);
            }
        }
        hits.sort_unstable_by_key(Hit::key);
        hits.truncate(k);
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        for (query, hits) in other.of_queries.into_iter().enumerate() {
            self.add(query, hits);
        }
        self
    }

    pub(crate) fn of_query(&self, query: usize) -> &[Hit] {
        &self.of_queries[query]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vec<Hit>> {
        self.of_queries.iter()
    }

    pub(crate) fn bytes(&self) -> usize {
        let of_query = |hits: &Vec<Hit>| hits.capacity() * size_of::<Hit>() + size_of::<Vec<Hit>>();
        self.of_queries.iter().map(of_query).sum()
    }
}
