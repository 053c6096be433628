//! The section of many callers: queries per second by threads, and the latencies of each case.

use super::chart::{Axis, Chart, LineChart, MAX_SERIES, Mark, Series};
use super::device::DeviceLines;
use super::document::Section;
use super::fields::{describe, split};
use super::suites::{TIME, add_cases, add_lines, count, section as of_suite};
use crate::bench::lines::{Line, identity};
use crate::bench::units::percent;

pub(super) fn section(device: &DeviceLines<'_>) -> Section {
    let lead = "Threads that search one index at once, each for a query or a few at a time. A latency runs from the arrival of a \
        search to its answer.";
    let mut section = of_suite(device, "serve", "Many callers", lead);
    let point = |case: &Line| Some((case.positive("threads")?, case.positive("queries_per_s")?));
    let chart = ("serve-threads", "Queries per second by threads", "threads");
    add_lines(&mut section, device, chart, [count("threads"), count("")], point);
    let (chart, note) = histograms(&device.cases("serve"));
    section.figure(
        "serve-latencies",
        "Latencies: the part of searches in each tenth of a decade",
        note,
        chart,
    );
    add_cases(&mut section, device, "ms p90_ms p99_ms p999_ms ms_most queries_per_s together");
    section
}

/// A line for each of the first cases.
fn histograms(cases: &[&Line]) -> (Chart, String) {
    let keys = identity("serve");
    let shown: Vec<&Line> =
        cases.iter().copied().filter(|case| !case.pairs("histogram").is_empty()).collect();
    let more = shown.len().saturating_sub(MAX_SERIES);
    let shown = &shown[..shown.len() - more];
    let (differing, same) = if shown.is_empty() { (vec![], vec![]) } else { split(shown, &keys) };
    let series = shown.iter().map(|case| Series {
        name: describe(case, &differing),
        mark: Mark::Line,
        points: case.pairs("histogram"),
    });
    let part = Axis { name: "", is_log: true, format: percent };
    let chart = LineChart { x: Axis { name: "latency", ..TIME }, y: part, series: series.collect() };
    let mut notes: Vec<String> = shown.first().map(|case| describe(case, &same)).into_iter().collect();
    notes.extend((more > 0).then(|| format!("{more} more in the table")));
    (Chart::Lines(chart), notes.join("; "))
}
