//! The `nearfield` program where there is no driver: the loader of Vulkan drivers, told of none, finds none.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{failed, hide_drivers, succeeded};
use serde_json::Value;

use crate::PROGRAM;

fn run(arguments: &str) -> Result<Output> {
    let mut command = PROGRAM.at(Path::new("."), arguments);
    Ok(hide_drivers(&mut command).output()?)
}

fn succeed(arguments: &str) -> Result<String> {
    let output = run(arguments)?;
    ensure!(output.stderr.is_empty(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    succeeded(output).with_context(|| arguments.to_owned())
}

const WHY: &str = "because there is no GPU (no adapter: is a Vulkan, Metal or DX12 driver installed?)";

#[test]
fn info_takes_the_host_engine_and_says_why() -> Result<()> {
    let printed = succeed("info")?;
    let best = printed.lines().last().context("a line")?;
    ensure!(best.starts_with("best: host, ") && best.ends_with(WHY), "{printed}");
    let document: Value = serde_json::from_str(&succeed("info --json")?)?;
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
        let printed = succeed(&format!("demo --device={device}"))?;
        for part in ["Running on the processor (", "python3-py7zr", "recall@10 1.0000", "queries a second"] {
            ensure!(printed.contains(part), "{device}, {part}: {printed}");
        }
        ensure!(printed.contains(WHY) != (device == "HOST"), "{device}: {printed}");
    }
    Ok(())
}

#[test]
fn a_driver_that_is_asked_for_is_missed() -> Result<()> {
    for (device, needed) in [("gpu", "an adapter that can compute"), ("software", "a software adapter")] {
        let output = run(&format!("demo --device {device}"))?;
        ensure!(output.status.code() == Some(1), "{device}: {}", output.status);
        failed(&output, &["--device", needed, "driver installed?"]).context(device)?;
    }
    Ok(())
}
