//! Lines from before there was a `schema`, in the fields of today, so that old figures can be held against new ones.

use serde_json::{Map, Value, json};

/// Gives fields the names they have now. Lines of today are left as they are.
pub(super) fn renew(fields: &mut Map<String, Value>) {
    let text = |fields: &Map<String, Value>, key: &str| {
        fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (record, suite) = (text(fields, "record"), text(fields, "suite"));
    match (record.as_str(), suite.as_str()) {
        ("device", _) => rename(fields, "name", "adapter"),
        ("build", "") => default(fields, "suite", json!("ivf")),
        ("upload", "") => default(fields, "suite", json!("exact")),
        ("case", "breakeven") => rename(fields, "gpu_ms", "ms"),
        // Older than screens.
        ("case", "exact") => default(fields, "screened", json!(false)),
        ("case", "reduce") if !fields.contains_key("operation") => {
            let operation = text(fields, "case");
            fields.remove("case");
            default(fields, "operation", json!(operation.trim_end_matches(" of rows")));
        }
        ("peer", _) => {
            rename(fields, "back_to_back_ms", "device_ms");
            default(fields, "peer", json!("PyTorch"));
            if suite == "cpu" {
                let of_lists = fields.contains_key("lists");
                fields.insert("suite".into(), json!(if of_lists { "ivf" } else { "exact" }));
            }
            if text(fields, "operation") == "vector_norm" {
                fields.insert("operation".into(), json!("l2"));
            }
        }
        _ => {}
    }
}

fn default(fields: &mut Map<String, Value>, key: &str, value: Value) {
    fields.entry(key).or_insert(value);
}

fn rename(fields: &mut Map<String, Value>, old: &str, new: &str) {
    if !fields.contains_key(new)
        && let Some(value) = fields.remove(old)
    {
        fields.insert(new.into(), value);
    }
}
