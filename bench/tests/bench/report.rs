//! `nearfield-bench report`, from the outside. It needs no adapter.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{failed, jsonl, succeeded};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

fn device() -> Value {
    json!({
        "record": "device", "schema": 1, "date": "2026-11-21", "time": "14:03:22", "adapter": "NVIDIA H200",
        "backend": "vulkan", "driver": "NVIDIA 580.159.04", "kind": "discrete", "threads": 16, "os": "linux",
        "version": "0.1.0", "revision": "2d0b2ea", "command": "nearfield-bench all --report out",
        "copy_bytes_per_s": 4.03e12, "read_bytes_per_s": 4.31e12, "flops_per_s": 6.23e13,
        "matrix_flops_per_s": 2.98e14, "latency_ms": 0.021, "copy_curve": [[65536, 4.1e10], [1 << 30, 4.03e12]],
        "read_curve": [[65536, 4.3e10], [1 << 30, 4.31e12]],
    })
}

/// A line with fields of its own.
fn with(mut line: Value, own: Value) -> Value {
    if let (Some(line), Some(own)) = (line.as_object_mut(), own.as_object()) {
        line.extend(own.clone());
    }
    line
}

/// A case with the figures of every suite, and fields of its own.
fn case(suite: &str, name: &str, own: Value) -> Value {
    let line = json!({
        "record": "case", "suite": suite, "case": name, "runs": 10, "ms": 82.061, "ms_least": 81.669,
        "ms_most": 82.887, "device_ms": 80.1, "verified": true, "rotated": 1, "bytes": 15_360_000_000u64,
        "operations": 15_360_000_000_000u64, "intensity": 1000.0, "bytes_per_s": 1.918e11,
        "operations_per_s": 1.918e14, "bound": "matrices", "share": 0.643,
    });
    with(line, own)
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

fn serve(threads: u64) -> Value {
    let own = json!({
        "rows": 1_000_000, "dim": 768, "lists": null, "probes": null, "queries": 1, "k": 10, "metric": "cosine", "data": "embedding",
        "screened": true, "scratch": 1 << 28, "threads": threads, "rate": null, "joined": true, "p90_ms": 1.5, "p99_ms": 2.75,
        "p999_ms": 3.5, "queries_per_s": 40_000.0, "together": 31.5, "late": 0, "histogram": [[0.5, 0.25], [0.63, 0.75]],
    });
    case("serve", &format!("1000000x768 {threads} threads"), own)
}

fn reduce() -> Value {
    let own = json!({
        "operation": "dot", "elements": "f32", "summation": "plain", "length": 1 << 28, "row_length": null,
        "error": 3.4e-8, "share_of_copy": 1.121, "bound": "read",
    });
    case("reduce", "dot f32 plain", own)
}

fn peer(own: Value) -> Value {
    let line = json!({
        "record": "peer", "suite": "exact", "peer": "torch", "rows": 1_000_000, "dim": 768, "queries": 10_000,
        "k": 10, "metric": "cosine", "ms": 164.122, "queries_per_s": 60_930.0, "recall": 1.0, "verified": 4,
    });
    with(line, own)
}

/// Lines of every suite.
fn everything() -> Vec<Value> {
    vec![
        device(),
        json!({"record": "suite", "suite": "exact", "command": "nearfield-bench exact --count 1000000"}),
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
        serve(1),
        serve(64),
    ]
}

fn run(directory: &Path, arguments: &[&str]) -> Result<Output> {
    PROGRAM.run_words(directory, &[&["report"], arguments].concat())
}

/// The report of some lines on standard output.
fn report(lines: &[Value], options: &[&str]) -> Result<String> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("lines.jsonl"), jsonl(lines))?;
    succeeded(run(directory.path(), &[&["lines.jsonl"], options].concat())?)
}

/// The HTML page of some lines.
fn page(lines: &[Value]) -> Result<String> {
    let html = report(lines, &[])?;
    well_formed(&html)?;
    Ok(html)
}

/// Checks that elements nest, text is escaped, links have targets, no script runs and nothing is fetched.
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
    // Every link has one target.
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
    "Exact search",
    "Inverted lists",
    "Many callers",
    "Other libraries",
    "Reductions",
    "Selection",
    "Distance matrix",
    "GPU or host",
    "What the device can do",
    "Uploads and missing cases",
];

#[test]
fn a_page_shows_key_figures_then_every_section() -> Result<()> {
    let html = page(&everything())?.replace('\u{a0}', " ");
    assert_eq!(headings(&html), HEADINGS);
    for needed in [
        "<h1>nearfield on NVIDIA H200</h1>",
        "NVIDIA H200, vulkan, NVIDIA 580.159.04, discrete, linux, 16 threads",
        "nearfield 0.1.0 · revision 2d0b2ea · 2026-11-21 14:03:22 UTC",
        "<pre>nearfield-bench all --report out</pre>",
        "<strong>121,900 queries/s</strong>\n<span>exact search, 10,000 queries, 1,000,000 × 768, k = 10, 64 % of matrix units",
        "<strong>509,250 queries/s</strong>\n<span>inverted lists at a recall of 0.961",
        "<strong>1 of 2</strong>\n<span>sizes at which the GPU is faster",
        "<strong>1 of 1</strong>\n<span>comparisons with other libraries",
        "All 15 cases verified before they were timed.",
        "Not run: exact 10000000x768 (--budget was spent); rung i (needs subgroup operations).",
        "<p class=\"problem\">Failed, which ended the run: ivf probes 16 (a timed search differs).</p>",
        "<pre>nearfield-bench exact --count 1000000</pre>",
        "They ran on NVIDIA H200, 580.159.04, 16 threads, Python 3.12.3, torch 2.11.0.",
        "<b>82.061</b></td><td class=\"number\">164.122</td>",
        "needs cuVS",
        "<th scope=\"col\" class=\"number\">p99, ms</th>",
        ">31.5</td>",
        "0.082 / 0.010 *",
    ] {
        assert!(html.contains(needed), "{needed}: {html}");
    }
    for caption in [
        "Exact search, queries per second",
        "Queries per second by batch size",
        "Queries per second by number of rows",
        "Time by number of dimensions",
        "Queries per second by recall",
        "Queries per second by threads",
        "Latencies: the part of searches in each tenth of a decade",
        "The ladder of the dot product",
        "Bytes read per second by k",
        "Bandwidth by size of the working set",
        "Roofline: operations per second by intensity",
    ] {
        assert_eq!(html.matches(&format!("<figcaption>{caption}</figcaption>")).count(), 1, "{caption}");
        assert_eq!(html.matches(&format!("aria-label=\"{caption}\"")).count(), 1, "{caption}");
    }
    Ok(())
}

#[test]
fn markdown_has_the_tables_of_the_page() -> Result<()> {
    let lines =
        [device(), exact(1_000_000, 768, 10_000), exact(1_000_000, 768, 1), peer(json!({"recall": 0.99}))];
    let markdown = report(&lines, &["--format", "markdown"])?;
    for needed in [
        "# nearfield on NVIDIA H200\n",
        "```sh\nnearfield-bench all --report out\n```\n",
        "- **121,900 queries/s**: exact search, ",
        "## Other libraries\n",
        "### Milliseconds of a call\n\n| suite | work | nearfield | torch |\n",
        "\n| Exact search | 1,000,000 × 768, 10,000 queries, k = 10, cosine, embedding | **82.061** | 164.122 (0.9900) |\n",
        "## Exact search\n",
        "All rows: 1,000,000 × 768, k = 10, cosine, embedding.\n\n| queries | time, ms | queries/s | of ceiling | least – most |",
        "\n|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        "\n| 10,000 | 82.061 | 121,900 | 64 % of matrix units | 81.669 – 82.887 | 80.100 | 62.976 | 15.667 |\n",
    ] {
        assert!(markdown.contains(needed), "{needed}: {markdown}");
    }
    assert!(!markdown.contains("<svg"), "{markdown}");
    // Text stays inside its cell.
    let mut lines = everything();
    lines[19]["reason"] = json!("a | b\n<i> *c*");
    let markdown = report(&lines, &["--format", "markdown"])?;
    assert!(markdown.contains("| exact | 10000000x768 | a \\| b \\<i> \\*c\\* |"), "{markdown}");
    Ok(())
}

#[test]
fn cases_that_differ_in_one_identity_field_stay_apart() -> Result<()> {
    let mut lines = vec![device()];
    for iterations in [2, 10] {
        lines.push(json!({"record": "build", "suite": "ivf", "lists": 4096, "iterations": iterations, "train_ms": 1.0}));
        lines.extend([ivf(1, 0.5), ivf(4, 0.9)].map(|line| with(line, json!({"iterations": iterations}))));
    }
    let html = page(&lines)?;
    // A series each, and a column in the tables of cases and of builds.
    assert!(html.contains(">2 iterations<") || html.contains("</i>2 iterations"), "{html}");
    assert_eq!(html.matches(">iterations</th>").count(), 2, "{html}");
    // A value that all cases share stands above their table, not in a column.
    assert_eq!(page(&lines[..4])?.matches(">iterations</th>").count(), 1);
    for scratch in [1 << 28, 1 << 30] {
        lines.push(with(breakeven(1000, "host"), json!({"scratch": scratch})));
    }
    let html = page(&lines)?;
    assert!(html.contains("256 MiB scratch</h3>") && html.contains("1 GiB scratch</h3>"), "{html}");
    // The first rows of a set and all its rows are points of one series, and rows of one table.
    let part = |line| with(line, json!({"data": "embedding of 1000000"}));
    let mut lines = vec![device(), part(exact(1000, 64, 1)), exact(1_000_000, 64, 1)];
    lines.extend([part(breakeven(1000, "host")), breakeven(1_000_000, "GPU")]);
    let html = page(&lines)?;
    assert!(html.contains("Queries per second by number of rows"), "{html}");
    assert_eq!(html.matches("embedding</h3>").count(), 1, "{html}");
    // Where rows go to another place, a line ends and another begins.
    lines = vec![device()];
    for (rows, places) in [(1000, ""), (2000, ""), (4000, "rows on the host"), (8000, "rows on the host")] {
        lines.push(with(exact(rows, 64, 1), json!({"places": places})));
    }
    let html = page(&lines)?;
    assert!(html.contains("</i>rows on one device") && html.contains("</i>rows on the host"), "{html}");
    // Of a repeated case the newest counts.
    let again = with(exact(1000, 64, 1), json!({"ms": 77.0}));
    let html = page(&[device(), exact(1000, 64, 1), again])?;
    assert!(html.contains(">77.000<") && !html.contains(">82.061<"), "{html}");
    Ok(())
}

/// The columns of the table of libraries and one of its rows, in Markdown.
fn compared<'m>(markdown: &'m str, row: &str) -> Result<[&'m str; 2]> {
    let (_, table) = markdown.split_once("### Milliseconds of a call\n\n").context("a table")?;
    let find = |start: &str| table.lines().find(|line| line.starts_with(start)).context("a line");
    Ok([find("| suite |")?, find(row)?])
}

#[test]
fn libraries_stand_beside_ours_in_one_table_and_in_the_chart_of_recall() -> Result<()> {
    let library = |name: &str, probes: u64, recall: f64, own: Value| {
        let mut line = with(
            ivf(probes, recall),
            json!({"record": "peer", "peer": name, "case": null, "screened": null, "ms_least": null}),
        );
        line["ms"] = json!(100.0 + probes as f64);
        with(line, own)
    };
    let graph = |width: u64, recall: f64| library("hnswlib", width, recall, json!({"lists": null}));
    let lines = [
        device(),
        exact(1_000_000, 768, 10_000),
        peer(json!({"peer": "faiss-cpu"})),
        ivf(1, 0.52),
        ivf(4, 0.961),
        library("faiss-cpu", 1, 0.5, json!({})),
        library("faiss-cpu", 4, 0.95, json!({})),
        graph(16, 0.9),
        graph(64, 0.99),
        reduce(),
        with(reduce(), json!({"record": "peer", "peer": "torch", "case": null, "device_ms": 70.0})),
    ];
    let markdown = report(&lines, &["--format", "markdown"])?;
    let [head, row] = compared(&markdown, "|  | 4,096 lists, 4 probes |")?;
    assert_eq!(head, "| suite | work | nearfield | faiss, CPU | hnswlib | torch |");
    assert_eq!(row, "|  | 4,096 lists, 4 probes | **82.061 (0.9610)** | 104.000 (0.9500) |  |  |");
    // Each width of a graph has a row, although it has no number of lists.
    for (width, times) in [(16, "116.000 (0.9000)"), (64, "164.000 (0.9900)")] {
        let row = format!("|  | width {width} |  |  | {times} |  |");
        assert!(markdown.contains(&row), "{row}: {markdown}");
    }
    // Kernels are compared by the clock of the device, where all have one.
    let [_, row] = compared(&markdown, "| Reductions, on the device |")?;
    assert!(row.ends_with("| **80.100** |  |  | 70.000 |"), "{row}");
    let html = page(&lines)?;
    let (_, chart) = html.split_once("<figcaption>Queries per second by recall<").context("a chart")?;
    let legend = chart.split("</ul>").next().unwrap_or_default();
    for name in ["</i>nearfield</li>", "</i>faiss, CPU</li>", "</i>hnswlib</li>"] {
        assert!(legend.contains(name), "{name}: {legend}");
    }
    Ok(())
}

#[test]
fn figures_of_a_busy_machine_are_marked() -> Result<()> {
    let with_least = |line: Value, least: f64| with(line, json!({"ms_least": least}));
    let lines = [
        with(device(), json!({"busy": 0.45})),
        with_least(exact(1000, 64, 10), 50.0),
        with_least(exact(1000, 64, 100), 60.0),
        // Latencies differ on a quiet machine, too.
        with_least(serve(64), 1.0),
        with_least(peer(json!({"rows": 1000, "dim": 64, "queries": 10})), 100.0),
    ];
    let html = page(&lines)?.replace('\u{a0}', " ");
    for part in [
        "<p class=\"problem\">Other programs used 45 % of the processor when the run began: times may be too long.</p>",
        "~ marks times of a busy machine, in 2 of 4 cases: the median is more than 1.5 times the least.",
        "<b>82.061 ~</b></td><td class=\"number\">164.122 ~</td>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(html.matches("82.061 ~").count(), 2, "in the table of cases and beside the library: {html}");
    let quiet = page(&[with(device(), json!({"busy": 0.05})), exact(1000, 64, 10)])?;
    assert!(!quiet.contains('~') && !quiet.contains("Other programs"), "{quiet}");
    Ok(())
}

#[test]
fn key_figures_are_of_files_where_files_were_searched() -> Result<()> {
    let of_files =
        with(exact(1000, 64, 10), json!({"data": "base.npy with query.npy", "queries_per_s": 77.0}));
    let html = page(&[device(), of_files, exact(1_000_000, 768, 10_000)])?;
    let (_, cards) = html.split_once("<ul class=\"cards\">").context("key figures")?;
    assert!(
        cards.starts_with("\n<li><strong>77 queries/s</strong>\n<span>exact search, 10 queries, 1,000 × 64"),
        "{cards}"
    );
    Ok(())
}

#[test]
fn a_page_names_the_processor() -> Result<()> {
    let processor = json!({"processor": "AMD EPYC 9654"});
    let html = page(&[with(device(), processor.clone()), exact(1000, 64, 10)])?;
    assert!(html.contains("discrete, AMD EPYC 9654, linux, 16 threads"), "{html}");
    let host = with(device(), json!({"adapter": "host, 16 threads", "kind": "host"}));
    let html = page(&[with(host.clone(), processor), exact(1000, 64, 10)])?;
    assert!(html.contains("<h1>nearfield on AMD EPYC 9654, 16 threads</h1>"), "{html}");
    // Lines of an older program do not tell, but peers do.
    let peers = json!({"record": "peers", "adapter": "AMD EPYC 9654", "cpu": "AMD EPYC 9654", "threads": 16});
    let html = page(&[host, exact(1000, 64, 10), peers])?;
    assert!(html.contains("<h1>nearfield on AMD EPYC 9654, 16 threads</h1>"), "{html}");
    Ok(())
}

#[test]
fn what_was_not_measured_has_no_section() -> Result<()> {
    let alone: [(Value, &[&str]); 6] = [
        (exact(1000, 64, 10), &["Exact search", "What the device can do"]),
        (ivf(1, 0.5), &["Inverted lists", "What the device can do"]),
        (select(4), &["Selection", "What the device can do"]),
        (distance(1000), &["Distance matrix", "What the device can do"]),
        (peer(json!({})), &["Other libraries"]),
        (
            json!({"record": "not_run", "suite": "ivf", "case": "x", "reason": "y"}),
            &["Uploads and missing cases"],
        ),
    ];
    for (line, sections) in alone {
        let html = page(&[json!({"record": "device", "adapter": "tiny"}), line.clone()])?;
        assert_eq!(headings(&html), sections, "{line}");
    }
    // A single number of rows is no series over rows.
    let html = page(&[device(), exact(1000, 64, 10), exact(1000, 64, 100)])?;
    assert!(html.contains("Queries per second by batch size") && !html.contains("Time by number of"));
    Ok(())
}

#[test]
fn text_in_a_file_stays_text_on_the_page() -> Result<()> {
    let bad = "<script>alert('\"&')</script>\u{7}\u{ffff}";
    for field in ["adapter", "driver", "command", "version", "date"] {
        let mut lines = everything();
        lines[0][field] = json!(bad);
        let html = page(&lines)?;
        assert!(html.contains("&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;"), "{field}");
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
    assert!(page(&lines)?.contains(">&lt;script&gt;"));
    Ok(())
}

#[test]
fn any_field_may_be_missing_or_strange() -> Result<()> {
    let all = everything();
    let fields: BTreeSet<&String> =
        all.iter().filter_map(Value::as_object).flat_map(|line| line.keys()).collect();
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
    for value in strange {
        // Each field has the value in all lines of a device of its own.
        let mut lines = vec![];
        for field in fields.iter().filter(|field| field.as_str() != "record") {
            let mut changed = everything();
            for line in &mut changed {
                if line.get(field).is_some() {
                    line[field.as_str()] = value.clone();
                }
            }
            changed[0]["adapter"] = json!(format!("strange {field}"));
            lines.extend(changed);
        }
        page(&lines).with_context(|| value.to_string())?;
    }
    // No field but the record.
    let bare: Vec<Value> = everything().iter().map(|line| json!({"record": line["record"]})).collect();
    page(&bare)?;
    Ok(())
}

#[test]
fn a_wrong_answer_is_shown_without_its_speed() -> Result<()> {
    let mut wrong = exact(1_000_000, 768, 10_000);
    wrong["verified"] = json!(false);
    wrong["ms"] = json!(77.0);
    let html = page(&[device(), wrong, exact(1000, 64, 10)])?;
    assert!(html.contains("Wrong answers: 1 of 2 cases.") && html.contains(">WRONG<"), "{html}");
    assert!(!html.contains("77.000") && !html.contains("10,000 queries, 1,000,000 × 768"), "{html}");
    Ok(())
}

#[test]
fn every_device_has_its_own_figures() -> Result<()> {
    let directory = TempDir::new()?;
    let mut other = device();
    other["adapter"] = json!("Apple M3");
    let mut again = device();
    again["time"] = json!("15:00:00");
    fs::write(directory.path().join("1.jsonl"), jsonl(&[device(), exact(1000, 64, 10)]))?;
    fs::write(directory.path().join("2.jsonl"), jsonl(&[other, exact(1000, 64, 100)]))?;
    fs::write(directory.path().join("3.jsonl"), jsonl(&[again, exact(2000, 64, 10)]))?;
    let html = succeeded(run(directory.path(), &["1.jsonl", "2.jsonl", "3.jsonl"])?)?;
    well_formed(&html)?;
    assert!(html.contains("<title>nearfield on 2 devices</title>"));
    assert_eq!((html.matches("<article").count(), html.matches("<h1>").count()), (2, 2));
    let (first, second) = html.split_once("<article id=\"device-2\">").context("two devices")?;
    assert!(
        first.contains("Queries per second by number of rows")
            && first.contains("to 2026-11-21 15:00:00 UTC, 2 runs")
    );
    assert!(second.contains("Apple M3") && !second.contains("Queries per second by number of rows"));
    Ok(())
}

/// Widths of the bars of a chart, from top to bottom.
fn bars(svg: &str) -> Result<Vec<f64>> {
    let bars = svg
        .split("<rect ")
        .filter(|part| part.contains("fill=\"#2F7DD1\"") || part.contains("fill=\"#A3ABB5\""));
    let mut bars = bars
        .map(|bar| {
            let attribute = |name: &str| -> Result<f64> {
                let rest = bar.split_once(&format!("{name}=\"")).context("an attribute")?.1;
                Ok(rest.split('"').next().context("a value")?.parse()?)
            };
            Ok((attribute("y")?, attribute("width")?))
        })
        .collect::<Result<Vec<_>>>()?;
    bars.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    Ok(bars.into_iter().map(|(_, width)| width).collect())
}

#[test]
fn bars_are_as_long_as_rates_are_high() -> Result<()> {
    let rung = |name: &str, own: Value| {
        let line = json!({"record": "rung", "suite": "reduce", "rung": name, "name": "adds", "length": 1000, "ms": 1.0});
        with(line, own)
    };
    let lines = [
        device(),
        rung("a", json!({"bytes_per_s": 1e12, "share_of_copy": 0.25})),
        rung("b", json!({"bytes_per_s": 4e12})),
        rung("c", json!({"bytes_per_s": 4e12, "verified": false})),
        rung("d", json!({"not_run": "needs <subgroups>"})),
        // Three digits make this a thousand.
        rung("e", json!({"bytes_per_s": 999.6})),
        // Without timestamps of the device the wall clock counts.
        rung("f", json!({})),
    ];
    let svg = report(&lines, &["--chart", "ladder"])?;
    let bars = bars(&svg)?;
    assert!(bars.len() == 6 && (bars[1] - 4.0 * bars[0]).abs() <= 4.0, "{bars:?}");
    assert!(bars[2..].iter().all(|width| *width < 2.0), "{bars:?}");
    for needed in [
        "\nThe ladder of the dot product\n",
        "\nNVIDIA H200, two vectors of 1,000 f32\n",
        "\nvulkan · NVIDIA 580.159.04 · nearfield 0.1.0 · 2026-11-21\n",
        "\n1.00 TB/s · 25 %\n",
        "\nwrong answer\n",
        "\n1.00 kB/s\n",
        "\n8.00 MB/s\n",
        "\nnot run: needs &lt;subgroups&gt;\n",
        "\ndevice copy, 4.03 TB/s\n",
    ] {
        assert!(svg.contains(needed), "{needed}: {svg}");
    }
    Ok(())
}

#[test]
fn a_chart_file_joins_the_bars_of_several_devices() -> Result<()> {
    let mut other = device();
    other["adapter"] = json!("Apple M3");
    let rival = |name: &str, rate: f64| peer(json!({"peer": name, "queries_per_s": rate}));
    let lines = [
        device(),
        exact(1_000_000, 768, 10_000),
        rival("torch-f32", 60_950.0),
        other,
        exact(1_000_000, 768, 10_000),
        rival("faiss-cpu", 121_900.0),
    ];
    let svg = report(&lines, &["--chart", "exact-peers"])?;
    for needed in
        ["NVIDIA H200, 10,000 queries at a time", "Apple M3, 10,000", "PyTorch, f32", "faiss, CPU", "60,950"]
    {
        assert!(svg.contains(needed), "{needed}: {svg}");
    }
    let bars = bars(&svg)?;
    assert!(bars.len() == 4 && (bars[0] - 2.0 * bars[1]).abs() <= 2.0 && bars[2] == bars[3], "{bars:?}");
    // An SVG file shows itself in both color schemes.
    assert!(
        svg.starts_with("<svg ")
            && svg.contains("prefers-color-scheme")
            && svg.trim_end().ends_with("</svg>")
    );
    Ok(())
}

#[test]
fn our_own_page_is_replaced_and_any_other_is_kept() -> Result<()> {
    let directory = TempDir::new()?;
    let place = directory.path().join("page/index.html");
    let bench = |arguments: &[&str]| PROGRAM.run_words(directory.path(), arguments);
    let reduce = ["reduce", "--device", "host", "--length", "1000", "--runs", "3", "--report", "page"];
    succeeded(bench(&reduce)?)?;
    well_formed(&fs::read_to_string(&place)?)?;
    succeeded(bench(&reduce)?)?;
    fs::write(&place, "<h1>my garden</h1>")?;
    failed(&bench(&reduce)?, &["--report", "needed a directory without a page of others"])?;
    assert_eq!(fs::read_to_string(&place)?, "<h1>my garden</h1>");
    Ok(())
}

#[test]
fn bad_input_is_one_error_line() -> Result<()> {
    let directory = TempDir::new()?;
    let directory = directory.path();
    let good = jsonl(&everything());
    fs::write(directory.join("good.jsonl"), &good)?;
    fs::write(directory.join("empty.jsonl"), "\n")?;
    fs::write(directory.join("words.jsonl"), format!("{good}what?\n"))?;
    fs::write(directory.join("cut.jsonl"), &good[..good.len() - 9])?;
    fs::write(directory.join("other.jsonl"), "{\"name\": 3}\n")?;
    fs::write(directory.join("bytes.jsonl"), [0xff, 0xfe])?;
    let cases: [(&[&str], &[&str]); 13] = [
        (&["none.jsonl"], &["FILE", "none.jsonl: "]),
        (&["empty.jsonl"], &["FILE", "empty.jsonl: needed lines"]),
        (&["words.jsonl"], &["FILE", "words.jsonl, line 28: needed JSON"]),
        (&["cut.jsonl"], &["FILE", "cut.jsonl, line 27: needed JSON"]),
        (&["other.jsonl"], &["FILE", "other.jsonl, line 1: ", "`record`"]),
        (&["bytes.jsonl"], &["FILE", "bytes.jsonl: "]),
        (&["good.jsonl", "none.jsonl"], &["FILE", "none.jsonl: "]),
        (&["good.jsonl", "--output", "good.jsonl"], &["--output", "that of FILE"]),
        (&["good.jsonl", "--output", "empty.jsonl"], &["--output", "--force", "empty.jsonl"]),
        (&["good.jsonl", "--force"], &["--force", "--output"]),
        (&["good.jsonl", "--output", "no/where.html"], &["--output: no/where.html: "]),
        (&["good.jsonl", "--chart", "pie"], &["--chart: needed one of bandwidth, exact-dimensions, "]),
        (&["good.jsonl", "--chart", "ladder", "--format", "markdown"], &["--format"]),
    ];
    for (arguments, parts) in cases {
        failed(&run(directory, arguments)?, parts).with_context(|| format!("{arguments:?}"))?;
    }
    assert_eq!(fs::read_to_string(directory.join("good.jsonl"))?, good);
    succeeded(run(directory, &["good.jsonl", "--output", "page.html"])?)?;
    well_formed(&fs::read_to_string(directory.join("page.html"))?)?;
    let chart = ["good.jsonl", "--chart", "ladder", "--output", "page.html", "--force"];
    succeeded(run(directory, &chart)?)?;
    ensure!(fs::read_to_string(directory.join("page.html"))?.starts_with("<svg"));
    Ok(())
}
