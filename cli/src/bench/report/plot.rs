//! A chart of lines and points over two axes.

use anyhow::{Context, Result};
use plotters::chart::ChartContext;
use plotters::element::DashedPathElement;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, Circle, Color, IntoDrawingArea, IntoFont, PathElement, RGBColor, SVGBackend,
    ShapeStyle, WHITE,
};
use plotters::style::text_anchor::HPos;

use super::axis::{Axis, Marked};
use super::page::figure;
use super::palette::{Key, legend};
use crate::bench::svg::{Area, Drawn, FAINT, FINE_GRID, GRID, INK, Label};

/// How values of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// A line through points.
    Line,
    /// The same, of something that belongs to the line of the same colour.
    Dashed,
    /// Points alone.
    Points,
    /// A line without points, as of a ceiling; its last point may have a label.
    Bare,
}

#[derive(Debug)]
pub(super) struct Series {
    /// What the legend says; what has no name is not in it.
    pub(super) name: String,
    pub(super) color: RGBColor,
    pub(super) look: Look,
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Written beside the point where there is room.
    pub(super) label: String,
}

#[derive(Debug)]
pub(super) struct Plot {
    pub(super) caption: String,
    pub(super) note: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    pub(super) is_half: bool,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Marked, Marked>>;

/// A series in places of the axes instead of values.
struct Placed<'a> {
    series: &'a Series,
    places: Vec<((f64, f64), &'a str)>,
}

impl Plot {
    /// The chart as a figure in HTML; nothing where there is no point to draw.
    pub(super) fn html(&self) -> Result<String> {
        let place = |point: &Point| Some((self.x.place(point.x)?, self.y.place(point.y)?));
        let placed = self.series.iter().map(|series| {
            let points = series.points.iter();
            let places = points.filter_map(|point| Some((place(point)?, point.label.as_str())));
            Placed { series, places: places.collect() }
        });
        let placed: Vec<Placed<'_>> = placed.filter(|placed| !placed.places.is_empty()).collect();
        if placed.iter().all(|placed| placed.series.look == Look::Bare) {
            return Ok(String::new());
        }
        let mut svg = String::new();
        let size = if self.is_half { (470, 330) } else { (960, 440) };
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.draw(&area, &placed).context("drawing")?;
        drop(area);
        let named = placed.iter().filter(|placed| !placed.series.name.is_empty());
        let entries = named.map(|Placed { series, .. }| {
            let key = match series.look {
                Look::Line | Look::Bare => Key::Line,
                Look::Dashed => Key::Dashed,
                Look::Points => Key::Dot,
            };
            (series.name.clone(), series.color, key)
        });
        Ok(figure(&svg, &self.caption, &legend(&entries.collect::<Vec<_>>()), &self.note, self.is_half))
    }

    fn draw(&self, area: &Area<'_>, placed: &[Placed<'_>]) -> Drawn {
        let all = || placed.iter().flat_map(|placed| &placed.places);
        let (Some(across), Some(up)) =
            (self.x.range(all().map(|((x, _), _)| *x)), self.y.range(all().map(|((_, y), _)| *y)))
        else {
            return Ok(());
        };
        let up = self.y.over(up, 8);
        let texts = up.bold.iter().map(|&place| Label::PLAIN.width(&(self.y.format)(self.y.value(place))));
        let left = texts.max().unwrap_or(0).clamp(30, 110) + 14;
        // As many marks as have room for what they say.
        let width = |place: f64| f64::from(Label::PLAIN.width(&(self.x.format)(self.x.value(place))));
        let room = f64::from(area.dim_in_pixel().0) - f64::from(left) - 22.0;
        let pixels = room / (across.end - across.start);
        let fits = |axis: &Marked| {
            axis.bold
                .windows(2)
                .all(|pair| (pair[1] - pair[0]) * pixels >= (width(pair[0]) + width(pair[1])) / 2.0 + 4.0)
        };
        let marked = [12, 8, 6, 5, 4, 3].map(|most| self.x.over(across.clone(), most));
        let across = marked.into_iter().find(fits).unwrap_or_else(|| self.x.over(across, 2));
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(26)
            .margin_right(22)
            .x_label_area_size(44)
            .y_label_area_size(left)
            .build_cartesian_2d(across, up)?;
        // The backend divides sizes by 1.24.
        let font = |color: &RGBColor| ("sans-serif", 12.0 * 1.24).into_font().color(color);
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(FINE_GRID)
            .axis_style(GRID)
            .label_style(font(&FAINT))
            .axis_desc_style(font(&INK))
            .x_desc(self.x.name)
            .x_label_formatter(&|place| (self.x.format)(self.x.value(*place)))
            .y_label_formatter(&|place| (self.y.format)(self.y.value(*place)))
            .draw()?;
        Label { size: 12, ..Label::PLAIN }.draw(area, self.y.name, (8, 12))?;
        for Placed { series, places } in placed {
            let places = || places.iter().map(|(place, _)| *place);
            let stroke = ShapeStyle::from(series.color).stroke_width(2);
            match series.look {
                Look::Line | Look::Bare => {
                    chart.draw_series([PathElement::new(places().collect::<Vec<_>>(), stroke)])?;
                }
                Look::Dashed => {
                    let path: Vec<_> = places().collect();
                    chart.draw_series([DashedPathElement::new(path, 6, 4, stroke)])?;
                }
                Look::Points => {}
            }
            // Points that lie on each other show through; those of a dashed line are hollow.
            let (filled, edge) = match series.look {
                Look::Bare => continue,
                Look::Line => (series.color.filled(), Some(stroke)),
                Look::Dashed => (WHITE.filled(), Some(stroke)),
                Look::Points => (series.color.mix(0.7).filled(), None),
            };
            chart.draw_series(places().map(|place| Circle::new(place, 4, filled)))?;
            if let Some(edge) = edge {
                chart.draw_series(places().map(|place| Circle::new(place, 4, edge)))?;
            }
        }
        write_labels(area, &chart, placed)?;
        area.present()
    }
}

/// Writes beside points what they are, where nothing is in the way: a label is left out sooner than that two overlap.
fn write_labels(area: &Area<'_>, chart: &Chart<'_, '_>, placed: &[Placed<'_>]) -> Drawn {
    const SIZE: i32 = 11;
    let (across, up) = chart.plotting_area().get_pixel_range();
    let pixel = |place: &(f64, f64)| chart.backend_coord(place);
    let mut taken: Vec<Block> = vec![];
    for Placed { series, places } in placed {
        let pixels: Vec<(i32, i32)> = places.iter().map(|(place, _)| pixel(place)).collect();
        if series.look != Look::Bare {
            taken.extend(pixels.iter().map(|&at| Block::around(at, 4)));
        }
        if series.look != Look::Points {
            taken.extend(pixels.windows(2).flat_map(|ends| along(ends[0], ends[1])));
        }
    }
    for Placed { series, places } in placed {
        for (number, (place, text)) in places.iter().enumerate().filter(|(_, (_, text))| !text.is_empty()) {
            let at = pixel(place);
            let plain = Label { size: SIZE, color: INK, ..Label::PLAIN };
            let text = plain.shortened(text, 260);
            let width = plain.width(&text);
            let before = number.checked_sub(1).and_then(|before| places.get(before));
            let spots: Vec<(HPos, i32, i32)> = match (series.look, before) {
                (Look::Bare, Some((before, _))) => beside_line(pixel(before), at),
                _ => BESIDE_POINT.map(|(side, right, down)| (side, at.0 + right, at.1 + down)).to_vec(),
            };
            let block = |side: &HPos, x: i32, y: i32| {
                let left = match side {
                    HPos::Left => x,
                    HPos::Center => x - width / 2,
                    HPos::Right => x - width,
                };
                Block { left, right: left + width, top: y - SIZE / 2 - 1, bottom: y + SIZE / 2 + 1 }
            };
            let is_free = |block: &Block| {
                block.left >= across.start
                    && block.right <= across.end + 16
                    && block.top >= up.start - 6
                    && block.bottom <= up.end
                    && !taken.iter().any(|other| block.meets(other))
            };
            let free = spots.iter().map(|(side, x, y)| (side, *x, *y, block(side, *x, *y)));
            if let Some((side, x, y, block)) = free.into_iter().find(|(.., block)| is_free(block)) {
                let color = if series.look == Look::Bare { series.color } else { INK };
                Label { side: *side, color, ..plain }.draw(area, &text, (x, y))?;
                taken.push(block);
            }
        }
    }
    Ok(())
}

/// Places of a label at a point, the best first: which side of the text is there, and how far right and down.
const BESIDE_POINT: [(HPos, i32, i32); 8] = [
    (HPos::Left, 8, 0),
    (HPos::Right, -8, 0),
    (HPos::Center, 0, -13),
    (HPos::Center, 0, 13),
    (HPos::Left, 6, -11),
    (HPos::Right, -6, -11),
    (HPos::Left, 6, 11),
    (HPos::Right, -6, 11),
];

/// Places of a label at a line, above it and below, from its end to its start.
fn beside_line(start: (i32, i32), end: (i32, i32)) -> Vec<(HPos, i32, i32)> {
    let at = |from: i32, to: i32, step: i32| to - (to - from) / 8 * step;
    let steps = (0..8).map(|step| (at(start.0, end.0, step), at(start.1, end.1, step)));
    steps.flat_map(|(x, y)| [(HPos::Right, x, y - 10), (HPos::Right, x, y + 11)]).collect()
}

/// Blocks along a line, so that no text lies across it. A line that leaves every picture has few.
fn along(start: (i32, i32), end: (i32, i32)) -> Vec<Block> {
    let (right, down) = (f64::from(end.0) - f64::from(start.0), f64::from(end.1) - f64::from(start.1));
    let steps = (right.abs().max(down.abs()) / 3.0).clamp(1.0, 1000.0) as i32;
    let part = |step: i32, length: f64| (length * f64::from(step) / f64::from(steps)) as i32;
    (0..=steps)
        .map(|step| Block::around((start.0 + part(step, right), start.1 + part(step, down)), 2))
        .collect()
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy)]
struct Block {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Block {
    fn around((x, y): (i32, i32), half: i32) -> Self {
        Self { left: x - half, right: x + half, top: y - half, bottom: y + half }
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}
