//! The chart: a bar a rung on a logarithmic axis.

use anyhow::{Context, Result};
use plotters::prelude::{FontStyle, IntoDrawingArea, RGBColor, SVGBackend, WHITE};
use plotters::style::text_anchor::HPos;

use super::super::svg::{Area, BLUE, Drawn, FAINT, FINE_GRID, GRID, LIGHT_BLUE, Label, RED, block, line};
use super::super::units::{count, percent, rate_text};
use super::lines::{Measured, Run, Rung};

/// Pixels, as everything here.
const WIDTH: i32 = 960;
const MARGIN: i32 = 24;
const TOP: i32 = 132;
const ROW: i32 = 30;
/// Above and below the middle of a row: the bar, and the light one below it.
const BAR: [i32; 2] = [-10, 6];
const LIGHT_BAR: [i32; 2] = [7, 11];

/// What the bars of a chart stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Device,
    Wall,
}

impl Run {
    fn clock(&self) -> Clock {
        let mut measured = self.rungs.iter().filter_map(|rung| rung.measured.as_ref().ok());
        if measured.any(|measured| measured.on_device.is_some()) { Clock::Device } else { Clock::Wall }
    }

    /// Bytes per second by a clock; every number is read once. Where there are no times of the device the rates in the file
    /// are those of the wall clock.
    fn rate(&self, measured: &Measured, clock: Clock) -> Option<f64> {
        match clock {
            Clock::Device => measured.bytes.filter(|_| measured.on_device.is_some()),
            Clock::Wall => Some((8.0 * self.length as f64 / measured.wall).min(f64::MAX)),
        }
    }
}

pub(super) fn chart(run: &Run) -> Result<String> {
    let mut svg = String::new();
    let height = TOP + ROW * i32::try_from(run.rungs.len())?.min(1 << 20) + 40;
    let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
    draw(run, &area).context("drawing")?;
    drop(area);
    Ok(svg)
}

fn draw(run: &Run, area: &Area<'_>) -> Drawn {
    let heading = Label { size: 18, style: FontStyle::Bold, ..Label::PLAIN };
    let faint = Label { color: FAINT, ..Label::PLAIN };
    let letter_label = Label { style: FontStyle::Bold, ..Label::PLAIN };
    let inner = WIDTH - 2 * MARGIN;
    let (clock, ceiling) = (run.clock(), run.device.copy_bytes);
    // GitHub's dark mode shows through what nobody has painted.
    area.fill(&WHITE)?;
    let title = format!("Dot product of two vectors of {} f32", count(run.length));
    heading.draw(area, &title, (MARGIN, 28))?;
    faint.draw(area, &faint.shortened(&run.device.describe(), inner), (MARGIN, 54))?;

    let share = if ceiling.is_some() { ", with its share of the device copy" } else { "" };
    let (by, light) = match clock {
        Clock::Device => ("time on the device", "; light: of time from call to result"),
        Clock::Wall => ("wall-clock time, as the device does not time itself", ""),
    };
    let text = format!("Bytes read per second of {by}{share}{light}; logarithmic");
    faint.draw(area, &text, (MARGIN, 76))?;

    let rates: Vec<std::result::Result<f64, &str>> = run
        .rungs
        .iter()
        .map(|rung| match &rung.measured {
            Ok(measured) => run.rate(measured, clock).ok_or("not timed on the device"),
            Err(reason) => Err(reason.as_str()),
        })
        .collect();
    let light = |rung: &Rung| match clock {
        Clock::Device => rung.measured.as_ref().ok().and_then(|measured| run.rate(measured, Clock::Wall)),
        Clock::Wall => None,
    };

    let letters = run.rungs.iter().map(|rung| letter_label.width(&rung.letter)).max().unwrap_or(0).min(80);
    let names = run.rungs.iter().map(|rung| Label::PLAIN.width(&rung.name)).max().unwrap_or(0).min(inner / 3);
    let names_at = MARGIN + letters + 12;
    let left = names_at + names + 12;
    let right = WIDTH - MARGIN - faint.width("100 GB/s") / 2;
    let axis = {
        let light = run.rungs.iter().filter_map(light);
        Axis::new(rates.iter().flatten().copied().chain(light).chain(ceiling), left, right)
    };
    let bottom = TOP + ROW * rates.len() as i32;

    for (rate, is_decade) in axis.marks() {
        let x = axis.place(rate);
        line(area, x, [TOP, bottom + 4], if is_decade { GRID } else { FINE_GRID }, 1)?;
        if is_decade {
            let middle = Label { side: HPos::Center, ..faint };
            let text = rate_text(rate).replacen(".00", "", 1).replacen(".0", "", 1);
            middle.draw(area, &text, (x, bottom + 16))?;
        }
    }
    if let Some(ceiling) = ceiling {
        let x = axis.place(ceiling);
        line(area, x, [TOP - 10, bottom + 4], RED, 2)?;
        let label = Label { color: RED, side: HPos::Center, ..Label::PLAIN };
        let text = format!("device copy, {}", rate_text(ceiling));
        let text = label.shortened(&text, WIDTH - 2 * MARGIN);
        let half = (label.width(&text) / 2).min(WIDTH / 2 - MARGIN);
        label.draw(area, &text, (x.clamp(MARGIN + half, WIDTH - MARGIN - half), TOP - 20))?;
    }
    for (number, (rung, rate)) in run.rungs.iter().zip(&rates).enumerate() {
        let y = TOP + ROW * number as i32 + ROW / 2;
        letter_label.draw(area, &letter_label.shortened(&rung.letter, letters), (MARGIN, y))?;
        Label::PLAIN.draw(area, &Label::PLAIN.shortened(&rung.name, names), (names_at, y))?;
        let bar = |x: i32, [above, below]: [i32; 2], color: RGBColor| {
            block(area, [(left, y + above), (x, y + below)], color)
        };
        if let Some(rate) = light(rung) {
            bar(axis.place(rate).max(left + 1), LIGHT_BAR, LIGHT_BLUE)?;
        }
        let (x, text) = match rate {
            Ok(rate) => {
                let x = axis.place(*rate).max(left + 1);
                bar(x, BAR, BLUE)?;
                let share = ceiling.map(|ceiling| format!(" · {}", percent(rate / ceiling)));
                (x, rate_text(*rate) + &share.unwrap_or_default())
            }
            Err(reason) => (left, faint.shortened(reason, WIDTH - MARGIN - left - 8)),
        };
        let (width, middle) = (Label::PLAIN.width(&text) + 8, y + (BAR[0] + BAR[1]) / 2);
        if x - left > width {
            let inside = Label { color: WHITE, side: HPos::Right, ..Label::PLAIN };
            inside.draw(area, &text, (x - 6, middle))?;
        } else {
            // Lines make room for what is written across them.
            block(area, [(x + 1, y + BAR[0]), (x + width, y + BAR[1])], WHITE)?;
            let beside = if rate.is_ok() { Label::PLAIN } else { faint };
            beside.draw(area, &text, (x + 6, middle))?;
        }
    }
    area.present()
}

/// A logarithmic axis, from a power of ten to the largest rate.
#[derive(Debug)]
struct Axis {
    /// Decimal logarithms of both ends.
    ends: (f64, f64),
    left: i32,
    right: i32,
}

impl Axis {
    fn new(rates: impl Iterator<Item = f64>, left: i32, right: i32) -> Self {
        let (least, most) = rates.fold((f64::INFINITY, 0.0f64), |(least, most), rate| {
            (least.min(rate.log10()), most.max(rate.log10()))
        });
        // The shortest bar is to be seen, too.
        let low = if least.is_finite() { (least - 0.1).floor() } else { 9.0 };
        Self { ends: (low, most.max(low + 1.0)), left, right }
    }

    fn place(&self, rate: f64) -> i32 {
        let (low, high) = self.ends;
        let part = ((rate.log10() - low) / (high - low)).clamp(0.0, 1.0);
        self.left + (part * f64::from(self.right - self.left)).round() as i32
    }

    /// Rates where lines are drawn, and whether it is a power of ten.
    fn marks(&self) -> Vec<(f64, bool)> {
        let (low, high) = (self.ends.0 as i32, self.ends.1.floor() as i32);
        // About as many as there is room for.
        let step = usize::try_from((high - low) / 6 + 1).unwrap_or(1);
        let decades = (low..=high).step_by(step);
        let marks = decades.flat_map(|decade| {
            let between = if step == 1 { 2..10 } else { 2..2 };
            let power = 10f64.powi(decade);
            std::iter::once((power, true)).chain(between.map(move |times| (power * f64::from(times), false)))
        });
        marks.filter(|(rate, _)| rate.log10() <= self.ends.1).collect()
    }
}
