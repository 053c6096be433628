//! A timed case, as a JSON line and as text.

use serde_json::{Value, json};

use super::ceilings::{Reached, Work};
use super::lines::{Line, identity, words};
use super::times::Times;
use super::units::{milliseconds, rounded};

#[derive(Default)]
pub(super) struct Case {
    /// The identity fields in words: a name that is unique in the suite.
    pub(super) name: String,
    /// The identity fields and the further figures.
    pub(super) fields: Value,
    pub(super) wall: Times,
    pub(super) on_device: Option<Times>,
    pub(super) work: Option<Work>,
    /// The number of checked answers, or true for all.
    pub(super) verified: Value,
    /// The number of operands that took turns.
    pub(super) rotated: usize,
    pub(super) remarks: Vec<String>,
    pub(super) details: Vec<String>,
}

impl Case {
    /// A case of these identity fields.
    pub(super) fn of(suite: &str, fields: Value) -> Self {
        Self { name: words(&Line::of(&fields), &identity(suite)), fields, ..Self::default() }
    }

    /// Adds fields.
    pub(super) fn add(&mut self, fields: Value) {
        extend(&mut self.fields, fields);
    }

    /// The line of the case and its text. `reached` is based on the device's time, or else the wall clock's.
    pub(super) fn told(self, suite: &str, name: &str, reached: Option<Reached>) -> (Value, String) {
        let Self { fields, wall, on_device, work, verified, rotated, remarks, details, .. } = self;
        let mut line = json!({ "record": "case", "suite": suite, "case": name });
        extend(&mut line, fields);
        extend(
            &mut line,
            json!({
                "runs": wall.runs, "ms": milliseconds(wall.median), "ms_least": milliseconds(wall.least),
                "ms_most": milliseconds(wall.most), "device_ms": on_device.map(|times| milliseconds(times.median)),
                "device_ms_least": on_device.map(|times| milliseconds(times.least)),
                "device_ms_most": on_device.map(|times| milliseconds(times.most)),
                "verified": verified, "rotated": rotated,
            }),
        );
        let mut text = format!("{suite:<9} {name}: {}", Line::of(&line).times());
        for remark in remarks {
            text.push_str(&format!(", {remark}"));
        }
        if let Some((work, reached)) = work.zip(reached) {
            extend(
                &mut line,
                json!({
                    "bytes": work.bytes, "operations": work.operations, "intensity": rounded(reached.intensity),
                    "bytes_per_s": rounded(reached.bytes_per_s), "operations_per_s": rounded(reached.operations_per_s),
                    "bound": reached.bound.map(|(bound, _)| bound), "share": reached.bound.map(|(_, share)| rounded(share)),
                }),
            );
            text.push_str(&format!(
                "; {:.2} GB/s, {:.1} Gop/s, {:.3} operations a byte",
                reached.bytes_per_s / 1e9,
                reached.operations_per_s / 1e9,
                reached.intensity,
            ));
            if let Some((bound, share)) = reached.bound {
                text.push_str(&format!(": {:.1} % of {bound}", 100.0 * share));
            }
        }
        for detail in details {
            text.push_str(&format!("\n{:<9}   {detail}", ""));
        }
        (line, text)
    }
}

/// Adds the fields of one object to another.
pub(super) fn extend(line: &mut Value, fields: Value) {
    if let (Value::Object(line), Value::Object(fields)) = (line, fields) {
        line.extend(fields);
    }
}
