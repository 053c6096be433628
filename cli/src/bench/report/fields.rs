//! What a case is of, in words, and cases grouped by it.

use serde_json::Value;

use super::palette::color;
use super::plot::{Look, Point, Series};
use crate::bench::lines::Line;
use crate::bench::units::{figure, grouped};
use crate::output;

/// Suites, and what they are called.
pub(super) const SUITES: [(&str, &str); 6] = [
    ("exact", "Exact search"),
    ("ivf", "Search in lists"),
    ("reduce", "Reductions"),
    ("select", "Selection"),
    ("distance", "Distance matrix"),
    ("breakeven", "Break-even"),
];

/// How a search comes to its answer, which says nothing where all do it.
pub(super) const MEANS: [&str; 3] = ["screened", "iterations", "scratch"];

/// A field as text that tells it from others.
pub(super) fn cell(line: &Line, key: &str) -> String {
    match line.value(key) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => grouped(whole),
            (None, Some(number)) => figure(number),
            (None, None) => String::new(),
        },
        Some(other) => other.to_string(),
    }
}

/// A field in words.
fn phrase(line: &Line, key: &str) -> Option<String> {
    let value = line.value(key)?;
    let text = cell(line, key);
    let of = |one: &str, many: &str| format!("{text} {}", if value.as_u64() == Some(1) { one } else { many });
    Some(match key {
        "rows" => of("row", "rows"),
        "dim" => of("dimension", "dimensions"),
        "queries" => of("query", "queries"),
        "lists" => of("list", "lists"),
        "iterations" => of("iteration", "iterations"),
        "probes" => of("probe", "probes"),
        "scratch" => format!("scratch {}", output::bytes(value.as_u64()?)),
        "k" => format!("k = {text}"),
        "length" => format!("length {text}"),
        "row_length" => format!("rows of {text}"),
        // Searches are screened where nothing is said.
        "screened" => (if value.as_bool()? { "" } else { "not screened" }).to_owned(),
        _ => text,
    })
    .filter(|text| !text.is_empty())
}

/// Fields in words, rows and dimensions as the shape that they are.
pub(super) fn describe(line: &Line, keys: &[&str]) -> String {
    let shape = |a: &str, b: &str| {
        (keys.contains(&a) && keys.contains(&b) && line.value(a).is_some() && line.value(b).is_some())
            .then(|| format!("{} × {}", cell(line, a), cell(line, b)))
    };
    let (vectors, values) = (shape("rows", "dim"), shape("rows", "length"));
    let probed = ["lists", "probes"].iter().all(|key| keys.contains(key) && line.value(key).is_some());
    let mut parts = vec![];
    for &key in keys {
        match key {
            "rows" => parts.extend(vectors.clone().or(values.clone()).or_else(|| phrase(line, key))),
            "dim" if vectors.is_some() => {}
            "lists" if probed => parts.push(format!(
                "{} of {}",
                cell(line, "probes"),
                phrase(line, "lists").unwrap_or_default()
            )),
            "probes" if probed => {}
            "length" if values.is_some() => {}
            _ => parts.extend(phrase(line, key)),
        }
    }
    parts.join(", ")
}

/// Groups of lines that are equal in some fields, in the order of the first of each.
pub(super) fn groups<'a>(lines: &[&'a Line], keys: &[&str]) -> Vec<Vec<&'a Line>> {
    let mut groups: Vec<(Vec<String>, Vec<&Line>)> = vec![];
    for &line in lines {
        let of: Vec<String> = keys.iter().map(|key| cell(line, key)).collect();
        match groups.iter_mut().find(|(other, _)| *other == of) {
            Some((_, group)) => group.push(line),
            None => groups.push((of, vec![line])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Which fields are not the same in all groups, and the words for those that are.
pub(super) fn differing<'k>(groups: &[Vec<&Line>], keys: &[&'k str]) -> (Vec<&'k str>, String) {
    let Some(first) = groups.first().and_then(|group| group.first()) else {
        return (vec![], String::new());
    };
    let differs = |key: &&str| {
        groups.iter().filter_map(|group| group.first()).any(|line| cell(line, key) != cell(first, key))
    };
    let (differing, same): (Vec<&str>, Vec<&str>) = keys.iter().partition(|key| differs(key));
    let same: Vec<&str> = same.into_iter().filter(|key| !MEANS.contains(key)).collect();
    (differing, describe(first, &same))
}

/// A case whose `data` names the whole set, of which it may have the first rows: what is told over rows has all of them together.
pub(super) fn of_all_rows(case: &Line) -> Line {
    let mut fields = case.fields().clone();
    let data = case.text("data").and_then(|data| data.rsplit_once(" of "));
    if let Some((set, rows)) = data
        && rows.bytes().all(|letter| letter.is_ascii_digit())
    {
        fields.insert("data".to_owned(), set.into());
    }
    Line::from(fields)
}

/// How many lines of a chart can be told apart.
pub(super) const MOST_LINES: usize = 7;

/// One line a group of cases over a field in which they differ, with the words for what all have in common and a word
/// about groups for which there was no room.
pub(super) fn lines_over(
    cases: &[&Line],
    over: &str,
    keys: &[&str],
    value: impl Fn(&Line) -> Option<f64>,
) -> (Vec<Series>, String) {
    let keys: Vec<&str> = keys.iter().copied().filter(|key| *key != over).collect();
    let sets: Vec<Line> =
        if over == "rows" { cases.iter().map(|case| of_all_rows(case)).collect() } else { vec![] };
    let cases: Vec<&Line> = if over == "rows" { sets.iter().collect() } else { cases.to_vec() };
    let points = |group: &[&Line]| {
        let mut points: Vec<Point> = vec![];
        for line in group {
            let (Some(x), Some(y)) = (line.positive(over), value(line)) else { continue };
            // The last run of a case is the newest.
            points.retain(|point| point.x != x);
            points.push(Point { x, y, label: String::new() });
        }
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        points
    };
    let mut all = groups(&cases, &keys);
    all.retain(|group| points(group).len() > 1);
    let (differing, same) = differing(&all, &keys);
    let lines = all.iter().take(MOST_LINES).enumerate().map(|(number, group)| Series {
        name: group.first().map(|line| describe(line, &differing)).unwrap_or_default(),
        color: color(number),
        look: Look::Line,
        points: points(group),
    });
    (lines.collect(), note(same, all.len()))
}

/// What lines of a chart have in common, and how many are left out.
pub(super) fn note(same: String, lines: usize) -> String {
    let more =
        (lines > MOST_LINES).then(|| format!("not drawn, but in the tables: {} more", lines - MOST_LINES));
    [Some(same).filter(|same| !same.is_empty()), more].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
