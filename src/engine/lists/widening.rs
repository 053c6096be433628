//! Full answers: queries with too few rows probe twice as many lists, until they have enough or have probed all.

/// The number of lists that queries probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widening {
    pub(crate) probes: u32,
    /// The number of all lists.
    pub(crate) lists: u32,
    /// Rows that each query finds if it probes all lists. None where fewer will do.
    pub(crate) wanted: Option<usize>,
}

impl Widening {
    /// The queries with too few rows, which probe `probes` lists next. None if all are answered. `len_of` tells how many rows a query
    /// has.
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
