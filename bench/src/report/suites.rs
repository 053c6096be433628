//! Sections of the suites: a table of all cases, and charts of what they show.

use std::cmp::Reverse;

use super::chart::{Axis, Bar, BarGroup, Chart, GREY, LineChart};
use super::columns::{milliseconds, table};
use super::device::DeviceLines;
use super::document::{Cell, Column, Section, Table};
use super::fields::{cell, describe, groups, series};
use crate::lines::{Line, identity};
use crate::units::{byte_rate, grouped, percent, short, time, trimmed};

/// A section of a suite, with the commands that reproduce it.
pub(super) fn section(
    device: &DeviceLines<'_>,
    suite: &'static str,
    title: &'static str,
    lead: &str,
) -> Section {
    Section { commands: device.commands(suite), ..Section::new(suite, title, lead) }
}

/// Adds the table of all cases.
pub(super) fn add_cases(section: &mut Section, device: &DeviceLines<'_>, figures: &str) {
    let suite = section.name;
    section.table(table("", &device.of("case", suite), &identity(suite), figures));
}

/// Adds a chart with a line for each group of cases that differ only in the field `over`.
pub(super) fn add_lines(
    section: &mut Section,
    cases: &[&Line],
    (name, caption, over): (&'static str, &str, &str),
    [x, y]: [Axis; 2],
    point: impl Fn(&Line) -> Option<(f64, f64)>,
) {
    let (series, note) = series(cases, over, &identity(section.name), point);
    section.figure(name, caption, note, Chart::Lines(LineChart { x, y, series }));
}

pub(super) const TIME: Axis = Axis { name: "", is_log: true, format: |ms| trimmed(&time(ms / 1e3)) };

pub(super) const fn count(name: &'static str) -> Axis {
    Axis { name, is_log: true, format: short }
}

pub(super) fn exact(device: &DeviceLines<'_>) -> Section {
    let lead = "Every answer equals that of a search through all rows. Times run from queries in host memory to results in \
        host memory.";
    let mut section = section(device, "exact", "Exact search", lead);
    let rate = |x| (count(x), count(""), "queries_per_s");
    for (name, over, (x, y, figure), caption) in [
        ("exact-queries", "queries", rate("queries per search"), "Queries per second by batch size"),
        ("exact-rows", "rows", rate("rows"), "Queries per second by number of rows"),
        ("exact-dimensions", "dim", (count("dimensions"), TIME, "ms"), "Time by number of dimensions"),
    ] {
        let point = |case: &Line| Some((case.positive(over)?, case.positive(figure)?));
        add_lines(&mut section, &device.cases("exact"), (name, caption, over), [x, y], point);
    }
    let stages = stage_chart(&device.cases("exact"), &["rows", "dim", "queries"]);
    section.figure("exact-stages", "Time by stage", STAGES, stages);
    let figures =
        "ms queries_per_s share spread device_ms scoring other_stages survivors_per_query searched_again";
    add_cases(&mut section, device, &format!("{figures} verified"));
    section
}

pub(super) fn ivf(device: &DeviceLines<'_>) -> Section {
    let lead = "Each row belongs to the list of its nearest centroid. A search scores the rows of as many lists as it has \
        probes: more probes find more of the true neighbours (recall) and take longer.";
    let mut section = section(device, "ivf", "Inverted lists", lead);
    let point = |case: &Line| {
        let recall = case.number("recall").filter(|recall| (0.0..=1.001).contains(recall))?;
        Some((recall, case.positive("queries_per_s")?))
    };
    let recall = Axis { name: "recall", is_log: false, format: |recall| format!("{recall:.2}") };
    let chart = ("recall", "Queries per second by recall", "probes");
    let mut cases = [device.cases("ivf"), device.measured("peer", "ivf")].concat();
    // Libraries are told apart by their largest batches first.
    cases.sort_by_key(|case| Reverse(case.count("queries")));
    add_lines(&mut section, &cases, chart, [recall, count("")], point);
    let stages = stage_chart(&device.cases("ivf"), &["rows", "dim", "probes", "queries"]);
    section.figure("ivf-stages", "Time by stage", STAGES, stages);
    let figures =
        "recall ms queries_per_s spread device_queries_per_s scored_per_query survivors_per_query verified";
    add_cases(&mut section, device, figures);
    let fields = ["rows", "dim", "lists", "iterations", "metric", "data"];
    let figures = "upload_ms train_ms iteration_ms add_ms largest_list empty_lists";
    section.table(table("Building an index", &device.of("build", "ivf"), &fields, figures));
    section
}

const STAGES: &str =
    "Each bar is the whole time of a search, the first of its size; stages are timed in runs of their own.";

/// Shares of the stages in the time of a search, one bar for each combination of some fields.
fn stage_chart(cases: &[&Line], fields: &[&str]) -> Chart {
    const MAX_BARS: usize = 16;
    let staged: Vec<&Line> = cases
        .iter()
        .copied()
        .filter(|case| !case.stages().is_empty() && case.positive("ms").is_some())
        .collect();
    let share = |case: &Line, chosen: &dyn Fn(&str) -> bool| {
        let chosen = case.stages().into_iter().filter(|(name, _)| chosen(name));
        let wall = case.positive("ms").unwrap_or(f64::MAX);
        chosen.map(|(_, ms)| ms).sum::<f64>() / wall.max(case.stages().iter().map(|(_, ms)| ms).sum())
    };
    let mut names: Vec<&str> = staged.iter().flat_map(|case| case.stages()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let most = |name: &str| staged.iter().map(|case| share(case, &|other| other == name)).fold(0.0, f64::max);
    names.sort_by(|one, other| most(other).total_cmp(&most(one)));
    names.truncate(GREY - 1);
    let mut legend: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    legend.resize(GREY - 1, String::new());
    legend.extend(["other stages".into(), "host and waiting".into()]);
    let shown: Vec<&Line> = groups(&staged, fields).iter().map(|group| group[0]).take(MAX_BARS).collect();
    let bars = shown.iter().map(|case| {
        let mut parts: Vec<(f64, usize)> = names
            .iter()
            .zip(0..)
            .map(|(name, color)| (share(case, &|other| other == *name), color))
            .collect();
        parts.push((share(case, &|other| !names.contains(&other)), GREY - 1));
        parts.push((1.0 - parts.iter().map(|(share, _)| share).sum::<f64>(), GREY));
        parts.retain(|(share, _)| *share > 0.0);
        let text = case.positive("ms").map(|ms| time(ms / 1e3)).unwrap_or_default();
        Bar { label: describe(case, fields), parts, text }
    });
    let bars = bars.collect();
    Chart::Bars(vec![BarGroup { bars, legend, ..BarGroup::default() }])
}

pub(super) fn reductions(device: &DeviceLines<'_>) -> Section {
    let lead = "Operands are on the device already. Bytes read are per second of time on the device; errors are relative to the \
        sum of magnitudes.";
    let mut section = section(device, "reduce", "Reductions", lead);
    let ladders = groups(&device.of("rung", "reduce"), &["length"]);
    let bars = ladders.iter().map(|rungs| ladder(device, rungs)).collect();
    let note = "Bytes read per second of time on the device, or of wall-clock time where the device has no timestamps; \
        percentages are of a copy on the device.";
    section.figure("ladder", "The ladder of the dot product", note, Chart::Bars(bars));
    for rungs in &ladders {
        let title = format!("Dot product of two vectors of {} f32", length(rungs[0]));
        let figures = "device_ms ms bytes_per_s share_of_copy error not_run verified";
        section.table(table(&title, rungs, &["rung", "name"], figures));
    }
    add_cases(&mut section, device, "ms device_ms bytes_per_s share_of_copy share error verified");
    section
}

fn ladder(device: &DeviceLines<'_>, rungs: &[&Line]) -> BarGroup {
    let copy = device.positive("copy_bytes_per_s");
    let version = device.text("version").map(|version| format!("nearfield {version}"));
    let about = [device.text("backend"), device.text("driver"), version.as_deref(), device.text("date")];
    BarGroup {
        title: format!("{}, two vectors of {} f32", device.name(), length(rungs[0])),
        note: about.into_iter().flatten().collect::<Vec<_>>().join(" · "),
        bars: rungs.iter().map(|rung| ladder_bar(rung)).collect(),
        limit: copy.map(|copy| (copy, format!("device copy, {}", byte_rate(copy)))),
        ..BarGroup::default()
    }
}

/// A number of elements, also as a power of two where it is one.
fn length(line: &Line) -> String {
    match line.count("length") {
        Some(length) if length.is_power_of_two() && length >= 1 << 10 => {
            format!("{} (2^{})", grouped(length), length.trailing_zeros())
        }
        _ => cell(line, "length"),
    }
}

fn ladder_bar(rung: &Line) -> Bar {
    let label = [cell(rung, "rung"), cell(rung, "name")].join("  ");
    let wall = || Some(8e3 * rung.positive("length")? / rung.positive("ms")?);
    let measured = rung.positive("bytes_per_s").or_else(wall).filter(|rate| (1.0..1e18).contains(rate));
    let (length, text) = match (rung.text("not_run"), measured) {
        (Some(reason), _) => (0.0, format!("not run: {reason}")),
        _ if rung.is_wrong() => (0.0, "wrong answer".to_owned()),
        (None, Some(rate)) => {
            let share = rung.positive("share_of_copy").map(|share| format!(" · {}", percent(share)));
            (rate, byte_rate(rate) + &share.unwrap_or_default())
        }
        (None, None) => (0.0, "not measured".to_owned()),
    };
    Bar { label, parts: vec![(length, 0)], text }
}

pub(super) fn selection(device: &DeviceLines<'_>) -> Section {
    let lead = "The k smallest elements of every row of a matrix that is on the device already.";
    let mut section = section(device, "select", "Selection", lead);
    let point = |case: &Line| Some((case.positive("k")?, case.positive("bytes_per_s")?));
    let rate = Axis { name: "", is_log: true, format: |rate| trimmed(&byte_rate(rate)) };
    let chart = ("selection", "Bytes read per second by k", "k");
    add_lines(&mut section, &device.cases("select"), chart, [count("k"), rate], point);
    add_cases(&mut section, device, "ms device_ms bytes_per_s share_of_copy share verified");
    section
}

pub(super) fn distance(device: &DeviceLines<'_>) -> Section {
    let lead =
        "All distances between rows and queries. The error is the largest, as a share of the promised bound.";
    let mut section = section(device, "distance", "Distance matrix", lead);
    add_cases(&mut section, device, "ms spread device_ms operations_per_s share error verified");
    section
}

pub(super) fn breakeven(device: &DeviceLines<'_>) -> Section {
    let lead = "Milliseconds of a search on the GPU / on the host, by rows and queries. Bold: the GPU is faster. A star: an \
        index with a copy on the host searches there.";
    let mut section = section(device, "breakeven", "GPU or host", lead);
    let mut fields = identity("breakeven");
    fields.retain(|key| !["rows", "queries"].contains(key));
    for group in groups(&device.cases("breakeven"), &fields) {
        let counts = |key: &str| {
            let mut counts: Vec<u64> = group.iter().filter_map(|case| case.count(key)).collect();
            counts.sort_unstable();
            counts.dedup();
            counts
        };
        let rows = counts("rows");
        let mut columns = vec![Column::new("rows", rows.iter().map(|rows| grouped(*rows)))];
        for queries in counts("queries") {
            let unit = if queries == 1 { "query" } else { "queries" };
            let find = |rows: &u64| {
                let is_it = |case: &&&Line| {
                    case.count("rows") == Some(*rows) && case.count("queries") == Some(queries)
                };
                group.iter().rfind(is_it).map(|case| both_times(case)).unwrap_or_default()
            };
            columns.push(Column::new(format!("{} {unit}", grouped(queries)), rows.iter().map(find)));
        }
        section.table(Table::new(describe(group[0], &fields), String::new(), columns));
    }
    section
}

fn both_times(case: &Line) -> Cell {
    let [gpu, host] = ["ms", "host_ms"].map(|key| milliseconds(case, key).unwrap_or_default());
    let star = if case.text("copy") == Some("host") { " *" } else { "" };
    Cell { text: format!("{gpu} / {host}{star}"), is_strong: case.text("quicker") == Some("GPU") }
}

/// Cases of suites from a later version, uploads, and what failed or did not run.
pub(super) fn others(device: &DeviceLines<'_>) -> Section {
    let mut section = Section::new("others", "Uploads and missing cases", "");
    let mut cases = device.records("case");
    cases.retain(|case| identity(case.text("suite").unwrap_or_default()).is_empty());
    let figures = "ms spread device_ms bytes_per_s operations_per_s share error verified";
    section.table(table("Other suites", &cases, &["suite", "case"], figures));
    let fields = ["suite", "rows", "dim"];
    section.table(table("Uploads", &device.records("upload"), &fields, "ms bytes_per_s"));
    for (record, title) in [("failed", "Failed"), ("not_run", "Not run")] {
        section.table(table(title, &device.records(record), &["suite", "case"], "reason"));
    }
    section
}
