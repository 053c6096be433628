//! Errors in one line, and numbers as text.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

/// Prints a record in one line, or else lines of a name and a value.
pub fn print(is_json: bool, record: &Value, lines: &[(&str, String)]) -> Result<()> {
    let mut out = io::stdout().lock();
    if is_json {
        writeln!(out, "{record}")?;
    } else {
        lines.iter().try_for_each(|(name, value)| writeln!(out, "{name:<10} {}", printable(value)))?;
    }
    Ok(out.flush()?)
}

/// A text without what would steer a terminal or turn its lines around: names of files and of rows may have any letters.
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |letter: char| {
        letter.is_control() && letter != '\t'
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return text.into();
    }
    let escaped = |letter: char| {
        if steers(letter) { letter.escape_default().to_string() } else { letter.to_string() }
    };
    text.chars().map(escaped).collect()
}

/// A number as JSON; as text if it is one that JSON lacks: "inf", "-inf" or "NaN".
pub fn number(value: impl Into<f64>) -> Value {
    let value = value.into();
    if value.is_finite() { value.into() } else { value.to_string().into() }
}

/// Prints an error. A closed stderr is ignored.
pub fn complain(line: &str) {
    writeln!(io::stderr(), "error: {}", printable(line)).ok();
}

/// Tells the user something on stderr, beside the results. A closed stderr is ignored.
pub fn note(line: &str) {
    writeln!(io::stderr(), "note: {}", printable(line)).ok();
}

/// An error and its causes in one line, without causes that the message already contains.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether an error says that the reader of the output is gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    errors.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A command with quotes where a shell needs them.
pub fn command(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,=+:%@".contains(letter);
    let quoted = |word: &str| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

pub fn queries(number: usize) -> String {
    counted(number, "query", "queries")
}

pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Bytes with a binary unit, with one decimal unless the unit divides them.
pub fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(size, _)| count >= *size) {
        Some((size, unit)) if count.is_multiple_of(*size) => format!("{} {unit}", count / size),
        Some((size, unit)) => format!("{:.1} {unit}", count as f64 / *size as f64),
        None => format!("{count} B"),
    }
}

/// A time in milliseconds or seconds.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// A rate, to about three digits.
pub fn rate(a_second: f64) -> String {
    let digits = if a_second < 10.0 { 2 } else { usize::from(a_second < 100.0) };
    format!("{a_second:.digits$}")
}
