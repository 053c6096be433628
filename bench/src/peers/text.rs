//! Lines of peers as text.

use serde_json::Value;

use crate::lines::{Line, identity};
use crate::report::describe;

pub(super) fn of(line: &Value) -> String {
    let Value::Object(fields) = line else { return String::new() };
    let line = Line(fields.clone());
    if line.record() == "peers" { format!("peers     on {}", line.machine()) } else { peer(&line) }
}

fn peer(line: &Line) -> String {
    let [suite, peer] = ["suite", "peer"].map(|key| line.text(key).unwrap_or_default());
    let work = describe(line, &identity(suite));
    let name = format!("{suite:<9} {peer}: {work}{}", if work.is_empty() { "" } else { ": " });
    if let Some(reason) = line.text("not_run") {
        return format!("{name}not run: {reason}");
    }
    let time = |key: &str| line.number(key).unwrap_or(f64::NAN);
    let figures = [
        Some(format!("{:.3} ms ({:.3} .. {:.3})", time("ms"), time("ms_least"), time("ms_most"))),
        line.is_noisy("ms").then(|| ", noisy".to_owned()),
        line.number("device_ms").map(|time| format!(", on the device {time:.3} ms")),
        line.number("queries_per_s").map(|rate| format!(", {rate:.0} queries/s")),
        line.number("recall").map(|recall| format!(", recall {recall:.4}")),
        line.number("bytes_per_s").map(|rate| format!("; {:.2} GB/s", rate / 1e9)),
    ];
    name + &figures.into_iter().flatten().collect::<String>()
}
