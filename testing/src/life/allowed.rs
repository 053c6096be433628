//! The ids that a filter of a life allows.

use std::fmt;

use nearfield::Filter;

use super::Life;

/// A part of all ids, in the words of one of the three kinds of filters.
pub(super) struct Allowed {
    /// Which kind.
    number: usize,
    /// Ids in 100.
    share: u64,
    /// A bitmap has no bits for ids beyond its end.
    end: u64,
    ids: Vec<u64>,
    words: Vec<u64>,
}

impl Allowed {
    pub(super) fn has(&self, id: u64) -> bool {
        id % 100 < self.share && (self.number != 1 || id < self.end)
    }

    /// The filter. `is_allowed` is [`has`](Self::has).
    pub(super) fn filter<'a>(&'a self, is_allowed: &'a (impl Fn(u64) -> bool + Send + Sync)) -> Filter<'a> {
        [Filter::ids(&self.ids), Filter::bits(&self.words), Filter::by(is_allowed)][self.number]
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter {} of {} in 100", self.number, self.share)
    }
}

impl Life<'_> {
    /// Allows none, few, many or all of the ids.
    pub(super) fn allowed(&mut self) -> Allowed {
        let share = [0, 1, 5, 30, 100][self.random.below(5)];
        let (end, number) = (self.next, self.random.below(3));
        let words = vec![0u64; end as usize / 64 + 1];
        let mut allowed = Allowed { number, share, end, ids: vec![], words };
        let those = self.rows.keys().copied().filter(|&id| allowed.has(id));
        // One that no row has, too.
        allowed.ids = those.chain([u64::MAX]).collect();
        for id in allowed.ids.iter().filter(|id| **id < end) {
            allowed.words[*id as usize / 64] |= 1 << (id % 64);
        }
        allowed
    }
}
