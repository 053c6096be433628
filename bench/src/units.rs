//! Numbers as text for people, and rounded for JSON lines.

use std::time::Duration;

/// Digits in groups of three. They may be followed by decimals.
pub(super) fn grouped(digits: &str) -> String {
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut text = digits.to_owned();
    for place in (1..whole).rev().filter(|place| (whole - place).is_multiple_of(3)) {
        text.insert(place, ',');
    }
    text
}

/// A number with `digits` decimals, or in scientific notation if that would round to zero or be very long.
pub(super) fn decimal(number: f64, digits: usize) -> String {
    match number == 0.0 || (10f64.powi(-(digits as i32)) / 2.0..1e12).contains(&number) {
        true => grouped(&format!("{number:.digits$}")),
        false => format!("{number:.2e}"),
    }
}

/// A rate: whole, or with two decimals below ten.
pub(super) fn whole(number: f64) -> String {
    decimal(number, if number != 0.0 && number < 10.0 { 2 } else { 0 })
}

pub(super) fn byte_rate(rate: f64) -> String {
    in_units(rate, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"])
}

pub(super) fn operation_rate(rate: f64) -> String {
    in_units(rate, &["op/s", "kop/s", "Mop/s", "Gop/s", "Top/s", "Pop/s"])
}

/// A share in percent, with decimals below ten.
pub(super) fn percent(share: f64) -> String {
    let digits = if share.abs() < 0.001 { 3 } else { usize::from(share.abs() < 0.0995) };
    format!("{} %", decimal(100.0 * share, digits))
}

/// A number with three significant digits, in the largest of some units that keeps it at least 1. Each is a thousand times
/// the one before it.
fn in_units(number: f64, units: &[&str]) -> String {
    let rounded: f64 = format!("{number:.2e}").parse().unwrap_or(number);
    let unit = ((rounded.max(1.0).log10() / 3.0 + 1e-9) as usize).min(units.len() - 1);
    let scaled = rounded / 1000f64.powi(unit as i32);
    let digits = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{} {}", decimal(scaled, digits), units[unit])
}

/// Milliseconds, to five significant digits.
pub(super) fn milliseconds(time: Duration) -> f64 {
    let number = time.as_secs_f64() * 1e3;
    format!("{number:.4e}").parse().unwrap_or(number)
}

/// A number rounded to four significant digits, for output.
pub(super) fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
