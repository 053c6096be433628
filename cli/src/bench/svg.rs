//! What charts are drawn with: text, blocks and lines, in pixels. Viewers have their own fonts, so that widths of text are
//! estimates, on the long side.

use plotters::coord::Shift;
use plotters::prelude::{
    Color, DrawingArea, DrawingAreaErrorKind, FontStyle, IntoFont, PathElement, RGBColor, Rectangle,
    SVGBackend,
};
use plotters::style::TextStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: i32 = 13;

pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(super) const FAINT: RGBColor = RGBColor(0x65, 0x6d, 0x76);
pub(super) const GRID: RGBColor = RGBColor(0xd0, 0xd7, 0xde);
pub(super) const FINE_GRID: RGBColor = RGBColor(0xee, 0xf1, 0xf4);
pub(super) const BLUE: RGBColor = RGBColor(0x2f, 0x6f, 0xb5);
pub(super) const LIGHT_BLUE: RGBColor = RGBColor(0x9c, 0xc0, 0xe4);
pub(super) const RED: RGBColor = RGBColor(0xb4, 0x3c, 0x0c);

/// A piece of text, its middle at the height of its place.
#[derive(Clone, Copy)]
pub(super) struct Label {
    pub(super) size: i32,
    pub(super) style: FontStyle,
    pub(super) color: RGBColor,
    pub(super) side: HPos,
}

impl Label {
    pub(super) const PLAIN: Self =
        Self { size: SIZE, style: FontStyle::Normal, color: INK, side: HPos::Left };

    pub(super) fn width(&self, text: &str) -> i32 {
        let letters = text.chars().count().min(1000) as f64;
        (letters * f64::from(self.size) * if matches!(self.style, FontStyle::Bold) { 0.66 } else { 0.58 })
            as i32
    }

    /// As much of a text as fits.
    pub(super) fn shortened(&self, text: &str, width: i32) -> String {
        if self.width(text) <= width {
            return text.to_owned();
        }
        let mut short = String::new();
        for letter in text.chars() {
            if self.width(&short) + 2 * self.size > width {
                break;
            }
            short.push(letter);
        }
        format!("{}…", short.trim_end())
    }

    pub(super) fn draw(&self, area: &Area<'_>, text: &str, place: (i32, i32)) -> Drawn {
        // What no XML may hold is left out: the backend escapes all else.
        let allowed = |letter: &char| !letter.is_control() && !matches!(letter, '\u{fffe}' | '\u{ffff}');
        let text: String = text.chars().filter(allowed).collect();
        // The backend divides sizes by 1.24.
        let font = ("sans-serif", f64::from(self.size) * 1.24).into_font().style(self.style);
        let style = TextStyle::from(font).color(&self.color).pos(Pos::new(self.side, VPos::Center));
        area.draw_text(&text, &style, place)
    }
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(super) fn block(area: &Area<'_>, corners: [(i32, i32); 2], color: RGBColor) -> Drawn {
    area.draw(&Rectangle::new(corners, color.filled()))
}

/// A vertical line.
pub(super) fn line(area: &Area<'_>, x: i32, ends: [i32; 2], color: RGBColor, width: u32) -> Drawn {
    area.draw(&PathElement::new(ends.map(|y| (x, y)), color.stroke_width(width)))
}
