//! Probes under a filter: queries that it leaves too few rows probe twice as many lists, until they have enough or have probed all.

/// How many lists are probed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widening {
    pub(crate) probes: u32,
    /// How many there are.
    pub(crate) lists: u32,
    /// Rows that each query finds when it probes all lists, where there is a filter.
    pub(crate) wanted: Option<usize>,
}

impl Widening {
    /// The queries of so many that are to probe more lists, and from now on `probes`; none when all are answered. `len_of` says how
    /// many rows a query has.
    pub(crate) fn short(&mut self, queries: usize, len_of: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
        let wanted = self.wanted.filter(|_| self.probes < self.lists)?;
        let short: Vec<usize> = (0..queries).filter(|&query| len_of(query) < wanted).collect();
        if short.is_empty() {
            return None;
        }
        self.probes = (2 * self.probes).min(self.lists);
        Some(short)
    }
}
