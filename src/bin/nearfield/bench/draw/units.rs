//! Numbers for people.

/// A number with groups of three digits, and as a power of two where it is one.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number.is_power_of_two() && number >= 1 << 10 {
        text += &format!(" (2^{})", number.trailing_zeros());
    }
    text
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

/// A number with three significant digits, in the first of some units, of which each is a thousand of the one before, that
/// leaves less than a thousand. The first unit is a power of ten.
fn in_units(number: f64, first: i32, units: &[&str]) -> String {
    let rounded = format!("{number:.2e}");
    let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let unit = ((exponent - first).div_euclid(3).max(0) as usize).min(units.len() - 1);
    let power = first + 3 * unit as i32;
    let digits = (2 - (exponent - power)).clamp(0, 6) as usize;
    format!("{:.digits$} {}", number / 10f64.powi(power), units[unit])
}
