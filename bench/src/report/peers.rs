//! Other libraries beside the cases that do the same work.

use super::chart::{Bar, BarGroup, Chart, GREY};
use super::columns::{NOISY, milliseconds, table, telling};
use super::device::DeviceLines;
use super::document::{Cell, Column, Section, Table};
use super::fields::{cell, describe, library};
use crate::lines::{Line, distinct, identity};
use crate::units::{decimal, whole};

/// Suites that have peers, and their titles.
const SUITES: [(&str, &str); 5] = [
    ("exact", "Exact search"),
    ("ivf", "Inverted lists"),
    ("reduce", "Reductions"),
    ("select", "Selection"),
    ("distance", "Distance matrix"),
];

/// A case, or the work of a peer without a case, and the peers that did the same.
struct Row<'a> {
    work: &'a Line,
    peers: Vec<&'a Line>,
}

/// Identity fields that a line may lack: they say how a case gets its answer, or have a usual value.
const OPTIONAL: &str =
    "screened iterations scratch places data elements precision summation values row_length";

fn is_same_work(suite: &str, case: &Line, peer: &Line) -> bool {
    identity(suite).into_iter().all(|key| match (case.plain(key), peer.plain(key)) {
        (Some(ours), Some(theirs)) => ours == theirs || key == "data" && cell(case, key) == cell(peer, key),
        (Some(ours), None) if key == "elements" => ours == "f32",
        (Some(ours), None) if key == "summation" => ours == "plain",
        (Some(ours), None) if key == "precision" => ours == "fast",
        (Some(_), None) if key == "row_length" => false,
        _ => OPTIONAL.split(' ').any(|optional| optional == key),
    })
}

fn rows<'a>(device: &DeviceLines<'a>, suite: &str) -> Vec<Row<'a>> {
    let cases = device.measured("case", suite).into_iter();
    let mut rows: Vec<Row<'_>> = cases.map(|work| Row { work, peers: vec![] }).collect();
    for peer in device.measured("peer", suite) {
        let mut is_alone = true;
        for row in rows.iter_mut().filter(|row| is_same_work(suite, row.work, peer)) {
            row.peers.push(peer);
            is_alone = false;
        }
        if is_alone {
            rows.push(Row { work: peer, peers: vec![peer] });
        }
    }
    rows.retain(|row| !row.peers.is_empty());
    rows
}

/// The field of the time to compare: kernels by the device's clock if all lines have it, everything else by the wall clock.
fn clock(suite: &str, rows: &[Row<'_>]) -> &'static str {
    let mut lines = rows.iter().flat_map(|row| row.peers.iter().chain([&row.work]));
    let is_kernel = ["reduce", "select", "distance"].contains(&suite);
    if is_kernel && lines.all(|line| line.positive("device_ms").is_some()) { "device_ms" } else { "ms" }
}

/// In how many comparisons nearfield is faster, and the number of comparisons.
pub(super) fn score(device: &DeviceLines<'_>) -> (usize, usize) {
    let (mut faster, mut all) = (0, 0);
    for (suite, _) in SUITES {
        let rows = rows(device, suite);
        let clock = clock(suite, &rows);
        for row in rows.iter().filter(|row| row.work.record() == "case") {
            let ours = row.work.positive(clock);
            faster += row.peers.iter().filter(|peer| peer.positive(clock) > ours).count();
            all += row.peers.len();
        }
    }
    (faster, all)
}

pub(super) fn section(device: &DeviceLines<'_>) -> Section {
    let lead = "The same work done by nearfield and by other libraries. Recall stands in brackets where it is below 1.";
    let mut section = Section::new("peers", "Other libraries", lead);
    if let Some(group) = exact_bars(device) {
        let note =
            "Times run from queries in host memory to results in host memory. Recall is 1 unless stated.";
        section.figure("exact-peers", "Exact search, queries per second", note, Chart::Bars(group));
    }
    section.table(comparison(device));
    let mut not_run = device.records("peer");
    not_run.retain(|peer| !peer.is_measured());
    let fields = ["peer", "suite", "rows", "dim", "queries", "length", "k", "metric", "data"];
    section.table(table("Without figures", &not_run, &fields, "not_run verified"));
    if let Some(run) = device.peer_runs.last() {
        section.lead += &format!(" They ran on {}.", run.machine());
    }
    section
}

/// A row for each case, and a column for each library.
fn comparison(device: &DeviceLines<'_>) -> Table {
    let (mut suites, mut works, mut ours, mut common) = (vec![], vec![], vec![], vec![]);
    let mut theirs: Vec<(String, Vec<String>)> = vec![];
    for (suite, title) in SUITES {
        let rows = rows(device, suite);
        let clock = clock(suite, &rows);
        let lines: Vec<&Line> = rows.iter().map(|row| row.work).collect();
        let (differing, same) = telling(&lines, &identity(suite));
        common.extend((!same.is_empty()).then(|| format!("{title}: {same}")));
        let time = |line: &Line| {
            let recall = line.number("recall").filter(|recall| *recall < 1.0);
            let recall = recall.map(|recall| format!(" ({})", decimal(recall, 4))).unwrap_or_default();
            milliseconds(line, clock).map(|ms| ms + &recall).unwrap_or_default()
        };
        for (number, row) in rows.iter().enumerate() {
            let on = if clock == "ms" { "" } else { ", on the device" };
            suites.push(if number == 0 { format!("{title}{on}") } else { String::new() });
            works.push(describe(row.work, &differing));
            let text = if row.work.record() == "case" { time(row.work) } else { String::new() };
            ours.push(Cell { text, is_strong: true });
            for peer in &row.peers {
                let name = library(peer);
                let place = theirs.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
                    theirs.push((name, vec![]));
                    theirs.len() - 1
                });
                let cells = &mut theirs[place].1;
                cells.resize(works.len(), String::new());
                cells[works.len() - 1] = time(peer);
            }
        }
    }
    let mut columns = vec![
        Column::of_texts("suite", suites),
        Column::of_texts("work", works),
        Column::new("nearfield", ours),
    ];
    let count = columns[0].cells.len();
    columns.extend(theirs.into_iter().map(|(name, mut cells)| {
        cells.resize(count, String::new());
        Column::new(name, cells)
    }));
    Table::new("Milliseconds of a call", common.join("; "), columns)
}

/// Queries per second of exact search beside the peers, for the smallest and the largest batch that most peers ran.
fn exact_bars(device: &DeviceLines<'_>) -> Option<Vec<BarGroup>> {
    let rows = rows(device, "exact");
    let most = rows.iter().map(|row| row.peers.len()).max()?;
    let batch = |row: &&Row<'_>| row.work.count("queries");
    let fullest = || rows.iter().filter(|row| row.peers.len() == most && row.work.record() == "case");
    // The first of several equal ones has the usual settings.
    let largest = fullest().rev().max_by_key(batch)?;
    let smallest = fullest().min_by_key(batch).filter(|row| batch(row) != batch(&largest));
    let groups = [Some(largest), smallest].into_iter().flatten().map(|row| {
        let bar = |line: &Line, color| {
            let rate = line.positive("queries_per_s")?;
            let recall = line.number("recall").filter(|recall| *recall < 1.0);
            let recall = recall.map(|recall| format!(" · recall {}", decimal(recall, 3))).unwrap_or_default();
            let mark = if line.is_noisy("ms") { NOISY } else { "" };
            Some(Bar { label: library(line), parts: vec![(rate, color)], text: whole(rate) + mark + &recall })
        };
        let mut bars: Vec<Bar> = row.peers.iter().filter_map(|peer| bar(peer, GREY)).collect();
        bars.extend(bar(row.work, 0));
        bars.sort_by(|one, other| other.parts[0].0.total_cmp(&one.parts[0].0));
        // Names of files mean nothing to others.
        let is_file = row.work.text("data").is_some_and(|data| data.contains(".npy"));
        let fields = &["rows", "dim", "k", "metric", "data"][..if is_file { 4 } else { 5 }];
        BarGroup {
            title: format!("{}, {} at a time", device.name(), describe(row.work, &["queries"])),
            note: [describe(row.work, fields), dates(device)].join(" · "),
            bars,
            ..BarGroup::default()
        }
    });
    Some(groups.collect())
}

/// The first and the last day of the measurements.
fn dates(device: &DeviceLines<'_>) -> String {
    let mut dates = distinct(device.runs.iter().chain(&device.peer_runs).copied(), "date");
    dates.sort_unstable();
    match &dates[..] {
        [first, .., last] => format!("{first} to {last}"),
        dates => dates.concat(),
    }
}
