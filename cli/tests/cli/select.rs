//! `nearfield bench select`, from the outside.

use std::process::{Command, Output};

use serde_json::Value;

/// Kernels need an adapter, be it a software driver.
fn wanted() -> String {
    std::env::var("NEARFIELD_ADAPTER")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "gpu".to_owned())
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfield"));
    command.args(["bench", "select"]).args(arguments).env("XDG_RUNTIME_DIR", std::env::temp_dir());
    command.env("NEARFIELD_ADAPTER", wanted());
    command.output().expect("the program runs")
}

/// The lines of a run that has to succeed, but for the first, which is the device's; none without a device.
fn lines(arguments: &[&str]) -> Option<Vec<Value>> {
    if nearfield::Device::named(&wanted()).is_err() {
        assert_ne!(std::env::var("NEARFIELD_REQUIRE_GPU").as_deref(), Ok("1"), "there is no adapter");
        println!("skipped: no adapter");
        return None;
    }
    let output = run(&[&["--json", "--runs", "3"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let device = lines.remove(0);
    assert_eq!(device["record"], "device");
    Some(lines)
}

fn fails(arguments: &[&str], part: &str) {
    let output = run(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {complaint}");
    let faults: Vec<&str> = complaint.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(faults.len() == 1 && faults[0].contains(part), "{arguments:?}: {complaint}");
}

fn check_figures(line: &Value) {
    assert_eq!((&line["record"], &line["suite"]), (&"case".into(), &"select".into()));
    for name in ["ms", "ms_least", "ms_most", "bytes_per_s", "share_of_copy"] {
        assert!(line[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {line}");
    }
    assert!(line["ms_least"].as_f64() <= line["ms"].as_f64(), "{line}");
    assert!(line["ms"].as_f64() <= line["ms_most"].as_f64(), "{line}");
    assert!(line["device_ms_least"].as_f64() <= line["device_ms"].as_f64(), "{line}");
    assert_eq!(line["verified"], true);
    assert_eq!(line["runs"], 3);
    let kernels = line["kernels"].as_object().expect("kernels");
    assert!(line["device_ms"].is_null() || kernels.keys().any(|name| name.starts_with("select_")), "{line}");
}

#[test]
fn every_shape_and_k_is_verified_and_timed() {
    let Some(lines) = lines(&["--shapes", "30x50,2x9000,2x100000", "--k", "1,40,1100"]) else { return };
    let cases: Vec<_> = lines.iter().map(|line| (line["length"].as_u64(), line["k"].as_u64())).collect();
    // 50 elements have no 1,100 smallest.
    let wanted = [(50, 1), (50, 40), (9000, 1), (9000, 40), (9000, 1100)].into_iter();
    let wanted = wanted.chain([(100_000, 1), (100_000, 40), (100_000, 1100)]);
    assert_eq!(cases, wanted.map(|(length, k)| (Some(length), Some(k))).collect::<Vec<_>>());
    lines.iter().for_each(check_figures);
    let has_scratch = |line: &Value| line["scratch_bytes"].as_u64() > Some(0);
    assert!(has_scratch(&lines[5]) && !has_scratch(&lines[0]), "{} {}", lines[5], lines[0]);
}

#[test]
fn every_kind_of_elements_is_verified_and_timed() {
    let kinds = "normal,equal,sorted,reversed,infinite-10,infinite-90,infinite-99.9,infinite-100,nan";
    let arguments = ["--shapes", "3x5000", "--k", "10", "--values", kinds, "--no-scratch"];
    let Some(lines) = lines(&arguments) else { return };
    let found: Vec<_> = lines.iter().filter_map(|line| line["values"].as_str()).collect();
    assert_eq!(found, kinds.split(',').collect::<Vec<_>>());
    lines.iter().for_each(check_figures);
    assert!(lines.iter().all(|line| line["scratch_bytes"] == 0));
}

#[test]
fn arguments_that_make_no_sense_are_refused_in_a_line() {
    fails(&["--shapes", "0x10"], "needed rows and elements of each, like 100x1000000");
    fails(&["--shapes", "10"], "needed rows and elements of each, like 100x1000000");
    fails(&["--shapes", "70000x70000"], "--shapes: needed at most");
    fails(&["--k", "0"], "--k: needed at least 1");
    // No case would be left.
    fails(&["--shapes", "1x1,2x3", "--k", "4,5"], "--k: needed at most 3, the elements of a row, given 4,5");
    fails(&["--values", "odd"], "odd");
    fails(&["--device", "no such"], "no such");
}
