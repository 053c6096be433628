//! Colours that people tell apart who see few (Okabe and Ito), and what they stand for.

use plotters::prelude::RGBColor;

use super::page::escaped;

/// In the order in which lines of a chart take them. Their yellow is left out: it is too light for a line on white.
pub(super) const COLORS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x4d, 0x4d, 0x4d),
];

/// What is no stage of its own, and what is no work of the device.
pub(super) const OTHER: RGBColor = RGBColor(0x9a, 0x9a, 0x9a);
pub(super) const REST: RGBColor = RGBColor(0xe1, 0xe4, 0xe8);

pub(super) fn color(number: usize) -> RGBColor {
    COLORS[number % COLORS.len()]
}

/// Whether dark text reads well on a colour.
pub(super) fn is_light(color: RGBColor) -> bool {
    let RGBColor(red, green, blue) = color;
    0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue) > 140.0
}

/// How an entry of a legend looks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    Line,
    Dashed,
    Dot,
    Block,
}

/// A legend in HTML, which flows where the window is narrow.
pub(super) fn legend(entries: &[(String, RGBColor, Key)]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut html = String::from("<ul class=\"legend\">");
    for (name, RGBColor(red, green, blue), key) in entries {
        let (class, property) = match key {
            Key::Line => ("line", "border-color"),
            Key::Dashed => ("dashed", "border-color"),
            Key::Dot => ("dot", "background"),
            Key::Block => ("block", "background"),
        };
        let style = format!("{property}:#{red:02x}{green:02x}{blue:02x}");
        html += &format!("<li><i class=\"{class}\" style=\"{style}\"></i>{}</li>", escaped(name));
    }
    html + "</ul>\n"
}
