//! The terms of 16 rows side by side, as intervals of scores read them.

use crate::host::integers::packed::GROUP;
use crate::metric::Form;
use crate::screen::certificate::{Margin, Terms};

/// The terms of 16 rows, side by side.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct GroupTerms {
    pub(crate) scale: [f32; GROUP],
    pub(crate) length: [f32; GROUP],
    pub(crate) residual: [f32; GROUP],
    /// The row's own part of the lower end.
    pub(crate) floor: [f32; GROUP],
    pub(crate) slack: [f32; GROUP],
}

/// The terms of one row of a group.
pub(crate) type LaneTerms = [f32; 5];

impl GroupTerms {
    /// Sets the terms of one row.
    #[inline(always)]
    pub(crate) fn set(&mut self, lane: usize, form: Form, margin: Margin, terms: Terms) {
        let [floor, slack] = terms.floor_and_slack(form, margin);
        self.put(lane, [terms.scale, terms.length, terms.residual, floor, slack]);
    }

    pub(crate) fn lane(&self, lane: usize) -> LaneTerms {
        [self.scale, self.length, self.residual, self.floor, self.slack].map(|terms| terms[lane])
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, lane: usize, [scale, length, residual, floor, slack]: LaneTerms) {
        self.scale[lane] = scale;
        self.length[lane] = length;
        self.residual[lane] = residual;
        self.floor[lane] = floor;
        self.slack[lane] = slack;
    }
}
