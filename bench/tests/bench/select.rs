//! `nearfield-bench select`, from the outside.

use std::path::Path;

use anyhow::{Context, Result};
use nearfield_testing::programs::{self, failed};
use serde_json::Value;

use crate::PROGRAM;
use crate::kernels;

fn lines(arguments: &str) -> Result<Option<Vec<Value>>> {
    kernels::kernel_lines(&format!("select {arguments}"))
}

fn check_figures(line: &Value) {
    assert_eq!((&line["record"], &line["suite"]), (&"case".into(), &"select".into()));
    kernels::check_figures(line);
    assert_eq!(line["verified"], true);
    assert_eq!(line["runs"], 3);
    let kernels = line["kernels"].as_object().expect("kernels");
    assert!(line["device_ms"].is_null() || kernels.keys().any(|name| name.starts_with("select_")), "{line}");
}

#[test]
fn every_shape_and_k_is_verified_and_timed() -> Result<()> {
    let Some(lines) = lines("--shapes 30x50,1x9000,1x100000 --k 1,40,1100")? else { return Ok(()) };
    let cases: Vec<_> = lines.iter().map(|line| (line["length"].as_u64(), line["k"].as_u64())).collect();
    // 50 elements have no 1,100 smallest.
    let wanted = [(50, 1), (50, 40), (9000, 1), (9000, 40), (9000, 1100)].into_iter();
    let wanted = wanted.chain([(100_000, 1), (100_000, 40), (100_000, 1100)]);
    assert_eq!(cases, wanted.map(|(length, k)| (Some(length), Some(k))).collect::<Vec<_>>());
    lines.iter().for_each(check_figures);
    let has_scratch = |line: &Value| line["scratch_bytes"].as_u64() > Some(0);
    assert!(has_scratch(&lines[5]) && !has_scratch(&lines[0]), "{} {}", lines[5], lines[0]);
    Ok(())
}

#[test]
fn every_kind_of_elements_is_verified_and_timed() -> Result<()> {
    let kinds = "normal,equal,sorted,reversed,infinite-10,infinite-90,infinite-99.9,infinite-100,nan";
    let arguments = format!("--shapes 3x5000 --k 10 --values {kinds} --no-scratch");
    let Some(lines) = lines(&arguments)? else { return Ok(()) };
    let found: Vec<_> = lines.iter().filter_map(|line| line["values"].as_str()).collect();
    assert_eq!(found, kinds.split(',').collect::<Vec<_>>());
    lines.iter().for_each(check_figures);
    assert!(lines.iter().all(|line| line["scratch_bytes"] == 0));
    Ok(())
}

#[test]
fn shapes_and_k_that_leave_no_case_are_refused() -> Result<()> {
    for (arguments, part) in [
        ("--k 0", "--k: needed at least 1"),
        ("--shapes 70000x70000", "--shapes: needed at most"),
        ("--shapes 1x1,2x3 --k 4,5", "--k: needed at most 3, the elements of a row, given 4,5"),
    ] {
        let mut command = PROGRAM.at(Path::new("."), &format!("select {arguments}"));
        let output = command.env("NEARFIELD_ADAPTER", programs::adapter()).output()?;
        failed(&output, &[part]).with_context(|| arguments.to_owned())?;
    }
    Ok(())
}
