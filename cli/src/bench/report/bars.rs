//! A chart of horizontal bars, in groups of one scale each. A bar may be made of parts.

use anyhow::{Context, Result};
use plotters::prelude::{FontStyle, IntoDrawingArea, RGBColor, SVGBackend, WHITE};
use plotters::style::text_anchor::HPos;

use super::palette::is_light;
use crate::bench::svg::{Area, Drawn, FAINT, INK, Label, block};

#[derive(Debug)]
pub(super) struct Group {
    /// Above the bars; without it they follow those of the group before.
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) parts: Vec<Part>,
    /// Written behind the bar.
    pub(super) text: String,
}

/// A part of a bar, with what is written in it where there is room.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) length: f64,
    pub(super) color: RGBColor,
    pub(super) text: String,
}

impl Bar {
    /// What numbers of a file add up to, of which some are nonsense.
    fn length(&self) -> f64 {
        self.parts.iter().map(|part| part.length.clamp(0.0, 1e200)).sum()
    }
}

const WIDTH: i32 = 960;
const ROW: i32 = 26;
const TITLE: i32 = 32;

/// The chart. Each group has its longest bar over the whole width.
pub(super) fn chart(groups: &[Group]) -> Result<String> {
    let rows = |group: &Group| {
        ROW * group.bars.len().min(10_000) as i32 + if group.title.is_empty() { 0 } else { TITLE }
    };
    let height: i32 = groups.iter().take(1000).map(rows).sum::<i32>() + 12;
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
    draw(&area, groups).context("drawing")?;
    drop(area);
    Ok(svg)
}

fn draw(area: &Area<'_>, groups: &[Group]) -> Drawn {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let small = Label { size: 12, ..Label::PLAIN };
    let bold = Label { style: FontStyle::Bold, ..Label::PLAIN };
    let widest = |text: fn(&Bar) -> &str, most: i32| {
        bars().map(|bar| small.width(text(bar))).max().unwrap_or(0).min(most)
    };
    let (labels, texts) = (widest(|bar| &bar.label, 390), widest(|bar| &bar.text, 220));
    let (left, right) = (labels + 12, WIDTH - texts - 10);
    area.fill(&WHITE)?;
    let mut y = 4;
    for group in groups {
        if !group.title.is_empty() {
            bold.draw(area, &bold.shortened(&group.title, WIDTH - 10), (0, y + TITLE / 2 + 3))?;
            y += TITLE;
        }
        let longest = group.bars.iter().map(Bar::length).fold(0.0, f64::max);
        for bar in &group.bars {
            let middle = y + ROW / 2;
            let label = Label { side: HPos::Right, ..small };
            label.draw(area, &label.shortened(&bar.label, labels), (left - 10, middle))?;
            let mut sum = 0.0;
            let place = |sum: f64| {
                let share = if longest > 0.0 { (sum / longest).clamp(0.0, 1.0) } else { 0.0 };
                left + (share * f64::from(right - left)).round() as i32
            };
            for part in &bar.parts {
                let start = place(sum);
                sum += part.length.clamp(0.0, 1e200);
                let end = place(sum);
                if end == start {
                    continue;
                }
                block(area, [(start, y + 3), (end, y + ROW - 3)], part.color)?;
                if small.width(&part.text) + 6 <= end - start {
                    let color = if is_light(part.color) { INK } else { WHITE };
                    let inside = Label { size: 11, color, side: HPos::Center, ..Label::PLAIN };
                    inside.draw(area, &part.text, ((start + end) / 2, middle))?;
                }
            }
            let behind = Label { color: FAINT, ..small };
            let end = place(sum);
            behind.draw(area, &behind.shortened(&bar.text, WIDTH - end - 6), (end + 6, middle))?;
            y += ROW;
        }
    }
    area.present()
}
