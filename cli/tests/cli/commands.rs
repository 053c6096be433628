//! The `nearfield` program, from the outside.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_distances, read_ids, write_npy};
use serde_json::Value;
use tempfile::TempDir;

/// The program, run where drivers find nothing to complain about.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfield"));
    command.args(arguments).env("XDG_RUNTIME_DIR", std::env::temp_dir());
    command
}

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(program(arguments).output()?)
}

/// Runs the program, which has to succeed, and returns what it printed.
fn succeed(arguments: &[&str]) -> Result<String> {
    let output = run(arguments)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {} {complaint}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks that the program failed with one line on stderr that holds `parts`. Drivers may print lines of their own.
fn failed(output: &Output, parts: &[&str]) -> Result<()> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(1 | 2)), "{} {complaint}", output.status);
    ensure!(!complaint.contains("panicked") && !complaint.contains("backtrace"), "{complaint}");
    let lines: Vec<&str> = complaint.lines().filter(|line| line.starts_with("error: ")).collect();
    ensure!(lines.len() == 1, "needed one line, found {complaint}");
    ensure!(complaint.trim_end().ends_with(lines[0]), "needed nothing after the line, found {complaint}");
    for part in parts {
        ensure!(lines[0].contains(part), "needed {part:?} in {}", lines[0]);
    }
    Ok(())
}

/// [`failed`] of the program with these arguments, which must not have printed results.
fn fail(arguments: &[&str], parts: &[&str]) -> Result<()> {
    let output = run(arguments)?;
    failed(&output, parts).with_context(|| format!("{arguments:?}"))?;
    ensure!(output.stdout.is_empty(), "{arguments:?} printed {}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Whether there is a device; a test without one says that it is skipped.
fn has_device() -> bool {
    let Err(error) = nearfield::Device::best() else {
        return true;
    };
    assert_ne!(std::env::var("NEARFIELD_REQUIRE_GPU").as_deref(), Ok("1"), "{error}");
    println!("skipped: {error}");
    false
}

/// A file of examples/data.
fn data(name: &str) -> String {
    format!("{}/../examples/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory and three rows of two elements in it.
fn three_rows() -> Result<(TempDir, String)> {
    let directory = TempDir::new()?;
    let path = text(directory.path().join("three.npy"))?;
    write_npy(&path, [3, 2], &[0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0])?;
    Ok((directory, path))
}

fn text(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().ok().context("a path of text")
}

/// An fbin file of zeros, without taking the space.
fn zeros(path: &Path, rows: u32, dim: u32) -> Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&rows.to_le_bytes())?;
    file.write_all(&dim.to_le_bytes())?;
    file.set_len(8 + u64::from(rows) * u64::from(dim) * 4)?;
    Ok(file)
}

#[test]
fn searches_the_example_data() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let directory = TempDir::new()?;
    let (rows, queries) = (data("base.f16.npy"), data("query.f16.npy"));
    for (metric, truth) in [("cosine", "cosine"), ("l2sq", "l2sq"), ("l2", "l2sq"), ("ip", "dot")] {
        let truth = data(&format!("groundtruth-normalised-{truth}.npz"));
        let ids = text(directory.path().join(format!("{metric}-ids.npy")))?;
        let distances = text(directory.path().join(format!("{metric}-distances.npy")))?;
        let printed = succeed(&[
            "search",
            "--rows",
            &rows,
            "--queries",
            &queries,
            "--k",
            "20",
            "--metric",
            metric,
            "--truth",
            &truth,
            "--ids",
            &ids,
            "--distances",
            &distances,
            "--json",
        ])?;
        assert_eq!(printed.lines().count(), 1, "{printed}");
        let record: Value = serde_json::from_str(&printed)?;
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
fn says_when_the_truth_has_fewer_columns() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let (rows, queries) = (data("base.f16.npy"), data("query.f16.npy"));
    let truth = data("groundtruth-normalised-cosine.npz");
    let printed = succeed(&[
        "search",
        "--rows",
        &rows,
        "--queries",
        &queries,
        "--k",
        "25",
        "--metric",
        "cosine",
        "--truth",
        &truth,
        "--scratch",
        "16MiB",
        "--device",
        "best",
    ])?;
    assert!(printed.contains("recall@20"), "{printed}");
    assert!(printed.contains("the truth has 20 columns, fewer than k = 25"), "{printed}");
    Ok(())
}

#[test]
fn pads_where_there_are_fewer_rows_than_k() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let (directory, three) = three_rows()?;
    let (ids, distances) =
        (text(directory.path().join("ids.npy"))?, text(directory.path().join("distances.npy"))?);
    succeed(&[
        "search",
        "--rows",
        &three,
        "--queries",
        &three,
        "--k",
        "5",
        "--metric",
        "l2",
        "--ids",
        &ids,
        "--distances",
        &distances,
    ])?;
    let ids = read_ids(&ids)?;
    assert_eq!((ids.rows, ids.width), (3, 5));
    assert_eq!(ids.values, [0, 1, 2, -1, -1, 1, 0, 2, -1, -1, 2, 1, 0, -1, -1]);
    let distances = VectorFile::open(&distances)?.read_all()?.into_f32();
    assert_eq!(distances[..3], [0.0, 5.0, 10.0]);
    assert!(distances.chunks(5).all(|row| row[..3].iter().all(|one| one.is_finite())), "{distances:?}");
    assert!(distances.chunks(5).all(|row| row[3..].iter().all(|one| one.is_nan())), "{distances:?}");
    Ok(())
}

#[test]
fn refuses_bad_arguments() -> Result<()> {
    let (directory, three) = three_rows()?;
    let search = ["search", "--rows", &three, "--queries", &three];
    let with = |more: &[&'static str]| -> Vec<String> {
        search.iter().chain(more).map(ToString::to_string).collect()
    };
    for (more, parts) in [
        (["--k", "0"], ["'0'", "--k", "at least 1"]),
        (["--k", "ten"], ["'ten'", "--k", "at least 1"]),
        (["--metric", "manhattan"], ["'manhattan'", "--metric", "l2sq, l2, cosine or ip"]),
        (["--scratch", "many"], ["'many'", "--scratch", "like 256MiB"]),
        (["--ids", "ids.txt"], ["'ids.txt'", "--ids", ".npy"]),
        (["--distances", "no-such-directory/d.npy"], ["--distances", "directory", "no-such-directory"]),
        (["--nonsense", "1"], ["--nonsense", "unexpected", ""]),
    ] {
        let arguments = with(&more);
        fail(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &parts)?;
    }
    fail(&["search", "--rows", &three], &["required", "--queries"])?;
    // An output that is an input, another output, or no file.
    let out = text(directory.path().join("out.npy"))?;
    let folder = text(directory.path().join("folder.npy"))?;
    fs::create_dir(&folder)?;
    for (more, parts) in [
        (vec!["--ids", three.as_str()], ["--ids", "--rows", "three.npy"]),
        (vec!["--ids", &out, "--distances", &out], ["--distances", "--ids", "out.npy"]),
        (vec!["--ids", &folder], ["--ids", "needed a file", "folder.npy"]),
    ] {
        fail(&[&search[..], &more[..]].concat(), &parts)?;
    }
    ensure!(VectorFile::open(&three)?.rows() == 3, "the rows are still there");
    fail(&["search", "--rows", "missing.npy", "--queries", &three], &["--rows", "missing.npy"])?;
    fail(&["search", "--rows", &three, "--queries", "missing.npy"], &["--queries", "missing.npy"])?;
    let other = data("query.f16.npy");
    fail(&["search", "--rows", &three, "--queries", &other], &["--queries", "dim 2", "dim 384"])?;

    let whole = fs::read(&three)?;
    let cut = text(directory.path().join("cut.npy"))?;
    fs::write(&cut, &whole[..whole.len() - 1])?;
    let (needed, found) = (format!("{} bytes", whole.len()), format!("{} bytes", whole.len() - 1));
    fail(&["search", "--rows", &cut, "--queries", &three], &["--rows", "cut.npy", &needed, &found])?;

    let truth = text(directory.path().join("truth.npy"))?;
    let with_truth = ["search", "--rows", &three, "--queries", &three, "--truth", &truth];
    write_npy(&truth, [2, 1], &[0i64, 1])?;
    fail(&with_truth, &["--truth", "3 rows", "2"])?;
    write_npy(&truth, [3, 1], &[0i64, 3, 2])?;
    fail(&with_truth, &["--truth", "ids below 3", "3 for query 1"])
}

#[test]
fn refuses_vectors_that_are_not_finite() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let (directory, three) = three_rows()?;
    let broken = text(directory.path().join("broken.npy"))?;
    write_npy(&broken, [2, 2], &[1.0f32, 2.0, f32::NAN, 4.0])?;
    fail(&["search", "--rows", &broken, "--queries", &three], &["--rows", "broken.npy", "finite", "row 1"])?;
    fail(
        &["search", "--rows", &three, "--queries", &broken],
        &["--queries", "broken.npy", "finite", "row 1"],
    )?;

    // Rows are sent 64 MiB at a time; the number is that in the file all the same.
    let large = directory.path().join("large.fbin");
    let mut file = zeros(&large, 18_000, 1024)?;
    file.seek(SeekFrom::Start(8 + 17_000 * 1024 * 4))?;
    file.write_all(&f32::INFINITY.to_le_bytes())?;
    drop(file);
    let queries = directory.path().join("queries.fbin");
    drop(zeros(&queries, 1, 1024)?);
    let (large, queries) = (text(large)?, text(queries)?);
    fail(&["search", "--rows", &large, "--queries", &queries], &["--rows", "large.fbin", "row 17000"])
}

#[test]
fn an_unknown_device_lists_the_adapters() -> Result<()> {
    let (_directory, three) = three_rows()?;
    let arguments = ["search", "--rows", &three, "--queries", &three, "--device", "no such card"];
    fail(&arguments, &["--device", "\"no such card\"", "found"])?;
    if let Some(adapter) = nearfield::Device::adapters().first() {
        fail(&arguments, &[&adapter.name])?;
    }
    Ok(())
}

#[test]
fn the_demo_finds_the_truth() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let printed = succeed(&["demo"])?;
    for part in ["device ", "python3-py7zr", "recall@10  1.0000", "queries a second"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    Ok(())
}

#[test]
fn info_lists_every_adapter() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let best = nearfield::Device::best()?.adapter().clone();
    let document: Value = serde_json::from_str(&succeed(&["info", "--json"])?)?;
    assert_eq!(document["best"], best.name.as_str());
    let adapters = document["adapters"].as_array().context("a list")?;
    assert_eq!(adapters.len(), nearfield::Device::adapters().len() + 1, "the host engine is one of them");
    assert_eq!(adapters.iter().filter(|one| one["kind"] == "host").count(), 1);
    assert!(document["reason"].as_str().is_some_and(|reason| reason.starts_with("because ")), "{document}");
    assert_eq!(adapters.iter().filter(|one| one["best"] == true).count(), 1);
    for adapter in adapters {
        for field in ["name", "backend", "driver", "kind"] {
            assert!(adapter[field].is_string(), "{field}: {adapter}");
        }
        if adapter["kind"] == "host" {
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
    assert!(succeed(&["info"])?.contains(&best.driver));
    Ok(())
}

#[test]
fn an_unmatched_choice_of_the_environment_is_told() -> Result<()> {
    for command in ["info", "demo"] {
        let output = program(&[command]).env("NEARFIELD_ADAPTER", "no such card").output()?;
        failed(&output, &["error: NEARFIELD_ADAPTER: needed", "no such card", "found"])?;
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_choice_that_is_no_text_is_told() -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"no\xff card");
    let output = program(&["info"]).env("NEARFIELD_ADAPTER", name).output()?;
    failed(&output, &["NEARFIELD_ADAPTER", " card", "found"])
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    for arguments in [&["info"][..], &["demo"], &["--help"]] {
        let mut child = program(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        drop(child.stdout.take());
        let output = child.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let quiet = !complaint.contains("panicked") && !complaint.contains("error: ");
        ensure!(output.status.success() && quiet, "{arguments:?}: {} {complaint}", output.status);
    }
    Ok(())
}

#[test]
fn helps() -> Result<()> {
    for subcommand in ["info", "search", "build", "demo", "verify"] {
        let help = succeed(&[subcommand, "--help"])?;
        assert!(help.contains("Examples:") && help.contains(&format!("nearfield {subcommand}")), "{help}");
    }
    assert!(succeed(&["search", "--help"])?.contains("recall_by_distance"));
    assert_eq!(succeed(&["--version"])?, format!("nearfield {}\n", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// What is printed can be pasted into a shell: no example is so long that it is broken into lines.
#[test]
fn examples_in_help_are_a_line_each() -> Result<()> {
    let bench = ["exact", "reduce", "select", "draw"].map(|suite| vec!["bench", suite]);
    let others = ["info", "search", "build", "generate", "truth", "verify", "demo"].map(|one| vec![one]);
    for mut command in bench.into_iter().chain(others) {
        command.push("--help");
        let help = succeed(&command)?;
        let (_, after) = help.split_once("\nExample").context("needed examples")?;
        let lines = after.lines().skip(1).take_while(|line| !line.is_empty());
        let broken = lines.filter(|line| !line.contains("nearfield ")).collect::<Vec<_>>();
        ensure!(broken.is_empty(), "{command:?}: {broken:?}");
    }
    Ok(())
}
