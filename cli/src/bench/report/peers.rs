//! Other libraries beside the cases that they are the same as.

use anyhow::Result;

use super::bars::{Bar, Group, Part as Piece, chart};
use super::fields::{MEANS, SUITES, cell, describe};
use super::figures::{a_second, best_ms, fixed, ms};
use super::page::{Side, Table, figure, heading, paragraph};
use super::palette::{OTHER, color};
use super::part::{Part, is_wrong};
use crate::bench::lines::{Line, of};
use crate::bench::units::{decimal, time_text};

/// A case and the peers that did the same.
pub(super) struct Pair<'a> {
    pub(super) suite: &'static str,
    pub(super) case: &'a Line,
    pub(super) peers: Vec<&'a Line>,
}

/// What has to be known of both and the same; whatever else both know has to be the same, too.
fn needed(suite: &str) -> &'static [&'static str] {
    match suite {
        "exact" => &["rows", "dim", "queries", "k", "metric"],
        "ivf" => &["rows", "dim", "lists", "probes", "queries", "k", "metric"],
        "reduce" => &["operation", "length"],
        "select" => &["rows", "length", "k"],
        "distance" => &["rows", "dim", "queries", "metric"],
        _ => &["rows", "dim", "queries", "k", "metric"],
    }
}

fn is_same(suite: &str, case: &Line, peer: &Line) -> bool {
    let known = |key: &str| case.value(key).is_some() && peer.value(key).is_some();
    needed(suite).iter().all(|key| known(key))
        && of(suite).iter().all(|key| !known(key) || cell(case, key) == cell(peer, key))
}

fn is_run(peer: &Line) -> bool {
    peer.value("not_run").is_none() && !is_wrong(peer) && peer.positive("ms").is_some()
}

/// Cases with peers that did the same, in the order of the cases.
pub(super) fn pairs<'a>(part: &Part<'a>) -> Vec<Pair<'a>> {
    let mut pairs = vec![];
    for (suite, _) in SUITES {
        let peers: Vec<&Line> = part.of("peer", suite).into_iter().filter(|peer| is_run(peer)).collect();
        for case in part.cases(suite) {
            let peers: Vec<&Line> = peers.iter().copied().filter(|peer| is_same(suite, case, peer)).collect();
            if case.positive("ms").is_some() && !peers.is_empty() {
                pairs.push(Pair { suite, case, peers });
            }
        }
    }
    pairs
}

/// The times of both by the same clock: that of the device for kernels where both have it, else the wall's.
pub(super) fn times(pair: &Pair<'_>, peer: &Line) -> Option<(f64, f64)> {
    let is_kernel = matches!(pair.suite, "reduce" | "select" | "distance");
    let both = |key: &str| Some((pair.case.positive(key)?, peer.positive(key)?));
    both("device_ms").filter(|_| is_kernel).or_else(|| both("ms"))
}

/// The name of a peer, with where its operands are, if it says so.
fn peer_name(peer: &Line) -> String {
    let name = cell(peer, "peer");
    let name = if name.is_empty() { "unnamed".to_owned() } else { name };
    match peer.text("from") {
        Some(from) => format!("{name} (from the {from})"),
        None => name,
    }
}

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    let pairs = pairs(part);
    let mut html = String::new();
    for line in &part.peers_on {
        html += &paragraph(&format!("Peers ran on {}.", ran_on(line)));
    }
    html += &bars(&pairs)?;
    html += &table(&pairs);
    let alone = alone(part, &pairs);
    if !alone.is_empty() {
        html += &(heading("Without the same case here") + &alone);
    }
    let not_run = not_run(part);
    if !not_run.is_empty() {
        html += &(heading("Peers without figures") + &not_run);
    }
    if part.records("peer").is_empty() {
        return Ok(String::new());
    }
    let lead = "The same work by other libraries: what a peer and a case say of themselves is equal. Reductions, selections \
        and distances are compared by time on the device where both have it, searches by wall clock.";
    Ok(paragraph(lead) + &html)
}

fn ran_on(line: &Line) -> String {
    let mut parts: Vec<String> = ["adapter", "driver"].map(|key| cell(line, key)).into();
    parts.extend(line.count("threads").map(|threads| format!("{threads} threads")));
    parts.extend(line.text("python").map(|python| format!("Python {python}")));
    let versions = line.value("versions").and_then(serde_json::Value::as_object);
    for (name, version) in versions.into_iter().flatten() {
        parts.push(format!("{name} {}", version.as_str().unwrap_or("?")));
    }
    parts.extend(line.text("date").map(ToOwned::to_owned));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

const MOST_GROUPS: usize = 12;

fn bars(pairs: &[Pair<'_>]) -> Result<String> {
    // Those that most peers did say most.
    let mut chosen: Vec<&Pair<'_>> = pairs.iter().collect();
    chosen.sort_by_key(|pair| std::cmp::Reverse(pair.peers.len()));
    chosen.truncate(MOST_GROUPS);
    let place = |pair: &Pair<'_>| pairs.iter().position(|other| std::ptr::eq(other.case, pair.case));
    chosen.sort_by_key(|pair| place(pair));
    if chosen.is_empty() {
        return Ok(String::new());
    }
    let bar = |label: String, ms: f64, color| Bar {
        label,
        parts: vec![Piece { length: ms, color, text: String::new() }],
        text: time_text(ms / 1e3),
    };
    let group = |pair: &&Pair<'_>| {
        let all = pair.peers.iter().filter_map(|peer| Some((peer_name(peer), times(pair, peer)?)));
        let all: Vec<(String, (f64, f64))> = all.collect();
        let ours = all.iter().map(|(_, (ours, _))| *ours).fold(0.0, f64::max);
        let mut bars = vec![bar("nearfield".into(), ours, color(0))];
        bars.extend(all.into_iter().map(|(name, (_, ms))| bar(name, ms, OTHER)));
        Group { title: title(pair), bars }
    };
    let svg = chart(&chosen.iter().map(group).collect::<Vec<_>>())?;
    let more = pairs.len() - chosen.len();
    let more = if more > 0 { format!(" {more} more comparisons are in the table.") } else { String::new() };
    let note = format!("Shorter is quicker; the bars of each case have a scale of their own.{more}");
    Ok(figure(&svg, "Time of the same work", "", &note, false))
}

fn title(pair: &Pair<'_>) -> String {
    let suite = SUITES.iter().find(|(name, _)| *name == pair.suite).map_or("", |(_, title)| *title);
    let keys: Vec<&str> =
        of(pair.suite).iter().copied().filter(|key| *key != "data" && !MEANS.contains(key)).collect();
    format!("{suite}: {}", describe(pair.case, &keys))
}

fn table(pairs: &[Pair<'_>]) -> String {
    let mut table = Table::new(&[
        ("by", Side::Left),
        ("time, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("queries a second", Side::Right),
        ("recall", Side::Right),
        ("of nearfield's time", Side::Right),
    ]);
    let row = |line: &Line, name: String, times: String| {
        let rate = a_second(line, "queries_per_s");
        vec![name, ms(line, "ms"), ms(line, "device_ms"), rate, fixed(line, "recall", 4), times]
    };
    for pair in pairs {
        table.title(title(pair));
        table.row(row(pair.case, "nearfield".into(), String::new()));
        for peer in &pair.peers {
            let times = times(pair, peer).map(|(ours, theirs)| format!("{} ×", decimal(theirs / ours, 2)));
            table.row(row(peer, peer_name(peer), times.unwrap_or_default()));
        }
    }
    table.html()
}

/// Peers that did what no case here did.
fn alone(part: &Part<'_>, pairs: &[Pair<'_>]) -> String {
    let mut table = Table::new(&[
        ("suite", Side::Left),
        ("case", Side::Left),
        ("by", Side::Left),
        ("time, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("recall", Side::Right),
    ]);
    let is_paired =
        |peer: &Line| pairs.iter().any(|pair| pair.peers.iter().any(|other| std::ptr::eq(*other, peer)));
    for peer in part.records("peer").into_iter().filter(|peer| is_run(peer) && !is_paired(peer)) {
        let suite = cell(peer, "suite");
        table.row(vec![
            suite.clone(),
            describe(peer, of(&suite)),
            peer_name(peer),
            best_ms(peer).and(Some(ms(peer, "ms"))).unwrap_or_default(),
            ms(peer, "device_ms"),
            fixed(peer, "recall", 4),
        ]);
    }
    table.html()
}

fn not_run(part: &Part<'_>) -> String {
    let mut table = Table::new(&[
        ("peer", Side::Left),
        ("suite", Side::Left),
        ("case", Side::Left),
        ("why not", Side::Prose),
    ]);
    for peer in part.records("peer").into_iter().filter(|peer| !is_run(peer)) {
        let suite = cell(peer, "suite");
        let case = describe(peer, of(&suite));
        let why = if is_wrong(peer) { "its answer was wrong".to_owned() } else { cell(peer, "not_run") };
        table.row(vec![peer_name(peer), suite, case, why]);
    }
    table.html()
}
