//! The lines of suites of kernels.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{adapter, has_adapter, lines, succeeded};
use serde_json::Value;

use crate::PROGRAM;

/// The lines of a suite of kernels after that of the device, or nothing without an adapter.
pub(crate) fn kernel_lines(arguments: &str) -> Result<Option<Vec<Value>>> {
    if !has_adapter() {
        return Ok(None);
    }
    let mut command = PROGRAM.at(Path::new("."), &format!("{arguments} --json --runs 3"));
    let printed = succeeded(command.env("NEARFIELD_ADAPTER", adapter()).output()?);
    let mut lines = lines(&printed.with_context(|| arguments.to_owned())?)?;
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
