//! A comparison as text and as JSON lines.

use serde_json::{Map, Value, json};

use super::pairs::{Clock, Pairs, Ratio, Single};
use crate::lines::{Line, distinct};
use crate::units::{decimal, rounded};

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
        let titles = ["old ms", "new ms", "ratio", "(least .. most)", "", "on device", "", "case"];
        text += &format!("\n{suite}\n{}", row(titles.map(str::to_owned)));
        text += &pairs.of_suite(suite).map(ratio_row).collect::<String>();
        let (cases, mean, device) = pairs.means(suite);
        let mut means = <[String; 8]>::default();
        means[2] = decimal(mean, 3);
        means[5] = device.map(|mean| decimal(mean, 3)).unwrap_or_default();
        means[7] = format!("geometric mean of {cases}");
        text += &row(means);
    }
    if !pairs.failed.is_empty() {
        text += "\nfailed in new\n";
    }
    for Single { suite, name, reason } in &pairs.failed {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        text += &format!("  {suite}: {name}{}\n", reason.unwrap_or_default());
    }
    for file in ["old", "new"] {
        let mut title = format!("\nonly in {file}\n");
        for (_, only) in pairs.only.iter().filter(|(other, _)| *other == file) {
            let reason = only.reason.map(|reason| format!(" (the other file: {reason})")).unwrap_or_default();
            text += &format!("{}  {}: {}{reason}\n", std::mem::take(&mut title), only.suite, only.name);
        }
    }
    text
}

/// A line in columns. The longest text comes last.
fn row([old, new, ratio, spread, verdict, device, on_device, case]: [String; 8]) -> String {
    format!("{old:>10} {new:>10} {ratio:>7} {spread:<17} {verdict:<6} {device:>9} {on_device:<6}  {case}\n")
}

fn ratio_row(ratio: &Ratio<'_>) -> String {
    let [old, new] = [ratio.wall.old, ratio.wall.new].map(|times| decimal(times.median, 3));
    let [middle, least, most] = ratio.wall.ratio().map(|ratio| decimal(ratio, 3));
    let device = ratio.device.map(|clock| decimal(clock.ratio()[0], 3)).unwrap_or_default();
    let told = |clock: Clock| if clock.verdict == "same" { "" } else { clock.verdict };
    let [wall, on_device] = [Some(ratio.wall), ratio.device].map(|clock| clock.map_or("", told).to_owned());
    row([old, new, middle, format!("({least} .. {most})"), wall, device, on_device, ratio.name.to_owned()])
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
    for Ratio { suite, name, wall, device } in &pairs.ratios {
        let mut line = json!({
            "record": "ratio", "suite": suite, "case": name, "verdict": wall.verdict,
            "device_verdict": device.map(|clock| clock.verdict),
        });
        for (name, clock) in [("", Some(wall)), ("device_", device.as_ref())] {
            let Some(clock) = clock else { continue };
            let [middle, least, most] = clock.ratio().map(rounded);
            line[format!("old_{name}ms")] = json!(clock.old.median);
            line[format!("new_{name}ms")] = json!(clock.new.median);
            line[format!("{name}ratio")] = json!(middle);
            line[format!("{name}ratio_least")] = json!(least);
            line[format!("{name}ratio_most")] = json!(most);
        }
        lines.push(line);
    }
    for (file, Single { suite, name, reason }) in &pairs.only {
        lines.push(json!({"record": "only", "suite": suite, "case": name, "in": file, "reason": reason}));
    }
    for Single { suite, name, reason } in &pairs.failed {
        let case = Some(name).filter(|name| !name.is_empty());
        lines.push(json!({"record": "failed", "suite": suite, "case": case, "reason": reason}));
    }
    for suite in pairs.suites() {
        let (cases, mean, device) = pairs.means(suite);
        let (ratio, device) = (rounded(mean), device.map(rounded));
        lines.push(json!({
            "record": "mean", "suite": suite, "cases": cases, "ratio": ratio, "device_ratio": device,
        }));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
