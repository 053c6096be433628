//! `nearfield bench tables`, from the outside. It needs no adapter.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

fn device() -> Value {
    json!({
        "record": "device", "schema": 1, "date": "2026-11-21", "adapter": "A | B", "backend": "vulkan",
        "driver": "580", "kind": "discrete", "version": "0.1.0", "revision": "abc", "copy_bytes_per_s": 4.06e12,
        "latency_ms": 0.088,
    })
}

fn exact(queries: u64, k: u64, ms: f64) -> Value {
    json!({
        "record": "case", "suite": "exact", "case": format!("{queries} {k}"), "rows": 1_000_000, "dim": 768,
        "queries": queries, "k": k, "metric": "cosine", "data": "low-rank", "screened": true, "ms": ms,
        "ms_least": ms - 0.1, "ms_most": ms + 0.1, "queries_per_s": 1e3 * queries as f64 / ms,
        "stages": {"screen_scan_i8": {"ms": 0.25, "passes": 1}, "select": {"ms": 0.125, "passes": 1}},
        "bound": "read", "bytes_per_s": 3e12, "share": 0.75,
    })
}

fn reduce(operation: &str, summation: &str, row_length: Option<u64>, device_ms: f64) -> Value {
    json!({
        "record": "case", "suite": "reduce", "operation": operation, "elements": "f32", "summation": summation,
        "length": 1 << 20, "row_length": row_length, "ms": 0.5, "device_ms": device_ms, "bytes_per_s": 4e12,
        "share_of_copy": 1.0, "error": 1e-8,
    })
}

fn breakeven(rows: u64, queries: u64, copy: &str) -> Value {
    json!({
        "record": "case", "suite": "breakeven", "rows": rows, "dim": 384, "queries": queries, "k": 10,
        "metric": "cosine", "ms": 0.125, "host_ms": 0.25, "copy": copy,
    })
}

/// Lines of every suite in one file, as `bench all` writes them.
fn lines() -> Vec<Value> {
    let rung =
        json!({"record": "rung", "suite": "reduce", "rung": "a", "name": "adds", "length": 1024, "ms": 1.0});
    let peer = |name: &str, queries: u64, recall: f64| {
        json!({
            "record": "peer", "suite": "exact", "peer": name, "rows": 1_000_000, "dim": 768, "queries": queries,
            "k": 10, "metric": "cosine", "ms": 5.0, "recall": recall,
        })
    };
    vec![
        device(),
        json!({"record": "build", "suite": "ivf", "rows": 1000, "lists": 16, "iterations": 2, "train_ms": 0.25}),
        json!({"record": "build", "suite": "ivf", "rows": 1000, "lists": 16, "iterations": 10, "train_ms": 0.75}),
        json!({"record": "suite", "suite": "exact", "command": "nearfield bench exact --queries 1024,1"}),
        json!({"record": "upload", "suite": "exact", "rows": 1_000_000, "dim": 768, "bytes_per_s": 9.9e9}),
        exact(1024, 10, 8.0),
        exact(1, 10, 0.5),
        exact(1, 100, 1500.0),
        peer("torch-f32", 1024, 1.0),
        peer("torch-f16", 1024, 0.996),
        peer("torch-f16", 7, 0.5),
        reduce("sum", "plain", None, 0.25),
        reduce("dot", "plain", None, 0.5),
        reduce("sum", "compensated", None, 0.75),
        reduce("sum", "plain", Some(64), 0.25),
        reduce("min", "plain", Some(64), 0.125),
        breakeven(1000, 1, "host"),
        breakeven(1000, 8, "GPU"),
        breakeven(3000, 1, "GPU"),
        rung,
    ]
}

/// A directory with `figures/lines.jsonl` and a document.
fn directory(document: &str) -> Result<TempDir> {
    let directory = TempDir::new()?;
    fs::create_dir(directory.path().join("figures"))?;
    let text: String = lines().iter().map(|line| format!("{line}\n")).collect();
    fs::write(directory.path().join("figures/lines.jsonl"), &text)?;
    fs::write(directory.path().join("figures/again.jsonl"), text)?;
    fs::write(directory.path().join("doc.md"), document)?;
    Ok(directory)
}

/// Exit code and what was printed or complained about.
fn tables(directory: &Path, arguments: &[&str]) -> Result<(i32, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfield"));
    let output = command.current_dir(directory).args(["bench", "tables"]).args(arguments).output()?;
    let complaint = String::from_utf8(output.stderr)?;
    ensure!(complaint.lines().count() < 2 && output.stdout.is_empty() != complaint.is_empty(), "{complaint}");
    Ok((output.status.code().context("a code")?, String::from_utf8(output.stdout)? + &complaint))
}

fn block(request: &str) -> String {
    format!("<!-- table {request} -->\n<!-- end of table -->\n")
}

/// What `tables` puts between the comments.
fn filled(request: &str) -> Result<String> {
    let directory = directory(&block(request))?;
    let (code, said) = tables(directory.path(), &["doc.md"])?;
    ensure!(code == 0, "{said}");
    let text = fs::read_to_string(directory.path().join("doc.md"))?;
    let (_, rest) = text.split_once("-->\n\n").context("a start")?;
    Ok(rest.strip_suffix("\n\n<!-- end of table -->\n").context("an end")?.to_owned())
}

#[test]
fn committed_documents_have_the_tables_of_their_figures() -> Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (code, said) = tables(root, &["--check", "docs/performance.md", "docs/reductions.md"])?;
    ensure!(code == 0, "{said}");
    Ok(())
}

#[test]
fn tables_are_filled_in_place_and_the_rest_is_kept() -> Result<()> {
    let shown = "```text\n<!-- table what -->\n```\n~~~\n<!-- end of table -->\n~~~\n";
    let document =
        format!("# Title  \n\n{shown}\nText\n{}\tlast\u{a0}line", block("exact figures/lines.jsonl k=10"));
    let directory = directory(&document)?;
    let path = directory.path().join("doc.md");
    let (code, said) = tables(directory.path(), &["--check", "doc.md"])?;
    assert_eq!(code, 1);
    assert_eq!(
        said,
        "error: doc.md: out of date at line 11 (table exact): needed `nearfield bench tables doc.md`\n"
    );
    assert_eq!(fs::read_to_string(&path)?, document);
    assert_eq!(tables(directory.path(), &["doc.md"])?, (0, "doc.md: 1 table, 1 changed\n".to_owned()));
    let table = "\
| queries | ms (least .. most) | queries/s | scoring, ms | other stages, ms | reaches |
|---:|---:|---:|---:|---:|---:|
| 1,024 | 8.000 (7.900 .. 8.100) | 128,000 | 0.250 | 0.125 | 3.00 TB/s, 75.0 % of reads |
| 1 | 0.500 (0.400 .. 0.600) | 2,000 | 0.250 | 0.125 | 3.00 TB/s, 75.0 % of reads |
";
    let wanted = document
        .replace("-->\n<!-- end of table -->\n\t", &format!("-->\n\n{table}\n<!-- end of table -->\n\t"));
    assert_eq!(fs::read_to_string(&path)?, wanted);
    for arguments in [&["doc.md"][..], &["--check", "doc.md"]] {
        let said = tables(directory.path(), arguments)?;
        assert_eq!(said, (0, "doc.md: 1 table, 0 changed\n".to_owned()));
        assert_eq!(fs::read_to_string(&path)?, wanted);
    }
    // Nothing else is left in the directory.
    assert_eq!(fs::read_dir(directory.path())?.count(), 2);
    Ok(())
}

#[test]
fn lines_end_as_the_document_has_them() -> Result<()> {
    let document =
        format!("one\r\n\r\n{}two\r\n", block("commands figures/lines.jsonl").replace('\n', "\r\n"));
    let directory = directory(&document)?;
    assert_eq!(tables(directory.path(), &["doc.md"])?.0, 0);
    let text = fs::read_to_string(directory.path().join("doc.md"))?;
    let code = "```sh\r\nnearfield bench exact --queries 1024,1\r\n```";
    assert!(text.contains(&format!("-->\r\n\r\n{code}\r\n\r\n<!-- end")), "{text:?}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert_eq!(tables(directory.path(), &["--check", "doc.md"])?.0, 0);
    Ok(())
}

#[test]
fn devices_and_ladders_are_told() -> Result<()> {
    assert_eq!(
        filled("device figures/lines.jsonl columns=device,ceilings,upload")?,
        "2026-11-21, A \\| B, vulkan, 580, nearfield 0.1.0 (abc). Ceilings: a copy on the device (bytes read and \
         written) 4.06 TB/s, launch and readback 88.0 µs. Upload: 1,000,000 x 768 at 9.90 GB/s."
    );
    let ladder = filled("ladder figures/lines.jsonl length=1024")?;
    assert!(ladder.starts_with("Dot product of two vectors of 1,024 (2^10) f32 (A \\| B"), "{ladder}");
    assert!(ladder.ends_with("| a | adds |  | 1.00 ms |  |  |  |"), "{ladder}");
    Ok(())
}

#[test]
fn columns_and_rows_are_in_the_order_that_is_asked_for() -> Result<()> {
    assert_eq!(
        filled("exact figures/lines.jsonl sort=queries,k columns=k,ms,queries")?,
        "| k | ms | queries |\n|---:|---:|---:|\n| 10 | 0.500 | 1 |\n| 100 | 1,500 | 1 |\n| 10 | 8.000 | 1,024 |"
    );
    Ok(())
}

#[test]
fn builds_that_differ_in_iterations_are_told_apart() -> Result<()> {
    assert_eq!(
        filled("builds figures/lines.jsonl")?,
        "| iterations | train, ms |\n|---:|---:|\n| 2 | 0.250 |\n| 10 | 0.750 |"
    );
    assert_eq!(
        filled("builds figures/lines.jsonl iterations=10 columns=train_ms")?,
        "| train, ms |\n|---:|\n| 0.750 |"
    );
    Ok(())
}

#[test]
fn values_of_a_field_may_have_columns_of_their_own() -> Result<()> {
    assert_eq!(
        filled("breakeven figures/lines.jsonl")?,
        "| rows | 1 query | 8 queries |\n|---:|---:|---:|\n\
         | 1,000 | 0.125 / 0.250 * | 0.125 / 0.250 |\n| 3,000 | 0.125 / 0.250 |  |"
    );
    assert_eq!(
        filled("reduce-rows figures/lines.jsonl columns=row_length,how_many,device_share_wall")?,
        "| rows of | how many | sum | min |\n|---:|---:|---:|---:|\n\
         | 64 | 16,384 | 0.250, 100 % (0.500) | 0.125, 100 % (0.500) |"
    );
    assert_eq!(
        filled("reduce figures/lines.jsonl columns=operation,device_ms,error across=summation")?,
        "| operation | device, ms, plain | device, ms, compensated | error, plain | error, compensated |\n\
         |---|---:|---:|---:|---:|\n| sum | 0.250 | 0.750 | 1.0e-8 | 1.0e-8 |\n| dot | 0.500 |  | 1.0e-8 |  |"
    );
    Ok(())
}

#[test]
fn peers_stand_beside_cases_of_the_same_things() -> Result<()> {
    assert_eq!(
        filled("peers-exact figures/lines.jsonl columns=queries,k,ms")?,
        "| queries | k | ms | torch-f32, ms | torch-f16, ms (recall) |\n|---:|---:|---:|---:|---:|\n\
         | 1,024 | 10 | 8.000 | 5.000 | 5.000 (0.9960) |\n| 1 | 10 | 0.500 |  |  |\n| 1 | 100 | 1,500 |  |  |"
    );
    Ok(())
}

#[test]
fn errors_are_told_with_the_line_of_the_document() -> Result<()> {
    let lines = "figures/lines.jsonl";
    let cases: [(String, &str); 22] = [
        (block(&format!("what {lines}")), "line 3: table: needed one of device, commands, ladder, exact"),
        (block(""), "line 3: table: needed one of"),
        (block("exact"), "line 3: table exact: needed a file of lines, found none"),
        (block("exact figures/none.jsonl"), "figures/none.jsonl: "),
        (block(&format!("exact {lines} size=7")), "line 3: size=: needed one of rows=, dim=, queries="),
        (block(&format!("exact {lines} dim=")), "line 3: dim=: needed a value, found none"),
        (
            block(&format!("exact {lines} dim=7")),
            "lines.jsonl: needed lines of exact cases dim=7, found none",
        ),
        (block(&format!("exact {lines} k=10,11")), "line 3: k=11: needed a line of it, found none"),
        (block(&format!("ivf {lines}")), "lines.jsonl: needed lines of ivf cases, found none"),
        (block(&format!("exact {lines} columns=ms,speed")), "columns=: needed some of rows, dim"),
        (block(&format!("exact {lines} sort=ms")), "sort=: needed some of rows, dim"),
        (block(&format!("exact {lines} across=k,dim")), "across=: needed one field, given 2"),
        (block(&format!("exact {lines} across=speed")), "across=: needed one of rows, dim"),
        (
            block(&format!("exact {lines} figures/again.jsonl across=k")),
            "needed one line of each, found two of rows=1000000",
        ),
        (
            block(&format!("exact {lines} {lines}")),
            "line 3: figures/lines.jsonl: needed every file once, this one is there already",
        ),
        (
            block(&format!("device {lines} ./figures/lines.jsonl")),
            "./figures/lines.jsonl: needed every file once",
        ),
        (
            block(&format!("device {lines} columns=speed")),
            "columns=: needed some of device, ceilings, upload",
        ),
        (block(&format!("ladder {lines} length=7")), "lines.jsonl: needed rungs length=7, found none"),
        (format!("<!-- table exact {lines}\n"), "line 3: needed `-->` at the end of the line"),
        (
            format!("<!-- table exact {lines} -->\n"),
            "line 3: needed a line `<!-- end of table -->` after the table",
        ),
        ("<!-- end of table -->\n".to_owned(), "line 3: needed `<!-- table … -->` before"),
        ("no table\n".to_owned(), "doc.md: needed a line `<!-- table … -->`, found none"),
    ];
    for (blocks, part) in cases {
        // A good table before the bad one is not written either.
        let good = if blocks.starts_with("no") { String::new() } else { block(&format!("commands {lines}")) };
        let document = format!("{good}{blocks}");
        let directory = directory(&document)?;
        let (code, said) = tables(directory.path(), &["doc.md"])?;
        assert_eq!(code, 1, "{blocks}");
        assert!(said.starts_with("error: doc.md") && said.contains(part), "{part}: {said}");
        assert_eq!(fs::read_to_string(directory.path().join("doc.md"))?, document);
    }
    let directory = directory("")?;
    assert!(tables(directory.path(), &["none.md"])?.1.starts_with("error: none.md: "));
    assert_eq!(tables(directory.path(), &[])?.0, 2);
    Ok(())
}
