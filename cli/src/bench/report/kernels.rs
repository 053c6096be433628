//! What searches are made of: reductions, selections, distances.

use anyhow::Result;

use super::fields::{cell, describe, lines_over};
use super::figures::{BANDWIDTH, DEVICE_TIME, OPERATIONS_A_SECOND, TIME};
use super::figures::{best_ms, bound, bytes_a_second, ms, operations_a_second, over, share};
use super::page::{Side, Table, figure, heading, side_by_side};
use super::part::Part;
use super::plot::Plot;
use super::section;
use crate::bench::draw;
use crate::bench::lines::Line;

pub(super) fn reductions(part: &Part<'_>) -> Result<String> {
    let mut ladder = String::new();
    let lines: Vec<&Line> = part.devices.iter().take(1).chain(&part.lines).copied().collect();
    for (title, svg) in draw::ladders(&lines)? {
        ladder += &figure(&svg, &title, "", "", false);
    }
    if !ladder.is_empty() {
        ladder = heading("The ladder: from the plainest kernel to the one that is used") + &ladder;
    }
    let mut table = Table::new(&[
        ("operation", Side::Left),
        ("elements", Side::Left),
        ("summation", Side::Common),
        ("length", Side::Right),
        ("row length", Side::Right),
        ("time, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("bytes a second", Side::Right),
        ("of the copy, %", Side::Right),
        ("bound by", Side::Common),
        ("share of it, %", Side::Right),
        ("error", Side::Right),
    ]);
    for case in part.cases("reduce") {
        let of = ["operation", "elements", "summation", "length", "row_length"];
        let mut row: Vec<String> = of.map(|key| cell(case, key)).into();
        row.extend([
            ms(case, "ms"),
            ms(case, "device_ms"),
            bytes_a_second(case),
            share(case, "share_of_copy"),
        ]);
        row.extend([bound(case), share(case, "share"), error(case)]);
        table.row(row);
    }
    let table = table.html();
    let table = if table.is_empty() { table } else { heading("Operations") + &table };
    let lead = "Of what lies on the device already. Bytes are those read a second of time on the device; the error is \
        relative to the sum of magnitudes.";
    Ok(section(part, "reduce", lead, &[ladder, table]))
}

fn error(case: &Line) -> String {
    match case.number("error") {
        None => String::new(),
        Some(0.0) => "0".into(),
        Some(error) => format!("{error:.1e}"),
    }
}

pub(super) fn selections(part: &Part<'_>) -> Result<String> {
    let cases = part.cases("select");
    let mut table = Table::new(&[
        ("rows", Side::Right),
        ("length", Side::Right),
        ("k", Side::Right),
        ("values", Side::Common),
        ("time, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("bytes a second", Side::Right),
        ("of the copy, %", Side::Right),
        ("bound by", Side::Common),
        ("share of it, %", Side::Right),
    ]);
    for case in &cases {
        let mut row: Vec<String> = ["rows", "length", "k", "values"].map(|key| cell(case, key)).into();
        row.extend([
            ms(case, "ms"),
            ms(case, "device_ms"),
            bytes_a_second(case),
            share(case, "share_of_copy"),
        ]);
        row.extend([bound(case), share(case, "share")]);
        table.row(row);
    }
    let keys = ["rows", "length", "values"];
    let (times, note) = lines_over(&cases, "k", &keys, best_ms);
    let (rates, same) = lines_over(&cases, "k", &keys, |line| line.positive("bytes_per_s"));
    let is_timed = cases.iter().any(|case| case.positive("device_ms").is_some());
    let charts = [
        Plot {
            caption: "Time by k".into(),
            note,
            x: over("k"),
            y: if is_timed { DEVICE_TIME } else { TIME },
            series: times,
            is_half: true,
        }
        .html()?,
        Plot {
            caption: "Bytes read a second by k".into(),
            note: same,
            x: over("k"),
            y: BANDWIDTH,
            series: rates,
            is_half: true,
        }
        .html()?,
    ];
    let lead = "The k smallest elements of every row of a matrix that lies on the device already.";
    Ok(section(part, "select", lead, &[side_by_side(&charts), table.html()]))
}

pub(super) fn distances(part: &Part<'_>) -> Result<String> {
    let cases = part.cases("distance");
    let mut table = Table::new(&[
        ("rows", Side::Right),
        ("dim", Side::Right),
        ("queries", Side::Right),
        ("metric", Side::Common),
        ("elements", Side::Left),
        ("data", Side::Common),
        ("time, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("operations a second", Side::Right),
        ("bound by", Side::Common),
        ("share of it, %", Side::Right),
        ("error, of the bound", Side::Right),
    ]);
    let keys = ["rows", "dim", "queries", "metric", "elements", "data"];
    for case in &cases {
        let mut row: Vec<String> = keys.map(|key| cell(case, key)).into();
        row.extend([ms(case, "ms"), ms(case, "device_ms"), operations_a_second(case)]);
        row.extend([bound(case), share(case, "share"), super::figures::fixed(case, "error", 3)]);
        table.row(row);
    }
    let rate = |line: &Line| line.positive("operations_per_s");
    let chart = |of: &'static str, caption: &str, name| {
        let (series, note) = lines_over(&cases, of, &keys, rate);
        Plot { caption: caption.into(), note, x: over(name), y: OPERATIONS_A_SECOND, series, is_half: true }
            .html()
    };
    let charts = [
        chart("rows", "Rate by the number of rows", "rows")?,
        chart("queries", "Rate by the number of queries", "queries")?,
        chart("dim", "Rate by the number of dimensions", "dimensions")?,
    ];
    let lead =
        "All distances between rows and queries. The error is the largest, as a part of what is promised.";
    Ok(section(part, "distance", lead, &[table.html(), side_by_side(&charts)]))
}

/// What a case is called where it stands alone.
pub(super) fn name(case: &Line, keys: &[&str]) -> String {
    case.text("case").map_or_else(|| describe(case, keys), ToOwned::to_owned)
}
