//! Candidate lists, and the terms and margins by which `collect` and `winnow` fill them.

mod collect_tiles;
mod compact;
mod lists;
mod pick;
mod probes;
mod winnow;

use crate::common::bench::GUARD;
use nearfield::internals::certificate::{Form, Margin, Terms};
use nearfield_testing::Random;

/// A margin wide enough that the interval matters and rounding does not.
pub(crate) const WIDE: Margin =
    Margin { relative: 0.03, floor: 0.25, centre_length: 1.5, centre_squared: 2.0 };
pub(crate) const NONE: Margin = Margin { relative: 0.0, floor: 0.0, centre_length: 0.0, centre_squared: 0.0 };

/// The candidate list of each query.
#[derive(Clone)]
pub(crate) struct Lists {
    pub(crate) counts: Vec<u32>,
    /// Slots, lower keys and upper keys: three planes of `[queries, capacity]`.
    pub(crate) words: Vec<u32>,
    pub(crate) capacity: usize,
}

impl Lists {
    /// Poisoned lists.
    pub(crate) fn new(queries: usize, capacity: usize) -> Self {
        Self { counts: vec![GUARD; queries], words: vec![GUARD; 3 * queries * capacity], capacity }
    }

    /// Slot, lower and upper key.
    pub(crate) fn entry(&self, query: usize, place: usize) -> [u32; 3] {
        let plane = self.counts.len() * self.capacity;
        [0, 1, 2].map(|which| self.words[which * plane + query * self.capacity + place])
    }

    pub(crate) fn put(&mut self, query: usize, list: &[[u32; 3]]) {
        self.counts[query] = list.len() as u32;
        let plane = self.counts.len() * self.capacity;
        for (place, entry) in list.iter().enumerate() {
            (0..3).for_each(|which| self.words[which * plane + query * self.capacity + place] = entry[which]);
        }
    }

    /// The entries of a query, up to the capacity.
    pub(crate) fn of(&self, query: usize) -> Vec<[u32; 3]> {
        (0..self.capacity.min(self.counts[query] as usize)).map(|place| self.entry(query, place)).collect()
    }

    /// The slots of a query in ascending order.
    pub(crate) fn slots(&self, query: usize) -> Vec<u32> {
        let mut slots: Vec<u32> = self.of(query).iter().map(|entry| entry[0]).collect();
        slots.sort_unstable();
        slots
    }
}

/// Terms of a narrowed vector.
pub(crate) fn random_terms(random: &mut Random, form: Form) -> Terms {
    let mut of = |most: usize, step: f32| random.below(most) as f32 * step;
    let [scale, length, residual] = [of(50, 0.01), of(90, 0.1), of(20, 0.02)];
    let bias = if form == Form::NarrowedL2 { length * length } else { of(60, 0.5) - 15.0 };
    Terms { scale, length, residual, bias }
}

/// The most that computing an interval in f32 may round off.
pub(crate) fn slack(interval: [f64; 2]) -> f64 {
    interval[0].abs().max(interval[1].abs()).max(10.0) * 1e-5
}
