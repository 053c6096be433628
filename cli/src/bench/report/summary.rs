//! What a run found, in few words.

use super::fields::{cell, describe};
use super::figures::{bound, rate};
use super::page::escaped;
use super::part::{Part, is_wrong};
use super::peers::{pairs, times};
use crate::bench::lines::Line;
use crate::bench::units::{decimal, grouped, percent, rate_text, rough_percent, time_text};

/// On what, when and how it was measured.
pub(super) fn facts(part: &Part<'_>) -> String {
    let join = |keys: &[&str]| keys.iter().filter_map(|key| part.text(key)).collect::<Vec<_>>().join(", ");
    let mut lines = vec![join(&["adapter", "backend", "driver", "kind", "os"])];
    let threads = part.devices.iter().find_map(|device| device.count("threads"));
    if let Some(threads) = threads {
        lines[0] += &format!(", {} threads", grouped(threads));
    }
    let version = part.text("version").map(|version| format!("nearfield {version}"));
    let revision = part.text("revision").map(|revision| format!("revision {revision}"));
    let times = part.devices.iter().filter_map(|device| {
        let time = device.text("time").map(|time| format!(" {time} UTC")).unwrap_or_default();
        Some(device.text("date")?.to_owned() + &time)
    });
    let mut dates: Vec<String> = times.collect();
    dates.dedup();
    let dates = match &dates[..] {
        [first, .., last] => format!("{first} to {last}, {} runs", part.devices.len()),
        _ => dates.concat(),
    };
    let program: Vec<String> = [version, revision, Some(dates)].into_iter().flatten().collect();
    lines.push(program.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" · "));
    let mut html: String = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| format!("<p class=\"facts\">{}</p>\n", escaped(line)))
        .collect();
    for command in part.texts("command") {
        html += &format!("<p class=\"facts\"><code>{}</code></p>\n", escaped(command));
    }
    html
}

/// The best figures, whether all was right, and what is missing.
pub(super) fn html(part: &Part<'_>) -> String {
    let sentences =
        [exact(part), one_query(part), ivf(part), reductions(part), selections(part), distances(part)];
    let sentences = sentences.into_iter().chain([breakeven(part), peers(part)]).flatten();
    let mut items: Vec<String> = sentences.map(|text| format!("<li>{}</li>\n", escaped(&text))).collect();
    items.extend(checked(part));
    items.extend(failed(part));
    items.extend(missing(part).map(|text| format!("<li>{}</li>\n", escaped(&text))));
    if items.is_empty() {
        return String::new();
    }
    format!("<div class=\"summary\"><ul>\n{}</ul></div>\n", items.concat())
}

/// The case with the largest of something.
fn best<'a>(cases: &[&'a Line], value: impl Fn(&Line) -> Option<f64>) -> Option<&'a Line> {
    let known = cases.iter().filter_map(|case| Some((value(case)?, *case)));
    known.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, case)| case)
}

/// Cases over the most values: the others are quicker because there is less to do.
fn largest<'a>(cases: Vec<&'a Line>, keys: &[&str]) -> Vec<&'a Line> {
    let size = |case: &Line| keys.iter().map(|key| case.positive(key)).product::<Option<f64>>();
    let most = cases.iter().filter_map(|case| size(case)).fold(0.0, f64::max);
    cases.into_iter().filter(|case| size(case) == Some(most)).collect()
}

/// ", 82 % of the cooperative matrices", where it is known.
fn of_ceiling(case: &Line) -> String {
    let ceiling = match case.text("bound") {
        Some("read") => "what the device reads".to_owned(),
        _ => format!("the {}", bound(case)),
    };
    match (case.positive("share"), case.text("bound")) {
        (Some(share), Some(_)) => format!(", {} % of {ceiling}", rough_percent(share)),
        _ => String::new(),
    }
}

fn queries(case: &Line) -> String {
    format!(
        "{} {}",
        cell(case, "queries"),
        if case.count("queries") == Some(1) { "query" } else { "queries" }
    )
}

fn exact(part: &Part<'_>) -> Option<String> {
    let cases = largest(part.cases("exact"), &["rows", "dim", "queries"]);
    let case = best(&cases, |case| case.positive("queries_per_s"))?;
    let shape = describe(case, &["rows", "dim"]);
    let rate = rate(case.positive("queries_per_s")?);
    let k = case.count("k").map(|k| format!(", k = {}", grouped(k))).unwrap_or_default();
    Some(format!(
        "Exact search, {} over {shape}{k}: {rate} queries a second{}.",
        queries(case),
        of_ceiling(case)
    ))
}

fn one_query(part: &Part<'_>) -> Option<String> {
    let single = part.cases("exact").into_iter().filter(|case| case.count("queries") == Some(1)).collect();
    let single = largest(single, &["rows", "dim"]);
    let case = best(&single, |case| Some(-case.positive("ms")?))?;
    let (shape, ms) = (describe(case, &["rows", "dim"]), case.positive("ms")?);
    Some(format!("Exact search, one query over {shape}: {}{}.", time_text(ms / 1e3), of_ceiling(case)))
}

fn ivf(part: &Part<'_>) -> Option<String> {
    const ENOUGH: f64 = 0.9;
    let good =
        |case: &&Line| case.number("recall").is_some_and(|recall| (ENOUGH..=1.0 + 1e-6).contains(&recall));
    let cases: Vec<&Line> = part.cases("ivf").into_iter().filter(good).collect();
    let cases = largest(cases, &["rows", "dim"]);
    let case = best(&cases, |case| case.positive("queries_per_s"))?;
    Some(format!(
        "Search in lists, {} over {}: {} queries a second at a recall of {} ({}).",
        queries(case),
        describe(case, &["rows", "dim"]),
        rate(case.positive("queries_per_s")?),
        decimal(case.number("recall")?, 3),
        describe(case, &["lists", "probes"]),
    ))
}

/// "3.98 TB/s, 98 % of a copy".
fn bandwidth(case: &Line) -> Option<String> {
    let copy =
        case.positive("share_of_copy").map(|share| format!(", {} of what a copy moves", percent(share)));
    Some(rate_text(case.positive("bytes_per_s")?) + &copy.unwrap_or_default())
}

fn reductions(part: &Part<'_>) -> Option<String> {
    let cases = largest(part.cases("reduce"), &["length"]);
    let case = best(&cases, |case| case.positive("bytes_per_s"))?;
    let operation = if case.value("operation").is_some() { "operation" } else { "case" };
    let of = describe(case, &[operation, "elements", "length"]);
    Some(format!("Reductions: {of} at {}.", bandwidth(case)?))
}

fn selections(part: &Part<'_>) -> Option<String> {
    let cases = largest(part.cases("select"), &["rows", "length"]);
    let case = best(&cases, |case| case.positive("bytes_per_s"))?;
    let of = describe(case, &["rows", "length"]);
    Some(format!("Selection: the {} smallest of each row of {of} at {}.", cell(case, "k"), bandwidth(case)?))
}

fn distances(part: &Part<'_>) -> Option<String> {
    let case = best(&part.cases("distance"), |case| case.positive("operations_per_s"))?;
    let of = describe(case, &["rows", "dim", "queries", "elements"]);
    Some(format!(
        "Distance matrix: {of} at {}{}.",
        super::figures::operations_a_second(case),
        of_ceiling(case)
    ))
}

fn breakeven(part: &Part<'_>) -> Option<String> {
    let cases: Vec<&Line> =
        part.cases("breakeven").into_iter().filter(|case| case.text("quicker").is_some()).collect();
    let ahead = cases.iter().filter(|case| case.text("quicker") == Some("GPU")).count();
    (!cases.is_empty()).then(|| {
        format!("The GPU is ahead of the host in {ahead} of {} numbers of rows and queries.", cases.len())
    })
}

fn peers(part: &Part<'_>) -> Option<String> {
    let pairs = pairs(part);
    let all: Vec<(f64, f64)> =
        pairs.iter().flat_map(|pair| pair.peers.iter().filter_map(|peer| times(pair, peer))).collect();
    let ahead = all.iter().filter(|(ours, theirs)| ours < theirs).count();
    (!all.is_empty()).then(|| {
        format!("Quicker than other libraries in {ahead} of {} comparisons of the same work.", all.len())
    })
}

/// Whether every answer was checked, and right.
fn checked(part: &Part<'_>) -> Option<String> {
    let cases = part.records("case");
    let wrong = cases.iter().filter(|case| is_wrong(case)).count();
    let known = cases.iter().filter(|case| case.value("verified").is_some()).count();
    let text = match (cases.len(), wrong, known) {
        (0, ..) => return None,
        (all, 0, known) if all == known => {
            format!("Verified before they were timed: all {} cases.", grouped(all as u64))
        }
        (all, 0, known) => format!("Verified before they were timed: {known} of {all} cases."),
        (all, wrong, _) => {
            return Some(format!("<li class=\"wrong\">Wrong answers: {wrong} of {all} cases.</li>\n"));
        }
    };
    Some(format!("<li>{text}</li>\n"))
}

/// What ended a run.
fn failed(part: &Part<'_>) -> Option<String> {
    let lines = part.records("failed");
    let of = |line: &&Line| {
        let name = [cell(line, "suite"), cell(line, "case")].join(" ");
        format!("{} ({})", name.trim(), cell(line, "reason"))
    };
    let text = escaped(&lines.iter().map(of).collect::<Vec<_>>().join(", "));
    (!lines.is_empty()).then(|| format!("<li class=\"wrong\">Failed, which ended the run: {text}.</li>\n"))
}

fn missing(part: &Part<'_>) -> Option<String> {
    let of = |line: &&Line, key: &str| cell(line, key);
    let cases = part.records("not_run");
    let rungs = part.records("rung").into_iter().filter(|rung| rung.value("not_run").is_some());
    let names: Vec<String> = cases
        .iter()
        .map(|line| format!("{} {} ({})", of(line, "suite"), of(line, "case"), of(line, "reason")))
        .chain(rungs.map(|rung| format!("rung {} ({})", of(&rung, "rung"), of(&rung, "not_run"))))
        .collect();
    let more = names.len().saturating_sub(3);
    let more = if more > 0 { format!(", and {more} more, listed at the end") } else { String::new() };
    let few: Vec<&str> = names.iter().take(3).map(|name| name.trim()).collect();
    (!names.is_empty()).then(|| format!("Not run: {}{more}.", few.join(", ")))
}
