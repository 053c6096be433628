//! Search in lists: how many queries a second for how much recall.

use anyhow::Result;

use super::axis::Axis;
use super::fields::{MOST_LINES, cell, describe, differing, groups, note};
use super::figures::{QUERIES_A_SECOND, a_second, fixed, ms};
use super::page::{Side, Table, heading};
use super::palette::color;
use super::part::Part;
use super::plot::{Look, Plot, Point, Series};
use super::{section, stages};
use crate::bench::lines::{Line, of};
use crate::bench::units::decimal;

/// What the points of a line have in common: they differ in probes.
const LINE: [&str; 10] =
    ["rows", "dim", "lists", "iterations", "queries", "k", "metric", "data", "screened", "scratch"];
/// What an exact search has in common with them.
const EXACT: [&str; 5] = ["rows", "dim", "queries", "k", "metric"];

const RECALL: Axis = Axis {
    name: "recall",
    is_log: false,
    format: |recall| {
        let text = decimal(recall, 3);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    },
};

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    let cases = part.cases("ivf");
    let mut table = Table::new(&[
        ("rows", Side::Right),
        ("dim", Side::Right),
        ("lists", Side::Right),
        ("iterations", Side::Common),
        ("probes", Side::Right),
        ("queries", Side::Right),
        ("k", Side::Right),
        ("metric", Side::Common),
        ("data", Side::Common),
        ("recall", Side::Right),
        ("time, ms", Side::Right),
        ("queries a second", Side::Right),
        ("the same from the device", Side::Right),
        ("scored a query", Side::Right),
    ]);
    for case in &cases {
        let of = ["rows", "dim", "lists", "iterations", "probes", "queries", "k", "metric", "data"];
        let mut row: Vec<String> = of.map(|key| cell(case, key)).into();
        row.extend([fixed(case, "recall", 4), ms(case, "ms"), a_second(case, "queries_per_s")]);
        row.extend([a_second(case, "device_queries_per_s"), fixed(case, "scored_per_query", 0)]);
        table.row(row);
    }
    let lead = "Rows lie in lists by their nearest centroid, and a search goes through as many lists as it has probes. \
        The more of them, the more of the true neighbours it finds (recall), and the longer it takes.";
    let (told, _) = differing(&groups(&cases, of("ivf")), of("ivf"));
    let always = ["rows", "dim", "lists", "probes", "queries"];
    let told: Vec<&str> =
        of("ivf").iter().copied().filter(|key| told.contains(key) || always.contains(key)).collect();
    let stages = stages::html(&cases, &told)?;
    let builds = builds(part);
    let builds = if builds.is_empty() { builds } else { heading("Building an index") + &builds };
    Ok(section(part, "ivf", lead, &[curves(part, &cases)?, table.html(), builds, stages]))
}

fn curves(part: &Part<'_>, cases: &[&Line]) -> Result<String> {
    let mut all = groups(cases, &LINE);
    all.retain(|group| !points(group, "queries_per_s").is_empty());
    let (differing, same) = differing(&all, &LINE);
    let (mut series, mut exact, mut dashed) = (vec![], vec![], false);
    for (number, group) in all.iter().take(MOST_LINES).enumerate() {
        let Some(first) = group.first() else { continue };
        let line = |name: String, look, points| Series { name, color: color(number), look, points };
        let from_device: Vec<Point> = points(group, "device_queries_per_s")
            .into_iter()
            .map(|point| Point { label: String::new(), ..point })
            .collect();
        dashed |= !from_device.is_empty();
        series.push(line(String::new(), Look::Dashed, from_device));
        series.push(line(describe(first, &differing), Look::Line, points(group, "queries_per_s")));
        exact.extend(exhaustive(part, first).map(|point| line(String::new(), Look::Points, vec![point])));
    }
    let mut words = vec![note(same, all.len()), "labels are numbers of probes".into()];
    words.extend(dashed.then(|| "dashed: queries that lie on the device before".into()));
    words.extend((!exact.is_empty()).then(|| "a point at recall 1: exact search of the same".into()));
    words.retain(|text| !text.is_empty());
    series.extend(exact);
    let plot = Plot {
        caption: "Queries a second by recall".into(),
        note: words.join("; "),
        x: RECALL,
        y: QUERIES_A_SECOND,
        series,
        is_half: false,
    };
    plot.html()
}

/// Recall against a rate, by probes.
fn points(group: &[&Line], rate: &str) -> Vec<Point> {
    let mut sorted = group.to_vec();
    sorted.sort_by_key(|case| case.count("probes"));
    let recall = |case: &Line| case.number("recall").filter(|recall| (0.0..=1.0 + 1e-6).contains(recall));
    let point =
        |case: &&Line| Some(Point { x: recall(case)?, y: case.positive(rate)?, label: cell(case, "probes") });
    sorted.iter().filter_map(point).collect()
}

/// Exact search of the same rows and queries, which finds all.
fn exhaustive(part: &Part<'_>, of: &Line) -> Option<Point> {
    let cases = part.cases("exact").into_iter();
    let same =
        |case: &&Line| EXACT.iter().all(|key| of.value(key).is_some() && cell(case, key) == cell(of, key));
    let rate = cases.filter(same).filter_map(|case| case.positive("queries_per_s")).fold(0.0, f64::max);
    (rate > 0.0).then(|| Point { x: 1.0, y: rate, label: "exact".into() })
}

fn builds(part: &Part<'_>) -> String {
    let mut table = Table::new(&[
        ("rows", Side::Right),
        ("dim", Side::Right),
        ("lists", Side::Right),
        ("iterations", Side::Common),
        ("metric", Side::Common),
        ("data", Side::Common),
        ("upload, ms", Side::Right),
        ("training, ms", Side::Right),
        ("adding, ms", Side::Right),
        ("largest list", Side::Right),
        ("empty lists", Side::Right),
    ]);
    // Older lines do not say of which suite a build is: there is one that builds.
    for build in part.records("build") {
        let mut row: Vec<String> =
            ["rows", "dim", "lists", "iterations", "metric", "data"].map(|key| cell(build, key)).into();
        row.extend(["upload_ms", "train_ms", "add_ms"].map(|key| ms(build, key)));
        row.extend(["largest_list", "empty_lists"].map(|key| cell(build, key)));
        table.row(row);
    }
    table.html()
}
