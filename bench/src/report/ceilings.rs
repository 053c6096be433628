//! The ceilings of the device, and the roofline of the cases.

use super::chart::{Axis, Chart, LineChart, Mark, Series};
use super::device::DeviceLines;
use super::document::{Column, Section, Table};
use crate::units::{byte_rate, bytes, operation_rate, short, time, trimmed};

/// Ceilings of arithmetic: the field of the device line, and the name.
const ARITHMETIC: [(&str, &str); 3] = [
    ("flops_per_s", "f32 multiply-add"),
    ("integer_ops_per_s", "8-bit integers"),
    ("matrix_flops_per_s", "f16 matrices"),
];

/// Suites of the roofline, and their names in its legend.
const SUITES: [(&str, &str); 5] = [
    ("exact", "exact search"),
    ("ivf", "inverted lists"),
    ("reduce", "reductions"),
    ("select", "selection"),
    ("distance", "distance matrix"),
];

pub(super) fn section(device: &DeviceLines<'_>) -> Section {
    let lead = "Measured in the same run as the cases, which are compared with these ceilings.";
    let mut section = Section::new("ceilings", "What the device can do", lead);
    let mut rows: Vec<(&str, String, &str)> = vec![];
    for (key, name, how) in [
        ("read_bytes_per_s", "read", "bytes read per second, nothing written"),
        ("copy_bytes_per_s", "copy", "bytes read and bytes written per second"),
    ] {
        rows.extend(device.positive(key).map(|rate| (name, byte_rate(rate), how)));
    }
    for (key, name) in ARITHMETIC {
        let how = "a multiply-add counts as two operations";
        rows.extend(device.positive(key).map(|rate| (name, operation_rate(rate), how)));
    }
    let latency = device.positive("latency_ms").map(|ms| time(ms / 1e3));
    rows.extend(latency.map(|time| ("launch", time, "an empty kernel, and four bytes of its result")));
    section.table(Table::new(
        "",
        String::new(),
        vec![
            Column::new("ceiling", rows.iter().map(|(name, ..)| (*name).to_owned())),
            Column::new("at best", rows.iter().map(|(_, value, _)| value.clone())),
            Column::new("measured as", rows.iter().map(|(.., how)| (*how).to_owned())),
        ],
    ));
    let curve = |name: &str, key| Series { name: name.into(), mark: Mark::Line, points: device.curve(key) };
    let mut series = vec![curve("read", "read_curve"), curve("copy", "copy_curve")];
    series.retain(|series| !series.points.is_empty());
    let size = Axis { name: "working set", is_log: true, format: |size| trimmed(&bytes(size)) };
    let rate = Axis { name: "", is_log: true, format: |rate| trimmed(&byte_rate(rate)) };
    let note = "Small sets pay for the launch, and a cache speeds them up: each case is compared with the bandwidth at its \
        own size.";
    let chart = Chart::Lines(LineChart { x: size, y: rate, series });
    section.figure("bandwidth", "Bandwidth by size of the working set", note, chart);
    roofline(device, &mut section);
    section
}

fn roofline(device: &DeviceLines<'_>, section: &mut Section) {
    let mut series = vec![];
    for (suite, name) in SUITES {
        let cases = device.cases(suite);
        let points = cases.iter().filter_map(|case| {
            Some((case.positive("operations")? / case.positive("bytes")?, case.positive("operations_per_s")?))
        });
        series.push(Series { name: name.into(), mark: Mark::Points, points: points.collect() });
    }
    if series.iter().all(|series| series.points.is_empty()) {
        return;
    }
    let intensities = || series.iter().flat_map(|series| &series.points).map(|(intensity, _)| *intensity);
    let (least, most) = (intensities().fold(f64::MAX, f64::min), intensities().fold(0.0, f64::max));
    let bandwidth = device.positive("read_bytes_per_s").or_else(|| device.positive("copy_bytes_per_s"));
    let roofs = ARITHMETIC.iter().filter_map(|(key, name)| Some((*name, device.positive(key)?)));
    let roofs: Vec<(&str, f64)> = roofs.collect();
    // The slope meets the highest roof at the right of the chart.
    let highest = roofs.iter().map(|(_, roof)| *roof).fold(0.0, f64::max);
    let end = bandwidth.map_or(most, |bandwidth| most.max(4.0 * highest / bandwidth));
    let mut limit = |name: String, points| series.push(Series { name, mark: Mark::Limit, points });
    for (name, roof) in roofs {
        let start = bandwidth.map_or(least, |bandwidth| roof / bandwidth);
        limit(format!("{name}, {}", operation_rate(roof)), vec![(start.min(end), roof), (end, roof)]);
    }
    if let Some(bandwidth) = bandwidth {
        let top = if highest > 0.0 { highest / bandwidth } else { most };
        limit(String::new(), vec![(least.min(top), least.min(top) * bandwidth), (top, top * bandwidth)]);
    }
    let note = "A point is a case, by the least it must read and compute. Bandwidth limits cases below the slope, arithmetic \
        those below a flat roof. A point above its roof found data in a cache, or was spared part of that least.";
    let rate = Axis { name: "", is_log: true, format: |rate| trimmed(&operation_rate(rate)) };
    let intensity = Axis { name: "operations per byte", is_log: true, format: short };
    let chart = Chart::Lines(LineChart { x: intensity, y: rate, series });
    section.figure("roofline", "Roofline: operations per second by intensity", note, chart);
}
