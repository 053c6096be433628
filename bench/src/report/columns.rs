//! Columns of tables: fields of lines, and figures made from them.

use super::document::{Column, Table};
use super::fields::{cell, describe, split};
use crate::lines::Line;
use crate::units::{byte_rate, decimal, operation_rate, percent, whole};

/// A column of figures: its key, its head, and the text for a line.
type Figure = (&'static str, &'static str, fn(&Line, &str) -> Option<String>);

const FIGURES: [Figure; 30] = [
    ("recall", "recall", |line, key| Some(decimal(line.number(key)?, 4))),
    ("ms", "time, ms", milliseconds),
    ("spread", "least – most", |line, _| {
        Some(format!("{} – {}", milliseconds(line, "ms_least")?, milliseconds(line, "ms_most")?))
    }),
    ("p90_ms", "p90, ms", milliseconds),
    ("p99_ms", "p99, ms", milliseconds),
    ("p999_ms", "p99.9, ms", milliseconds),
    ("ms_most", "most, ms", milliseconds),
    ("together", "queries together", |line, key| line.number(key).map(|number| decimal(number, 1))),
    ("device_ms", "on device, ms", milliseconds),
    ("queries_per_s", "queries/s", rate),
    ("device_queries_per_s", "queries/s from device", rate),
    ("scoring", "scoring, ms", |line, _| stages(line, true)),
    ("other_stages", "other stages, ms", |line, _| stages(line, false)),
    ("scored_per_query", "scored per query", rate),
    ("survivors_per_query", "rescored per query", rate),
    ("searched_again", "searched again", |line, key| line.positive(key).map(whole)),
    ("bytes_per_s", "bytes/s", |line, key| line.positive(key).map(byte_rate)),
    ("operations_per_s", "operations/s", |line, key| line.positive(key).map(operation_rate)),
    ("share_of_copy", "of a copy", |line, key| line.positive(key).map(percent)),
    ("share", "of ceiling", |line, _| of_ceiling(line)),
    ("error", "error", |line, key| {
        line.number(key).map(|error| if error == 0.0 { "0".into() } else { format!("{error:.1e}") })
    }),
    ("upload_ms", "upload, ms", milliseconds),
    ("train_ms", "training, ms", milliseconds),
    ("iteration_ms", "iteration, ms", milliseconds),
    ("add_ms", "adding, ms", milliseconds),
    ("largest_list", "largest list", rate),
    ("empty_lists", "empty lists", |line, key| line.positive(key).map(whole)),
    ("not_run", "not run", |line, key| line.text(key).map(str::to_owned)),
    ("reason", "reason", |line, key| line.text(key).map(str::to_owned)),
    ("verified", "answer", |line, _| line.is_wrong().then(|| "WRONG".into())),
];

/// Behind the times of a busy machine.
pub(super) const NOISY: &str = " ~";

pub(super) fn milliseconds(line: &Line, key: &str) -> Option<String> {
    let mark = if line.is_noisy(key) { NOISY } else { "" };
    line.number(key).map(|ms| decimal(ms, 3) + mark)
}

fn rate(line: &Line, key: &str) -> Option<String> {
    line.number(key).map(whole)
}

/// Time of the stages that score rows, or of the others.
fn stages(line: &Line, is_scoring: bool) -> Option<String> {
    let stages = line.stages();
    let scores =
        |name: &str| ["screen_", "distance_", "collect_tile_"].iter().any(|start| name.starts_with(start));
    let chosen = stages.iter().filter(|(name, _)| scores(name) == is_scoring);
    (!stages.is_empty()).then(|| decimal(chosen.fold(0.0, |sum, (_, ms)| sum + ms), 3))
}

/// The share of the ceiling that limits a case, such as "63 % of reads".
pub(super) fn of_ceiling(line: &Line) -> Option<String> {
    let ceiling = match line.text("bound")? {
        "read" => "reads",
        "flops" => "f32 arithmetic",
        "integers" => "int8 arithmetic",
        "matrices" => "matrix units",
        other => other,
    };
    Some(format!("{} of {ceiling}", percent(line.positive("share")?)))
}

/// The fields that tell lines apart, and those that all lines share in words. A single line shares none.
pub(super) fn telling<'k>(lines: &[&Line], fields: &[&'k str]) -> (Vec<&'k str>, String) {
    let (differing, same) = match lines {
        [_] => (fields.to_vec(), vec![]),
        lines => split(lines, fields),
    };
    (differing, lines.first().map(|line| describe(line, &same)).unwrap_or_default())
}

/// A table of lines: fields, then figures.
pub(super) fn table(title: &str, lines: &[&Line], fields: &[&str], figures: &str) -> Table {
    let (differing, common) = telling(lines, fields);
    let column = |key: &&str| Column::new(key.replace('_', " "), lines.iter().map(|line| cell(line, key)));
    let mut columns: Vec<Column> = differing.iter().map(column).collect();
    let known = |key| FIGURES.iter().find(|(name, ..)| *name == key);
    for (key, head, show) in figures.split_whitespace().filter_map(known) {
        // A wrong answer has no speed.
        let has_figure = |line: &Line| !line.is_wrong() || *key == "verified";
        let text = |line: &&Line| show(line, key).filter(|_| has_figure(line)).unwrap_or_default();
        columns.push(Column::new(*head, lines.iter().map(text)));
    }
    let common = if common.is_empty() { common } else { format!("All rows: {common}") };
    Table::new(title, common, columns)
}
