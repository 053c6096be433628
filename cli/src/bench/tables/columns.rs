//! What columns are called and show.

use anyhow::{Result, bail};

use super::super::draw::cell;
use super::super::lines::Line;
use super::super::units::{decimal, grouped, in_units, percent, rate_text};

/// A figure: its name, its head, and what it shows of a line.
type Figure = (&'static str, &'static str, fn(&Line) -> Option<String>);

const FIGURES: [Figure; 33] = [
    ("shape", "rows x elements", |line| {
        Some(format!("{} x {}", grouped(line.count("rows")?), grouped(line.count("length")?)))
    }),
    ("how_many", "how many", |line| {
        Some(grouped(line.count("length")?.checked_div(line.count("row_length")?)?))
    }),
    ("ms", "ms", |line| milliseconds(line, "ms")),
    ("spread", "ms (least .. most)", |line| {
        let [least, most] = ["ms_least", "ms_most"].map(|key| milliseconds(line, key));
        Some(format!("{} ({} .. {})", milliseconds(line, "ms")?, least?, most?))
    }),
    ("wall", "wall, ms", |line| milliseconds(line, "ms")),
    ("device_ms", "device, ms", |line| milliseconds(line, "device_ms")),
    ("queries_per_s", "queries/s", |line| whole(line, "queries_per_s")),
    ("recall", "recall", |line| Some(decimal(line.number("recall")?, 4))),
    ("scoring", "scoring, ms", |line| stages(line, true)),
    ("other", "other stages, ms", |line| stages(line, false)),
    ("reaches", "reaches", reaches),
    ("scoring_share", "scoring reaches", |line| Some(percent(line.number("scoring_share")?))),
    ("share", "share of it", |line| Some(percent(line.number("share")?))),
    ("survivors_per_query", "rescored a query", |line| whole(line, "survivors_per_query")),
    ("scored_per_query", "scored a query", |line| whole(line, "scored_per_query")),
    ("searched_again", "again", |line| whole(line, "searched_again")),
    ("device_queries_ms", "ms, queries on the device", |line| milliseconds(line, "device_queries_ms")),
    ("device_queries_per_s", "queries/s, queries on the device", |line| whole(line, "device_queries_per_s")),
    ("upload_ms", "upload, ms", |line| milliseconds(line, "upload_ms")),
    ("train_ms", "train, ms", |line| milliseconds(line, "train_ms")),
    ("add_ms", "add, ms", |line| milliseconds(line, "add_ms")),
    ("largest_list", "largest list", |line| whole(line, "largest_list")),
    ("empty_lists", "empty lists", |line| whole(line, "empty_lists")),
    ("bytes_per_s", "reads", |line| Some(rate_text(line.positive("bytes_per_s")?))),
    ("operations_per_s", "computes", |line| Some(flops_text(line.positive("operations_per_s")?))),
    ("share_of_copy", "of a copy", |line| Some(percent(line.number("share_of_copy")?))),
    ("scratch_bytes", "scratch, bytes", |line| whole(line, "scratch_bytes")),
    ("error", "error", |line| {
        let error = line.number("error")?;
        Some(if error == 0.0 { "0".into() } else { format!("{error:.1e}") })
    }),
    ("device_share_wall", "device, ms, of a copy (wall, ms)", |line| {
        let share = line.number("share_of_copy").map(|share| format!(", {}", percent(share)));
        let device = milliseconds(line, "device_ms")? + &share.unwrap_or_default();
        Some(format!("{device} ({})", milliseconds(line, "ms")?))
    }),
    ("wall_device", "wall, ms (device, ms)", |line| {
        Some(format!("{} ({})", milliseconds(line, "ms")?, milliseconds(line, "device_ms")?))
    }),
    ("gpu_host", "GPU / host, ms", |line| {
        let star = if line.text("copy") == Some("host") { " *" } else { "" };
        Some(format!("{} / {}{star}", milliseconds(line, "ms")?, milliseconds(line, "host_ms")?))
    }),
    ("runs", "runs", |line| whole(line, "runs")),
    ("verified", "verified", |line| line.plain("verified")),
];

/// The cells of a column under its head, for what lines are of or a figure.
pub(super) fn cells(name: &str, of: &[&str], lines: &[&Line]) -> Result<(String, Vec<String>)> {
    let figure = FIGURES.iter().find(|(other, ..)| *other == name);
    let Some((_, head, show)) = figure else {
        if !of.contains(&name) {
            let figures = FIGURES.iter().map(|(name, ..)| *name);
            let known = of.iter().copied().chain(figures).collect::<Vec<_>>().join(", ");
            bail!("columns=: needed some of {known}, given {name}");
        }
        let head = match name {
            "length" => "numbers",
            "row_length" => "rows of",
            _ => name,
        };
        return Ok((head.to_owned(), lines.iter().map(|line| of_text(line, name)).collect()));
    };
    let cells = lines.iter().map(|line| cell(&show(line).unwrap_or_default()));
    Ok(((*head).to_owned(), cells.collect()))
}

/// A field of what a line is of.
pub(super) fn of_text(line: &Line, name: &str) -> String {
    match (line.count(name), line.value(name).and_then(serde_json::Value::as_bool)) {
        (Some(count), _) => grouped(count),
        (_, Some(truth)) => if truth { "yes" } else { "no" }.to_owned(),
        _ => words(&line.plain(name).unwrap_or_default()),
    }
}

/// Text in a cell: on one line, and standing for itself.
pub(super) fn words(text: &str) -> String {
    cell(&text.split(|letter: char| letter.is_control()).collect::<Vec<_>>().join(" "))
}

/// Times have four digits, and no more than a device can tell.
pub(super) fn milliseconds_text(ms: f64) -> String {
    let digits = [(10.0, 3), (100.0, 2), (1000.0, 1)].iter().find(|(limit, _)| ms < *limit);
    decimal(ms, digits.map_or(0, |(_, digits)| *digits))
}

fn milliseconds(line: &Line, key: &str) -> Option<String> {
    line.number(key).map(milliseconds_text)
}

fn whole(line: &Line, key: &str) -> Option<String> {
    let number = line.number(key)?;
    Some(decimal(number, if number == 0.0 || number.abs() >= 20.0 || number.fract() == 0.0 { 0 } else { 1 }))
}

/// The time of stages that score rows, or of all others.
fn stages(line: &Line, scoring: bool) -> Option<String> {
    let stages = line.stages();
    let is_scoring = |name: &str| name.starts_with("screen_") || name.starts_with("distance_");
    let chosen = stages.iter().filter(|(name, ..)| is_scoring(name) == scoring);
    let sum: f64 = chosen.map(|(_, ms, _)| ms).sum();
    (!stages.is_empty() && sum.is_finite()).then(|| milliseconds_text(sum))
}

/// What a case reaches of the ceiling that it meets first.
fn reaches(line: &Line) -> Option<String> {
    let bytes = |key| line.positive(key).map(rate_text);
    let flops = |key| line.positive(key).map(flops_text);
    let of = |text: Option<String>, share, what| {
        Some(format!("{}, {} of {what}", text?, percent(line.number(share)?)))
    };
    match line.text("bound") {
        Some("read") => of(bytes("bytes_per_s"), "share", "reads"),
        Some("flops") => of(flops("operations_per_s"), "share", "multiply-adds"),
        Some("matrices") => of(flops("operations_per_s"), "share", "matrices"),
        Some("integers") => of(line.positive("operations_per_s").map(ops_text), "share", "integers"),
        _ => None,
    }
}

/// Operations on integers.
pub(super) fn ops_text(rate: f64) -> String {
    in_units(rate, 0, &["op/s", "kop/s", "Mop/s", "Gop/s", "Top/s", "Pop/s"])
}

pub(super) fn flops_text(rate: f64) -> String {
    in_units(rate, 0, &["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"])
}
