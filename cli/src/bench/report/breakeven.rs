//! GPU and host side by side: from how much work on the GPU is ahead.

use anyhow::Result;

use super::fields::{MEANS, cell, describe, differing, groups, of_all_rows};
use super::page::{escaped, heading};
use super::part::Part;
use super::section;
use crate::bench::lines::Line;
use crate::bench::units::{decimal, grouped};

const OF: [&str; 5] = ["dim", "k", "metric", "data", "scratch"];

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    let cases: Vec<Line> = part.cases("breakeven").into_iter().map(of_all_rows).collect();
    let cases: Vec<&Line> = cases.iter().collect();
    let mut html = String::new();
    let groups = groups(&cases, &OF);
    let (differing, _) = differing(&groups, &OF);
    let told: Vec<&str> =
        OF.into_iter().filter(|key| differing.contains(key) || !MEANS.contains(key)).collect();
    for group in groups {
        let matrix = matrix(&group);
        if let (Some(first), false) = (group.first(), matrix.is_empty()) {
            html += &(heading(&describe(first, &told)) + &matrix);
        }
    }
    let lead = "Milliseconds of a search on the GPU, and below on the host, by rows and queries. The quicker one is bold. \
        In a shaded cell an index with a copy on the host searches there, elsewhere on the GPU.";
    Ok(section(part, "breakeven", lead, &[html]))
}

/// Rows down, queries across.
fn matrix(cases: &[&Line]) -> String {
    let counts = |key: &str| {
        let mut counts: Vec<u64> = cases.iter().filter_map(|case| case.count(key)).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    };
    let (rows, queries) = (counts("rows"), counts("queries"));
    if rows.is_empty() || queries.is_empty() {
        return String::new();
    }
    let mut html =
        String::from("<div class=\"box\"><table class=\"pairs\"><thead><tr><th scope=\"col\">rows</th>");
    for &queries in &queries {
        let unit = if queries == 1 { "query" } else { "queries" };
        html += &format!("<th scope=\"col\">{} {unit}</th>", grouped(queries));
    }
    html += "</tr></thead><tbody>\n";
    for &rows in &rows {
        html += &format!("<tr><th scope=\"row\">{}</th>", grouped(rows));
        for &queries in &queries {
            // The last run of a case is the newest.
            let mut cases = cases.iter().rev();
            let is_it =
                |case: &&&Line| case.count("rows") == Some(rows) && case.count("queries") == Some(queries);
            html += &cases.find(is_it).map_or_else(|| "<td></td>".into(), |case| pair(case));
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

fn pair(case: &Line) -> String {
    let quicker = case.text("quicker").unwrap_or_default();
    // Older lines have another name for it.
    let gpu = case.number("ms").or_else(|| case.number("gpu_ms"));
    let side = |ms: Option<f64>, name: &str| {
        let text = ms.map(|ms| escaped(&format!("{} {name}", decimal(ms, 3)))).unwrap_or_default();
        if quicker.eq_ignore_ascii_case(name) { format!("<b>{text}</b>") } else { text }
    };
    let class = if cell(case, "copy") == "host" { " class=\"copy\"" } else { "" };
    format!("<td{class}>{}<br>{}</td>", side(gpu, "GPU"), side(case.number("host_ms"), "host"))
}
