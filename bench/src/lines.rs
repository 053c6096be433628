//! JSON lines of `nearfield-bench`, read back. docs/benchmark.md lists their fields.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use super::times::NOISY;
use super::units::grouped;
use nearfield_cli::terminal::output;

/// Identity fields by suite: cases equal in these are one case.
const IDENTITY: [(&str, &str); 9] = [
    ("distance", "rows dim queries metric elements precision data"),
    ("reduce", "operation elements summation length row_length"),
    ("select", "rows length k values"),
    ("exact", "rows dim queries k metric elements data screened scratch places allowed contiguous"),
    ("graph", "rows dim k radius metric elements data screened scratch places"),
    ("ivf", "rows dim lists iterations probes queries k metric data screened scratch allowed contiguous"),
    (
        "maxsim",
        "documents tokens dim queries query_tokens k allowed elements lists probes candidates_per_token candidates data scratch",
    ),
    ("breakeven", "rows dim queries k metric data scratch"),
    ("serve", "rows dim lists probes queries k metric data screened scratch threads rate joined places"),
];

/// The identity fields of a suite, or none if the suite is unknown.
pub(super) fn identity(suite: &str) -> Vec<&'static str> {
    let known = IDENTITY.iter().find(|(name, _)| *name == suite);
    known.map_or("", |(_, fields)| fields).split_whitespace().collect()
}

#[derive(Debug, Clone)]
pub(super) struct Line(pub(super) Map<String, Value>);

impl Line {
    /// The line of an object.
    pub(super) fn of(value: &Value) -> Self {
        Self(value.as_object().cloned().unwrap_or_default())
    }

    /// The kind of line: `device`, `suite`, `case` and so on.
    pub(super) fn record(&self) -> &str {
        self.text("record").unwrap_or_default()
    }

    /// Whether the line has this record and this suite.
    pub(super) fn is(&self, record: &str, suite: &str) -> bool {
        self.record() == record && self.text("suite") == Some(suite)
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.as_str()
    }

    /// A finite number.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64().filter(|number| number.is_finite())
    }

    /// A number above zero: a time or a rate of zero was not measured.
    pub(super) fn positive(&self, key: &str) -> Option<f64> {
        self.number(key).filter(|number| *number > 0.0)
    }

    /// Text, a number or a truth value as text.
    pub(super) fn plain(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        }
    }

    /// A field for people: whole numbers in groups of three digits, bytes with their unit.
    pub(super) fn field(&self, key: &str) -> Option<String> {
        match self.value(key).and_then(Value::as_u64) {
            Some(bytes) if key == "scratch" => Some(output::bytes(bytes)),
            Some(number) => Some(grouped(&number.to_string())),
            None => self.plain(key),
        }
    }

    /// Whether the line says that its answer was wrong.
    pub(super) fn is_wrong(&self) -> bool {
        self.value("verified") == Some(&Value::Bool(false))
    }

    /// Whether other work on the machine has probably made a time longer: `ms` or `device_ms`.
    pub(super) fn is_noisy(&self, clock: &str) -> bool {
        // Callers wait for each other, so latencies differ on a quiet machine, too.
        let is_latency = self.text("suite") == Some("serve");
        let least = self.positive(&format!("{clock}_least"));
        !is_latency && self.positive(clock).zip(least).is_some_and(|(median, least)| median > NOISY * least)
    }

    /// The times of a case in words.
    pub(super) fn times(&self) -> String {
        let time = |key: &str| self.number(key).unwrap_or(f64::NAN);
        let noisy = if self.is_noisy("ms") { ", noisy" } else { "" };
        let on_device = self.number("device_ms").map(|ms| format!(", on the device {ms:.3} ms"));
        let (median, least, most) = (time("ms"), time("ms_least"), time("ms_most"));
        format!("{median:.3} ms ({least:.3} .. {most:.3}){noisy}{}", on_device.unwrap_or_default())
    }

    /// The machine of a `peers` line in words.
    pub(super) fn machine(&self) -> String {
        let mut parts: Vec<String> = ["adapter", "driver"].iter().filter_map(|key| self.plain(key)).collect();
        parts.extend(self.plain("threads").map(|threads| format!("{threads} threads")));
        parts.extend(self.text("python").map(|python| format!("Python {python}")));
        let versions = self.value("versions").and_then(Value::as_object).into_iter().flatten();
        parts.extend(versions.map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("?"))));
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

/// The fields that a line has, in words: "rows 1,000, dim 768".
pub(super) fn words(line: &Line, keys: &[&str]) -> String {
    let words = keys
        .iter()
        .filter_map(|key| Some(format!("{key} {}", line.field(key).filter(|text| !text.is_empty())?)));
    words.collect::<Vec<_>>().join(", ")
}

/// The different values of a field, in order.
pub(super) fn distinct<'a>(lines: impl IntoIterator<Item = &'a Line>, key: &str) -> Vec<String> {
    let mut values = vec![];
    for value in lines.into_iter().filter_map(|line| line.plain(key)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// Reads the lines of a file.
pub(super) fn read(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut lines = vec![];
    for (number, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) if fields.get("record").is_some_and(Value::is_string) => {
                lines.push(Line(fields));
            }
            Ok(_) => bail!("{}, line {number}: needed an object with a `record`", path.display()),
            Err(error) => bail!(
                "{}, line {number}: needed JSON, found none at column {}",
                path.display(),
                error.column()
            ),
        }
    }
    ensure!(!lines.is_empty(), "{}: needed lines of `nearfield-bench --json`, found none", path.display());
    Ok(lines)
}
