//! Numbers for people.

/// A whole number with groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    group(&number.to_string())
}

/// The same for digits with perhaps a sign and decimals.
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

/// A number with groups of three digits, and as a power of two where it is one.
pub(super) fn count(number: u64) -> String {
    let mut text = grouped(number);
    if number.is_power_of_two() && number >= 1 << 10 {
        text += &format!(" (2^{})", number.trailing_zeros());
    }
    text
}

/// A number with `digits` decimals, or by its power of ten where that would be very long, or nothing.
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

pub(super) fn rate_text(rate: f64) -> String {
    in_units(rate, 0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"])
}

pub(super) fn time_text(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0".into();
    }
    in_units(seconds, -9, &["ns", "µs", "ms", "s"])
}

pub(super) fn percent(share: f64) -> String {
    in_units(share * 100.0, 0, &["%"])
}

/// A share of a hundred, to the whole above ten.
pub(super) fn rough_percent(share: f64) -> String {
    decimal(100.0 * share, if share.abs() < 0.0995 { 1 } else { 0 })
}

/// A number with three significant digits, in the first of some units, of which each is a thousand of the one before, that
/// leaves less than a thousand. The first unit is a power of ten.
pub(super) fn in_units(number: f64, first: i32, units: &[&str]) -> String {
    let rounded = format!("{number:.2e}");
    let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let unit = ((exponent - first).div_euclid(3).max(0) as usize).min(units.len() - 1);
    let power = first + 3 * unit as i32;
    let digits = (2 - (exponent - power)).clamp(0, 6) as usize;
    let scaled = number / 10f64.powi(power);
    // Nonsense is written in few letters, too.
    if scaled.abs() < 1e9 {
        format!("{scaled:.digits$} {}", units[unit])
    } else {
        format!("{scaled:.2e} {}", units[unit])
    }
}

/// The same for a mark of an axis, which is round.
pub(super) fn round_in_units(number: f64, first: i32, units: &[&str]) -> String {
    let text = in_units(number, first, units);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}").trim_end().to_owned()
        }
        _ => text.trim_end().to_owned(),
    }
}
