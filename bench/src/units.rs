//! Numbers as text for people, and rounded for JSON lines.

use std::time::Duration;

/// A whole number in groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    group(&number.to_string())
}

/// Groups digits that may have a sign and decimals.
fn group(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("\u{2212}", digits));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if decimals.is_empty() { text } else { format!("{text}.{decimals}") }
}

/// A number with `digits` decimals, or in scientific notation if that would round to zero or be very long.
pub(super) fn decimal(number: f64, digits: usize) -> String {
    let size = number.abs();
    match size == 0.0 || (10f64.powi(-(digits as i32)) / 2.0..1e12).contains(&size) {
        true => group(&format!("{number:.digits$}")),
        false => format!("{number:.2e}"),
    }
}

/// A number with about four significant digits.
pub(super) fn figure(number: f64) -> String {
    let size = number.abs();
    match size {
        0.0 => "0".into(),
        1e-4..1e12 => decimal(number, (3 - size.log10().floor() as i32).clamp(0, 7) as usize),
        _ => format!("{number:.2e}"),
    }
}

/// A rate: whole, or with two decimals below ten.
pub(super) fn whole(number: f64) -> String {
    decimal(number, if number != 0.0 && number.abs() < 10.0 { 2 } else { 0 })
}

pub(super) fn bytes(count: f64) -> String {
    in_units(count, 0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

pub(super) fn byte_rate(rate: f64) -> String {
    in_units(rate, 0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"])
}

pub(super) fn operation_rate(rate: f64) -> String {
    in_units(rate, 0, &["op/s", "kop/s", "Mop/s", "Gop/s", "Top/s", "Pop/s"])
}

pub(super) fn time(seconds: f64) -> String {
    in_units(seconds, -9, &["ns", "µs", "ms", "s"])
}

/// A share in percent, with decimals below ten.
pub(super) fn percent(share: f64) -> String {
    let digits = if share.abs() < 0.001 { 3 } else { usize::from(share.abs() < 0.0995) };
    format!("{} %", decimal(100.0 * share, digits))
}

/// A number with three significant digits, in the largest of some units that keeps it at least 1. Each unit is a
/// thousand times the one before it; the first is 10 to the power of `first`.
fn in_units(number: f64, first: i32, units: &[&str]) -> String {
    let rounded = format!("{number:.2e}");
    let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let unit = ((exponent - first).div_euclid(3).max(0) as usize).min(units.len() - 1);
    let power = first + 3 * unit as i32;
    let digits = (2 - (exponent - power)).clamp(0, 6) as usize;
    let scaled = number / 10f64.powi(power);
    let text = if scaled.abs() < 1e9 { format!("{scaled:.digits$}") } else { format!("{scaled:.2e}") };
    format!("{text} {}", units[unit])
}

/// A number with a prefix of its unit, such as "200k".
pub(super) fn short(number: f64) -> String {
    trimmed(&in_units(number, 0, &["", "k", "M", "G", "T", "P"])).replace(' ', "")
}

/// A round number with a unit without the zeros after its decimal point, for the tick of an axis.
pub(super) fn trimmed(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') && !number.contains('e') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
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
