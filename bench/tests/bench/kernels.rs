//! `nearfield-bench reduce` and `select`, from the outside.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{adapter, failed, has_adapter, lines, succeeded};
use serde_json::Value;

use crate::PROGRAM;

/// The lines of a suite after that of the device, or nothing without an adapter.
fn kernel_lines(arguments: &str) -> Result<Option<Vec<Value>>> {
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

fn check_figures(line: &Value) {
    for name in ["ms", "ms_least", "ms_most", "bytes_per_s", "share_of_copy"] {
        assert!(line[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {line}");
    }
    for [least, most] in [["ms_least", "ms"], ["ms", "ms_most"], ["device_ms_least", "device_ms"]] {
        assert!(line[least].as_f64() <= line[most].as_f64(), "{line}");
    }
    assert_eq!(line["runs"], 3, "{line}");
    // Of rows some are checked, everything else is.
    assert!(line["verified"] == true || line["verified"].as_u64() > Some(0), "{line}");
    if line["suite"] == "reduce" {
        assert!(line["error"].as_f64().is_some_and(|error| (0.0..1e-4).contains(&error)), "{line}");
    } else {
        let kernels = line["kernels"].as_object().expect("kernels");
        let is_timed = kernels.keys().any(|name| name.starts_with("select_"));
        assert!(line["device_ms"].is_null() || is_timed, "{line}");
    }
}

#[test]
#[ignore = "nightly"]
fn every_operation_is_verified_and_timed() -> Result<()> {
    let names = "dot,sum,sum-squares,mean,norm-l1,norm-l2,norm-max,std,min,max,argmin,argmax";
    let whole = format!("--length 5003 --operation {names} --summation plain,compensated --elements f32,f16");
    let rows = "--length 20000 --row-length 77 --operation dot,sum,norm-l2,std,argmax".to_owned();
    for (arguments, count, length) in [(whole, 12 * 2 * 2, 5003), (rows, 5, 20000 / 77 * 77)] {
        let Some(lines) = kernel_lines(&format!("reduce {arguments}"))? else { return Ok(()) };
        lines.iter().for_each(check_figures);
        let cases: std::collections::HashSet<_> = lines.iter().map(|line| line["case"].to_string()).collect();
        assert_eq!((cases.len(), lines.len()), (count, count), "{cases:?}");
        assert!(lines.iter().all(|line| line["length"] == length), "{lines:?}");
    }
    Ok(())
}

#[test]
#[ignore = "nightly"]
fn every_shape_and_kind_of_elements_is_selected_from() -> Result<()> {
    let kinds = "normal,equal,sorted,reversed,infinite-10,infinite-90,infinite-99.9,infinite-100,nan";
    let Some(lines) = kernel_lines("select --shapes 30x50,1x9000,1x100000 --k 1,40,1100")? else {
        return Ok(());
    };
    lines.iter().for_each(check_figures);
    let cases: Vec<_> = lines.iter().map(|line| [&line["length"], &line["k"]].map(Value::as_u64)).collect();
    // 50 elements have no 1,100 smallest.
    let wanted = [
        [50, 1],
        [50, 40],
        [9000, 1],
        [9000, 40],
        [9000, 1100],
        [100_000, 1],
        [100_000, 40],
        [100_000, 1100],
    ];
    assert_eq!(cases, wanted.map(|case| case.map(Some)));
    let has_scratch = |line: &Value| line["scratch_bytes"].as_u64() > Some(0);
    assert!(has_scratch(&lines[5]) && !has_scratch(&lines[0]), "{} {}", lines[5], lines[0]);
    let arguments = format!("select --shapes 3x5000 --k 10 --values {kinds}");
    let lines = kernel_lines(&arguments)?.context("an adapter")?;
    lines.iter().for_each(check_figures);
    let found: Vec<_> = lines.iter().filter_map(|line| line["values"].as_str()).collect();
    assert_eq!(found, kinds.split(',').collect::<Vec<_>>());
    for (arguments, part) in [
        ("--k 0", "--k: needed at least 1"),
        ("--shapes 70000x70000", "--shapes: needed at most"),
        ("--shapes 1x1,2x3 --k 4,5", "--k: needed at most 3, the elements of a row, given 4,5"),
    ] {
        let mut command = PROGRAM.at(Path::new("."), &format!("select {arguments}"));
        failed(&command.env("NEARFIELD_ADAPTER", adapter()).output()?, &[part])
            .with_context(|| arguments.to_owned())?;
    }
    Ok(())
}
