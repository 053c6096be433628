//! Intervals of scores, 16 rows at a time: the same form and margins as `wgsl/lib/intervals.wgsl` on a GPU (docs/certified-search.md).

use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::integers::packed::GROUP;
use crate::host::rows::group::GroupTerms;
use crate::screen::certificate::QueryTerms;

impl QueryTerms {
    /// The lower ends of the intervals of 16 rows, from their scores.
    #[inline(always)]
    fn lower_ends<S: Score>(&self, group: &GroupTerms, scores: &[S; GROUP]) -> [f32; GROUP] {
        let mut ends = [0.0; GROUP];
        for lane in 0..GROUP {
            let rest =
                group.floor[lane] - self.along * group.length[lane] - self.across * group.residual[lane];
            // The row's scale first: the product of both scales may be subnormal where that of all three factors is not.
            ends[lane] = rest + self.base - self.factor * (group.scale[lane] * scores[lane].value());
        }
        if self.divides {
            // The number of bits of either is that of both less those that they share.
            for lane in 0..GROUP {
                let (either, both) = (ends[lane], scores[lane].value());
                ends[lane] = if both > 0.0 { (either - both) / either } else { 1.0 } - self.slack;
            }
        }
        ends
    }

    /// The upper end of a row's interval, from its lower end.
    pub(crate) fn upper_end(&self, group: &GroupTerms, lane: usize, lower: f32) -> f32 {
        let margin = self.along * group.length[lane]
            + self.across * group.residual[lane]
            + (group.slack[lane] + self.slack)
            + self.share * (lower + self.slack);
        lower + 2.0 * margin
    }
}

/// A score: a dot product of integers, or of f32.
pub(crate) trait Score: Copy {
    fn value(self) -> f32;
}

impl Score for i32 {
    #[inline(always)]
    fn value(self) -> f32 {
        // Exact: `Quantizing` keeps them below 2^24.
        self as f32
    }
}

impl Score for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

/// Passes every row whose lower end is not above its query's limit to `keep`, as (query, group, lane, lower end); `keep` returns
/// the query's limit from then on. The scores of a group and a query start at `group * pitch[0] + query * pitch[1]`.
pub(crate) fn sift<S: Score>(
    groups: &[GroupTerms],
    queries: &[QueryTerms],
    (scores, pitch): (&[S], [usize; 2]),
    limits: &mut [f32],
    mut keep: impl FnMut(usize, usize, usize, f32) -> f32,
) {
    with_widest_registers(
        #[inline(always)]
        || {
            for (number, group) in groups.iter().enumerate() {
                for (query, (terms, limit)) in queries.iter().zip(limits.iter_mut()).enumerate() {
                    let start = number * pitch[0] + query * pitch[1];
                    let Some(scores) = scores[start..].first_chunk::<GROUP>() else { return };
                    let ends = terms.lower_ends(group, scores);
                    let mut passed = false;
                    for &end in &ends {
                        passed |= end <= *limit;
                    }
                    if !passed {
                        continue;
                    }
                    for (lane, &end) in ends.iter().enumerate() {
                        if end <= *limit {
                            *limit = keep(query, number, lane, end);
                        }
                    }
                }
            }
        },
    );
}

/// The same for queries that are rows themselves, whose distances have no direction: passes every pair whose lower end is not above the
/// limit of one of both. `keep` returns the limits of the query and of the row from then on.
pub(crate) fn sift_pairs<S: Score>(
    groups: &[GroupTerms],
    queries: &[QueryTerms],
    (scores, pitch): (&[S], [usize; 2]),
    (limits, row_limits): (&mut [f32], &mut [[f32; GROUP]]),
    mut keep: impl FnMut(usize, usize, usize, f32) -> [f32; 2],
) {
    with_widest_registers(
        #[inline(always)]
        || {
            for (number, (group, of_rows)) in groups.iter().zip(row_limits.iter_mut()).enumerate() {
                for (query, (terms, limit)) in queries.iter().zip(limits.iter_mut()).enumerate() {
                    let start = number * pitch[0] + query * pitch[1];
                    let Some(scores) = scores[start..].first_chunk::<GROUP>() else { return };
                    let ends = terms.lower_ends(group, scores);
                    let mut passed = false;
                    for lane in 0..GROUP {
                        passed |= (ends[lane] <= *limit) | (ends[lane] <= of_rows[lane]);
                    }
                    if !passed {
                        continue;
                    }
                    for (lane, &end) in ends.iter().enumerate() {
                        if end <= *limit || end <= of_rows[lane] {
                            [*limit, of_rows[lane]] = keep(query, number, lane, end);
                        }
                    }
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Form;
    use crate::screen::certificate::{Margin, Terms};

    #[test]
    fn intervals_of_distances_themselves_have_their_margin_on_both_sides() {
        let margin = Margin { relative: 0.25, floor: 0.5, centre_length: 0.0, centre_squared: 0.0 };
        let query = QueryTerms::new(Form::Direct, margin, Terms::default());
        let group = GroupTerms { scale: [1.0; GROUP], ..GroupTerms::default() };
        let lower = query.lower_ends(&group, &[8.0f32; GROUP]);
        assert_eq!(lower, [8.0 - 0.25 * 8.0 - 0.5; GROUP]);
        assert_eq!(query.upper_end(&group, 3, lower[3]), 8.0 + 0.25 * 8.0 + 0.5);
    }
}
