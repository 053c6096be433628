//! A comparison as text and as JSON lines.

use serde_json::{Map, Value, json};

use super::pairs::{Failed, Only, Pairs, Ratio, Times, Verdict};
use crate::bench::lines::{Line, distinct};
use crate::bench::units::{decimal, rounded};

/// A file and the device it was measured on.
pub(super) struct Head {
    /// `old` or `new`.
    file: &'static str,
    path: String,
    /// Known fields of its device lines, with their values.
    fields: Vec<(&'static str, String)>,
    repeated: usize,
}

impl Head {
    pub(super) fn new(file: &'static str, path: String, lines: &[Line], repeated: usize) -> Self {
        let keys = ["adapter", "backend", "driver", "kind", "threads", "os", "version", "revision", "date"];
        let devices = || lines.iter().filter(|line| line.record() == "device");
        let fields = keys.into_iter().map(|key| (key, distinct(devices(), key).join(" and ")));
        Self { file, path, fields: fields.filter(|(_, text)| !text.is_empty()).collect(), repeated }
    }

    /// Fields that differ between the files, apart from the date.
    fn differs(heads: &[Self; 2]) -> Vec<&'static str> {
        let [old, new] = heads.each_ref().map(|head| &head.fields);
        let value = |fields: &[(&str, String)], key: &str| {
            fields.iter().find(|(other, _)| *other == key).map(|(_, text)| text.clone())
        };
        // A field that one file lacks is not known to differ.
        let differs = |key: &&str| {
            *key != "date"
                && value(new, key).is_some_and(|text| value(old, key).is_some_and(|old| old != text))
        };
        old.iter().map(|(key, _)| *key).filter(differs).collect()
    }
}

pub(super) fn as_table(heads: &[Head; 2], pairs: &Pairs<'_>) -> String {
    let mut text = String::new();
    for head in heads {
        let known = head.fields.iter().filter(|(key, _)| !["kind", "os"].contains(key));
        let known = known.map(|(key, value)| match *key {
            "version" => format!("nearfield {value}"),
            "threads" => format!("{value} threads"),
            _ => value.clone(),
        });
        text += &format!("{}: {}: {}\n", head.file, head.path, known.collect::<Vec<_>>().join(", "));
        if head.repeated > 0 {
            text += &format!("  repeated cases: {}, the last of each counts\n", head.repeated);
        }
    }
    let differs = Head::differs(heads);
    if !differs.is_empty() {
        text += &format!("different: {}\n", differs.join(", "));
    }
    for suite in pairs.suites() {
        text += &format!("\n{suite}\n");
        let titles = ["old ms", "new ms", "ratio", "(least .. most)", "", "on device", "", "case"];
        text += &row(titles.map(str::to_owned));
        for ratio in pairs.of_suite(suite) {
            text += &ratio_row(ratio);
        }
        let (cases, mean, device) = pairs.means(suite);
        let device = device.map(|mean| decimal(mean, 3)).unwrap_or_default();
        let name = format!("geometric mean of {cases}");
        let empty = String::new;
        text += &row([empty(), empty(), decimal(mean, 3), empty(), empty(), device, empty(), name]);
    }
    if !pairs.failed.is_empty() {
        text += "\nfailed in new\n";
    }
    for Failed { suite, name, reason } in &pairs.failed {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        text += &format!("  {suite}: {name}{reason}\n");
    }
    for file in ["old", "new"] {
        let only: Vec<&Only<'_>> = pairs.only.iter().filter(|only| only.file == file).collect();
        if !only.is_empty() {
            text += &format!("\nonly in {file}\n");
        }
        for only in only {
            let reason = only.reason.map(|reason| format!(" (the other file: {reason})")).unwrap_or_default();
            text += &format!("  {}: {}{reason}\n", only.suite, only.name);
        }
    }
    text
}

/// A line in columns. The longest text comes last.
fn row([old, new, ratio, spread, verdict, device, on_device, case]: [String; 8]) -> String {
    format!("{old:>10} {new:>10} {ratio:>7} {spread:<17} {verdict:<6} {device:>9} {on_device:<6}  {case}\n")
}

fn ratio_row(ratio: &Ratio<'_>) -> String {
    let [old, new] = ratio.times.map(|times| decimal(times.median, 3));
    let [middle, least, most] = ratio.ratio().map(|ratio| decimal(ratio, 3));
    let device = ratio.device_ratio().map(|[middle, ..]| decimal(middle, 3)).unwrap_or_default();
    let spread = format!("({least} .. {most})");
    let told = |verdict: Verdict| if verdict == Verdict::Same { "" } else { verdict.name() };
    let verdicts = [Some(ratio.verdict), ratio.device_verdict];
    let [wall, on_device] = verdicts.map(|verdict| verdict.map_or("", told).to_owned());
    row([old, new, middle, spread, wall, device, on_device, ratio.name.to_owned()])
}

pub(super) fn as_json(heads: &[Head; 2], pairs: &Pairs<'_>) -> String {
    let about = |head: &Head| {
        let fields = head.fields.iter().map(|(key, text)| ((*key).to_owned(), json!(text)));
        let more = [("file".to_owned(), json!(head.path)), ("repeated".to_owned(), json!(head.repeated))];
        Value::from(fields.chain(more).collect::<Map<_, _>>())
    };
    let [old, new] = heads.each_ref().map(about);
    let mut lines =
        vec![json!({"record": "compare", "old": old, "new": new, "differs": Head::differs(heads)})];
    for ratio in &pairs.ratios {
        let mut line = json!({
            "record": "ratio", "suite": ratio.suite, "case": ratio.name, "verdict": ratio.verdict.name(),
            "device_verdict": ratio.device_verdict.map(Verdict::name),
        });
        put(&mut line, "", ratio.times, ratio.ratio());
        if let Some((times, device)) = ratio.device.zip(ratio.device_ratio()) {
            put(&mut line, "device_", times, device);
        }
        lines.push(line);
    }
    for Only { suite, name, file, reason } in &pairs.only {
        lines.push(json!({"record": "only", "suite": suite, "case": name, "in": file, "reason": reason}));
    }
    for Failed { suite, name, reason } in &pairs.failed {
        let case = Some(name).filter(|name| !name.is_empty());
        lines.push(json!({"record": "failed", "suite": suite, "case": case, "reason": reason}));
    }
    for suite in pairs.suites() {
        let (cases, mean, device) = pairs.means(suite);
        let device = device.map(rounded);
        let mean = rounded(mean);
        lines.push(json!({
            "record": "mean", "suite": suite, "cases": cases, "ratio": mean, "device_ratio": device,
        }));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Adds times and ratios by one clock, under names that begin with `clock`.
fn put(line: &mut Value, clock: &str, [old, new]: [Times; 2], [middle, least, most]: [f64; 3]) {
    line[format!("old_{clock}ms")] = json!(old.median);
    line[format!("new_{clock}ms")] = json!(new.median);
    line[format!("{clock}ratio")] = json!(rounded(middle));
    line[format!("{clock}ratio_least")] = json!(rounded(least));
    line[format!("{clock}ratio_most")] = json!(rounded(most));
}
