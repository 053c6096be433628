//! What is told around tables of cases: devices, commands, and the ladder.

use anyhow::{Result, bail, ensure};

use super::super::draw;
use super::super::lines::{Line, read};
use super::super::units::{grouped, rate_text, time_text};
use super::columns::{flops_text, ops_text, words};
use super::request::Request;

/// What was measured on, and its ceilings, in a line.
pub(super) fn device(request: &Request) -> Result<String> {
    let files = request.files.iter().map(|(_, path)| read(path)).collect::<Result<Vec<_>>>()?;
    let lines: Vec<&Line> = files.iter().flatten().collect();
    for ((name, _), file) in request.files.iter().zip(&files) {
        ensure!(file.iter().any(is_device), "{name}: needed a line of a device, found none");
    }
    let default = ["device", "ceilings"].map(str::to_owned);
    let mut sentences = vec![];
    for part in request.columns.as_deref().unwrap_or(&default) {
        match part.as_str() {
            "device" => sentences.push(described(&lines)),
            "ceilings" => sentences.push(ceilings(&lines)),
            "upload" => sentences.push(uploads(request, &lines)?),
            _ => bail!("columns=: needed some of device, ceilings, upload, given {part}"),
        }
    }
    Ok(sentences.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "))
}

fn is_device(line: &Line) -> bool {
    ["device", "peers"].contains(&line.record())
}

/// What is known of the devices, in a sentence; each once.
fn described(lines: &[&Line]) -> String {
    let mut known: Vec<String> = vec![];
    for line in lines.iter().filter(|line| is_device(line)) {
        let field = |key: &str| line.plain(key).map(|text| words(&text));
        let named = |name: &str, key: &str| field(key).map(|text| format!("{name} {text}"));
        let revision = field("revision").map(|text| format!(" ({text})")).unwrap_or_default();
        let threads = field("threads").filter(|_| line.text("kind") != Some("discrete"));
        let mut parts: Vec<String> = [
            field("date"),
            field("adapter"),
            field("backend").filter(|backend| backend != "host"),
            field("driver"),
            threads.map(|threads| format!("{threads} threads")),
            named("nearfield", "version").map(|text| text + &revision),
            named("Python", "python"),
        ]
        .into_iter()
        .flatten()
        .collect();
        for (name, version) in
            line.value("versions").and_then(|value| value.as_object()).into_iter().flatten()
        {
            parts.extend(version.as_str().map(|version| words(&format!("{name} {version}"))));
        }
        let text = parts.join(", ");
        if !known.contains(&text) {
            known.push(text);
        }
    }
    known.iter().map(|text| format!("{text}.")).collect::<Vec<_>>().join(" ")
}

/// Its field, its name, and how it is shown.
type Ceiling = (&'static str, &'static str, fn(f64) -> String);

/// Ceilings of one run, or between what they are in several.
fn ceilings(lines: &[&Line]) -> String {
    let known: [Ceiling; 6] = [
        ("copy_bytes_per_s", "a copy on the device (bytes read and written)", rate_text),
        ("read_bytes_per_s", "reads", rate_text),
        ("flops_per_s", "multiply-adds in f32", flops_text),
        ("integer_ops_per_s", "multiply-adds of integers of 8 bits", ops_text),
        ("matrix_flops_per_s", "matrices in f16", flops_text),
        ("latency_ms", "launch and readback", |ms| time_text(ms / 1e3)),
    ];
    let parts = known.iter().filter_map(|(key, name, show)| {
        let values =
            || lines.iter().filter(|line| line.record() == "device").filter_map(|line| line.positive(key));
        let (least, most) = (values().min_by(f64::total_cmp)?, values().max_by(f64::total_cmp)?);
        let (least, most) = (show(least), show(most));
        let text = if least == most { least } else { format!("{least} to {most}") };
        Some(format!("{name} {text}"))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { parts } else { format!("Ceilings: {parts}.") }
}

fn uploads(request: &Request, lines: &[&Line]) -> Result<String> {
    let uploads: Vec<&Line> =
        lines.iter().copied().filter(|line| line.record() == "upload" && request.takes(line)).collect();
    ensure!(!uploads.is_empty(), "needed an upload{}, found none", request.filters());
    request.check_values(&uploads)?;
    let parts = uploads.iter().filter_map(|line| {
        let rate = rate_text(line.positive("bytes_per_s")?);
        Some(format!("{} x {} at {rate}", grouped(line.count("rows")?), grouped(line.count("dim")?)))
    });
    Ok(format!("Upload: {}.", parts.collect::<Vec<_>>().join(", ")))
}

/// The commands that give the lines again, as code; those of suites where there are such.
pub(super) fn commands(request: &Request) -> Result<String> {
    let mut commands: Vec<String> = vec![];
    for (name, path) in &request.files {
        let lines = read(path)?;
        let of = |record: &str| -> Vec<&Line> {
            let chosen = lines.iter().filter(|line| line.record() == record && request.takes(line));
            chosen.filter(|line| line.text("command").is_some()).collect()
        };
        let mut found = of("suite");
        if found.is_empty() {
            found = of("device");
        }
        ensure!(!found.is_empty(), "{name}: needed lines with a command{}, found none", request.filters());
        request.check_values(&found)?;
        for command in found.iter().filter_map(|line| line.text("command")) {
            let ends_code =
                command.contains("```") || command.contains("<!--") || command.contains(char::is_control);
            ensure!(!ends_code, "{name}: command: needed a line of shell, given {command:?}");
            if !commands.iter().any(|known| known == command) {
                commands.push(command.to_owned());
            }
        }
    }
    Ok(format!("```sh\n{}\n```", commands.join("\n")))
}

/// The ladder, a table a length.
pub(super) fn ladder(request: &Request) -> Result<String> {
    let mut tables = vec![];
    for (name, path) in &request.files {
        let asked = request.values("length");
        let is_asked = |length: u64| asked.is_none_or(|lengths| lengths.contains(&length.to_string()));
        let found = draw::tables(path)?;
        let taken = tables.len();
        tables.extend(found.into_iter().filter(|(length, _)| is_asked(*length)));
        ensure!(tables.len() > taken, "{name}: needed rungs{}, found none", request.filters());
    }
    for length in request.values("length").into_iter().flatten() {
        let is_there = tables.iter().any(|(other, _)| other.to_string() == *length);
        ensure!(is_there, "length={length}: needed a line of it, found none");
    }
    Ok(tables.into_iter().map(|(_, table)| table).collect::<Vec<_>>().join("\n"))
}
