//! Charts as SVG, drawn with plotters.

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) enum Chart {
    Lines(LineChart),
    Bars(Vec<BarGroup>),
}

/// Series over two axes. The vertical axis is logarithmic.
pub(super) struct LineChart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) is_log: bool,
    /// Text of a tick.
    pub(super) format: fn(f64) -> String,
}

pub(super) struct Series {
    pub(super) name: String,
    pub(super) mark: Mark,
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Line,
    Points,
    /// A line in grey, named at its end.
    Limit,
}

/// Horizontal bars on a common linear scale from zero.
#[derive(Clone)]
pub(super) struct BarGroup {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) bars: Vec<Bar>,
    /// A line across the bars, and its name.
    pub(super) limit: Option<(f64, String)>,
    /// Names of the parts of a bar, for a legend.
    pub(super) legend: Vec<String>,
}

#[derive(Clone)]
pub(super) struct Bar {
    pub(super) label: String,
    /// Length and color of each part.
    pub(super) parts: Vec<(f64, usize)>,
    pub(super) text: String,
}

/// The number of series that colors can tell apart.
pub(super) const MAX_SERIES: usize = 6;
/// The color of bars that are not in focus.
pub(super) const GREY: usize = 7;
/// Readable on white and on black. The page uses them as well.
pub(super) const COLORS: [RGBColor; 8] = [
    RGBColor(0x2f, 0x7d, 0xd1),
    RGBColor(0xe0, 0x7b, 0x28),
    RGBColor(0x2a, 0x9d, 0x76),
    RGBColor(0xc5, 0x6f, 0xa0),
    RGBColor(0xd4, 0xa0, 0x17),
    RGBColor(0x4f, 0xb3, 0xdf),
    RGBColor(0x8f, 0x7a, 0xd6),
    RGBColor(0xa3, 0xab, 0xb5),
];
// chart.css replaces these three in the dark color scheme.
const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const FAINT: RGBColor = RGBColor(0x59, 0x63, 0x6e);
const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);

/// Styles of text and grid, for the page and for SVG files.
pub(super) const STYLE: &str = include_str!("chart.css");

/// Values outside are no measurements, and would stretch an axis beyond use.
const PLAUSIBLE: std::ops::Range<f64> = 1e-12..1e21;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Chart {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Lines(chart) => !chart.points().any(|(mark, _)| mark != Mark::Limit),
            Self::Bars(groups) => groups.iter().all(|group| group.bars.is_empty()),
        }
    }

    /// Whether the chart takes the whole width of a page.
    pub(super) fn is_wide(&self) -> bool {
        matches!(self, Self::Bars(_))
    }

    /// The chart for a page, which shows caption and legend as HTML.
    pub(super) fn svg(&self) -> Result<String> {
        match self {
            Self::Lines(chart) => svg((480, 320), |area| chart.draw(area)),
            Self::Bars(groups) => {
                svg((BAR_WIDTH, groups.iter().map(BarGroup::height).sum()), |area| draw_groups(area, groups))
            }
        }
    }

    /// The chart as a file of its own, with its caption inside.
    pub(super) fn file(&self, caption: &str, note: &str) -> Result<String> {
        const TOP: u32 = 44;
        let (width, height) = match self {
            Self::Lines(_) => (640, 420),
            Self::Bars(groups) => (BAR_WIDTH + 100, groups.iter().map(BarGroup::height).sum()),
        };
        let notes = wrapped(note, 96);
        let bottom = 18 * notes.len() as u32 + 14;
        let file = svg((width + 40, TOP + height + bottom), |area| {
            area.fill(&WHITE)?;
            area.draw_text(caption, &bold(18), (20, 26))?;
            for (number, note) in notes.iter().enumerate() {
                let y = (TOP + height + 8) as i32 + 18 * number as i32;
                area.draw_text(note, &text(11, FAINT, HPos::Left), (20, y))?;
            }
            let inner = area.margin(TOP, bottom, 20, 20);
            match self {
                Self::Lines(chart) => chart.draw(&inner),
                Self::Bars(groups) => draw_groups(&inner, groups),
            }
        })?;
        Ok(file.replacen(">\n", &format!(">\n<style>\n{STYLE}</style>\n"), 1))
    }

    /// Names and colors for a legend.
    pub(super) fn legend(&self) -> Vec<(&str, usize)> {
        let names: Vec<&str> = match self {
            Self::Lines(chart) => {
                let series = chart.series.iter().filter(|series| series.mark != Mark::Limit);
                series.map(|series| series.name.as_str()).collect()
            }
            Self::Bars(groups) => groups
                .first()
                .map(|group| group.legend.iter().map(String::as_str).collect())
                .unwrap_or_default(),
        };
        let mut entries: Vec<(&str, usize)> = names.into_iter().zip(0..).collect();
        entries.retain(|(name, _)| !name.is_empty());
        entries
    }
}

fn svg(size: (u32, u32), draw: impl Fn(&Area<'_>) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    draw(&area).and_then(|()| area.present()).context("drawing")?;
    drop(area);
    // XML has no place for these.
    Ok(svg.replace(|letter: char| letter.is_control() && letter != '\n' || letter >= '\u{fffe}', " "))
}

fn text(size: i32, color: RGBColor, side: HPos) -> TextStyle<'static> {
    // The backend divides sizes by 1.24.
    let font = ("sans-serif", f64::from(size) * 1.24).into_font();
    font.color(&color).pos(Pos::new(side, VPos::Center))
}

fn bold(size: i32) -> TextStyle<'static> {
    let style = text(size, INK, HPos::Left);
    TextStyle { font: style.font.style(FontStyle::Bold), ..style }
}

impl LineChart {
    /// The points that have a place on the axes.
    fn points(&self) -> impl Iterator<Item = (Mark, (f64, f64))> {
        let points =
            self.series.iter().flat_map(|series| series.points.iter().map(|point| (series.mark, *point)));
        points.filter(|(_, point)| self.fits(*point))
    }

    fn fits(&self, (x, y): (f64, f64)) -> bool {
        (PLAUSIBLE.contains(&x) || !self.x.is_log && (0.0..1e6).contains(&x)) && PLAUSIBLE.contains(&y)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
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
fn log_range((low, high): (f64, f64)) -> std::ops::Range<f64> {
    let missing = (10.0 * low / high).max(1.0).sqrt();
    low / missing / 1.2..high * missing * 1.2
}

/// Ticks at powers of ten, with 2 and 5 times these where there are few.
fn log_ticks(range: &std::ops::Range<f64>) -> Vec<f64> {
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

const BAR_WIDTH: u32 = 540;
const BAR_HEIGHT: u32 = 26;
/// Letters of a label.
const MAX_LABEL: usize = 44;

impl BarGroup {
    fn notes(&self) -> Vec<String> {
        wrapped(&self.note, 84)
    }

    fn heading(&self) -> u32 {
        let lines = u32::from(!self.title.is_empty()) + self.notes().len() as u32;
        20 * lines + if lines > 0 { 10 } else { 0 } + if self.limit.is_some() { 16 } else { 0 }
    }

    fn height(&self) -> u32 {
        self.heading() + BAR_HEIGHT * self.bars.len() as u32 + 8
    }

    /// Draws the group with room for labels on the left and for texts on the right, in pixels.
    fn draw(&self, area: &Area<'_>, labels: u32, texts: u32) -> Drawn {
        if !self.title.is_empty() {
            area.draw_text(&self.title, &bold(13), (0, 14))?;
        }
        for (number, note) in self.notes().iter().enumerate() {
            let y = 20 * (number as i32 + i32::from(!self.title.is_empty())) + 14;
            area.draw_text(note, &text(12, FAINT, HPos::Left), (0, y))?;
        }
        let length = |bar: &Bar| bar.parts.iter().map(|(length, _)| length).sum::<f64>();
        let most = self.bars.iter().map(length).chain(self.limit.iter().map(|(limit, _)| *limit));
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let count = self.bars.len();
        let mut chart = ChartBuilder::on(area)
            .margin_top(self.heading())
            .margin_bottom(8)
            .margin_right(texts)
            .y_label_area_size(labels)
            // Segments count from the bottom, and a range of them includes its end.
            .build_cartesian_2d(0.0..most, (0..count.saturating_sub(1)).into_segmented())?;
        let label = |segment: &SegmentValue<usize>| match segment {
            SegmentValue::CenterOf(place) => {
                self.bars.iter().rev().nth(*place).map(|bar| shortened(&bar.label)).unwrap_or_default()
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_mesh()
            .disable_x_axis()
            .axis_style(TRANSPARENT)
            .y_labels(count + 1)
            .y_label_formatter(&label)
            .label_style(text(12, INK, HPos::Right))
            .draw()?;
        if let Some((limit, name)) = &self.limit {
            let ends = [(*limit, SegmentValue::Exact(0)), (*limit, SegmentValue::Exact(count))];
            chart.draw_series(LineSeries::new(ends, COLORS[1].stroke_width(1)))?;
            let name = EmptyElement::at((*limit, SegmentValue::Exact(count)))
                + Text::new(name.clone(), (0, -9), text(12, COLORS[1], HPos::Center));
            chart.draw_series([name])?;
        }
        for (place, bar) in self.bars.iter().rev().enumerate() {
            let mut start = 0.0;
            for (length, color) in &bar.parts {
                let corners =
                    [(start, SegmentValue::Exact(place)), (start + length, SegmentValue::Exact(place + 1))];
                let mut block = Rectangle::new(corners, COLORS[color % COLORS.len()].filled());
                block.set_margin(4, 4, 0, 0);
                chart.draw_series([block])?;
                start += length;
            }
            let beside = EmptyElement::at((start, SegmentValue::CenterOf(place)))
                + Text::new(bar.text.clone(), (7, 0), text(12, INK, HPos::Left));
            chart.draw_series([beside])?;
        }
        Ok(())
    }
}

fn draw_groups(area: &Area<'_>, groups: &[BarGroup]) -> Drawn {
    let room = |text: fn(&Bar) -> &String| {
        let bars = groups.iter().flat_map(|group| &group.bars);
        bars.map(|bar| text(bar).chars().count().min(MAX_LABEL)).max().unwrap_or(0) as u32 * 7 + 14
    };
    let (labels, texts) = (room(|bar| &bar.label), room(|bar| &bar.text));
    let mut rest = area.clone();
    for group in groups {
        let (upper, lower) = rest.split_vertically(group.height());
        group.draw(&upper, labels, texts)?;
        rest = lower;
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LABEL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Breaks text into lines of about `letters`.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
