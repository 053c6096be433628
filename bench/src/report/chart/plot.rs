//! Points and lines over two axes.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Area, COLORS, Drawn, FAINT, GRID, INK, text};

/// Series over two axes. The vertical axis is logarithmic.
pub(crate) struct LineChart {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

#[derive(Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) is_log: bool,
    pub(crate) format: fn(f64) -> String,
}

pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) mark: Mark,
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Line,
    Points,
    /// A line in grey, named at its end.
    Limit,
}

/// Values outside are no measurements, and would stretch an axis beyond use.
const PLAUSIBLE: Range<f64> = 1e-12..1e21;

impl LineChart {
    /// The points that have a place on the axes.
    pub(super) fn points(&self) -> impl Iterator<Item = (Mark, (f64, f64))> {
        let points =
            self.series.iter().flat_map(|series| series.points.iter().map(|point| (series.mark, *point)));
        points.filter(|(_, point)| self.fits(*point))
    }

    fn fits(&self, (x, y): (f64, f64)) -> bool {
        (PLAUSIBLE.contains(&x) || !self.x.is_log && (0.0..1e6).contains(&x)) && PLAUSIBLE.contains(&y)
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let ends = |value: fn((f64, f64)) -> f64| {
            let values = || self.points().map(|(_, point)| value(point));
            (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
        };
        let ((left, right), y) = (ends(|(x, _)| x), log_range(ends(|(_, y)| y)));
        let y = y.clone().log_scale().with_key_points(log_ticks(&y));
        if self.x.is_log {
            let x = log_range((left, right));
            self.draw_over(area, x.clone().log_scale().with_key_points(log_ticks(&x)), y)
        } else {
            let margin = ((right - left) * 0.05).max(1e-3);
            self.draw_over(area, left - margin..right + margin, y)
        }
    }

    fn draw_over<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64, CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin_top(10)
            .margin_right(18)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(text(12, FAINT, HPos::Center))
            .axis_desc_style(text(12, INK, HPos::Center))
            .x_desc(self.x.name)
            .x_label_formatter(&|value| (self.x.format)(*value))
            .y_label_formatter(&|value| (self.y.format)(*value))
            .draw()?;
        for (number, series) in self.series.iter().enumerate() {
            let points = || series.points.iter().copied().filter(|point| self.fits(*point));
            let color = COLORS[number % COLORS.len()];
            match series.mark {
                Mark::Line => {
                    chart.draw_series(LineSeries::new(points(), color.stroke_width(2)))?;
                    chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
                }
                Mark::Points => {
                    chart
                        .draw_series(points().map(|point| Circle::new(point, 4, color.mix(0.75).filled())))?;
                }
                Mark::Limit => {
                    chart.draw_series(LineSeries::new(points(), FAINT.stroke_width(1)))?;
                    // The lowest limit has its name below, as the next one is often close above.
                    let is_first = self.series[..number].iter().all(|series| series.mark != Mark::Limit);
                    let side = if is_first { VPos::Top } else { VPos::Bottom };
                    let end = text(11, FAINT, HPos::Right).pos(Pos::new(HPos::Right, side));
                    let name = |point| Text::new(series.name.clone(), point, end.clone());
                    chart.draw_series(points().next_back().filter(|_| !series.name.is_empty()).map(name))?;
                }
            }
        }
        Ok(())
    }
}

/// A logarithmic range with room at both ends, and at least a decade, so that it has ticks.
fn log_range((low, high): (f64, f64)) -> Range<f64> {
    let missing = (10.0 * low / high).max(1.0).sqrt();
    low / missing / 1.2..high * missing * 1.2
}

/// Ticks at powers of ten, with 2 and 5 times these where there are few.
fn log_ticks(range: &Range<f64>) -> Vec<f64> {
    let (low, high) = (range.start.log10().floor() as i32, range.end.log10().ceil() as i32);
    let (step, factors): (usize, &[f64]) = match high - low {
        ..=3 => (1, &[1.0, 2.0, 5.0]),
        4..=9 => (1, &[1.0]),
        decades => (decades as usize / 9 + 1, &[1.0]),
    };
    let powers = (low..=high).step_by(step).map(|power| 10f64.powi(power));
    let ticks = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
    ticks.filter(|tick| range.contains(tick)).collect()
}
