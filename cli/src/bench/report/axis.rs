//! Axes: where a value lies, and which values are marked.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// An axis and how its values are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) is_log: bool,
    pub(super) format: fn(f64) -> String,
}

impl Axis {
    /// Where a value lies, if it has a place: zero has none on a logarithmic axis. A logarithm is that of ten.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if self.is_log { Some(value).filter(|&value| value > 0.0).map(f64::log10) } else { Some(value) }
            .filter(|place| place.is_finite())
    }

    pub(super) fn value(&self, place: f64) -> f64 {
        if self.is_log { 10f64.powf(place) } else { place }
    }

    /// From the least to the most of some places, with room at both ends, and never less than a decade of a logarithmic
    /// axis: there is a mark to read in every one.
    pub(super) fn range(&self, places: impl Iterator<Item = f64>) -> Option<Range<f64>> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in places {
            (low, high) = (low.min(place), high.max(place));
        }
        if low > high {
            return None;
        }
        let least = if self.is_log { 1.0 } else { (low.abs().max(high.abs()) * 0.02).max(1e-9) };
        let missing = (least - (high - low)).max(0.0) / 2.0;
        let room = (high - low).max(least) * 0.05;
        Some(low - missing - room..high + missing + room)
    }

    /// The axis over a range of places, with at most so many marks.
    pub(super) fn over(&self, range: Range<f64>, most: usize) -> Marked {
        let (bold, fine) =
            if self.is_log { log_marks(&range, most) } else { (linear_marks(&range, most), vec![]) };
        Marked { range, bold, fine }
    }
}

/// Places with marks of ours: plotters' own logarithmic axis has none that are round in every range.
#[derive(Debug)]
pub(super) struct Marked {
    range: Range<f64>,
    /// With text.
    pub(super) bold: Vec<f64>,
    /// Lines between.
    fine: Vec<f64>,
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { self.fine.clone() } else { self.bold.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

fn log_marks(range: &Range<f64>, most: usize) -> (Vec<f64>, Vec<f64>) {
    // No value is outside, whatever a file says: f64 ends there.
    let (low, high) = (range.start.floor().max(-330.0) as i32, range.end.ceil().min(330.0) as i32);
    let within = |times: &'static [u8], step: usize| -> Vec<f64> {
        let decades = (low..=high).step_by(step.max(1));
        let places = decades
            .flat_map(|decade| times.iter().map(move |&times| f64::from(decade) + f64::from(times).log10()));
        places.filter(|place| range.contains(place)).collect()
    };
    let few = within(&[1], 1).len().div_ceil(most.max(1)).max(1);
    let bold = [within(&[1, 2, 5], 1), within(&[1, 3], 1)].into_iter().find(|marks| marks.len() <= most);
    let bold = bold.unwrap_or_else(|| within(&[1], few));
    let fine = if few == 1 { within(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 1) } else { vec![] };
    (bold, fine)
}

fn linear_marks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let rough = (range.end - range.start) / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let Some(step) = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|&step| step >= rough)
    else {
        return vec![];
    };
    let first = (range.start / step).ceil();
    let marks = (0..=most).map(|number| (first + number as f64) * step);
    // What is zero but for rounding is written as zero.
    marks
        .map(|mark| if mark.abs() < step / 1e6 { 0.0 } else { mark })
        .filter(|mark| range.contains(mark))
        .collect()
}
