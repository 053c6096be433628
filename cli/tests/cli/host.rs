//! The `nearfield` program where there is no driver: the loader of Vulkan drivers, told of none, finds none.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use nearfield::Metric;
use nearfield::io::VectorFile;
use nearfield_testing::programs::{failed, hide_drivers, succeeded};
use nearfield_testing::sets::{clustered, nearest};
use serde_json::Value;

use crate::{Here, PROGRAM};

fn run(directory: &Path, arguments: &str) -> Result<Output> {
    let mut command = PROGRAM.at(directory, arguments);
    Ok(hide_drivers(&mut command).output()?)
}

fn succeed(directory: &Path, arguments: &str) -> Result<String> {
    let output = run(directory, arguments)?;
    ensure!(output.stderr.is_empty(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    succeeded(output).with_context(|| arguments.to_owned())
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
    ensure!(adapters[0]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{document}");
    ensure!(printed.lines().any(|line| line.starts_with("  memory ")), "{printed}");
    Ok(())
}

#[test]
fn the_demo_finds_the_truth_on_the_best_device_in_any_case() -> Result<()> {
    for device in ["Best", "HOST"] {
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
    let here = Here::new()?;
    let (rows, queries) = (clustered(3000, 40, 1), clustered(50, 40, 2));
    here.write("r.npy", [3000, 40], &rows)?;
    here.write("q.npy", [50, 40], &queries)?;
    for metric in Metric::ALL {
        let of = format!("--rows r.npy --queries q.npy -k 10 --metric {}", metric.name());
        let (ids, truth) = nearest(metric, &rows, &queries, 40, 10);
        for device in ["", "--device host", "--device host --screen none --scratch 2MiB"] {
            succeed(here.path(), &format!("search {of} {device} --ids ids.npy --distances d.npy --force"))?;
            ensure!(here.ids("ids.npy")?.values == ids, "{metric} {device}: other ids");
            let found = VectorFile::open(here.at("d.npy"))?.read_all()?.into_f32();
            let close = |(found, truth): (&f32, &f32)| (found - truth).abs() <= 1e-5 * truth.abs().max(1.0);
            ensure!(found.iter().zip(&truth).all(close), "{metric} {device}: other distances");
        }
    }
    Ok(())
}

#[test]
fn a_driver_that_is_asked_for_is_missed() -> Result<()> {
    for (device, needed) in [("gpu", "an adapter that can compute"), ("software", "a software adapter")] {
        let output = run(Path::new("."), &format!("demo --device {device}"))?;
        ensure!(output.status.code() == Some(1), "{device}: {}", output.status);
        failed(&output, &["--device", needed, "driver installed?"]).context(device)?;
    }
    Ok(())
}
