//! Exact search.

use anyhow::Result;

use super::fields::{cell, differing, groups, lines_over, of_all_rows};
use super::figures::{QUERIES_A_SECOND, TIME, a_second, bound, ms, over, share};
use super::page::{Side, Table, side_by_side};
use super::part::Part;
use super::plot::Plot;
use super::section;
use super::stages;
use crate::bench::lines::{Line, of};
use crate::output;

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    // Of a set that was cut to several sizes, the number of rows says which.
    let cases: Vec<Line> = part.cases("exact").into_iter().map(of_all_rows).collect();
    let cases: Vec<&Line> = cases.iter().collect();
    let mut table = Table::new(&[
        ("rows", Side::Right),
        ("dim", Side::Right),
        ("queries", Side::Right),
        ("k", Side::Right),
        ("metric", Side::Common),
        ("data", Side::Common),
        ("screened", Side::Common),
        ("scratch", Side::Common),
        ("time, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("queries a second", Side::Right),
        ("bound by", Side::Common),
        ("share of it, %", Side::Right),
    ]);
    for case in &cases {
        let mut row: Vec<String> =
            ["rows", "dim", "queries", "k", "metric", "data"].map(|key| cell(case, key)).into();
        row.push(if case.value("screened") == Some(&true.into()) { "yes" } else { "no" }.to_owned());
        row.push(case.count("scratch").map_or_else(String::new, output::bytes));
        row.extend([ms(case, "ms"), ms(case, "device_ms"), a_second(case, "queries_per_s")]);
        row.extend([bound(case), share(case, "share")]);
        table.row(row);
    }
    let rate = |line: &Line| line.positive("queries_per_s");
    let (series, note) = lines_over(&cases, "queries", of("exact"), rate);
    let throughput = Plot {
        caption: "Queries a second by the number of queries".into(),
        note,
        x: over("queries in a search"),
        y: QUERIES_A_SECOND,
        series,
        is_half: true,
    };
    let over_shape = |field: &'static str, caption: &str, name| {
        let (series, note) = lines_over(&cases, field, of("exact"), |line| line.positive("ms"));
        Plot { caption: caption.into(), note, x: over(name), y: TIME, series, is_half: true }
    };
    let charts = [
        throughput.html()?,
        over_shape("rows", "Time by the number of rows", "rows").html()?,
        over_shape("dim", "Time by the number of dimensions", "dimensions").html()?,
    ];
    let lead = "Every answer is that of a search through all rows. Time is from queries in the host's memory to results there.";
    // What all cases have in common need not stand at every bar.
    let (told, _) = differing(&groups(&cases, of("exact")), of("exact"));
    let told: Vec<&str> = of("exact")
        .iter()
        .copied()
        .filter(|key| told.contains(key) || ["rows", "dim", "queries"].contains(key))
        .collect();
    Ok(section(part, "exact", lead, &[table.html(), side_by_side(&charts), stages::html(&cases, &told)?]))
}
