//! The `nearfield` program where there is no driver: the loader of Vulkan drivers, told of none, finds none.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_distances, read_ids};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{failed, lines, succeeded};
use crate::runs;

fn run(directory: &Path, arguments: &str) -> Result<Output> {
    let mut command = runs::program(directory, arguments);
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(name, "/no/such/file");
    }
    // OpenGL would show a software driver.
    command.env("WGPU_BACKEND", "vulkan").env_remove("VK_ADD_DRIVER_FILES").env_remove("NEARFIELD_ADAPTER");
    Ok(command.output()?)
}

fn succeed(directory: &Path, arguments: &str) -> Result<String> {
    let output = run(directory, arguments)?;
    ensure!(output.stderr.is_empty(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    succeeded(output).with_context(|| arguments.to_owned())
}

fn fail(directory: &Path, arguments: &str, parts: &[&str]) -> Result<()> {
    let output = run(directory, arguments)?;
    ensure!(output.status.code() == Some(1), "{arguments}: {}", output.status);
    failed(&output, parts).with_context(|| arguments.to_owned())
}

const WHY: &str = "because there is no GPU (no adapter: is a Vulkan, Metal or DX12 driver installed?)";

#[test]
fn info_takes_the_host_engine_and_says_why() -> Result<()> {
    let here = Path::new(".");
    let printed = succeed(here, "info")?;
    let best = printed.lines().last().context("a line")?;
    ensure!(best.starts_with("best: host, ") && best.ends_with(WHY), "{printed}");
    let document: Value = serde_json::from_str(&succeed(here, "info --json")?)?;
    let adapters = document["adapters"].as_array().context("a list")?;
    assert_eq!(adapters.len(), 1, "{document}");
    assert_eq!((&adapters[0]["kind"], &adapters[0]["best"]), (&"host".into(), &true.into()));
    assert_eq!((&document["best"], &document["reason"]), (&adapters[0]["name"], &WHY.into()));
    if cfg!(target_os = "linux") {
        ensure!(adapters[0]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{document}");
        ensure!(printed.lines().any(|line| line.starts_with("  memory ")), "{printed}");
    }
    Ok(())
}

#[test]
fn the_demo_finds_the_truth_on_the_best_device_in_any_case() -> Result<()> {
    for device in ["Best", "", "HOST"] {
        let printed = succeed(Path::new("."), &format!("demo --device={device}"))?;
        for part in ["Running on the processor (", "python3-py7zr", "recall@10 1.0000", "queries a second"] {
            ensure!(printed.contains(part), "{device}, {part}: {printed}");
        }
        ensure!(printed.contains(WHY) != (device == "HOST"), "{device}: {printed}");
    }
    Ok(())
}

#[test]
fn a_search_finds_the_ids_of_the_truth() -> Result<()> {
    let directory = TempDir::new()?;
    let here = directory.path();
    let set = "generate --data clustered --count 3000 --dim 40 --query-count 50 --out-rows r.npy --out-queries q.npy";
    succeed(here, set)?;
    for metric in ["l2sq", "l2", "cosine", "ip"] {
        let of = format!("--rows r.npy --queries q.npy -k 10 --metric {metric}");
        succeed(here, &format!("truth {of} --out truth.npz --force"))?;
        for device in ["", "--device host", "--device host --screen none --scratch 2MiB"] {
            succeed(here, &format!("search {of} {device} --ids ids.npy --distances d.npy --force"))?;
            let (found, truth) = (read_ids(here.join("ids.npy"))?, read_ids(here.join("truth.npz"))?);
            ensure!(found.values == truth.values, "{metric} {device}: other ids");
            let found = VectorFile::open(here.join("d.npy"))?.read_all()?.into_f32();
            let (truth, _) = read_distances(here.join("truth.npz"))?.context("distances")?;
            let close = |(found, truth): (&f32, &f32)| (found - truth).abs() <= 1e-5 * truth.abs().max(1.0);
            ensure!(found.iter().zip(&truth).all(close), "{metric} {device}: other distances");
        }
    }
    Ok(())
}

#[test]
fn benchmarks_run_or_say_in_a_line_what_they_need() -> Result<()> {
    let here = Path::new(".");
    let printed = succeed(here, "bench exact --count 500 --dim 8 --batch 1,9 --runs 1 --json")?;
    let lines = lines(&printed)?;
    assert_eq!((&lines[0]["kind"], &lines[0]["integer_ops_per_s"]), (&"host".into(), &Value::Null));
    ensure!(lines[0]["copy_bytes_per_s"].as_f64() > Some(0.0), "{printed}");
    assert_eq!(lines.iter().filter(|line| line["record"] == "case").count(), 2, "{printed}");
    for suite in ["select", "reduce --ladder"] {
        fail(here, &format!("bench {suite}"), &["--device", "needed a GPU", "given host, ", WHY])?;
    }
    Ok(())
}

#[test]
fn a_driver_that_is_asked_for_is_missed() -> Result<()> {
    for (device, needed) in [("gpu", "an adapter that can compute"), ("software", "a software adapter")] {
        let arguments = format!("demo --device {device}");
        fail(Path::new("."), &arguments, &["--device", needed, "driver installed?"])?;
    }
    Ok(())
}
