//! Lines of peers as text.

use serde_json::Value;

use crate::bench::lines::Line;
use crate::output::{self, counted};

/// The most processors that others may keep busy during a measurement.
const QUIET: f64 = 0.1;

pub(super) fn of(line: &Value) -> String {
    let Value::Object(fields) = line else { return String::new() };
    let line = Line(fields.clone());
    if line.record() == "peers" { format!("peers     on {}", line.machine()) } else { peer(&line) }
}

fn peer(line: &Line) -> String {
    let count = |key: &str| line.count(key);
    let shape = match (count("rows"), count("dim"), count("length")) {
        (Some(rows), Some(dim), _) => {
            Some(format!("{rows} x {dim} {}", line.text("data").unwrap_or_default()))
        }
        (Some(rows), _, Some(length)) => Some(format!("{rows}x{length}")),
        (None, _, Some(length)) => Some(format!("of {length}")),
        _ => None,
    };
    let text = |key: &str| line.text(key).map(str::to_owned);
    let of = [
        shape,
        count("lists").map(|lists| counted(lists as usize, "list", "lists")),
        count("probes").map(|probes| counted(probes as usize, "probe", "probes")),
        count("queries").map(|queries| output::queries(queries as usize)),
        text("metric"),
        text("operation"),
        count("k").map(|k| format!("k {k}")),
        text("values"),
    ];
    let of = of.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let of = if of.is_empty() { of } else { format!("{of}: ") };
    let name = format!(
        "{:<9} {}: {of}",
        line.text("suite").unwrap_or_default(),
        line.text("peer").unwrap_or_default()
    );
    if let Some(reason) = line.text("not_run") {
        return format!("{name}not run: {reason}");
    }
    let time = |key: &str| line.number(key).unwrap_or(f64::NAN);
    let others = line.number("other_cpus").filter(|&others| others > QUIET);
    let figures = [
        Some(format!("{:.3} ms ({:.3} .. {:.3})", time("ms"), time("ms_least"), time("ms_most"))),
        line.number("device_ms").map(|time| format!(", on the device {time:.3} ms")),
        line.number("queries_per_s").map(|rate| format!(", {rate:.0} queries/s")),
        line.number("recall").map(|recall| format!(", recall {recall:.4}")),
        line.number("bytes_per_s").map(|rate| format!("; {:.2} GB/s", rate / 1e9)),
        others.map(|others| format!("; disturbed: others kept {others:.1} processors busy")),
    ];
    name + &figures.into_iter().flatten().collect::<String>()
}
