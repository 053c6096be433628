//! Runs of the program in a directory, with the arguments in one line.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::common;

pub(crate) fn program(directory: &Path, arguments: &str) -> Command {
    let mut command = common::program();
    command.current_dir(directory).args(arguments.split_whitespace());
    command
}

pub(crate) fn run(directory: &Path, arguments: &str) -> Result<Output> {
    Ok(program(directory, arguments).output()?)
}

/// Runs the program, which has to succeed, and returns what it printed.
pub(crate) fn succeed(directory: &Path, arguments: &str) -> Result<String> {
    common::succeeded(run(directory, arguments)?).with_context(|| arguments.to_owned())
}

/// [`succeed`] of a run that prints one JSON object.
pub(crate) fn record(directory: &Path, arguments: &str) -> Result<Value> {
    let printed = succeed(directory, &format!("{arguments} --json"))?;
    ensure!(printed.lines().count() == 1, "{arguments}: needed one line, found {printed}");
    Ok(serde_json::from_str(&printed)?)
}

/// Runs the program, which has to fail with one line that holds all `parts`, print nothing, and leave no file behind.
pub(crate) fn fail(directory: &Path, arguments: &str, parts: &[&str]) -> Result<()> {
    let before = names(directory)?;
    common::failed(&run(directory, arguments)?, parts).with_context(|| arguments.to_owned())?;
    ensure!(names(directory)? == before, "{arguments}: {before:?} became {:?}", names(directory)?);
    Ok(())
}

/// The names of the files in a directory, in order.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Whether there is a device. A test without one says that it is skipped.
pub(crate) fn has_device() -> bool {
    is_there(nearfield::Device::best())
}

/// The adapter for tests of kernels: the one that the environment asks for, or any GPU or software driver.
pub(crate) fn adapter() -> String {
    std::env::var("NEARFIELD_ADAPTER")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "gpu".to_owned())
}

/// Whether there is an adapter for tests of kernels.
pub(crate) fn has_adapter() -> bool {
    is_there(nearfield::Device::named(&adapter()))
}

fn is_there(device: nearfield::Result<nearfield::Device>) -> bool {
    let Err(error) = device else { return true };
    assert_ne!(std::env::var("NEARFIELD_REQUIRE_GPU").as_deref(), Ok("1"), "{error}");
    println!("skipped: {error}");
    false
}

/// The lines of a suite of kernels after that of the device, or nothing without an adapter.
pub(crate) fn kernel_lines(arguments: &str) -> Result<Option<Vec<Value>>> {
    if !has_adapter() {
        return Ok(None);
    }
    let mut command = program(Path::new("."), &format!("bench {arguments} --json --runs 3"));
    let printed = common::succeeded(command.env("NEARFIELD_ADAPTER", adapter()).output()?);
    let mut lines = common::lines(&printed.with_context(|| arguments.to_owned())?)?;
    let device = lines.remove(0);
    ensure!(device["record"] == "device" && device["copy_bytes_per_s"].as_f64() > Some(0.0), "{device}");
    Ok(Some(lines))
}

/// Checks the figures that every case of a kernel has.
pub(crate) fn check_figures(line: &Value) {
    for name in ["ms", "ms_least", "ms_most", "bytes_per_s", "share_of_copy"] {
        assert!(line[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {line}");
    }
    for [least, most] in [["ms_least", "ms"], ["ms", "ms_most"], ["device_ms_least", "device_ms"]] {
        assert!(line[least].as_f64() <= line[most].as_f64(), "{line}");
    }
    assert!(line["runs"].as_u64() >= Some(3), "{line}");
}

/// An fbin file of zeros, which takes no space on the disk.
pub(crate) fn zeros(path: &Path, rows: u32, dim: u32) -> Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&rows.to_le_bytes())?;
    file.write_all(&dim.to_le_bytes())?;
    file.set_len(8 + u64::from(rows) * u64::from(dim) * 4)?;
    Ok(file)
}
