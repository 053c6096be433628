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

    /// Adds a row, if it is near enough. A distance that is no number never is.
    pub(crate) fn offer(&mut self, query: usize, hit: Hit) {
        let hits = &mut self.of_queries[query];
        if hit.distance.is_nan() || self.k == 0 {
            return;
        }
        if hits.len() == self.k {
            if hits.last().is_some_and(|last| last.key() <= hit.key()) {
                return;
            }
            hits.pop();
        }
        let place = hits.partition_point(|other| other.key() < hit.key());
        hits.insert(place, hit);
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        for (query, hits) in other.of_queries.into_iter().enumerate() {
            hits.into_iter().for_each(|hit| self.offer(query, hit));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_stay_in_order_and_equal_distances_in_that_of_rows() {
        let mut hits = Hits::new(1, 3);
        for (distance, row) in [(2.0, 9), (f64::NAN, 0), (1.0, 7), (2.0, 3), (-1.0, 8), (2.0, 1), (1.0, 5)] {
            hits.offer(0, Hit { distance, row });
        }
        assert_eq!(hits.of_query(0).iter().map(|hit| hit.row).collect::<Vec<u64>>(), [8, 5, 7]);
        assert_eq!(hits.threshold(0), 1.0);
    }
}
