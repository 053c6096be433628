//! The `nearfield` program, from the outside.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_distances, read_ids, write_npy};
use nearfield_testing::programs::{adapter, failed, has_adapter, has_device, lines, succeeded, zeros};
use serde_json::Value;
use tempfile::TempDir;

use crate::PROGRAM;

/// A file of cli/data.
fn data(name: &str) -> String {
    format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory with `three.npy`, three rows of two elements.
fn three_rows() -> Result<TempDir> {
    let directory = TempDir::new()?;
    write_npy(directory.path().join("three.npy"), [3, 2], &[0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0])?;
    Ok(directory)
}

#[test]
fn searches_the_example_data() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let directory = TempDir::new()?;
    let (rows, queries) = (data("base.f16.npy"), data("query.f16.npy"));
    let truth = data("groundtruth-normalised-cosine.npz");
    let of = format!("--rows {rows} --queries {queries} --truth {truth}");
    let more = "--k 25 --metric cosine --scratch 16MiB --device best";
    let printed = PROGRAM.succeed(directory.path(), &format!("search {of} {more}"))?;
    for part in ["recall@20", "the truth has 20 columns, fewer than k = 25"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    for (metric, truth) in [("cosine", "cosine"), ("l2sq", "l2sq"), ("l2", "l2sq"), ("ip", "dot")] {
        let truth = data(&format!("groundtruth-normalised-{truth}.npz"));
        let (ids, distances) = (directory.path().join("ids.npy"), directory.path().join("distances.npy"));
        let files = format!(
            "--rows {rows} --queries {queries} --truth {truth} --ids ids.npy --distances distances.npy --force"
        );
        let record = PROGRAM.record(directory.path(), &format!("search {files} --k 20 --metric {metric}"))?;
        assert_eq!(record["recall_by_distance"], 1.0, "{record}");
        assert!(record["recall_by_id"].as_f64() > Some(0.999), "{record}");
        let origin = match metric {
            "l2" => "recomputed",
            "ip" => "file, negated",
            _ => "file",
        };
        assert_eq!(record["truth_distances"], origin);
        assert_eq!(
            (&record["rows"], &record["queries"], &record["dim"]),
            (&4000.into(), &200.into(), &384.into())
        );
        assert_eq!((&record["elements"], &record["metric"]), (&"f16".into(), &metric.into()));
        assert!(record["queries_per_second"].as_f64() > Some(0.0), "{record}");

        let (found, wanted) = (read_ids(&ids)?, read_ids(&truth)?);
        assert_eq!((found.rows, found.width), (200, 20));
        let same = found.values.iter().zip(&wanted.values).filter(|(found, wanted)| found == wanted).count();
        assert!(same >= 3990, "{metric}: {same} of 4000 ids in the place of the truth");
        let found = VectorFile::open(&distances)?;
        assert_eq!((found.rows(), found.dim()), (200, 20));
        let (wanted, _) = read_distances(&truth)?.context("distances")?;
        for (found, wanted) in found.read_all()?.into_f32().into_iter().zip(wanted) {
            let wanted = match metric {
                "l2" => wanted.sqrt(),
                "ip" => -wanted,
                _ => wanted,
            };
            assert!((found - wanted).abs() < 1e-5, "{metric}: {found}, needed {wanted}");
        }
    }
    Ok(())
}

#[test]
fn pads_where_there_are_fewer_rows_than_k() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let directory = three_rows()?;
    let at = directory.path();
    let search = "search --rows three.npy --queries three.npy --k 5 --metric l2";
    PROGRAM.succeed(at, &format!("{search} --ids ids.npy --distances distances.npy"))?;
    let ids = read_ids(at.join("ids.npy"))?;
    assert_eq!((ids.rows, ids.width), (3, 5));
    assert_eq!(ids.values, [0, 1, 2, -1, -1, 1, 0, 2, -1, -1, 2, 1, 0, -1, -1]);
    let distances = VectorFile::open(at.join("distances.npy"))?.read_all()?.into_f32();
    assert_eq!(distances[..3], [0.0, 5.0, 10.0]);
    assert!(distances.chunks(5).all(|row| row[..3].iter().all(|one| one.is_finite())), "{distances:?}");
    assert!(distances.chunks(5).all(|row| row[3..].iter().all(|one| one.is_nan())), "{distances:?}");
    Ok(())
}

#[test]
fn refuses_bad_arguments() -> Result<()> {
    let directory = three_rows()?;
    let at = directory.path();
    let search = "search --rows three.npy --queries three.npy";
    let refuse = |more: &str, parts: &[&str]| PROGRAM.fail(at, &format!("{search} {more}"), parts);
    fs::create_dir(at.join("folder.npy"))?;
    for (more, parts) in [
        ("--k 0", ["'0'", "--k", "at least 1"]),
        ("--k ten", ["'ten'", "--k", "at least 1"]),
        ("--metric manhattan", ["'manhattan'", "--metric", "l2sq, l2, cosine or ip"]),
        ("--scratch many", ["'many'", "--scratch", "like 256MiB"]),
        ("--ids ids.txt", ["'ids.txt'", "--ids", ".npy"]),
        ("--distances missing/d.npy", ["--distances", "directory", "missing"]),
        ("--nonsense 1", ["--nonsense", "unexpected", ""]),
        // An output that is an input, another output, or no file.
        ("--ids three.npy", ["--ids", "--rows", "three.npy"]),
        ("--ids out.npy --distances out.npy", ["--distances", "--ids", "out.npy"]),
        ("--ids folder.npy", ["--ids", "needed a file", "folder.npy"]),
    ] {
        refuse(more, &parts)?;
    }
    ensure!(VectorFile::open(at.join("three.npy"))?.rows() == 3, "the rows are still there");

    let whole = fs::read(at.join("three.npy"))?;
    fs::write(at.join("cut.npy"), &whole[..whole.len() - 1])?;
    let (needed, found) = (format!("{} bytes", whole.len()), format!("{} bytes", whole.len() - 1));
    let other = format!("--rows three.npy --queries {}", data("query.f16.npy"));
    for (files, parts) in [
        ("--rows three.npy", &["required", "--queries"][..]),
        ("--rows missing.npy --queries three.npy", &["--rows", "missing.npy"]),
        ("--rows three.npy --queries missing.npy", &["--queries", "missing.npy"]),
        (&other, &["--queries", "dim 2", "dim 384"]),
        ("--rows cut.npy --queries three.npy", &["--rows", "cut.npy", &needed, &found]),
    ] {
        PROGRAM.fail(at, &format!("search {files}"), parts)?;
    }

    let truth = at.join("truth.npy");
    write_npy(&truth, [2, 1], &[0i64, 1])?;
    refuse("--truth truth.npy", &["--truth", "3 rows", "2"])?;
    write_npy(&truth, [3, 1], &[0i64, 3, 2])?;
    refuse("--truth truth.npy", &["--truth", "ids below 3", "3 for query 1"])
}

#[test]
fn refuses_vectors_that_are_not_finite() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let directory = three_rows()?;
    let at = directory.path();
    write_npy(at.join("broken.npy"), [2, 2], &[1.0f32, 2.0, f32::NAN, 4.0])?;
    let refuse = |rows: &str, queries: &str, parts: &[&str]| {
        PROGRAM.fail(at, &format!("search --rows {rows} --queries {queries}"), parts)
    };
    refuse("broken.npy", "three.npy", &["--rows", "broken.npy", "finite", "row 1"])?;
    refuse("three.npy", "broken.npy", &["--queries", "broken.npy", "finite", "row 1"])?;

    // Rows are sent 64 MiB at a time; the number is still the one in the file.
    let mut file = zeros(&at.join("large.fbin"), 18_000, 1024)?;
    file.seek(SeekFrom::Start(8 + 17_000 * 1024 * 4))?;
    file.write_all(&f32::INFINITY.to_le_bytes())?;
    drop(file);
    drop(zeros(&at.join("queries.fbin"), 1, 1024)?);
    refuse("large.fbin", "queries.fbin", &["--rows", "large.fbin", "row 17000"])
}

#[test]
fn an_unknown_device_lists_the_adapters() -> Result<()> {
    let directory = three_rows()?;
    let arguments = "search --rows three.npy --queries three.npy --device nobody";
    PROGRAM.fail(directory.path(), arguments, &["--device", "\"nobody\"", "found"])?;
    if let Some(adapter) = nearfield::Device::adapters().first() {
        PROGRAM.fail(directory.path(), arguments, &[&adapter.name])?;
    }
    Ok(())
}

#[test]
fn one_device_is_named_by_its_index_and_a_list_is_refused() -> Result<()> {
    let directory = three_rows()?;
    let search = |device: &str| format!("search --rows three.npy --queries three.npy --device {device}");
    let refuse = |device: &str, parts: &[&str]| PROGRAM.fail(directory.path(), &search(device), parts);
    for list in ["host,host", "all"] {
        let reduce = format!("reduce --rows three.npy --operation norm-l2 --device {list}");
        PROGRAM.fail(
            directory.path(),
            &reduce,
            &[&format!("error: --device: needed one device, given the list {list:?}")],
        )?;
    }
    for placement in ["shards", "replicas"] {
        PROGRAM.succeed(directory.path(), &format!("{} --placement {placement}", search("host,host")))?;
    }
    refuse("host,", &["error: --device: needed a name on each side of a comma, given \"host,\""])?;
    let adapters = nearfield::Device::adapters();
    let beyond = adapters.len();
    refuse(&beyond.to_string(), &[&format!("--device: needed an adapter with the index {beyond}, found ")])?;
    refuse("nobody#1", &["--device: needed an adapter with the number 1, from 0, ", "\"nobody\"", "found "])?;
    if let Some(adapter) = adapters.first() {
        PROGRAM.succeed(directory.path(), &search("0"))?;
        refuse("nobody#1", &[&format!("0: {adapter}")])?;
    }
    assert!(PROGRAM.succeed(directory.path(), "search --help")?.contains("`h200#1`"));
    Ok(())
}

#[test]
fn info_lists_every_adapter() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let best = nearfield::Device::best()?.adapter().clone();
    let document: Value = serde_json::from_str(&PROGRAM.succeed(Path::new("."), "info --json")?)?;
    assert_eq!(document["best"], best.name.as_str());
    let adapters = document["adapters"].as_array().context("a list")?;
    assert_eq!(adapters.len(), nearfield::Device::adapters().len() + 1, "the host engine is one of them");
    assert_eq!(adapters.iter().filter(|one| one["kind"] == "host").count(), 1);
    assert!(document["reason"].as_str().is_some_and(|reason| reason.starts_with("because ")), "{document}");
    assert_eq!(adapters.iter().filter(|one| one["best"] == true).count(), 1);
    let indexes: Vec<u64> = adapters.iter().filter_map(|one| one["index"].as_u64()).collect();
    assert!(indexes.iter().copied().eq(0..adapters.len() as u64 - 1), "{indexes:?}");
    for adapter in adapters {
        for field in ["name", "backend", "driver", "kind"] {
            assert!(adapter[field].is_string(), "{field}: {adapter}");
        }
        let memory = ["memory_bytes", "memory_used_bytes", "memory_free_bytes"].map(|field| &adapter[field]);
        assert!(memory.iter().all(|bytes| bytes.is_null() || bytes.is_u64()), "{adapter}");
        assert_eq!(memory[1].is_null(), memory[2].is_null(), "{adapter}");
        assert_ne!(memory[0], 0, "{adapter}");
        assert!(adapter["pci_address"].is_null() || adapter["pci_address"].is_string(), "{adapter}");
        if adapter["kind"] == "host" {
            assert!(adapter["index"].is_null() && memory[0].is_null() == memory[2].is_null(), "{adapter}");
            assert!(adapter["max_buffer_bytes"].is_null() && adapter["f16"].is_null(), "{adapter}");
            continue;
        }
        for field in ["max_buffer_bytes", "max_binding_bytes", "max_workgroup_size", "max_workgroup_bytes"] {
            assert!(adapter[field].as_u64() > Some(0), "{field}: {adapter}");
        }
        assert!(adapter["f16"].is_boolean() && adapter["timestamps"].is_boolean(), "{adapter}");
        assert!(
            adapter["cooperative_sizes"].is_array() && adapter.get("subgroup_sizes").is_some(),
            "{adapter}"
        );
    }
    let printed = PROGRAM.succeed(Path::new("."), "info")?;
    assert!(printed.contains(&best.driver) && printed.contains("\n  index        0\n") != indexes.is_empty());
    let tells = adapters.iter().any(|one| !one["memory_free_bytes"].is_null());
    assert_eq!(printed.contains("\n  free memory  "), tells, "{printed}");
    Ok(())
}

#[test]
fn a_list_in_the_environment_is_no_best_device() -> Result<()> {
    for (command, list) in [("info", "0,1"), ("demo", "host,host"), ("demo", "all")] {
        let output = PROGRAM.command().arg(command).env("NEARFIELD_ADAPTER", list).output()?;
        let complaint =
            format!("error: NEARFIELD_ADAPTER: needed the name of one device, given the list \"{list}\"");
        failed(&Output { stdout: vec![], ..output }, &[&complaint])?;
    }
    Ok(())
}

#[test]
fn an_unmatched_choice_of_the_environment_is_told() -> Result<()> {
    let mut cases = vec![("info", "no such card".into()), ("demo", "no such card".into())];
    #[cfg(unix)]
    cases.push(("info", std::os::unix::ffi::OsStringExt::from_vec(b"no\xff such card".to_vec())));
    for (command, name) in cases {
        let name: std::ffi::OsString = name;
        let output = PROGRAM.command().arg(command).env("NEARFIELD_ADAPTER", name).output()?;
        // `info` lists the adapters before it fails.
        let output = Output { stdout: vec![], ..output };
        failed(&output, &["error: NEARFIELD_ADAPTER: needed", " such card", "found"])?;
    }
    Ok(())
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    for argument in ["info", "demo", "--help"] {
        let mut child =
            PROGRAM.command().arg(argument).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        drop(child.stdout.take());
        let output = child.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let quiet = !complaint.contains("panicked") && !complaint.contains("error: ");
        ensure!(output.status.success() && quiet, "{argument}: {} {complaint}", output.status);
    }
    Ok(())
}

#[test]
fn drivers_print_nothing_of_their_own() -> Result<()> {
    let output = PROGRAM.command().arg("info").env_remove("NEARFIELD_ADAPTER").output()?;
    ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    succeeded(output)?;
    Ok(())
}

#[test]
fn the_demo_answers_for_named_packages_and_lists_the_closest_of_unknown_ones() -> Result<()> {
    let here = Path::new(".");
    let demo = |arguments: &str| PROGRAM.at(here, &format!("demo --device host {arguments}"));
    let printed = succeeded(demo("--query LLDB-13 --query wesnoth-1.16-l").output()?)?;
    let of = |name: &str| -> Result<String> {
        let (_, after) = printed.split_once(&format!("\nNearest to {name} (")).context("an answer")?;
        Ok(after.split("\n\n").next().unwrap_or_default().to_owned())
    };
    // A query is no row; a row is not its own neighbour.
    assert!(of("lldb-13")?.contains("liblldb-15-dev"), "{printed}");
    let answer = of("wesnoth-1.16-l")?;
    assert_eq!(answer.lines().count(), 1 + 5, "{printed}");
    assert!(!answer.contains(" wesnoth-1.16-l ") && !answer.contains(" 0.0000 "), "{printed}");
    assert!(!printed.contains("7zip"), "only what was asked for: {printed}");
    for part in [
        "Running on the processor",
        "--device asks for \"host\"",
        "recall@10 1.0000",
        "nearfield build --rows",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    PROGRAM.fail(
        here,
        "demo --device host --query lldb13",
        &["--query", "given lldb13", "the closest are lldb-13, "],
    )?;

    // Lines of a pipe are questions only where they are asked for.
    for (arguments, is_asked) in [("--query -", true), ("", false)] {
        let mut child = demo(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut pipe = child.stdin.take().context("a pipe")?;
        // The demo that asks for nothing may have ended before.
        pipe.write_all(b"mafft\n\n no such thing\nGIMP\n")
            .or_else(|error| if is_asked { Err(error) } else { Ok(()) })?;
        drop(pipe);
        let printed = succeeded(child.wait_with_output()?)?;
        assert!(printed.contains("Nearest to mafft (") && printed.contains("\nNext, "), "{printed}");
        assert_eq!(
            printed.contains("No package in the data is called no such thing. The closest are "),
            is_asked,
            "{printed}"
        );
    }
    Ok(())
}

/// Each command has examples that paste into a shell: none is long enough for clap to break it.
#[test]
fn help_has_examples_of_a_line_each() -> Result<()> {
    let here = Path::new(".");
    for (command, part) in [
        ("info", "nearfield info"),
        ("search", "recall_by_distance"),
        ("build", "nearfield build"),
        ("show", "nearfield show"),
        ("kmeans", "trained_on"),
        ("reduce", "norm-l2"),
        ("completions", "nearfield completions zsh"),
        ("man", "nearfield man"),
        ("demo", "nearfield demo"),
        ("tune", "nearfield tune"),
    ] {
        let help = PROGRAM.succeed(here, &format!("{command} --help"))?;
        ensure!(help.contains(part), "{command:?}: {help}");
        let (_, after) = help.split_once("\nExample").context("needed examples")?;
        let lines = after.lines().skip(1).take_while(|line| !line.is_empty());
        let broken = lines.filter(|line| !line.contains("nearfield ")).collect::<Vec<_>>();
        ensure!(broken.is_empty(), "{command:?}: {broken:?}");
    }
    assert_eq!(PROGRAM.succeed(here, "--version")?, format!("nearfield {}\n", env!("CARGO_PKG_VERSION")));
    Ok(())
}

#[test]
fn tune_prints_the_times_of_both_forms_of_kernels() -> Result<()> {
    let directory = TempDir::new()?;
    // Refused before anything is printed: there are no kernels on the host, and too few rows.
    PROGRAM.fail(
        directory.path(),
        "tune --dim 64 --count 100 --device host --threads 3",
        &["--dim", "GPU with timestamps", "on host, 3 threads"],
    )?;
    PROGRAM.fail(directory.path(), "tune", &["--dim"])?;
    if !has_adapter() {
        return Ok(());
    }
    let tune = |arguments: &str| {
        let mut command = PROGRAM.at(directory.path(), &format!("tune {arguments} --device {}", adapter()));
        command.env("NEARFIELD_CACHE", directory.path().join("kernels"));
        succeeded(command.output()?)
    };
    let printed = match tune("--dim 64 --count 70000 --json") {
        // Not every driver has timestamps.
        Err(error) if error.to_string().contains("timestamps") => return Ok(()),
        printed => printed?,
    };
    for line in lines(&printed)? {
        assert!(
            line["general_ms"].as_f64() > Some(0.0) && line["specialised_ms"].as_f64() > Some(0.0),
            "{line}"
        );
        assert_eq!((&line["dim"], &line["index"]), (&64.into(), &"flat".into()), "{line}");
    }
    assert!(printed.contains("\"rescore\""), "{printed}");
    assert!(directory.path().join("kernels").is_dir());
    let printed = tune("--dim 64 --count 70000")?;
    assert!(printed.contains("flat, cosine, dim 64") && printed.contains("rescore"), "{printed}");
    Ok(())
}
