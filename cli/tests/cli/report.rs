//! `nearfield bench report`, from the outside. It needs no adapter.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{self, failed, jsonl, succeeded};

fn device() -> Value {
    json!({
        "record": "device", "schema": 1, "date": "2026-11-21", "time": "14:03:22", "adapter": "NVIDIA H200",
        "backend": "vulkan", "driver": "NVIDIA 580.159.04", "kind": "discrete", "threads": 16, "os": "linux",
        "version": "0.1.0", "revision": "2d0b2ea", "command": "nearfield bench all --report out",
        "copy_bytes_per_s": 4.03e12, "read_bytes_per_s": 4.31e12, "flops_per_s": 6.23e13,
        "matrix_flops_per_s": 2.98e14, "latency_ms": 0.021, "copy_curve": [[65536, 4.1e10], [1 << 30, 4.03e12]],
        "read_curve": [[65536, 4.3e10], [1 << 30, 4.31e12]],
    })
}

/// A case of a suite with the figures that all have, and its own fields.
fn case(suite: &str, name: &str, own: Value) -> Value {
    let mut line = json!({
        "record": "case", "suite": suite, "case": name, "runs": 10, "ms": 82.061, "ms_least": 81.669,
        "ms_most": 82.887, "device_ms": 80.1, "verified": true, "rotated": 1, "bytes": 15_360_000_000u64,
        "operations": 15_360_000_000_000u64, "intensity": 1000.0, "bytes_per_s": 1.918e11,
        "operations_per_s": 1.918e14, "bound": "matrices", "share": 0.643,
    });
    if let (Some(line), Some(own)) = (line.as_object_mut(), own.as_object()) {
        line.extend(own.clone());
    }
    line
}

fn exact(rows: u64, dim: u64, queries: u64) -> Value {
    let own = json!({
        "rows": rows, "dim": dim, "queries": queries, "k": 10, "metric": "cosine", "data": "embedding",
        "queries_per_s": 121_900.0, "screened": true,
        "stages": {"screen_tile_coop": {"ms": 62.976, "passes": 230}, "collect": {"ms": 15.667, "passes": 250}},
    });
    case("exact", &format!("{rows}x{dim} q{queries}"), own)
}

fn ivf(probes: u64, recall: f64) -> Value {
    let own = json!({
        "rows": 1_000_000, "dim": 768, "lists": 4096, "probes": probes, "queries": 10_000, "k": 10,
        "metric": "cosine", "data": "embedding", "recall": recall, "queries_per_s": 2.037e6 / probes as f64,
        "device_queries_per_s": 2.492e6 / probes as f64, "scored_per_query": 1082.0, "stages": {},
    });
    case("ivf", &format!("probes {probes}"), own)
}

fn select(k: u64) -> Value {
    let own = json!({"rows": 100, "length": 1_000_000, "k": k, "values": "normal", "share_of_copy": 0.678});
    case("select", &format!("100x1000000 k{k}"), own)
}

fn distance(rows: u64) -> Value {
    let own = json!({"rows": rows, "dim": 768, "queries": 1000, "metric": "l2sq", "elements": "f16", "error": 0.21});
    case("distance", &format!("{rows}x768 f16"), own)
}

fn breakeven(rows: u64, quicker: &str) -> Value {
    let own = json!({
        "rows": rows, "dim": 384, "queries": 1, "k": 10, "metric": "cosine", "data": "embedding", "ms": 0.082,
        "host_ms": 0.01, "quicker": quicker, "copy": "host",
    });
    case("breakeven", &format!("{rows}x384"), own)
}

fn reduce() -> Value {
    let own = json!({
        "operation": "dot", "elements": "f32", "summation": "plain", "length": 1 << 28, "row_length": null,
        "error": 3.4e-8, "share_of_copy": 1.121, "bound": "read",
    });
    case("reduce", "dot f32 plain", own)
}

fn peer(own: Value) -> Value {
    let mut line = json!({
        "record": "peer", "suite": "exact", "peer": "torch", "rows": 1_000_000, "dim": 768, "queries": 10_000,
        "k": 10, "metric": "cosine", "ms": 164.122, "queries_per_s": 60_930.0, "recall": 1.0, "verified": 4,
    });
    if let (Some(line), Some(own)) = (line.as_object_mut(), own.as_object()) {
        line.extend(own.clone());
    }
    line
}

/// Lines of every suite.
fn everything() -> Vec<Value> {
    vec![
        device(),
        json!({"record": "suite", "suite": "exact", "command": "nearfield bench exact --rows 1000000"}),
        json!({"record": "upload", "suite": "exact", "rows": 1_000_000, "dim": 768, "ms": 318.17,
            "bytes_per_s": 9.655e9}),
        exact(1_000_000, 768, 10_000),
        exact(100_000, 768, 10_000),
        exact(1_000_000, 128, 10_000),
        exact(1_000_000, 768, 1),
        json!({"record": "build", "suite": "ivf", "rows": 1_000_000, "dim": 768, "lists": 4096,
            "metric": "cosine", "data": "embedding", "upload_ms": 239.9, "train_ms": 256.0, "add_ms": 304.4,
            "largest_list": 1064, "empty_lists": 0}),
        ivf(1, 0.52),
        ivf(4, 0.961),
        json!({"record": "rung", "suite": "reduce", "rung": "a", "name": "multiply, host adds",
            "length": 1 << 28, "runs": 10, "ms": 239.3, "device_ms": 3.389, "bytes_per_s": 6.336e11,
            "share_of_copy": 0.1561, "error": 2.4e-8, "verified": true}),
        json!({"record": "rung", "suite": "reduce", "rung": "i", "name": "subgroups", "length": 1 << 28,
            "not_run": "needs subgroup operations"}),
        reduce(),
        select(1),
        select(256),
        distance(1000),
        distance(100_000),
        breakeven(1000, "host"),
        breakeven(100_000, "GPU"),
        json!({"record": "not_run", "suite": "exact", "case": "10000000x768", "reason": "--budget was spent"}),
        json!({"record": "failed", "suite": "ivf", "case": "probes 16", "reason": "a timed search differs"}),
        json!({"record": "peers", "adapter": "NVIDIA H200", "driver": "580.159.04", "python": "3.12.3",
            "versions": {"torch": "2.11.0"}, "threads": 16, "date": "2026-11-21"}),
        peer(json!({})),
        peer(json!({"peer": "faiss", "dim": 100})),
        peer(json!({"peer": "cuvs", "ms": null, "not_run": "needs cuVS"})),
    ]
}

fn run(directory: &Path, arguments: &[&str]) -> Result<Output> {
    common::run(directory, &[&["bench", "report"], arguments].concat())
}

/// The page of some lines.
fn page(lines: &[Value]) -> Result<String> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("lines.jsonl"), jsonl(lines))?;
    let output = run(directory.path(), &["lines.jsonl", "--out", "page"])?;
    succeeded(output)?;
    let files = fs::read_dir(directory.path().join("page"))?.count();
    ensure!(files == 1, "needed a page and nothing else, found {files} files");
    let html = fs::read_to_string(directory.path().join("page/index.html"))?;
    well_formed(&html)?;
    Ok(html)
}

/// Elements are closed in the order in which they were opened, text is escaped, no program runs and nothing is fetched.
fn well_formed(html: &str) -> Result<()> {
    ensure!(html.starts_with("<!DOCTYPE html>\n<html") && html.ends_with("</html>\n"), "no whole page");
    let alone = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for never in ["<script", "http:", "https:", "url(", "@import", "src=", "NaN", "inf\""] {
        ensure!(!alone.contains(never), "found {never}");
    }
    let body = html.replacen("<!DOCTYPE html>", "", 1);
    let (head, body) = body.split_once("<body>").context("a body")?;
    ensure!(head.matches('<').count() == head.matches('>').count(), "{head}");
    let mut open = vec!["body"];
    for part in body.split('<').skip(1) {
        let (element, text) = part.split_once('>').context("an open end")?;
        ensure!(!text.contains(['"', '\'']) && element.matches('"').count() % 2 == 0, "<{element}>{text}");
        for entity in part.split('&').skip(1) {
            let known = ["lt;", "gt;", "amp;", "quot;", "apos;", "#39;"];
            ensure!(known.iter().any(|known| entity.starts_with(known)), "&{entity}");
        }
        let name = element.split([' ', '/']).find(|name| !name.is_empty()).unwrap_or_default();
        match element.strip_prefix('/') {
            Some("html") => {}
            Some(name) => ensure!(open.pop() == Some(name), "</{name}> after {open:?}"),
            None if element.ends_with('/') || matches!(name, "br" | "meta") => {}
            None => open.push(name),
        }
    }
    ensure!(open.is_empty(), "{open:?} is left open");
    ensure!(!html.contains(|letter: char| letter.is_control() && letter != '\n'), "a control character");
    // What links lead to is there, once.
    let names = |before: &str| -> Vec<&str> {
        body.split(before).skip(1).filter_map(|part| part.split('"').next()).collect()
    };
    let anchors = names(" id=\"");
    let known: BTreeSet<&str> = anchors.iter().copied().collect();
    ensure!(known.len() == anchors.len(), "an anchor is there twice");
    for link in names("href=\"#") {
        ensure!(known.contains(link), "#{link}");
    }
    Ok(())
}

fn headings(html: &str) -> Vec<&str> {
    html.split("<h2>").skip(1).filter_map(|part| Some(part.split_once("</h2>")?.0)).collect()
}

const HEADINGS: [&str; 10] = [
    "What the device can do",
    "Roofline",
    "Exact search",
    "Search in lists",
    "Reductions",
    "Selection",
    "Distance matrix",
    "Break-even of GPU and host",
    "Other libraries",
    "All cases",
];

#[test]
fn a_page_has_every_section_in_order_and_says_the_best_first() -> Result<()> {
    let html = page(&everything())?;
    assert_eq!(headings(&html), HEADINGS);
    for needed in [
        "<h1>nearfield on NVIDIA H200</h1>",
        "NVIDIA H200, vulkan, NVIDIA 580.159.04, discrete, linux, 16 threads",
        "nearfield 0.1.0 · revision 2d0b2ea · 2026-11-21 14:03:22 UTC",
        "<code>nearfield bench all --report out</code>",
        "Exact search, 10,000 queries over 1,000,000 × 768, k = 10: 121,900 queries a second, 64 % of the cooperative \
         matrices.",
        "Search in lists, 10,000 queries over 1,000,000 × 768: 509,250 queries a second at a recall of 0.961 (4 of \
         4,096 lists).",
        "The GPU is ahead of the host in 1 of 2 numbers of rows and queries.",
        "Quicker than other libraries in 1 of 1 comparisons of the same work.",
        "Verified before they were timed: all 13 cases.",
        "Not run: exact 10000000x768 (--budget was spent), rung i (needs subgroup operations).",
        "<li class=\"wrong\">Failed, which ended the run: ivf probes 16 (a timed search differs).</li>",
        "<td>ivf</td><td class=\"prose\">probes 16</td><td class=\"prose\">a timed search differs</td>",
        "Again: <code>nearfield bench exact --rows 1000000</code>",
        "Peers ran on NVIDIA H200, 580.159.04, 16 threads, Python 3.12.3, torch 2.11.0, 2026-11-21.",
        "<td class=\"n\">2.00 ×</td>",
        "needs cuVS",
        "<b>0.010 host</b>",
        "aria-label=\"Dot product of two vectors of 268,435,456 (2^28) f32\"",
    ] {
        assert!(html.contains(needed), "{needed}");
    }
    for caption in [
        "Bandwidth by the size of what is read or copied",
        "Operations a second over operations a byte",
        "Queries a second by the number of queries",
        "Time by the number of rows",
        "Time by the number of dimensions",
        "Where the time of a search goes",
        "Queries a second by recall",
        "Time by k",
        "Rate by the number of rows",
        "Time of the same work",
    ] {
        assert_eq!(html.matches(&format!("<figcaption>{caption}</figcaption>")).count(), 1, "{caption}");
    }
    Ok(())
}

#[test]
fn runs_that_differ_in_what_a_case_is_of_are_told_apart() -> Result<()> {
    let with = |mut line: Value, key: &str, value: Value| {
        line[key] = value;
        line
    };
    let mut lines = vec![device()];
    for iterations in [2, 10] {
        let build = json!({"record": "build", "suite": "ivf", "lists": 4096, "iterations": iterations});
        lines.push(build);
        lines.extend([ivf(1, 0.5), ivf(4, 0.9)].map(|line| with(line, "iterations", json!(iterations))));
    }
    let html = page(&lines)?;
    // A curve each, and a bar of stages; a column of both tables.
    assert!(html.matches(">2 iterations<").count() >= 1 && html.contains(">10 iterations<"), "{html}");
    assert_eq!(html.matches("<th scope=\"col\">iterations</th>").count(), 2, "{html}");
    // Where all are the same it need not be said.
    assert!(!page(&lines[..4])?.contains("2 iterations"));
    for scratch in [1 << 28, 1 << 30] {
        lines.push(with(breakeven(1000, "host"), "scratch", json!(scratch)));
        lines.push(with(exact(1000, 64, scratch >> 28), "scratch", json!(scratch)));
    }
    let html = page(&lines)?;
    assert!(html.contains("scratch 256 MiB</h3>") && html.contains("scratch 1 GiB</h3>"), "{html}");
    // The first rows of a set and all of them are points of one line over rows, and rows of one table.
    let part = |line| with(line, "data", json!("embedding of 1000000"));
    let lines = [device(), part(exact(1000, 64, 1)), exact(1_000_000, 64, 1), part(breakeven(1000, "host"))];
    let html = page(&[&lines[..], &[breakeven(1_000_000, "GPU")]].concat())?;
    assert!(html.contains("Time by the number of rows"), "{html}");
    assert_eq!(html.matches("class=\"pairs\"").count(), 1, "{html}");
    Ok(())
}

#[test]
fn what_was_not_measured_has_no_section() -> Result<()> {
    let alone: [(Value, &[&str]); 6] = [
        (exact(1000, 64, 10), &["Roofline", "Exact search", "All cases"]),
        (ivf(1, 0.5), &["Roofline", "Search in lists", "All cases"]),
        (select(4), &["Roofline", "Selection", "All cases"]),
        (distance(1000), &["Roofline", "Distance matrix", "All cases"]),
        (peer(json!({})), &["Other libraries"]),
        (json!({"record": "not_run", "suite": "ivf", "case": "x", "reason": "y"}), &["All cases"]),
    ];
    for (line, sections) in alone {
        let html = page(&[json!({"record": "device", "adapter": "tiny"}), line.clone()])?;
        assert_eq!(headings(&html), sections, "{line}");
    }
    // One number of rows is no line over rows.
    let html = page(&[device(), exact(1000, 64, 10), exact(1000, 64, 100)])?;
    assert!(
        html.contains("Queries a second by the number of queries") && !html.contains("Time by the number of")
    );
    Ok(())
}

#[test]
fn a_device_that_does_not_time_itself_has_its_wall_clock() -> Result<()> {
    let mut lines = everything();
    for line in &mut lines {
        if let Some(fields) = line.as_object_mut().filter(|fields| fields.contains_key("device_ms")) {
            fields.insert("device_ms".into(), Value::Null);
        }
    }
    let html = page(&lines)?;
    assert_eq!(headings(&html), HEADINGS);
    assert!(!html.contains("on the device,\u{a0}ms") && html.contains("time of a search, host to host"));
    Ok(())
}

#[test]
fn text_of_a_file_is_text_of_the_page() -> Result<()> {
    let bad = "<script>alert('\"&')</script>\u{7}\u{ffff}";
    for field in ["adapter", "driver", "command", "version", "date"] {
        let mut lines = everything();
        lines[0][field] = json!(bad);
        assert!(
            page(&lines)?.contains("&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;"),
            "{field}"
        );
    }
    let mut lines = everything();
    for line in &mut lines[1..] {
        for (name, field) in line.as_object_mut().context("an object")? {
            if field.is_string() && !["record", "suite"].contains(&name.as_str()) {
                *field = json!(bad);
            }
        }
        if !line["stages"].is_null() {
            line["stages"][bad] = json!({"ms": 1.0});
        }
    }
    page(&lines)?;
    let mut lines = vec![device(), exact(1000, 64, 1)];
    lines[1]["suite"] = json!(bad);
    assert!(page(&lines)?.contains("<h3>&lt;script&gt;"));
    Ok(())
}

#[test]
fn any_field_may_be_missing_or_strange() -> Result<()> {
    let fields: Vec<String> = everything()
        .iter()
        .filter_map(|line| Some(line.as_object()?.keys().cloned().collect::<Vec<_>>()))
        .flatten()
        .filter(|field| field != "record")
        .collect();
    let strange = [
        Value::Null,
        json!(0),
        json!(-1.5),
        json!(1e300),
        json!(1e-300),
        json!(u64::MAX),
        json!("many words ".repeat(60)),
        json!([[1, 2], [0, -1], ["x"], [1e308, 1e308]]),
        json!({"x": {"ms": -1e300}, "y": 3, "z": {"ms": 1e300}}),
        json!(true),
    ];
    let directory = TempDir::new()?;
    for value in strange {
        // All fields of that name at once, each in a file of its own: every one is a device of its own or belongs to the first.
        let mut files = vec![];
        for (number, field) in fields.iter().collect::<BTreeSet<_>>().into_iter().enumerate() {
            let mut lines = everything();
            for line in &mut lines {
                if line.get(field).is_some() {
                    line[field] = value.clone();
                }
            }
            lines[0]["adapter"] = json!(format!("without {field}"));
            let file = format!("{number}.jsonl");
            fs::write(directory.path().join(&file), jsonl(&lines))?;
            files.push(file);
        }
        let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
        arguments.extend(["--out", "page"]);
        let output = run(directory.path(), &arguments)?;
        ensure!(output.status.success(), "{value}: {}", String::from_utf8_lossy(&output.stderr));
        well_formed(&fs::read_to_string(directory.path().join("page/index.html"))?)
            .context(value.to_string())?;
    }
    // No field but the record.
    let bare: Vec<Value> = everything().iter().map(|line| json!({"record": line["record"]})).collect();
    page(&bare)?;
    Ok(())
}

#[test]
fn a_wrong_answer_is_told_and_has_no_speed() -> Result<()> {
    let mut wrong = exact(1_000_000, 768, 10_000);
    wrong["verified"] = json!(false);
    let html = page(&[device(), wrong, exact(1000, 64, 10)])?;
    assert!(html.contains("Wrong answers: 1 of 2 cases.") && html.contains(">WRONG<"));
    assert!(!html.contains("10,000 queries over 1,000,000 × 768"));
    Ok(())
}

#[test]
fn devices_are_not_mixed_and_runs_of_one_are() -> Result<()> {
    let directory = TempDir::new()?;
    let mut other = device();
    other["adapter"] = json!("Apple M3");
    let mut again = device();
    again["time"] = json!("15:00:00");
    fs::write(directory.path().join("1.jsonl"), jsonl(&[device(), exact(1000, 64, 10)]))?;
    fs::write(directory.path().join("2.jsonl"), jsonl(&[other, exact(1000, 64, 100)]))?;
    fs::write(directory.path().join("3.jsonl"), jsonl(&[again, exact(2000, 64, 10)]))?;
    let output = run(directory.path(), &["1.jsonl", "2.jsonl", "3.jsonl", "--out", "deep/page"])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(directory.path().join("deep/page/index.html"))?;
    well_formed(&html)?;
    assert!(html.contains("<title>nearfield on 2 devices</title>"));
    assert_eq!((html.matches("<article").count(), html.matches("<h1>").count()), (2, 2));
    let (first, second) = html.split_once("<article id=\"device-2\">").context("two devices")?;
    assert!(
        first.contains("Time by the number of rows") && first.contains("to 2026-11-21 15:00:00 UTC, 2 runs")
    );
    assert!(second.contains("Apple M3") && !second.contains("Time by the number of rows"));
    Ok(())
}

#[test]
fn a_page_of_ours_is_replaced_and_another_is_not() -> Result<()> {
    let directory = TempDir::new()?;
    let place = directory.path().join("index.html");
    fs::write(directory.path().join("1.jsonl"), jsonl(&[device(), exact(1000, 64, 10)]))?;
    fs::write(directory.path().join("2.jsonl"), jsonl(&[device(), exact(3000, 64, 10)]))?;
    assert!(run(directory.path(), &["1.jsonl", "--out", "."])?.status.success());
    assert!(run(directory.path(), &["2.jsonl", "--out", "."])?.status.success());
    assert!(fs::read_to_string(&place)?.contains("3,000"));
    fs::write(&place, "<h1>my garden</h1>")?;
    let output = run(directory.path(), &["2.jsonl", "--out", "."])?;
    failed(&output, &["--out", "needed a directory without a page of others"])?;
    assert_eq!(fs::read_to_string(&place)?, "<h1>my garden</h1>");
    Ok(())
}

#[test]
fn bad_input_is_told_in_one_line() -> Result<()> {
    let directory = TempDir::new()?;
    let directory = directory.path();
    let good = jsonl(&everything());
    fs::write(directory.join("good.jsonl"), &good)?;
    fs::write(directory.join("empty.jsonl"), "\n")?;
    fs::write(directory.join("words.jsonl"), format!("{good}what?\n"))?;
    fs::write(directory.join("cut.jsonl"), &good[..good.len() - 9])?;
    fs::write(directory.join("other.jsonl"), "{\"name\": 3}\n")?;
    fs::write(directory.join("bytes.jsonl"), [0xff, 0xfe])?;
    let cases: [(&[&str], &[&str]); 10] = [
        (&["none.jsonl", "--out", "page"], &["FILE", "none.jsonl: "]),
        (&["empty.jsonl", "--out", "page"], &["FILE", "empty.jsonl: needed lines"]),
        (&["words.jsonl", "--out", "page"], &["FILE", "words.jsonl, line 26: needed JSON"]),
        (&["cut.jsonl", "--out", "page"], &["FILE", "cut.jsonl, line 25: needed JSON"]),
        (&["other.jsonl", "--out", "page"], &["FILE", "other.jsonl, line 1: ", "`record`"]),
        (&["bytes.jsonl", "--out", "page"], &["FILE", "bytes.jsonl: "]),
        (&["good.jsonl", "none.jsonl", "--out", "page"], &["FILE", "none.jsonl: "]),
        (&["good.jsonl", "--out", "good.jsonl"], &["--out", "needed a directory, good.jsonl is none"]),
        (&["good.jsonl"], &["--out"]),
        (&["--out", "page"], &["FILE"]),
    ];
    for (arguments, parts) in cases {
        failed(&run(directory, arguments)?, parts).with_context(|| format!("{arguments:?}"))?;
        assert!(!directory.join("page").exists(), "{arguments:?}");
    }
    let below = run(directory, &["good.jsonl", "--out", "good.jsonl/page"])?;
    failed(&below, &["--out", "good.jsonl/page"])?;
    let help = run(directory, &["--help"])?;
    assert!(help.status.success());
    Ok(())
}
