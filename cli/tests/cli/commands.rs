//! The `nearfield` program, from the outside.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_distances, read_ids, write_npy};
use nearfield_testing::programs::{adapter, failed, has_adapter, has_device, lines, succeeded, zeros};
use serde_json::Value;

use crate::{Here, PROGRAM};

/// A file of cli/data.
fn data(name: &str) -> String {
    format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn searches_the_example_data() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::new()?;
    let search = format!("search --rows {} --queries {}", data("base.f16.npy"), data("query.f16.npy"));
    let truth = data("groundtruth-normalised-cosine.npz");
    let more = "--k 25 --metric cosine --scratch 16MiB --device best";
    let printed = here.run(&format!("{search} --truth {truth} {more}"))?;
    for part in ["recall@20", "the truth has 20 columns, fewer than k = 25"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    for (metric, truth, origin) in [
        ("cosine", "cosine", "file"),
        ("l2sq", "l2sq", "file"),
        ("l2", "l2sq", "recomputed"),
        ("ip", "dot", "file, negated"),
    ] {
        let truth = data(&format!("groundtruth-normalised-{truth}.npz"));
        let files = format!("--truth {truth} --ids ids.npy --distances distances.npy --force");
        let record = here.record(&format!("{search} {files} --k 20 --metric {metric}"))?;
        assert_eq!(
            (&record["recall_by_distance"], &record["truth_distances"]),
            (&1.0.into(), &origin.into())
        );
        assert!(record["recall_by_id"].as_f64() > Some(0.999), "{record}");
        let counts = ["rows", "queries", "dim"].map(|field| record[field].as_u64());
        assert_eq!(counts, [Some(4000), Some(200), Some(384)]);
        assert_eq!((&record["elements"], &record["metric"]), (&"f16".into(), &metric.into()));
        assert!(record["queries_per_second"].as_f64() > Some(0.0), "{record}");

        let (found, wanted) = (here.ids("ids.npy")?, read_ids(&truth)?);
        assert_eq!((found.rows, found.width), (200, 20));
        let same = found.values.iter().zip(&wanted.values).filter(|(found, wanted)| found == wanted).count();
        assert!(same >= 3990, "{metric}: {same} of 4000 ids in the place of the truth");
        let found = VectorFile::open(here.at("distances.npy"))?;
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
fn refuses_bad_arguments() -> Result<()> {
    let here = Here::with_three_rows()?;
    fs::create_dir(here.at("folder.npy"))?;
    write_npy(here.at("two.npy"), [2, 1], &[0i64, 1])?;
    write_npy(here.at("beyond.npy"), [3, 1], &[0i64, 3, 2])?;
    here.fail(
        "search --rows three.npy --queries three.npy",
        &[
            ("--k 0", &["'0'", "--k", "at least 1"]),
            ("--k ten", &["'ten'", "--k", "at least 1"]),
            ("--metric manhattan", &["'manhattan'", "--metric", "l2sq, l2, cosine, ip, hamming or jaccard"]),
            ("--scratch many", &["'many'", "--scratch", "like 256MiB"]),
            ("--ids ids.txt", &["'ids.txt'", "--ids", ".npy"]),
            ("--distances missing/d.npy", &["--distances", "directory", "missing"]),
            ("--nonsense 1", &["--nonsense", "unexpected"]),
            // An output that is an input, another output, or no file.
            ("--ids three.npy", &["--ids", "--rows", "three.npy"]),
            ("--ids out.npy --distances out.npy", &["--distances", "--ids", "out.npy"]),
            ("--ids folder.npy", &["--ids", "needed a file", "folder.npy"]),
            ("--truth two.npy", &["--truth", "3 rows", "2"]),
            ("--truth beyond.npy", &["--truth", "ids below 3", "3 for query 1"]),
        ],
    )?;
    ensure!(VectorFile::open(here.at("three.npy"))?.rows() == 3, "the rows are still there");

    let whole = here.read("three.npy")?;
    fs::write(here.at("cut.npy"), &whole[..whole.len() - 1])?;
    let (needed, found) = (format!("{} bytes", whole.len()), format!("{} bytes", whole.len() - 1));
    here.fail(
        "search",
        &[
            ("--rows three.npy", &["required", "--queries"]),
            ("--rows missing.npy --queries three.npy", &["--rows", "missing.npy"]),
            ("--rows three.npy --queries missing.npy", &["--queries", "missing.npy"]),
            (
                &format!("--rows three.npy --queries {}", data("query.f16.npy")),
                &["--queries", "dim 2", "dim 384"],
            ),
            ("--rows cut.npy --queries three.npy", &["--rows", "cut.npy", &needed, &found]),
        ],
    )
}

#[test]
fn refuses_vectors_that_are_not_finite() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::with_three_rows()?;
    here.write("broken.npy", [2, 2], &[1.0, 2.0, f32::NAN, 4.0])?;
    // Rows are sent 64 MiB at a time; the number is still the one in the file.
    let mut file = zeros(&here.at("large.fbin"), 18_000, 1024)?;
    file.seek(SeekFrom::Start(8 + 17_000 * 1024 * 4))?;
    file.write_all(&f32::INFINITY.to_le_bytes())?;
    drop(file);
    drop(zeros(&here.at("queries.fbin"), 1, 1024)?);
    here.fail(
        "search",
        &[
            ("--rows broken.npy --queries three.npy", &["--rows", "broken.npy", "finite", "row 1"]),
            ("--rows three.npy --queries broken.npy", &["--queries", "broken.npy", "finite", "row 1"]),
            ("--rows large.fbin --queries queries.fbin", &["--rows", "large.fbin", "row 17000"]),
        ],
    )
}

#[test]
fn one_device_is_named_by_its_index_and_others_are_listed() -> Result<()> {
    let here = Here::with_three_rows()?;
    let search = "search --rows three.npy --queries three.npy --device";
    for distribution in ["sharded", "replicated"] {
        here.run(&format!("{search} host,host --distribution {distribution}"))?;
    }
    let one = "error: --device: needed one device, given the list";
    here.fail(
        "reduce --rows three.npy --operation norm-l2 --device",
        &[("host,host", &[&format!("{one} \"host,host\"")]), ("all", &[&format!("{one} \"all\"")])],
    )?;
    let adapters = nearfield::Device::adapters();
    let beyond = adapters.len().to_string();
    let number = "--device: needed an adapter with the number 1, from 0, ";
    here.fail(
        search,
        &[
            ("host,", &["error: --device: needed a name on each side of a comma, given \"host,\""]),
            ("host,nobody", &["error: --device: needed an adapter whose name contains \"nobody\", found "]),
            (&beyond, &[&format!("--device: needed an adapter with the index {beyond}, found ")]),
            ("nobody", &["--device", "\"nobody\"", "found"]),
            ("nobody#1", &[number, "\"nobody\"", "found "]),
        ],
    )?;
    if let Some(adapter) = adapters.first() {
        here.run(&format!("{search} 0"))?;
        here.fail(search, &[("nobody", &[&adapter.name]), ("nobody#1", &[&format!("0: {adapter}")])])?;
    }
    assert!(here.run("search --help")?.contains("`h200#1`"));
    Ok(())
}

#[test]
fn info_lists_every_adapter() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::new()?;
    let best = nearfield::Device::best()?.adapter().clone();
    let document: Value = serde_json::from_str(&here.run("info --json")?)?;
    assert_eq!(document["best"], best.name.as_str());
    let adapters = document["adapters"].as_array().context("a list")?;
    assert_eq!(adapters.len(), nearfield::Device::adapters().len() + 1, "the host engine is one of them");
    assert_eq!(adapters.iter().filter(|one| one["kind"] == "host").count(), 1);
    assert!(document["reason"].as_str().is_some_and(|reason| reason.starts_with("because ")), "{document}");
    assert_eq!(adapters.iter().filter(|one| one["best"] == true).count(), 1);
    let indexes: Vec<u64> = adapters.iter().filter_map(|one| one["index"].as_u64()).collect();
    assert!(indexes.iter().copied().eq(0..adapters.len() as u64 - 1), "{indexes:?}");
    for adapter in adapters {
        let is = |fields: &[&str], kind: fn(&Value) -> bool| {
            assert!(fields.iter().all(|&field| kind(&adapter[field])), "{fields:?}: {adapter}");
        };
        is(&["name", "backend", "driver", "kind"], Value::is_string);
        is(&["memory_bytes", "memory_used_bytes", "memory_free_bytes"], |one| one.is_null() || one.is_u64());
        is(&["pci_address"], |address| address.is_null() || address.is_string());
        assert_eq!(
            adapter["memory_used_bytes"].is_null(),
            adapter["memory_free_bytes"].is_null(),
            "{adapter}"
        );
        assert_ne!(adapter["memory_bytes"], 0, "{adapter}");
        if adapter["kind"] == "host" {
            assert!(adapter["memory_bytes"].is_null() == adapter["memory_free_bytes"].is_null(), "{adapter}");
            is(&["index", "max_buffer_bytes", "f16"], Value::is_null);
            continue;
        }
        let limits = ["max_buffer_bytes", "max_binding_bytes", "max_workgroup_size", "max_workgroup_bytes"];
        is(&limits, |limit| limit.as_u64() > Some(0));
        is(&["f16", "timestamps"], Value::is_boolean);
        is(&["cooperative_sizes"], Value::is_array);
        assert!(adapter.get("subgroup_sizes").is_some(), "{adapter}");
    }
    let printed = here.run("info")?;
    assert!(printed.contains(&best.driver) && printed.contains("\n  index        0\n") != indexes.is_empty());
    let tells = adapters.iter().any(|one| !one["memory_free_bytes"].is_null());
    assert_eq!(printed.contains("\n  free memory  "), tells, "{printed}");
    Ok(())
}

#[test]
fn a_choice_of_the_environment_that_is_no_device_is_told() -> Result<()> {
    let list = |list: &str| format!("needed the name of one device, given the list \"{list}\"");
    let mut cases: Vec<(&str, std::ffi::OsString, String)> = vec![
        ("info", "0,1".into(), list("0,1")),
        ("demo", "host,host".into(), list("host,host")),
        ("demo", "all".into(), list("all")),
        ("info", "no such card".into(), "found".into()),
        ("demo", "no such card".into(), "found".into()),
    ];
    #[cfg(unix)]
    cases.push((
        "info",
        std::os::unix::ffi::OsStringExt::from_vec(b"no\xff such card".to_vec()),
        "found".into(),
    ));
    for (command, name, part) in cases {
        let output = PROGRAM.command().arg(command).env("NEARFIELD_ADAPTER", &name).output()?;
        // `info` lists the adapters before it fails.
        let output = Output { stdout: vec![], ..output };
        let given = name.to_string_lossy();
        let given = given.split('\u{fffd}').next_back().unwrap_or_default();
        failed(&output, &["error: NEARFIELD_ADAPTER: needed", given, &part])?;
    }
    Ok(())
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let graph =
        format!("graph --device host --rows {}/data/base.f16.npy --out -", env!("CARGO_MANIFEST_DIR"));
    for arguments in ["info", "demo", "--help", &graph] {
        let mut child = PROGRAM
            .command()
            .args(arguments.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        drop(child.stdout.take());
        let output = child.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let quiet = !complaint.contains("panicked") && !complaint.contains("error: ");
        ensure!(output.status.success() && quiet, "{arguments}: {} {complaint}", output.status);
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
    let here = Here::new()?;
    let demo = "demo --device host";
    let printed = here.run(&format!("{demo} --query LLDB-13 --query wesnoth-1.16-l"))?;
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
    let device = ["Running on the processor", "--device asks for \"host\""];
    for part in device.iter().chain(&["recall@10 1.0000", "nearfield build --rows"]) {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    here.fail(demo, &[("--query lldb13", &["--query", "given lldb13", "the closest are lldb-13, "])])
}

/// Each command has examples that paste into a shell: none is long enough for clap to break it.
#[test]
fn help_has_examples_of_a_line_each() -> Result<()> {
    let here = Path::new(".");
    for (command, part) in [
        ("info", "nearfield info"),
        ("search", "recall_by_distance"),
        ("graph", "rank, id, distance"),
        ("pairs", "nearfield pairs"),
        ("dedup", "--keep group"),
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
fn tune_prints_the_times_of_forms_of_kernels() -> Result<()> {
    let here = Here::new()?;
    // Refused before anything is printed: there are no kernels on the host, and too few rows.
    here.fail(
        "tune",
        &[
            (
                "--dim 4096 --count 1000000000 --device host --threads 3",
                &["--device", "needed a GPU with timestamps, given host, 3 threads"],
            ),
            ("", &["--dim"]),
        ],
    )?;
    if !has_adapter() {
        return Ok(());
    }
    let tune = |more: &str| {
        let arguments = format!("tune --dim 64 --count 70000 {more} --device {}", adapter());
        let mut command = PROGRAM.at(here.path(), &arguments);
        succeeded(command.env("NEARFIELD_CACHE", here.at("kernels")).output()?)
    };
    let printed = match tune("--json") {
        // Not every driver has timestamps.
        Err(error) if error.to_string().contains("timestamps") => return Ok(()),
        printed => printed?,
    };
    for line in lines(&printed)? {
        let times = ["general_ms", "specialised_ms"].map(|field| line[field].as_f64());
        assert!(times.iter().all(|time| *time > Some(0.0)), "{line}");
        assert_eq!((&line["dim"], &line["index"]), (&64.into(), &"flat".into()), "{line}");
        assert!(["for 64", "64 registers"].contains(&line["form"].as_str().unwrap_or_default()), "{line}");
    }
    assert!(printed.contains("\"refine\""), "{printed}");
    assert!(here.at("kernels").is_dir());
    let printed = tune("")?;
    assert!(printed.contains("flat, cosine, dim 64") && printed.contains("refine"), "{printed}");
    Ok(())
}
