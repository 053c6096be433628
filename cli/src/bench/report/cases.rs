//! Every case with its figures, and what was not run.

use anyhow::Result;

use super::fields::{SUITES, cell};
use super::figures::{bound, intensity, ms, share, spread, verified};
use super::kernels::name;
use super::page::{Side, Table, heading, paragraph};
use super::part::Part;
use crate::bench::lines::of;
use crate::bench::units::{decimal, figure, rate_text};

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    let mut html = String::new();
    for (suite, title) in SUITES {
        let table = suite_table(part, suite).html();
        if !table.is_empty() {
            html += &(heading(title) + &table);
        }
    }
    // A suite of a later version is not lost.
    let known = |suite: &str| SUITES.iter().any(|(name, _)| *name == suite);
    let mut others: Vec<&str> = vec![];
    for suite in part.records("case").into_iter().filter_map(|case| case.text("suite")) {
        if !known(suite) && !others.contains(&suite) {
            others.push(suite);
        }
    }
    for suite in others {
        html += &(heading(suite) + &suite_table(part, suite).html());
    }
    let uploads = uploads(part);
    if !uploads.is_empty() {
        html += &(heading("Uploads") + &uploads);
    }
    let failed = reasons(part, "failed", "why").html();
    if !failed.is_empty() {
        html += &(heading("Failed") + &failed);
    }
    let not_run = not_run(part);
    if !not_run.is_empty() {
        html += &(heading("Not run") + &not_run);
    }
    if html.is_empty() {
        return Ok(html);
    }
    let lead = "Times are medians in milliseconds, from the host to the host, with the least and the most. Intensity is in \
        operations a byte; a share is of the ceiling that the case meets first.";
    Ok(paragraph(lead) + &html)
}

fn suite_table(part: &Part<'_>, suite: &str) -> Table {
    let mut table = Table::new(&[
        ("case", Side::Left),
        ("runs", Side::Right),
        ("time, ms", Side::Right),
        ("least – most, ms", Side::Right),
        ("on the device, ms", Side::Right),
        ("intensity", Side::Right),
        ("bound by", Side::Left),
        ("share, %", Side::Right),
        ("rotated", Side::Right),
        ("verified", Side::Right),
    ]);
    for case in part.of("case", suite) {
        table.row(vec![
            name(case, of(suite)),
            cell(case, "runs"),
            ms(case, "ms"),
            spread(case),
            ms(case, "device_ms"),
            intensity(case).map(figure).unwrap_or_default(),
            bound(case),
            share(case, "share"),
            cell(case, "rotated"),
            verified(case),
        ]);
    }
    table
}

fn uploads(part: &Part<'_>) -> String {
    let mut table = Table::new(&[
        ("suite", Side::Left),
        ("rows", Side::Right),
        ("dim", Side::Right),
        ("time, ms", Side::Right),
        ("bytes a second", Side::Right),
    ]);
    for line in part.records("upload") {
        let mut row: Vec<String> = ["suite", "rows", "dim"].map(|key| cell(line, key)).into();
        row.push(line.number("ms").map(|ms| decimal(ms, 3)).unwrap_or_default());
        row.push(line.positive("bytes_per_s").map(rate_text).unwrap_or_default());
        table.row(row);
    }
    table.html()
}

/// Cases without figures, and why.
fn reasons(part: &Part<'_>, record: &str, why: &'static str) -> Table {
    let mut table = Table::new(&[("suite", Side::Left), ("case", Side::Prose), (why, Side::Prose)]);
    for line in part.records(record) {
        table.row(["suite", "case", "reason"].map(|key| cell(line, key)).into());
    }
    table
}

fn not_run(part: &Part<'_>) -> String {
    let mut table = reasons(part, "not_run", "why not");
    for rung in part.records("rung").into_iter().filter(|rung| rung.value("not_run").is_some()) {
        let case = format!("rung {}: {}", cell(rung, "rung"), cell(rung, "name"));
        table.row(vec![cell(rung, "suite"), case, cell(rung, "not_run")]);
    }
    table.html()
}
