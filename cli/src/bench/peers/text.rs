//! Lines of peers as text.

use serde_json::Value;

use crate::bench::lines::Line;
use crate::output::{self, counted};

/// The most processors that others may keep busy during a measurement.
const QUIET: f64 = 0.1;

/// A line as text.
pub(super) fn of(line: &Value) -> String {
    let Value::Object(fields) = line else { return String::new() };
    let line = Line::from(fields.clone());
    if line.record() == "peers" { peers(&line) } else { peer(&line) }
}

fn peers(line: &Line) -> String {
    let mut text = format!("peers     on {}", line.text("adapter").unwrap_or("an unknown machine"));
    if let Some(driver) = line.text("driver") {
        text.push_str(&format!(", driver {driver}"));
    }
    if let Some(threads) = line.count("threads") {
        text.push_str(&format!(", {threads} threads"));
    }
    text.push_str(&format!("; Python {}", line.text("python").unwrap_or("unknown")));
    let versions = line.value("versions").and_then(Value::as_object);
    for (name, version) in versions.into_iter().flatten() {
        text.push_str(&format!(", {name} {}", version.as_str().unwrap_or("unknown")));
    }
    text
}

fn peer(line: &Line) -> String {
    let (suite, name) = (line.text("suite").unwrap_or_default(), line.text("peer").unwrap_or_default());
    let mut of = vec![];
    let number = |key: &str| line.count(key);
    match (number("rows"), number("dim"), number("length")) {
        (Some(rows), Some(dim), _) => {
            of.push(format!("{rows} x {dim} {}", line.text("data").unwrap_or_default()));
        }
        (Some(rows), _, Some(length)) => of.push(format!("{rows}x{length}")),
        (None, _, Some(length)) => of.push(format!("of {length}")),
        _ => {}
    }
    of.extend(number("lists").map(|lists| counted(lists as usize, "list", "lists")));
    of.extend(number("probes").map(|probes| counted(probes as usize, "probe", "probes")));
    of.extend(number("queries").map(|queries| output::queries(queries as usize)));
    of.extend(["metric", "operation"].iter().filter_map(|key| line.text(key)).map(str::to_owned));
    of.extend(number("k").map(|k| format!("k {k}")));
    of.extend(line.text("values").map(str::to_owned));
    let mut text = format!("{suite:<9} {name}: {}: ", of.join(", "));
    if of.is_empty() {
        text = format!("{suite:<9} {name}: ");
    }
    if let Some(reason) = line.text("not_run") {
        return format!("{text}not run: {reason}");
    }
    let time = |key: &str| line.number(key).unwrap_or(f64::NAN);
    text.push_str(&format!("{:.3} ms ({:.3} .. {:.3})", time("ms"), time("ms_least"), time("ms_most")));
    if let Some(time) = line.number("device_ms") {
        text.push_str(&format!(", on the device {time:.3} ms"));
    }
    if let Some(rate) = line.number("queries_per_s") {
        text.push_str(&format!(", {rate:.0} queries/s"));
    }
    if let Some(recall) = line.number("recall") {
        text.push_str(&format!(", recall {recall:.4}"));
    }
    if let Some(rate) = line.number("bytes_per_s") {
        text.push_str(&format!("; {:.2} GB/s", rate / 1e9));
    }
    if let Some(others) = line.number("other_cpus").filter(|&others| others > QUIET) {
        text.push_str(&format!("; disturbed: others kept {others:.1} processors busy"));
    }
    text
}
