//! The head of a page: device, key figures, and whether every answer was right.

use super::columns::of_ceiling;
use super::device::DeviceLines;
use super::document::Page;
use super::fields::{cell, describe};
use super::peers;
use crate::lines::{Line, distinct};
use crate::machine::{QUIET, busy};
use crate::times;
use crate::units::{byte_rate, decimal, grouped, operation_rate, percent, time, whole};

/// A page without sections.
pub(super) fn page(device: &DeviceLines<'_>) -> Page {
    Page {
        title: format!("nearfield on {}", device.name()),
        facts: facts(device),
        commands: distinct(device.runs.iter().copied(), "command"),
        highlights: highlights(device),
        problems: problems(device),
        remarks: remarks(device),
        sections: vec![],
    }
}

fn facts(device: &DeviceLines<'_>) -> Vec<String> {
    // The host engine is the processor, which is named behind these.
    let keys: &[&str] = match device.text("kind") {
        Some("host") => &["driver"],
        _ => &["adapter", "backend", "driver", "kind"],
    };
    let mut hardware: Vec<String> =
        keys.iter().filter_map(|key| Some(device.text(key)?.to_owned())).collect();
    hardware.extend([device.processor(), device.text("os")].into_iter().flatten().map(str::to_owned));
    let threads = device.runs.iter().find_map(|run| run.count("threads"));
    hardware.extend(threads.map(|threads| format!("{} threads", grouped(threads))));
    let mut program: Vec<String> = vec![];
    program.extend(device.text("version").map(|version| format!("nearfield {version}")));
    program.extend(device.text("revision").map(|revision| format!("revision {revision}")));
    let time = |run: &&&Line| [cell(run, "date"), cell(run, "time")].join(" ").trim().to_owned();
    let (first, last) = (device.runs.first(), device.runs.last());
    program.extend(first.as_ref().map(time).filter(|time| !time.is_empty()).map(|first| {
        match last.as_ref().map(time).filter(|last| *last != first) {
            Some(last) => format!("{first} to {last} UTC, {} runs", device.runs.len()),
            None => format!("{first} UTC"),
        }
    }));
    let lines = [hardware.join(", "), program.join(" · ")];
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The case with the largest value, among those of files, if there are any, with the most work: other cases are faster for having less
/// to do.
fn best<'a>(cases: &[&'a Line], work: &[&str], value: impl Fn(&Line) -> Option<f64>) -> Option<&'a Line> {
    let is_of_files = |case: &&Line| case.text("data").is_some_and(|data| data.contains(" with "));
    let (files, made): (Vec<&Line>, Vec<&Line>) = cases.iter().copied().partition(is_of_files);
    let cases = if files.is_empty() { made } else { files };
    let size = |case: &Line| work.iter().map(|key| case.positive(key)).product::<Option<f64>>();
    let most = cases.iter().filter_map(|case| size(case)).fold(0.0, f64::max);
    let largest = cases.iter().copied().filter(|case| size(case) == Some(most));
    let known = largest.filter_map(|case| Some((value(case)?, case)));
    known.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, case)| case)
}

/// Key figures, and what they are of.
fn highlights(device: &DeviceLines<'_>) -> Vec<(String, String)> {
    let searches = |case: &Line| Some(format!("{} queries/s", whole(case.positive("queries_per_s")?)));
    let bytes = |case: &Line| case.positive("bytes_per_s").map(byte_rate);
    let of_copy = |case: &Line| Some(format!("{} of a copy", percent(case.positive("share_of_copy")?)));
    let rate = |key: &'static str| move |case: &Line| case.positive(key);
    let mut highlights = vec![];
    let mut add = |value: Option<String>, name: String, case: &Line, keys: &[&str], share: Option<String>| {
        let parts = [Some(name), Some(describe(case, keys)), share];
        let about = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        highlights.extend(value.map(|value| (value, about)));
    };
    let exact = ["queries", "rows", "dim", "k"];
    let mut cases = device.cases("exact");
    if let Some(case) = best(&cases, &["rows", "dim", "queries"], rate("queries_per_s")) {
        add(searches(case), "exact search".into(), case, &exact, of_ceiling(case));
    }
    cases.retain(|case| case.count("queries") == Some(1));
    if let Some(case) = best(&cases, &["rows", "dim"], |case| Some(-case.positive("ms")?)) {
        let value = case.positive("ms").map(|ms| time(ms / 1e3));
        add(value, "exact search".into(), case, &exact, of_ceiling(case));
    }
    let mut cases = device.cases("ivf");
    cases.retain(|case| case.number("recall").is_some_and(|recall| (0.9..=1.001).contains(&recall)));
    if let Some(case) = best(&cases, &["rows", "dim"], rate("queries_per_s")) {
        let recall = decimal(case.number("recall").unwrap_or_default(), 3);
        let name = format!("inverted lists at a recall of {recall}");
        add(searches(case), name, case, &["queries", "rows", "dim", "lists", "probes"], None);
    }
    if let Some(case) = best(&device.cases("reduce"), &["length"], rate("bytes_per_s")) {
        add(bytes(case), "reduction".into(), case, &["operation", "elements", "length"], of_copy(case));
    }
    if let Some(case) = best(&device.cases("select"), &["rows", "length"], rate("bytes_per_s")) {
        add(bytes(case), "selection from rows".into(), case, &["rows", "length", "k"], of_copy(case));
    }
    if let Some(case) = best(&device.cases("distance"), &[], rate("operations_per_s")) {
        let value = case.positive("operations_per_s").map(operation_rate);
        add(value, "distance matrix".into(), case, &["queries", "rows", "dim", "elements"], of_ceiling(case));
    }
    let mut cases = device.cases("breakeven");
    cases.retain(|case| case.text("quicker").is_some());
    let ahead = cases.iter().filter(|case| case.text("quicker") == Some("GPU")).count();
    if !cases.is_empty() {
        let about = "sizes at which the GPU is faster than the host".to_owned();
        highlights.push((format!("{ahead} of {}", cases.len()), about));
    }
    let (faster, all) = peers::score(device);
    if all > 0 {
        let about = "comparisons with other libraries in which nearfield is faster".to_owned();
        highlights.push((format!("{faster} of {all}"), about));
    }
    highlights
}

fn named(line: &Line, reason: &str) -> String {
    let name = [cell(line, "suite"), cell(line, "case")].join(" ");
    format!("{} ({})", name.trim(), cell(line, reason))
}

fn problems(device: &DeviceLines<'_>) -> Vec<String> {
    let cases = device.records("case");
    let wrong = cases.iter().filter(|case| case.is_wrong()).count();
    let wrong = (wrong > 0).then(|| format!("Wrong answers: {wrong} of {} cases.", cases.len()));
    let failed = device.records("failed").into_iter();
    let failed = failed.map(|line| format!("Failed, which ended the run: {}.", named(line, "reason")));
    let busy = device.busy().filter(|share| *share > QUIET).map(busy);
    wrong.into_iter().chain(failed).chain(busy).collect()
}

fn remarks(device: &DeviceLines<'_>) -> Vec<String> {
    let cases = device.records("case");
    let verified = cases.iter().filter(|case| case.value("verified").is_some() && !case.is_wrong()).count();
    let verified = match (cases.len(), verified) {
        (0, _) => None,
        (all, verified) if all == verified => {
            Some(format!("All {} cases verified before they were timed.", grouped(all as u64)))
        }
        (all, verified) => Some(format!("{verified} of {all} cases verified before they were timed.")),
    };
    let lines = ["case", "peer", "rung"].map(|record| device.records(record)).concat();
    let noisy = lines.iter().filter(|line| line.is_noisy("ms") || line.is_noisy("device_ms")).count();
    let noisy = (noisy > 0).then(|| {
        format!(
            "~ marks times of a busy machine, in {noisy} of {} cases: the median is more than {} times the least.",
            lines.len(),
            times::NOISY
        )
    });
    let mut missing: Vec<String> =
        device.records("not_run").iter().map(|line| named(line, "reason")).collect();
    let rungs = device.records("rung").into_iter().filter(|rung| rung.value("not_run").is_some());
    missing.extend(rungs.map(|rung| format!("rung {} ({})", cell(rung, "rung"), cell(rung, "not_run"))));
    let more = missing.len().saturating_sub(3);
    missing.truncate(3);
    if more > 0 {
        missing.push(format!("{more} more, listed below"));
    }
    let missing = (!missing.is_empty()).then(|| format!("Not run: {}.", missing.join("; ")));
    verified.into_iter().chain(noisy).chain(missing).collect()
}
