//! The documents that can be among the k of largest scores, by bounds of their scores.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::kernels::key_of;

/// Candidates beyond twice k that a shortlist keeps before it looks which of them its threshold excludes.
const SPARE: usize = 1024;

/// The candidates of a query.
#[derive(Debug)]
pub(crate) struct Shortlist {
    k: usize,
    /// The k largest lower bounds, as keys.
    lower: BinaryHeap<Reverse<u32>>,
    /// The upper bound and the place of each candidate.
    candidates: Vec<(f32, u32)>,
    /// A threshold that another list had before.
    floor: u32,
    /// Candidates with which the list is pruned.
    full: usize,
}

impl Shortlist {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, lower: BinaryHeap::new(), candidates: vec![], floor: 0, full: 2 * k + SPARE }
    }

    /// A list of no documents, for some of those that this list is to take in. Its threshold is already known.
    pub(crate) fn empty(&self) -> Self {
        Self { floor: self.threshold().unwrap_or(0), ..Self::new(self.k) }
    }

    /// Takes in the documents of another list.
    pub(crate) fn merge(&mut self, other: Self) {
        for Reverse(lower) in other.lower {
            self.keep_lower(lower);
        }
        self.candidates.extend(other.candidates);
        if self.candidates.len() >= self.full {
            self.prune();
            self.full = 2 * self.candidates.len() + SPARE;
        }
    }

    /// Keeps the k largest lower bounds.
    fn keep_lower(&mut self, lower: u32) {
        match self.lower.peek() {
            Some(&Reverse(least)) if self.lower.len() == self.k => {
                if lower > least {
                    self.lower.pop();
                    self.lower.push(Reverse(lower));
                }
            }
            _ => self.lower.push(Reverse(lower)),
        }
    }

    /// The k-th largest lower bound: at least k documents have a score that is not below it.
    fn threshold(&self) -> Option<u32> {
        self.lower.peek().filter(|_| self.lower.len() == self.k).map(|least| least.0.max(self.floor))
    }

    /// Takes a document in, unless k others have larger scores.
    pub(crate) fn add(&mut self, place: u32, [lower, upper]: [f32; 2]) {
        if key_of(upper) < self.threshold().unwrap_or(self.floor) {
            return;
        }
        self.keep_lower(key_of(lower));
        self.candidates.push((upper, place));
        if self.candidates.len() >= self.full {
            self.prune();
            self.full = 2 * self.candidates.len() + SPARE;
        }
    }

    fn prune(&mut self) {
        if let Some(threshold) = self.threshold() {
            self.candidates.retain(|&(upper, _)| key_of(upper) >= threshold);
        }
    }

    /// The candidates, those of larger upper bounds first.
    pub(crate) fn into_candidates(mut self) -> Vec<(f32, u32)> {
        self.prune();
        self.candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortlist_keeps_what_the_kth_lower_bound_does_not_exclude() {
        let bounds = |place: u32| {
            let middle = (place.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e6;
            let width = (place % 7) as f32 / 10.0;
            [middle - width, middle + width]
        };
        for k in [1, 5, 100, 5000] {
            let mut list = Shortlist::new(k);
            (0..4000).for_each(|place| list.add(place, bounds(place)));
            let mut merged = Shortlist::new(k);
            for first in (0..4000).step_by(500) {
                let mut part = merged.empty();
                (first..first + 500).for_each(|place| part.add(place, bounds(place)));
                merged.merge(part);
            }
            let mut lower: Vec<f32> = (0..4000).map(|place| bounds(place)[0]).collect();
            lower.sort_unstable_by(|a, b| b.total_cmp(a));
            let threshold = lower.get(k - 1).copied().unwrap_or(f32::NEG_INFINITY);
            let mut wanted: Vec<u32> = (0..4000).filter(|&place| bounds(place)[1] >= threshold).collect();
            wanted.sort_unstable();
            for list in [list, merged] {
                let mut found: Vec<u32> =
                    list.into_candidates().into_iter().map(|(_, place)| place).collect();
                found.sort_unstable();
                assert_eq!(found, wanted, "k = {k}");
            }
        }
    }
}
