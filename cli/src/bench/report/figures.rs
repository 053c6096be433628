//! Figures that cases of every suite have.

use super::axis::Axis;
use super::fields::cell;
use super::part::is_wrong;
use crate::bench::lines::Line;
use crate::bench::units::{decimal, in_units, rate_text, rough_percent, round_in_units};

/// Milliseconds on the device where they are known, else by wall clock.
pub(super) fn best_ms(line: &Line) -> Option<f64> {
    line.positive("device_ms").or_else(|| line.positive("ms"))
}

/// Milliseconds for a table.
pub(super) fn ms(line: &Line, key: &str) -> String {
    line.number(key).map(|ms| decimal(ms, 3)).unwrap_or_default()
}

/// The least and the most.
pub(super) fn spread(line: &Line) -> String {
    match (line.number("ms_least"), line.number("ms_most")) {
        (Some(least), Some(most)) => format!("{} – {}", decimal(least, 3), decimal(most, 3)),
        _ => String::new(),
    }
}

/// So many a second, whole where there are many.
pub(super) fn a_second(line: &Line, key: &str) -> String {
    line.number(key).map(rate).unwrap_or_default()
}

pub(super) fn rate(a_second: f64) -> String {
    decimal(a_second, if a_second.abs() < 10.0 { 2 } else { 0 })
}

/// A number with so many decimals.
pub(super) fn fixed(line: &Line, key: &str, digits: usize) -> String {
    line.number(key).map(|number| decimal(number, digits)).unwrap_or_default()
}

/// A share in percent.
pub(super) fn share(line: &Line, key: &str) -> String {
    line.number(key).map(rough_percent).unwrap_or_default()
}

pub(super) fn bytes_a_second(line: &Line) -> String {
    line.positive("bytes_per_s").map(rate_text).unwrap_or_default()
}

pub(super) fn operations_a_second(line: &Line) -> String {
    line.positive("operations_per_s").map(operations).unwrap_or_default()
}

pub(super) fn operations(a_second: f64) -> String {
    in_units(a_second, 0, &OPERATIONS)
}

const OPERATIONS: [&str; 6] = ["op/s", "k op/s", "M op/s", "G op/s", "T op/s", "P op/s"];
const BYTES: [&str; 6] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"];

pub(super) fn intensity(line: &Line) -> Option<f64> {
    let computed = || Some(line.positive("operations")? / line.positive("bytes")?);
    line.positive("intensity").or_else(computed).filter(|intensity| intensity.is_finite())
}

/// Of which ceiling a share is.
pub(super) fn bound(line: &Line) -> String {
    match line.text("bound") {
        Some("read") => "read bandwidth".into(),
        Some("flops") => "f32 multiply-add".into(),
        Some("integers") => "8-bit integers".into(),
        Some("matrices") => "cooperative matrices".into(),
        other => other.unwrap_or_default().to_owned(),
    }
}

/// How many answers were checked.
pub(super) fn verified(line: &Line) -> String {
    match line.value("verified") {
        _ if is_wrong(line) => "WRONG".into(),
        Some(all) if all.as_bool() == Some(true) => "all".into(),
        Some(_) => cell(line, "verified"),
        None => String::new(),
    }
}

/// Axes that several charts have.
pub(super) const TIME: Axis = Axis {
    name: "time of a search, host to host",
    is_log: true,
    format: |ms| round_in_units(ms / 1e3, -9, &["ns", "µs", "ms", "s"]),
};
pub(super) const DEVICE_TIME: Axis = Axis { name: "time on the device", ..TIME };
pub(super) const QUERIES_A_SECOND: Axis = Axis { name: "queries a second", is_log: true, format: short };
pub(super) const BANDWIDTH: Axis =
    Axis { name: "bytes a second", is_log: true, format: |rate| round_in_units(rate, 0, &BYTES) };
pub(super) const OPERATIONS_A_SECOND: Axis =
    Axis { name: "operations a second", is_log: true, format: |rate| round_in_units(rate, 0, &OPERATIONS) };

/// An axis of a count.
pub(super) const fn over(name: &'static str) -> Axis {
    Axis { name, is_log: true, format: short }
}

/// A round number in few letters.
fn short(number: f64) -> String {
    match number {
        1e6..1e18 => round_in_units(number, 0, &["", "k", "M", "G", "T", "P"]),
        1e3..1e6 => decimal(number, 0),
        1e-5..1e3 => round_in_units(number, 0, &[""]),
        _ => format!("{number:.0e}"),
    }
}
