//! `nearfield-bench report`, from the outside. It needs no adapter.

use std::fs;
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{failed, jsonl, succeeded};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

/// A line of figures as every suite has them, with fields of its own.
fn line(record: &str, suite: &str, own: Value) -> Value {
    let mut line = json!({
        "record": record, "suite": suite, "ms": 82.061, "ms_least": 81.669, "ms_most": 82.887, "device_ms": 80.1, "verified": 4,
        "queries_per_s": 121_900.0, "bytes_per_s": 1.918e11, "bound": "matrices", "share": 0.643, "rows": 1_000_000, "dim": 768,
    });
    line.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
    line
}

fn device(adapter: &str) -> Value {
    json!({
        "record": "device", "adapter": adapter, "backend": "vulkan", "kind": "discrete", "version": "0.1.0", "revision": "2d0b2ea",
        "date": "2026-11-21", "time": "14:03:22", "command": "nearfield-bench all --report out", "read_bytes_per_s": 4.31e12,
    })
}

fn exact(queries: u64, own: Value) -> Value {
    let mut line =
        line("case", "exact", json!({"queries": queries, "k": 10, "metric": "cosine", "scratch": 1 << 28}));
    line.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
    line
}

fn everything() -> Vec<Value> {
    let mut peer = exact(1, json!({"peer": "faiss-cpu", "recall": 0.99, "ms_least": 20.0}));
    peer["record"] = json!("peer");
    vec![
        device("NVIDIA H200"),
        json!({"record": "suite", "suite": "exact", "command": "nearfield-bench exact --count 1000000"}),
        exact(1, json!({})),
        exact(10_000, json!({"queries_per_s": 243_800.0})),
        line("case", "ivf", json!({"probes": 4, "recall": 0.961})),
        line("build", "ivf", json!({"lists": 4096, "train_ms": 256.0})),
        line("case", "serve", json!({"threads": 8, "p99_ms": 2.75})),
        line("case", "reduce", json!({"operation": "dot", "error": 3.4e-8, "share_of_copy": 1.121})),
        line("rung", "reduce", json!({"rung": "a", "length": 1000})),
        line("case", "select", json!({"k": 16})),
        line("case", "distance", json!({"queries": 10, "operations_per_s": 1.918e14})),
        line("case", "breakeven", json!({"host_ms": 0.01, "quicker": "host"})),
        line("upload", "exact", json!({})),
        line("case", "of tomorrow", json!({"case": "a | b"})),
        json!({"record": "not_run", "suite": "exact", "case": "10000000x768", "reason": "no time"}),
        json!({"record": "failed", "suite": "ivf", "case": "probes 16", "reason": "differs"}),
        json!({"record": "peers", "adapter": "NVIDIA H200", "python": "3.12.3", "versions": {"faiss-cpu": "1.15"}}),
        peer,
        json!({"record": "peer", "suite": "exact", "peer": "cuvs", "not_run": "needs <cuVS>"}),
    ]
}

fn run(directory: &Path, arguments: &[&str]) -> Result<Output> {
    PROGRAM.run_words(directory, &[&["report"], arguments].concat())
}

/// The report of some lines.
fn report(lines: &[Value], options: &[&str]) -> Result<String> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("lines.jsonl"), jsonl(lines))?;
    succeeded(run(directory.path(), &[&["lines.jsonl"], options].concat())?)
}

/// The page of some lines: elements nest, text is escaped, no script runs and nothing is fetched.
fn page(lines: &[Value]) -> Result<String> {
    let html = report(lines, &[])?;
    let alone = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for never in ["<script", "http:", "https:", "url(", "@import", "src=", "NaN", "inf\""] {
        ensure!(!alone.contains(never), "found {never}");
    }
    let (_, body) = html.split_once("</head>\n").context("a head")?;
    let mut open = vec!["html"];
    for part in body.split('<').skip(1) {
        let (element, text) = part.split_once('>').context("an open end")?;
        ensure!(!text.contains(['"', '\'']) && element.matches('"').count() % 2 == 0, "<{element}>{text}");
        match element.strip_prefix('/') {
            Some(name) => ensure!(open.pop() == Some(name), "</{name}> after {open:?}"),
            None if element.ends_with('/') => {}
            None => open.push(element.split(' ').next().unwrap_or_default()),
        }
    }
    ensure!(open.is_empty() && html.ends_with("</html>\n"), "{open:?} is left open");
    Ok(html)
}

#[test]
fn a_page_has_the_device_and_a_table_of_each_suite() -> Result<()> {
    let html = page(&everything())?;
    for needed in [
        "<h1>nearfield on NVIDIA H200</h1>",
        "<p>NVIDIA H200, vulkan, discrete</p>\n<p>nearfield 0.1.0, revision 2d0b2ea</p>\n<p>2026-11-21 14:03:22 UTC</p>",
        "<p>At best: reads 4.31 TB/s.</p>",
        "Other libraries ran on NVIDIA H200, Python 3.12.3, faiss-cpu 1.15.",
        "9 of 9 cases verified before they were timed.",
        "<p>Failed, which ended the run: ivf probes 16 (differs).</p>",
        "<pre>nearfield-bench all --report out\nnearfield-bench exact --count 1000000</pre>",
        "~ marks times of a busy machine",
        "<td>faiss-cpu</td><td class=\"number\">1</td>",
        "<td class=\"number\">82.061 ~</td>",
        "<td>needs &lt;cuVS&gt;</td>",
        "<p>Lines that this version does not know are left out: rung.</p>",
        "<td class=\"number\">64 % of matrices</td>",
    ] {
        assert!(html.contains(needed), "{needed}: {html}");
    }
    let titles: Vec<&str> = html.split("<h2>").skip(1).filter_map(|part| part.split('<').next()).collect();
    let wanted = "Exact search,Inverted lists,Building inverted lists,Many callers,Reductions,Selection,Distance matrix,GPU or host,Uploads,Other suites,Not run";
    assert_eq!(titles, wanted.split(',').collect::<Vec<_>>());
    Ok(())
}

#[test]
fn markdown_has_columns_of_what_differs() -> Result<()> {
    let all = report(&everything(), &["--markdown"])?;
    assert!(all.contains("| of tomorrow | a \\| b |") && !all.contains("<svg"), "{all}");
    let lines = [
        device("one"),
        exact(1, json!({})),
        exact(1, json!({"ms": 77.0})),
        exact(64, json!({"verified": false})),
    ];
    let text = report(&lines, &["--markdown"])?;
    // The newest of a repeated case counts, and a wrong answer has no speed.
    let wanted = "## Exact search\n\nrows 1,000,000, dim 768, k 10, metric cosine, scratch 256 MiB\n\n\
        | queries | ms | ms least | ms most | device ms | queries per s | share | answer |\n\
        | --: | --: | --: | --: | --: | --: | --: | --- |\n\
        | 1 | 77.000 | 81.669 | 82.887 | 80.100 | 121,900 | 64 % of matrices |  |\n\
        | 64 |  |  |  |  |  |  | WRONG |\n";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("\n\nWrong answers: 1 of 3 cases.\n\n"), "{text}");
    Ok(())
}

#[test]
fn bars_are_as_long_as_rates_are_high() -> Result<()> {
    let html = page(&[device("one"), exact(1, json!({})), exact(64, json!({"queries_per_s": 30_475.0}))])?;
    let widths: Vec<&str> = html.split("<rect ").skip(1).filter_map(|part| part.split('"').nth(5)).collect();
    assert_eq!(widths, ["400.0", "100.0"]);
    assert!(html.contains(">queries 64<") && html.contains(">30,475<"), "{html}");
    Ok(())
}

#[test]
fn every_device_has_its_own_figures() -> Result<()> {
    let mut again = device("one");
    again["time"] = json!("15:00:00");
    let lines =
        [device("one"), exact(1, json!({})), device("two"), exact(2, json!({})), again, exact(3, json!({}))];
    let html = page(&lines)?;
    let (first, second) = html.split_once("<h1>nearfield on two</h1>").context("two devices")?;
    assert!(first.contains("to 2026-11-21 15:00:00 UTC, 2 runs"), "{first}");
    let count = |html: &str| html.matches("<td class=\"number\">82.061</td>").count();
    assert_eq!((count(first), count(second)), (2, 1), "{html}");
    Ok(())
}

#[test]
fn any_field_may_be_missing_or_strange() -> Result<()> {
    let bad = "<script>alert('\"&')</script>\u{7}\u{ffff}";
    for value in [
        Value::Null,
        json!(0),
        json!(-1.5),
        json!(1e300),
        json!(1e-300),
        json!([[1, 2]]),
        json!(true),
        json!(bad),
    ] {
        let mut lines = everything();
        for line in &mut lines {
            for (name, field) in line.as_object_mut().context("an object")? {
                if !["record", "suite"].contains(&name.as_str()) {
                    *field = value.clone();
                }
            }
        }
        page(&lines).with_context(|| value.to_string())?;
    }
    page(&[json!({"record": "case"}), json!({"record": "device"})])?;
    Ok(())
}

#[test]
fn bad_input_is_one_error_line() -> Result<()> {
    let directory = TempDir::new()?;
    let directory = directory.path();
    let good = jsonl(&everything());
    let files: [(&str, &[u8]); 4] = [
        ("good.jsonl", good.as_bytes()),
        ("empty.jsonl", b"\n"),
        ("cut.jsonl", &good.as_bytes()[..good.len() - 9]),
        ("bytes.jsonl", &[0xff, 0xfe]),
    ];
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes)?;
    }
    for (arguments, parts) in [
        ("none.jsonl", &["FILE", "none.jsonl: "][..]),
        ("empty.jsonl", &["FILE", "empty.jsonl: needed lines"]),
        ("cut.jsonl", &["FILE", "cut.jsonl, line 19: needed JSON"]),
        ("bytes.jsonl", &["FILE", "bytes.jsonl: "]),
        ("good.jsonl --out good.jsonl", &["--out", "that of FILE"]),
        ("good.jsonl --out empty.jsonl", &["--out", "--force", "empty.jsonl"]),
        ("good.jsonl --force", &["--force", "--out"]),
        ("good.jsonl --out no/where.html", &["--out: no/where.html: "]),
    ] {
        failed(&PROGRAM.run(directory, &format!("report {arguments}"))?, parts)
            .with_context(|| arguments.to_owned())?;
    }
    succeeded(run(directory, &["good.jsonl", "--out", "empty.jsonl", "--force"])?)?;
    ensure!(fs::read_to_string(directory.join("empty.jsonl"))?.starts_with("<!DOCTYPE html>"));
    Ok(())
}
