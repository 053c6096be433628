//! Intervals of scores, 16 rows at a time: what `wgsl/lib/intervals.wgsl` computes on a GPU, in the same form and with the same margins
//! (docs/certified-search.md).

use pulp::Arch;

use crate::host::integers::GROUP;
use crate::screen::certificate::{Form, Margin, Terms};

/// The terms of 16 rows, side by side.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Group {
    scale: [f32; GROUP],
    length: [f32; GROUP],
    residual: [f32; GROUP],
    /// The row's own part of the lower end.
    floor: [f32; GROUP],
    slack: [f32; GROUP],
}

/// What a group keeps of one row.
pub(crate) type Lane = [f32; 5];

impl Group {
    /// The terms of one row.
    pub(crate) fn set(&mut self, lane: usize, form: Form, margin: Margin, terms: Terms) {
        let bias = if matches!(form, Form::NarrowedInnerProduct | Form::NarrowedCosine) {
            // The products with the centre are part of the similarity.
            -terms.bias
        } else {
            terms.bias
        };
        let slack = match form {
            Form::L2 => margin.relative * terms.bias,
            Form::NarrowedL2 => margin.relative * terms.length * terms.length,
            _ => 0.0,
        };
        self.put(lane, [terms.scale, terms.length, terms.residual, bias - slack, slack]);
    }

    pub(crate) fn lane(&self, lane: usize) -> Lane {
        [self.scale, self.length, self.residual, self.floor, self.slack].map(|terms| terms[lane])
    }

    pub(crate) fn put(&mut self, lane: usize, [scale, length, residual, floor, slack]: Lane) {
        self.scale[lane] = scale;
        self.length[lane] = length;
        self.residual[lane] = residual;
        self.floor[lane] = floor;
        self.slack[lane] = slack;
    }
}

/// A query's side of the ends of intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    base: f32,
    factor: f32,
    along: f32,
    across: f32,
    slack: f32,
}

impl Side {
    pub(crate) fn new(form: Form, margin: Margin, terms: Terms) -> Self {
        let relative = margin.relative;
        let reach = relative * (terms.length + margin.centre_length);
        let (mut base, mut factor, mut along, mut across, mut slack) = (0.0, 1.0, 0.0, 0.0, margin.floor);
        match form {
            Form::Direct => factor = -1.0,
            Form::L2 => {
                base = terms.bias;
                factor = 2.0;
                along = 2.0 * relative * terms.length;
                slack += relative * terms.bias;
            }
            Form::InnerProduct => along = reach,
            Form::Cosine => {
                base = 1.0;
                factor = terms.scale;
                across = 1.0;
                slack += relative;
            }
            Form::NarrowedL2 => {
                base = terms.bias;
                factor = 2.0 * terms.scale;
                along = 2.0 * terms.residual;
                across = 2.0 * (terms.length + terms.residual);
                slack += relative * terms.length * terms.length;
            }
            Form::NarrowedInnerProduct | Form::NarrowedCosine => {
                let one = if form == Form::NarrowedCosine { 1.0 } else { 0.0 };
                base = one - (terms.bias - margin.centre_squared);
                factor = terms.scale;
                along = terms.residual + reach;
                across = terms.length + terms.residual;
                slack += reach * margin.centre_length;
            }
        }
        Self { base: base - slack, factor, along, across, slack }
    }

    /// The lower ends of the intervals of 16 rows, by their scores.
    #[inline(always)]
    fn lower_ends<S: Score>(&self, group: &Group, scores: &[S; GROUP]) -> [f32; GROUP] {
        let mut ends = [0.0; GROUP];
        for lane in 0..GROUP {
            let rest =
                group.floor[lane] - self.along * group.length[lane] - self.across * group.residual[lane];
            // First the row's scale: the product of two scales may be subnormal where that of all three is not.
            ends[lane] = rest + self.base - self.factor * (group.scale[lane] * scores[lane].value());
        }
        ends
    }

    /// The upper end of a row's interval, by its lower one.
    pub(crate) fn upper_end(&self, group: &Group, lane: usize, lower: f32) -> f32 {
        let margin = self.along * group.length[lane]
            + self.across * group.residual[lane]
            + (group.slack[lane] + self.slack);
        lower + 2.0 * margin
    }
}

/// A score: of integers, or of f32.
pub(crate) trait Score: Copy {
    fn value(self) -> f32;
}

impl Score for i32 {
    #[inline(always)]
    fn value(self) -> f32 {
        // Exact: `Narrowing` keeps them below 2^24.
        self as f32
    }
}

impl Score for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

/// Goes through scores, of which those of a group and a query start at `group * pitch[0] + query * pitch[1]`, and gives every row whose lower
/// end is not above its query's limit: the query's place, the group's, the row's lane, and the lower end. It is told the limit from then on.
pub(crate) fn sift<S: Score>(
    groups: &[Group],
    sides: &[Side],
    (scores, pitch): (&[S], [usize; 2]),
    limits: &mut [f32],
    mut found: impl FnMut(usize, usize, usize, f32) -> f32,
) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (number, group) in groups.iter().enumerate() {
                for (query, (side, limit)) in sides.iter().zip(limits.iter_mut()).enumerate() {
                    let start = number * pitch[0] + query * pitch[1];
                    let Some(scores) = scores[start..].first_chunk::<GROUP>() else { return };
                    let ends = side.lower_ends(group, scores);
                    let mut passed = false;
                    for &end in &ends {
                        passed |= end <= *limit;
                    }
                    if !passed {
                        continue;
                    }
                    for (lane, &end) in ends.iter().enumerate() {
                        if end <= *limit {
                            *limit = found(query, number, lane, end);
                        }
                    }
                }
            }
        },
    );
}
