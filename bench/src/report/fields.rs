//! Fields of lines in words, and cases grouped by them.

use serde_json::Value;

use super::chart::{MAX_SERIES, Mark, Series};
use crate::lines::Line;
use crate::units::{figure, grouped};
use nearfield_cli::terminal::output;

/// How a library is written.
const LIBRARIES: [(&str, &str); 9] = [
    ("torch-f32", "PyTorch, f32"),
    ("torch-f16", "PyTorch, inputs rounded to f16"),
    ("cuvs", "cuVS"),
    ("cuvs-cagra", "cuVS CAGRA"),
    ("faiss-cpu", "faiss, CPU"),
    ("faiss-gpu", "faiss, GPU"),
    ("numpy", "NumPy"),
    ("scipy", "SciPy"),
    ("usearch", "usearch"),
];

/// The library that a line is of.
pub(super) fn library(line: &Line) -> String {
    let name = line.plain("peer").unwrap_or_else(|| "nearfield".to_owned());
    LIBRARIES.iter().find(|(key, _)| *key == name).map_or(name, |(_, known)| (*known).to_owned())
}

pub(super) fn cell(line: &Line, key: &str) -> String {
    match line.value(key) {
        None => String::new(),
        // Cases of fewer rows than the set has say how many it has ("embedding of 10000"); the field `rows` tells them apart.
        Some(Value::String(text)) if key == "data" => {
            let set =
                text.rsplit_once(" of ").filter(|(_, rows)| rows.bytes().all(|byte| byte.is_ascii_digit()));
            set.map_or_else(|| text.clone(), |(set, _)| set.to_owned())
        }
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(truth)) => if *truth { "yes" } else { "no" }.to_owned(),
        Some(Value::Number(number)) => match (number.as_u64(), number.as_f64()) {
            (Some(bytes), _) if key == "scratch" => output::bytes(bytes),
            (Some(whole), _) => grouped(whole),
            (None, number) => number.map(figure).unwrap_or_default(),
        },
        Some(other) => other.to_string(),
    }
}

/// A field in words, such as "10,000 queries".
fn phrase(line: &Line, key: &str) -> Option<String> {
    if key == "peer" {
        return Some(library(line));
    }
    let (value, text) = (line.value(key)?, cell(line, key));
    let counted =
        |one: &str, many: &str| format!("{text} {}", if value.as_u64() == Some(1) { one } else { many });
    Some(match key {
        "rows" => counted("row", "rows"),
        "dim" => counted("dimension", "dimensions"),
        "queries" => counted("query", "queries"),
        "lists" => counted("list", "lists"),
        "iterations" => counted("iteration", "iterations"),
        // A graph has no lists.
        "probes" if line.value("lists").is_none() => format!("width {text}"),
        "probes" => counted("probe", "probes"),
        "scratch" => format!("{text} scratch"),
        "k" => format!("k = {text}"),
        "length" => format!("length {text}"),
        "row_length" => format!("rows of {text}"),
        "threads" => counted("thread", "threads"),
        "rate" => format!("{text} searches/s arrive"),
        // Callers are joined unless they say otherwise.
        "joined" => (if value.as_bool()? { "" } else { "apart" }).to_owned(),
        // Searches are screened unless they say otherwise.
        "screened" => (if value.as_bool()? { "" } else { "not screened" }).to_owned(),
        _ => text,
    })
    .filter(|text| !text.is_empty())
}

/// Fields in words, separated by commas. Rows and dimensions become a shape, such as "1,000 × 768".
pub(crate) fn describe(line: &Line, keys: &[&str]) -> String {
    let has = |key: &str| keys.contains(&key) && line.value(key).is_some();
    let across = ["dim", "length"].into_iter().find(|key| has("rows") && has(key));
    let parts = keys.iter().filter_map(|&key| match (key, across) {
        ("rows", Some(across)) => Some(format!("{} × {}", cell(line, "rows"), cell(line, across))),
        (key, Some(across)) if key == across => None,
        _ => phrase(line, key),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Lines grouped by equal fields, in the order of the first line of each group.
pub(super) fn groups<'a>(lines: &[&'a Line], keys: &[&str]) -> Vec<Vec<&'a Line>> {
    let mut groups: Vec<(Vec<String>, Vec<&Line>)> = vec![];
    for &line in lines {
        let values: Vec<String> = keys.iter().map(|key| cell(line, key)).collect();
        match groups.iter_mut().find(|(other, _)| *other == values) {
            Some((_, group)) => group.push(line),
            None => groups.push((values, vec![line])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Splits fields into those that differ between lines and those that all lines share.
pub(super) fn split<'k>(lines: &[&Line], keys: &[&'k str]) -> (Vec<&'k str>, Vec<&'k str>) {
    let differs = |key: &&str| lines.iter().any(|line| cell(line, key) != cell(lines[0], key));
    keys.iter().partition(|key| differs(key))
}

/// One series for each library and group of cases that differ only in the field `over`. Also returns a note with the fields that all
/// series share and the number of series left out.
pub(super) fn series(
    cases: &[&Line],
    over: &str,
    keys: &[&str],
    point: impl Fn(&Line) -> Option<(f64, f64)>,
) -> (Vec<Series>, String) {
    let keys: Vec<&str> = keys.iter().copied().filter(|key| *key != over).collect();
    let mut lines: Vec<(&Line, Vec<(f64, f64)>)> = vec![];
    for group in groups(cases, &[&["peer"], &keys[..]].concat()) {
        let mut points: Vec<(f64, f64)> = group.iter().filter_map(|case| point(case)).collect();
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        points.dedup_by_key(|(x, _)| *x);
        if points.len() > 1 {
            lines.push((group[0], points));
        }
    }
    named(lines, &keys)
}

/// Series of lines, named by the fields that differ between lines of a library, and the note of [`series`].
pub(super) fn named(mut lines: Vec<(&Line, Vec<(f64, f64)>)>, keys: &[&str]) -> (Vec<Series>, String) {
    let more = lines.len().saturating_sub(MAX_SERIES);
    lines.truncate(MAX_SERIES);
    let shown: Vec<&Line> = lines.iter().map(|(line, _)| *line).collect();
    let libraries = groups(&shown, &["peer"]);
    // Libraries do not have all fields.
    let differs = |key: &&str| libraries.iter().any(|library| !split(library, &[*key]).0.is_empty());
    let (mut differing, same): (Vec<&str>, Vec<&str>) = keys.iter().partition(|key| differs(key));
    if libraries.len() > 1 {
        differing.insert(0, "peer");
    }
    let mut notes: Vec<String> = shown.first().map(|line| describe(line, &same)).into_iter().collect();
    notes.extend((more > 0).then(|| format!("{more} more in the table")));
    notes.retain(|note| !note.is_empty());
    let name = |line: &Line| match describe(line, &differing) {
        // Usual values have no words of their own.
        name if name.is_empty() => {
            let usual = differing.iter().map(|&key| if key == "places" { "rows on one device" } else { key });
            usual.collect::<Vec<_>>().join(", ")
        }
        name => name,
    };
    let series =
        lines.into_iter().map(|(line, points)| Series { name: name(line), mark: Mark::Line, points });
    (series.collect(), notes.join("; "))
}
