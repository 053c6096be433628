//! Colors and text styles of charts.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The number of series that colors can tell apart.
pub(crate) const MAX_SERIES: usize = 6;
/// The color of bars that are not in focus.
pub(crate) const GREY: usize = 7;
/// Readable on white and on black. The page uses them as well.
pub(crate) const COLORS: [RGBColor; 8] = [
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
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(super) const FAINT: RGBColor = RGBColor(0x59, 0x63, 0x6e);
pub(super) const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);

/// Styles of text and grid, for the page and for SVG files.
pub(crate) const STYLE: &str = include_str!("chart.css");

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(super) fn text(size: i32, color: RGBColor, side: HPos) -> TextStyle<'static> {
    // The backend divides sizes by 1.24.
    let font = ("sans-serif", f64::from(size) * 1.24).into_font();
    font.color(&color).pos(Pos::new(side, VPos::Center))
}

pub(super) fn bold(size: i32) -> TextStyle<'static> {
    let style = text(size, INK, HPos::Left);
    TextStyle { font: style.font.style(FontStyle::Bold), ..style }
}

/// Breaks text into lines of about `letters`.
pub(super) fn wrapped(text: &str, letters: usize) -> Vec<String> {
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
