//! The section of many callers: queries per second by threads, and the latencies of each case.

use super::chart::{Axis, Chart, LineChart};
use super::device::DeviceLines;
use super::document::Section;
use super::fields::named;
use super::suites::{TIME, add_cases, add_lines, count, section as of_suite};
use crate::lines::{Line, identity};
use crate::units::percent;

pub(super) fn section(device: &DeviceLines<'_>) -> Section {
    let lead = "Threads that search one index at once, each for a query or a few at a time. A latency runs from the arrival of a \
        search to its answer.";
    let mut section = of_suite(device, "serve", "Many callers", lead);
    let point = |case: &Line| Some((case.positive("threads")?, case.positive("queries_per_s")?));
    let chart = ("serve-threads", "Queries per second by threads", "threads");
    add_lines(&mut section, &device.cases("serve"), chart, [count("threads"), count("")], point);
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
    let lines = cases.iter().map(|case| (*case, case.pairs("histogram")));
    let (series, note) = named(lines.filter(|(_, points)| !points.is_empty()).collect(), &identity("serve"));
    let part = Axis { name: "", is_log: true, format: percent };
    (Chart::Lines(LineChart { x: Axis { name: "latency", ..TIME }, y: part, series }), note)
}
