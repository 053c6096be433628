//! `nearfield bench draw`, from the outside. It needs no adapter.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

const LENGTH: u64 = 1 << 28;
const COPY: f64 = 4.07e12;

/// A line of a rung that took so many seconds on the device.
fn rung(letter: &str, name: &str, length: u64, seconds: f64) -> Value {
    let rate = 8.0 * length as f64 / seconds;
    json!({
        "record": "rung", "suite": "reduce", "rung": letter, "name": name, "length": length, "runs": 10,
        "ms": seconds * 1e3 + 0.05, "ms_least": seconds * 1e3, "ms_most": seconds * 1e3 + 0.2,
        "device_ms": seconds * 1e3, "bytes_per_s": rate, "share_of_copy": rate / COPY, "error": 1.2e-8,
        "verified": true,
    })
}

fn device() -> Value {
    json!({
        "record": "device", "adapter": "NVIDIA H200", "backend": "vulkan", "driver": "NVIDIA 580.159.04",
        "kind": "discrete", "version": "0.1.0", "date": "2026-11-21", "copy_bytes_per_s": COPY,
        "flops_per_s": 5.9e13, "latency_ms": 0.021,
    })
}

/// What a run prints: fourteen rungs, of which one was not run, and a record that is not of the ladder.
fn ladder(length: u64) -> Vec<Value> {
    let names = ["one invocation", "atomic additions", "tree of <pairs> & \"lanes\"", "tree | no conflicts"];
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h1", "h2", "h4", "h8", "h16", "i", "j"];
    let mut lines = vec![device(), json!({"record": "operation", "length": 3})];
    for (number, letter) in letters.into_iter().enumerate() {
        let name = names.get(number).map_or_else(|| format!("step {number}"), |&name| name.to_owned());
        lines.push(match letter {
            "i" => json!({"record": "rung", "rung": letter, "name": name, "length": length,
                "not_run": "needs subgroup operations"}),
            // From 2.1 GB/s to 4.2 TB/s.
            _ => rung(letter, &name, length, length as f64 / LENGTH as f64 / 1.8f64.powi(number as i32)),
        });
    }
    lines
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Draws lines: the directory with `lines.jsonl` and perhaps `chart.svg`, and what the program said.
fn draw(lines: impl AsRef<[u8]>, options: &[&str]) -> Result<(TempDir, Output)> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("lines.jsonl"), lines)?;
    let output = run(directory.path(), &[&["lines.jsonl", "chart.svg"], options].concat())?;
    Ok((directory, output))
}

fn run(directory: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfield"));
    Ok(command.current_dir(directory).args(["bench", "draw"]).args(arguments).output()?)
}

/// The chart, and what was printed.
fn drawn(lines: impl AsRef<[u8]>, options: &[&str]) -> Result<(String, String)> {
    let (directory, output) = draw(lines, options)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && complaint.is_empty(), "{} {complaint}", output.status);
    let svg = fs::read_to_string(directory.path().join("chart.svg"))?;
    well_formed(&svg)?;
    Ok((svg, String::from_utf8(output.stdout)?))
}

/// Checks that a run failed with one line on stderr that holds `parts`, and printed and wrote nothing.
fn failed(directory: &Path, output: &Output, parts: &[&str]) -> Result<()> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(1 | 2)), "{} {complaint}", output.status);
    ensure!(complaint.starts_with("error: ") && complaint.lines().count() == 1, "{complaint}");
    for part in parts {
        ensure!(complaint.contains(part), "needed {part:?} in {complaint}");
    }
    ensure!(output.stdout.is_empty() && !directory.join("chart.svg").exists(), "something was written");
    Ok(())
}

/// Elements of an SVG of one nesting level: the attributes of each, and its text.
fn elements<'a>(svg: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let parts = svg.split('<').filter_map(|part| part.strip_prefix(name)?.strip_prefix(' '));
    parts.filter_map(|part| part.split_once('>')).map(|(element, text)| (element, text.trim())).collect()
}

fn attribute(element: &str, name: &str) -> Result<f64> {
    let value = element.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    Ok(value.with_context(|| format!("{name} in {element}"))?.0.parse()?)
}

/// As far as it matters here: one root, elements closed, everything escaped, nothing outside the picture.
fn well_formed(svg: &str) -> Result<()> {
    ensure!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    ensure!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\""), "no name space");
    for part in svg.split('<').skip(1) {
        let (element, text) = part.split_once('>').context("an open end")?;
        let closes = element.starts_with('/') || element.ends_with('/');
        ensure!(closes || element.starts_with("svg ") || element.starts_with("text "), "<{element}>");
        ensure!(
            element.matches('"').count() % 2 == 0 && !text.contains(['"', '\'', '>']),
            "<{element}>{text}"
        );
        for entity in part.split('&').skip(1) {
            ensure!(
                ["lt;", "gt;", "amp;", "quot;", "apos;"].iter().any(|known| entity.starts_with(known)),
                "&{entity}"
            );
        }
    }
    ensure!(svg.matches("<text ").count() == svg.matches("</text>").count(), "text is not closed");
    ensure!(!svg.contains(|letter: char| letter.is_control() && letter != '\n'), "a control character");
    let root = elements(svg, "svg")[0].0;
    let (width, height) = (attribute(&format!(" {root}"), "width")?, attribute(root, "height")?);
    for (element, _) in elements(svg, "rect").into_iter().chain(elements(svg, "text")) {
        let element = format!(" {element}");
        let (x, y) = (attribute(&element, "x")?, attribute(&element, "y")?);
        let sizes =
            (attribute(&element, "width").unwrap_or(0.0), attribute(&element, "height").unwrap_or(0.0));
        ensure!(x >= 0.0 && y >= 0.0 && sizes.0 >= 0.0 && sizes.1 >= 0.0, "<{element}>");
        ensure!(x + sizes.0 <= width && y + sizes.1 <= height, "<{element}> outside {width} x {height}");
    }
    Ok(())
}

/// Widths of the bars by time on the device, from top to bottom.
fn bars(svg: &str) -> Result<Vec<f64>> {
    bars_of(svg, "#2F6FB5")
}

fn bars_of(svg: &str, color: &str) -> Result<Vec<f64>> {
    let bars = elements(svg, "rect").into_iter().filter(|(element, _)| element.contains(color));
    bars.map(|(element, _)| attribute(element, "width")).collect()
}

#[test]
fn a_chart_has_every_rung_and_what_it_was_measured_on() -> Result<()> {
    let (svg, printed) = drawn(text(&ladder(LENGTH)), &[])?;
    assert_eq!(printed, "");
    let texts: Vec<&str> = elements(&svg, "text").into_iter().map(|(_, text)| text).collect();
    for line in &ladder(LENGTH)[2..] {
        let escaped = |field: &str| {
            let text = line[field].as_str().unwrap_or_default();
            text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
        };
        assert!(texts.contains(&escaped("rung").as_str()), "{line}: {texts:?}");
        assert!(texts.contains(&escaped("name").as_str()), "{line}: {texts:?}");
    }
    for needed in [
        "Dot product of two vectors of 268,435,456 (2^28) f32",
        "NVIDIA H200, vulkan, NVIDIA 580.159.04 · nearfield 0.1.0 · 2026-11-21",
        "Bytes read per second of time on the device, with its share of the device copy; \
         light: of time from call to result; logarithmic",
        "device copy, 4.07 TB/s",
        "2.15 GB/s · 0.0528 %",
        "4.47 TB/s · 110 %",
        "not run: needs subgroup operations",
        "1 TB/s",
    ] {
        assert!(texts.contains(&needed), "{needed}: {texts:?}");
    }
    // White, whatever the page is.
    let ground = elements(&svg, "rect")[0].0;
    assert!(
        ground.contains("fill=\"#FFFFFF\"") && ground.starts_with("x=\"0\" y=\"0\" width=\"960\""),
        "{ground}"
    );
    assert!(!svg.contains("font-family=\"sans\"") && svg.contains("font-family=\"sans-serif\""));
    Ok(())
}

#[test]
fn bars_are_as_long_as_rates_are_high() -> Result<()> {
    let widths = bars(&drawn(text(&ladder(LENGTH)), &[])?.0)?;
    assert_eq!(widths.len(), 13);
    assert!(widths.is_sorted() && widths[0] > 0.0, "{widths:?}");
    // Each rung but the one after the gap is 1.8 times as fast as the one before: the axis is logarithmic.
    for pair in widths[..12].windows(2) {
        assert!((pair[1] - pair[0] - (widths[1] - widths[0])).abs() <= 1.0, "{widths:?}");
    }
    // In the order of the file.
    let mut lines = ladder(LENGTH);
    lines[2..].reverse();
    let mut reversed = bars(&drawn(text(&lines), &[])?.0)?;
    reversed.reverse();
    assert_eq!(widths, reversed);
    Ok(())
}

#[test]
fn a_bar_at_the_ceiling_ends_at_its_line() -> Result<()> {
    let (svg, _) = drawn(text(&[device(), rung("a", "copies", LENGTH, 8.0 * LENGTH as f64 / COPY)]), &[])?;
    let lines = elements(&svg, "polyline").into_iter().map(|(element, _)| element);
    let ceiling = lines.filter(|line| line.contains("stroke-width=\"2\"")).collect::<Vec<_>>();
    assert_eq!(ceiling.len(), 1);
    let bar = elements(&svg, "rect").into_iter().find(|(element, _)| element.contains("#2F6FB5"));
    let bar = format!(" {}", bar.context("a bar")?.0);
    let end = attribute(&bar, "x")? + attribute(&bar, "width")?;
    assert!(ceiling[0].contains(&format!("points=\"{end},")), "{ceiling:?} {end}");
    Ok(())
}

#[test]
fn the_chart_is_of_the_largest_length_and_the_table_of_all() -> Result<()> {
    let mut lines = ladder(LENGTH);
    lines.extend(ladder(1000));
    let (svg, table) = drawn(text(&lines), &["--table"])?;
    assert!(svg.contains("268,435,456 (2^28) f32") && !svg.contains("of 1,000 f32"));
    assert_eq!(bars(&svg)?.len(), 13);
    let heads: Vec<&str> = table.lines().filter(|line| line.starts_with("Dot product")).collect();
    let on = "(NVIDIA H200, vulkan, NVIDIA 580.159.04 · nearfield 0.1.0 · 2026-11-21):";
    assert_eq!(
        heads,
        [
            format!("Dot product of two vectors of 268,435,456 (2^28) f32 {on}"),
            format!("Dot product of two vectors of 1,000 f32 {on}"),
        ]
    );
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 * (2 + 14));
    let head = "| rung | what | device time | wall time | bytes/s | share of copy | \
        error (relative to sum of \\|a b\\|) |";
    assert_eq!(rows[0], head);
    assert_eq!(rows[2], "| a | one invocation | 1.00 s | 1.00 s | 2.15 GB/s | 0.0528 % | 1.20e-8 |");
    assert!(rows[4].starts_with("| c | tree of \\<pairs> & \"lanes\" |"), "{}", rows[4]);
    assert_eq!(rows[5], "| d | tree \\| no conflicts | 171 ms | 172 ms | 12.5 GB/s | 0.308 % | 1.20e-8 |");
    assert_eq!(rows[14], "| i | step 12 | not run: needs subgroup operations | | | | |");
    assert_eq!(rows[15], "| j | step 13 | 480 µs | 530 µs | 4.47 TB/s | 110 % | 1.20e-8 |");
    assert_eq!(rows[18], "| a | one invocation | 3.73 µs | 53.7 µs | 2.15 GB/s | 0.0528 % | 1.20e-8 |");
    Ok(())
}

#[test]
fn light_bars_are_by_wall_clock() -> Result<()> {
    // The host does most of it, as where it adds what a kernel multiplied.
    let mut slow = rung("a", "host adds", LENGTH, 0.001);
    slow["ms"] = json!(1000.0);
    let even = rung("b", "as slow on the device", LENGTH, 1.0);
    let (svg, _) = drawn(text(&[device(), slow, even]), &[])?;
    let (dark, light) = (bars(&svg)?, bars_of(&svg, "#9CC0E4")?);
    assert_eq!((dark.len(), light.len()), (2, 2), "{svg}");
    assert!(dark[0] > 3.0 * dark[1] && light[0] == dark[1], "{dark:?} {light:?}");
    Ok(())
}

#[test]
fn without_times_of_the_device_bars_are_by_wall_clock() -> Result<()> {
    let mut lines = ladder(LENGTH);
    for line in lines.iter_mut().filter(|line| !line["ms"].is_null()) {
        // Rates are then those of the wall clock.
        line["device_ms"] = Value::Null;
        line["ms"] = json!(8e3 * LENGTH as f64 / line["bytes_per_s"].as_f64().context("a rate")?);
    }
    let (svg, table) = drawn(text(&lines), &["--table"])?;
    assert_eq!((bars(&svg)?.len(), bars_of(&svg, "#9CC0E4")?.len()), (13, 0));
    assert!(svg.contains("of wall-clock time") && svg.contains("2.15 GB/s · 0.0528 %"), "{svg}");
    assert!(table.contains("| a | one invocation |  | 1.00 s | 2.15 GB/s | 0.0528 % | 1.20e-8 |"), "{table}");
    // The rates may be absent, too.
    for line in &mut lines {
        if let Some(fields) = line.as_object_mut().filter(|fields| fields.contains_key("ms")) {
            for field in ["device_ms", "bytes_per_s", "share_of_copy", "error"] {
                fields.remove(field);
            }
        }
    }
    let (again, table) = drawn(text(&lines), &["--table"])?;
    assert_eq!(svg, again);
    assert!(table.contains("| a | one invocation |  | 1.00 s |  |  |  |"), "{table}");
    // One rung that has times of the device decides for all.
    let last = lines.len() - 1;
    lines[last] = rung("j", "timed", LENGTH, 0.001);
    let (svg, _) = drawn(text(&lines), &[])?;
    assert_eq!(bars(&svg)?.len(), 1);
    assert_eq!(svg.matches("not timed on the device").count(), 12);
    Ok(())
}

#[test]
fn what_is_not_known_is_left_out() -> Result<()> {
    // No device, nothing that ran, and fields that nobody has heard of.
    let alone =
        json!({"record": "rung", "rung": "a", "name": "none", "length": 7, "not_run": "no reason", "x": [1]});
    let (svg, table) = drawn(format!("\n{alone}\n\n"), &["--table"])?;
    assert!(svg.contains("not run: no reason") && !svg.contains("device copy"), "{svg}");
    assert!(table.starts_with("Dot product of two vectors of 7 f32:\n"), "{table}");
    // An answer that was not right has no speed.
    let mut wrong = rung("b", "wrong", LENGTH, 0.1);
    wrong["verified"] = json!(false);
    let (svg, table) = drawn(text(&[device(), wrong]), &["--table"])?;
    assert!(bars(&svg)?.is_empty() && svg.contains("not verified"), "{svg}");
    assert!(table.ends_with("| b | wrong | not verified | | | | |\n"), "{table}");
    Ok(())
}

#[test]
fn numbers_and_names_may_be_strange() -> Result<()> {
    let long = "many words ".repeat(50);
    let mut lines = vec![device()];
    let rates = [f64::MIN_POSITIVE, 1e-30, 1.0, 999.6, 1e30, f64::MAX];
    for (number, rate) in rates.into_iter().enumerate() {
        let letter = format!("{long}{number}");
        let mut line = rung(&letter, &format!("{long}\u{7}\n\u{ffff}"), u64::MAX, 1.0);
        line["bytes_per_s"] = json!(rate);
        lines.push(line.clone());
        line["length"] = json!(1u64 << 63);
        line["bytes_per_s"] = Value::Null;
        line["device_ms"] = Value::Null;
        line["ms"] = json!(1e-307);
        lines.push(line);
    }
    let (svg, table) = drawn(text(&lines), &["--table"])?;
    assert_eq!(bars(&svg)?.len(), 6);
    assert!(svg.contains("1.00 kB/s"), "999.6 is a thousand to three digits");
    assert_eq!(table.lines().count(), 2 * (2 + 2 + 6) + 1);
    lines.retain(|line| line["bytes_per_s"].is_null());
    assert_eq!(bars(&drawn(text(&lines), &[])?.0)?.len(), 6);
    Ok(())
}

#[test]
fn bad_lines_are_told_with_their_number() -> Result<()> {
    let good = text(&ladder(LENGTH));
    let with = |field: &str, value: Value| {
        let mut line = rung("z", "bad", LENGTH, 1.0);
        line[field] = value;
        format!("{good}{line}\n")
    };
    let mut other = device();
    other["adapter"] = json!("another");
    let none = text(&[device(), json!({"record": "case"})]);
    let cases: Vec<(String, &[&str])> = vec![
        (String::new(), &["lines.jsonl: ", "found no rung"]),
        (none, &["lines.jsonl: ", "found no rung"]),
        ("what?\n".into(), &["lines.jsonl, line 1: ", "needed JSON"]),
        (format!("{good}{{\"record\": \"rung\", \n"), &["lines.jsonl, line 17: ", "needed JSON"]),
        (format!("\n\n[1]\n{good}"), &["lines.jsonl, line 3: ", "needed a JSON object"]),
        (with("rung", Value::Null), &["line 17: ", "rung: needed a letter"]),
        (with("name", json!(3)), &["line 17: ", "name: needed text, found 3"]),
        (with("length", json!(-1)), &["line 17: ", "length: needed a whole number above 0"]),
        (with("length", json!(0)), &["line 17: ", "length: needed a whole number above 0"]),
        (with("ms", Value::Null), &["line 17: ", "ms: needed a number above 0, found none"]),
        (with("ms", json!(0)), &["line 17: ", "ms: needed a number above 0, found 0"]),
        (with("device_ms", json!("fast")), &["line 17: ", "device_ms: needed a number, found \"fast\""]),
        (with("device_ms", json!(-1)), &["line 17: ", "device_ms: needed no number below 0"]),
        (with("bytes_per_s", json!(-1.0)), &["line 17: ", "bytes_per_s: needed a number above 0"]),
        (with("error", json!(-1.0)), &["line 17: ", "error: needed no number below 0"]),
        (with("rung", json!("h4")), &["line 17: ", "h4 is on line 12 too"]),
        (format!("{good}{other}\n"), &["line 17: ", "needed one device"]),
    ];
    for (lines, parts) in cases {
        let (directory, output) = draw(&lines, &["--table"])?;
        failed(directory.path(), &output, parts).with_context(|| lines.clone())?;
    }
    let (directory, output) = draw([0xff, 0xfe], &[])?;
    failed(directory.path(), &output, &["lines.jsonl: "])
}

#[test]
fn bad_arguments_are_told_in_one_line() -> Result<()> {
    let directory = TempDir::new()?;
    let directory = directory.path();
    fs::write(directory.join("lines.jsonl"), text(&ladder(LENGTH)))?;
    fs::write(directory.join("lines.svg"), text(&ladder(LENGTH)))?;
    fs::create_dir(directory.join("folder.svg"))?;
    let cases: [(&[&str], &[&str]); 7] = [
        (&["none.jsonl", "chart.svg"], &["none.jsonl: "]),
        (&["folder.svg", "chart.svg"], &["folder.svg: "]),
        (&["lines.jsonl", "no/where/chart.svg"], &["CHART", "no/where/chart.svg", "no/where is not"]),
        (&["lines.jsonl", "chart.png"], &["CHART", "needed a name that ends in .svg"]),
        (&["lines.jsonl", "folder.svg"], &["CHART", "folder.svg is none"]),
        (&["lines.svg", "lines.svg"], &["CHART", "that of LINES"]),
        (&["lines.jsonl"], &["CHART"]),
    ];
    for (arguments, parts) in cases {
        let output = run(directory, arguments)?;
        failed(directory, &output, parts).with_context(|| format!("{arguments:?}"))?;
    }
    let help = run(directory, &["--help"])?;
    assert!(help.status.success());
    assert!(String::from_utf8(help.stdout)?.contains("nearfield bench draw ladder.jsonl ladder.svg --table"));
    Ok(())
}
