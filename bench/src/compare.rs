//! `nearfield-bench compare`: compares two runs case by case.

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::{Map, Value, json};

use crate::lines::{Line, distinct, identity, read, words};
use crate::units::{decimal, rounded};
use nearfield_cli::terminal::output;

#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// JSON lines of the earlier run
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// JSON lines of the later run, which is judged
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Fail when a case is slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    fail_over: Option<f64>,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  nearfield-bench compare old.jsonl new.jsonl
  nearfield-bench compare old.jsonl new.jsonl --fail-over 10%

A ratio is the new median over the old one: above 1 is slower. The brackets hold its range. docs/benchmark.md explains the verdicts.

JSON lines, one object each; times in milliseconds:
  {\"record\":\"compare\", old, new, differs}
  {\"record\":\"ratio\", suite, case, old_ms, new_ms, ratio, ratio_least, ratio_most, and the same of device_ms: old_device_ms,
   new_device_ms, device_ratio, device_ratio_least, device_ratio_most, verdict (slower, faster, noisy, same), device_verdict}
  {\"record\":\"only\", suite, case, in (old or new), reason}: a case without times in the other file
  {\"record\":\"failed\", suite, case (null if it had no name yet), reason}: a failure in the new file
  {\"record\":\"mean\", suite, cases, ratio, device_ratio}, geometric means";

/// The median, least and most time of a case, in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    median: f64,
    least: f64,
    most: f64,
}

impl Times {
    fn of(line: &Line, key: &str) -> Option<Self> {
        let median = line.positive(key)?;
        // On a coarse clock the least time may be 0.
        let bound = |end: &str| line.number(&format!("{key}_{end}")).unwrap_or(median);
        Some(Self { median, least: bound("least").clamp(0.0, median), most: bound("most").max(median) })
    }
}

/// A case of one file.
struct Case {
    suite: String,
    /// Empty for a failure before the name was known.
    name: String,
    /// Times by the wall clock, or the reason why there are none.
    wall: Result<Times, String>,
    device: Option<Times>,
    /// Whether it failed, or its answer was wrong.
    has_failed: bool,
}

impl Case {
    fn of(line: &Line) -> Option<Self> {
        let suite = line.text("suite").unwrap_or_default();
        let mut name = line.plain("case").unwrap_or_default();
        match line.record() {
            "case" => {
                // Older files call the same case by another name.
                let fields = words(line, &identity(suite));
                name = if fields.is_empty() { name } else { fields };
            }
            "not_run" | "failed" => {}
            _ => return None,
        }
        let has_failed = line.record() == "failed" || line.is_wrong();
        let reason = line.text("not_run").or(line.text("reason"));
        let wall = match (has_failed, reason) {
            (true, Some(reason)) => Err(format!("failed: {reason}")),
            (true, None) => Err(if line.is_wrong() { "answer is wrong" } else { "failed" }.to_owned()),
            (false, Some(reason)) => Err(format!("not run: {reason}")),
            (false, None) => Times::of(line, "ms").ok_or_else(|| "no ms".to_owned()),
        };
        let case =
            Self { suite: suite.to_owned(), name, wall, device: Times::of(line, "device_ms"), has_failed };
        Some(case).filter(|case| case.has_failed || !case.name.is_empty())
    }

    /// The case of the same name, if it has one.
    fn in_other<'c>(&self, others: &'c [Self]) -> Option<&'c Self> {
        others
            .iter()
            .find(|other| other.suite == self.suite && other.name == self.name && !self.name.is_empty())
    }

    fn record(&self, record: &str) -> Value {
        json!({"record": record, "suite": self.suite, "case": Some(&self.name).filter(|name| !name.is_empty())})
    }
}

/// The cases of a file. The last of repeated ones counts, in the place of the first.
fn cases(lines: &[Line]) -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    for case in lines.iter().filter_map(Case::of) {
        let is_same =
            |other: &Case| !case.name.is_empty() && (&other.suite, &other.name) == (&case.suite, &case.name);
        match cases.iter().position(is_same) {
            Some(place) => cases[place] = case,
            None => cases.push(case),
        }
    }
    cases
}

/// Adds the times of a case by one clock in both files, their ratio, and the verdict on it.
fn judge(record: &mut Value, clock: &str, old: Times, new: Times, limit: Option<f64>) {
    let ratio = new.median / old.median;
    let verdict = match limit.map(|limit| ratio.max(ratio.recip()) > 1.0 + limit) {
        Some(false) => "same",
        _ if new.least > old.most => "slower",
        _ if new.most < old.least => "faster",
        Some(true) => "noisy",
        None => "same",
    };
    let figures =
        [("ratio", ratio), ("ratio_least", new.least / old.most), ("ratio_most", new.most / old.least)];
    for (name, figure) in figures {
        record[format!("{clock}{name}")] = json!(rounded(figure));
    }
    record[format!("old_{clock}ms")] = json!(old.median);
    record[format!("new_{clock}ms")] = json!(new.median);
    record[format!("{clock}verdict")] = json!(verdict);
}

/// The comparison of all cases, as records.
fn compared(old: &[Case], new: &[Case], limit: Option<f64>) -> Vec<Value> {
    let (mut ratios, mut others): (Vec<Value>, Vec<Value>) = (vec![], vec![]);
    let mut only = |case: &Case, file: &str, other: Option<&Case>| {
        let mut record = case.record("only");
        record["in"] = json!(file);
        record["reason"] = json!(other.and_then(|other| other.wall.as_ref().err()));
        others.push(record);
    };
    for case in old {
        let Ok(before) = case.wall else { continue };
        match case.in_other(new) {
            Some(Case { wall: Ok(after), device, .. }) => {
                let mut record = case.record("ratio");
                judge(&mut record, "", before, *after, limit);
                if let Some((before, after)) = case.device.zip(*device) {
                    judge(&mut record, "device_", before, after, limit);
                }
                ratios.push(record);
            }
            Some(other) if other.has_failed => {}
            other => only(case, "old", other),
        }
    }
    for case in new.iter().filter(|case| case.wall.is_ok()) {
        let other = case.in_other(old);
        if other.is_none_or(|other| other.wall.is_err()) {
            only(case, "new", other);
        }
    }
    // Cases of a suite stand together, and their means follow them.
    ratios.sort_by_key(|record| old.iter().position(|case| record["suite"] == *case.suite));
    let mut records = vec![];
    for suite in ratios.chunk_by(|one, next| one["suite"] == next["suite"]) {
        let mean = |key: &str| {
            let logs: Vec<f64> = suite.iter().filter_map(|record| Some(record[key].as_f64()?.ln())).collect();
            (!logs.is_empty()).then(|| rounded((logs.iter().sum::<f64>() / logs.len() as f64).exp()))
        };
        records.extend_from_slice(suite);
        records.push(json!({
            "record": "mean", "suite": suite[0]["suite"], "cases": suite.len(), "ratio": mean("ratio"),
            "device_ratio": mean("device_ratio"),
        }));
    }
    records.extend(new.iter().filter(|case| case.has_failed).map(|case| {
        let mut record = case.record("failed");
        record["reason"] = json!(case.wall.as_ref().err());
        record
    }));
    records.extend(others);
    records
}

/// Both files, the devices that they were measured on, and the fields in which these differ.
fn heads(paths: [&PathBuf; 2], lines: [&[Line]; 2]) -> Value {
    let keys = ["adapter", "backend", "driver", "kind", "threads", "os", "version", "revision", "date"];
    let [old, new] = [0, 1].map(|number| {
        let devices = || lines[number].iter().filter(|line| line.record() == "device");
        let fields = keys.map(|key| (key.to_owned(), json!(distinct(devices(), key).join(" and "))));
        let fields = fields.into_iter().filter(|(_, text)| text != "");
        let file = ("file".to_owned(), json!(paths[number].display().to_string()));
        fields.chain([file]).collect::<Map<_, _>>()
    });
    // A field that one file lacks is not known to differ.
    let differs = |key: &&str| {
        *key != "date" && old.contains_key(*key) && new.contains_key(*key) && old[*key] != new[*key]
    };
    let differs: Vec<&str> = keys.into_iter().filter(differs).collect();
    json!({"record": "compare", "old": old, "new": new, "differs": differs})
}

/// A record as text. The longest text comes last.
fn told(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let number = |key: &str| record[key].as_f64().map(|number| decimal(number, 3)).unwrap_or_default();
    let (suite, case, reason) = (text("suite"), text("case"), text("reason"));
    match text("record") {
        "compare" => {
            let head = |key: &str| {
                let mut fields = record[key].clone();
                let file = fields["file"].take();
                let known = ["adapter", "backend", "driver", "version", "revision", "date"];
                let known: Vec<&str> = known.iter().filter_map(|key| fields[*key].as_str()).collect();
                format!("{key}: {}: {}\n", file.as_str().unwrap_or_default(), known.join(", "))
            };
            format!("{}{}different: {}\n", head("old"), head("new"), record["differs"])
        }
        "ratio" => {
            let verdict = |key: &str| if text(key) == "same" { String::new() } else { text(key).to_owned() };
            format!(
                "{suite:<9} {:>10} {:>10} {:>7} {:<17} {:<6} {:>9} {:<6}  {case}\n",
                number("old_ms"),
                number("new_ms"),
                number("ratio"),
                format!("({} .. {})", number("ratio_least"), number("ratio_most")),
                verdict("verdict"),
                number("device_ratio"),
                verdict("device_verdict"),
            )
        }
        "mean" => {
            let (mean, device, cases) = (number("ratio"), number("device_ratio"), &record["cases"]);
            format!("{suite:<9} {mean:>29} {device:>34}         geometric mean of {cases}\n\n")
        }
        "failed" if case.is_empty() => format!("failed in new: {suite}: {reason}\n"),
        "failed" => format!("failed in new: {suite}: {case}: {reason}\n"),
        _ => {
            let reason =
                if reason.is_empty() { String::new() } else { format!(" (the other file: {reason})") };
            format!("only in {}: {suite}: {case}{reason}\n", text("in"))
        }
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let [old_lines, new_lines] = [read(&args.old)?, read(&args.new)?];
    let [old, new] = [&old_lines, &new_lines].map(|lines| cases(lines));
    let mut records = vec![heads([&args.old, &args.new], [&old_lines, &new_lines])];
    records.extend(compared(&old, &new, args.fail_over));
    let count = |record: &str| records.iter().filter(|line| line["record"] == record).count();
    let (failed, all) = (count("failed"), count("ratio") + count("failed"));
    let [one, other] = [&args.old, &args.new].map(|path| path.display());
    ensure!(all > 0, "needed a case with times in both files, found none in {one} and {other}");
    let text = |record: &Value| if args.json { format!("{record}\n") } else { told(record) };
    let mut text: Vec<String> = records.iter().map(text).collect();
    if !args.json {
        let heads = ["suite", "old ms", "new ms", "ratio", "(least .. most)", "", "on device", "", "case"];
        let [suite, old, new, ratio, range, verdict, device, on_device, case] = heads;
        text.insert(1, format!("\n{suite:<9} {old:>10} {new:>10} {ratio:>7} {range:<17} {verdict:<6} {device:>9} {on_device:<6}  {case}\n"));
    }
    match stdout().write_all(text.concat().as_bytes()).map_err(anyhow::Error::from) {
        // The exit code holds also when the reader of the table leaves early.
        Err(error) if !output::is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    let is_slower = |record: &&Value| record["verdict"] == "slower" || record["device_verdict"] == "slower";
    let slower = records.iter().filter(is_slower).count();
    match args.fail_over.map(|limit| (limit * 1e6).round() / 1e4) {
        Some(percent) if slower > 0 => {
            bail!("--fail-over {percent}%: {slower} of {all} cases slower, {failed} failed")
        }
        _ if failed > 0 => bail!("{other}: {failed} of {all} cases failed"),
        _ => Ok(()),
    }
}

fn percentage(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%');
    let percent = number.unwrap_or(text).trim().parse().ok().filter(|part| (0.0..1e6).contains(part));
    // 0.1 without a sign may stand for a tenth.
    match percent {
        Some(percent) if number.is_some() || percent == 0.0 || percent >= 1.0 => Ok(percent / 100.0),
        _ => Err(anyhow!("needed a percentage such as 10% or 0.5%")),
    }
}
