//! Charts as SVG, drawn with plotters.

mod bars;
mod plot;
mod style;

use anyhow::{Context, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

pub(super) use bars::{Bar, BarGroup};
pub(super) use plot::{Axis, LineChart, Mark, Series};
use style::{Area, Drawn, FAINT, bold, text, wrapped};
pub(super) use style::{COLORS, GREY, MAX_SERIES, STYLE};

/// Width of bar charts on a page, where they shrink with the window.
const BAR_WIDTH: u32 = 540;

pub(super) enum Chart {
    Lines(LineChart),
    Bars(Vec<BarGroup>),
}

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

    /// Width and height of the drawing; lines are larger in a file of their own.
    fn size(&self, is_alone: bool) -> (u32, u32) {
        match (self, is_alone) {
            (Self::Lines(_), false) => (480, 320),
            (Self::Lines(_), true) => (640, 420),
            (Self::Bars(groups), _) => {
                (BAR_WIDTH + if is_alone { 100 } else { 0 }, groups.iter().map(BarGroup::height).sum())
            }
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        match self {
            Self::Lines(chart) => chart.draw(area),
            Self::Bars(groups) => bars::draw(area, groups),
        }
    }

    /// The chart for a page, which shows caption and legend as HTML.
    pub(super) fn svg(&self) -> Result<String> {
        svg(self.size(false), |area| self.draw(area))
    }

    /// The chart as a file of its own, with its caption inside.
    pub(super) fn file(&self, caption: &str, note: &str) -> Result<String> {
        const TOP: u32 = 44;
        let (width, height) = self.size(true);
        let notes = wrapped(note, 96);
        let bottom = 18 * notes.len() as u32 + 14;
        let file = svg((width + 40, TOP + height + bottom), |area| {
            area.fill(&WHITE)?;
            area.draw_text(caption, &bold(18), (20, 26))?;
            for (number, note) in notes.iter().enumerate() {
                let y = (TOP + height + 8) as i32 + 18 * number as i32;
                area.draw_text(note, &text(11, FAINT, HPos::Left), (20, y))?;
            }
            self.draw(&area.margin(TOP, bottom, 20, 20))
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
