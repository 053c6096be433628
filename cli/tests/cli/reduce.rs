//! `nearfield bench reduce`, from the outside.

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
    command.args(["bench", "reduce"]).args(arguments).env("XDG_RUNTIME_DIR", std::env::temp_dir());
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
    assert!(device["copy_bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{device}");
    let date = device["date"].as_str().expect("a date");
    assert!(date.len() == 10 && date.starts_with("20"), "{date}");
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
    for name in ["ms", "ms_least", "ms_most", "bytes_per_s", "share_of_copy"] {
        assert!(line[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {line}");
    }
    assert!(line["ms_least"].as_f64() <= line["ms"].as_f64(), "{line}");
    assert!(line["ms"].as_f64() <= line["ms_most"].as_f64(), "{line}");
    assert!(line["error"].as_f64().is_some_and(|error| (0.0..1e-4).contains(&error)), "{line}");
    // Of rows some are checked, everything else is.
    assert!(line["verified"] == true || line["verified"].as_u64() > Some(0), "{line}");
    assert!(line["runs"].as_u64().is_some_and(|runs| runs >= 3), "{line}");
}

#[test]
fn every_rung_has_a_line_with_figures_or_with_what_it_needs() {
    let Some(lines) = lines(&["--ladder", "--length", "10007"]) else { return };
    let rungs: Vec<&str> = lines.iter().filter_map(|line| line["rung"].as_str()).collect();
    let all: Vec<&str> = nearfield::internals::ladder::RUNGS.iter().map(|rung| rung.letter).collect();
    assert_eq!(rungs, all);
    for line in &lines {
        assert_eq!((&line["record"], &line["length"]), (&"rung".into(), &10007.into()));
        match line["not_run"].as_str() {
            Some(reason) => assert!(reason.starts_with("needs "), "{line}"),
            None => check_figures(line),
        }
    }
}

#[test]
fn every_operation_is_verified_and_timed() {
    let names = "dot,sum,sum-squares,mean,l1,l2,max-norm,min,max,argmin,argmax";
    let arguments = ["--length", "5003", "--operation", names, "--summation", "plain,compensated"];
    let Some(lines) = lines(&[&arguments[..], &["--elements", "f32,f16"]].concat()) else { return };
    assert_eq!(lines.len(), 11 * 2 * 2);
    lines.iter().for_each(check_figures);
    let has = |case: &str, elements: &str| {
        lines.iter().any(|line| line["operation"] == case && line["elements"] == elements)
    };
    assert!(names.split(',').all(|name| has(name, "f32") && has(name, "f16")));
}

#[test]
fn rungs_without_time_say_so_and_a_sweep_ends() {
    let over = ["--budget", "1ms", "--length", "4096"];
    let Some(ladder) = lines(&[&over[..], &["--ladder"]].concat()) else { return };
    assert_eq!(ladder.len(), nearfield::internals::ladder::RUNGS.len());
    for line in &ladder {
        assert_eq!((&line["record"], &line["length"]), (&"rung".into(), &4096.into()), "{line}");
        assert_eq!(line["not_run"], "no time was left of --budget");
    }
    let sweep = lines(&[&over[..], &["--sweep"]].concat()).expect("it is there");
    let records: Vec<_> = sweep.iter().map(|line| line["record"].as_str()).collect();
    assert_eq!(records, [Some("not_run")]);
}

#[test]
fn rows_are_verified_and_timed() {
    let Some(lines) = lines(&["--length", "20000", "--row-length", "77", "--operation", "dot,sum,l2,argmax"])
    else {
        return;
    };
    assert_eq!(lines.len(), 4);
    for line in &lines {
        check_figures(line);
        assert_eq!((&line["length"], &line["row_length"]), (&(20000 / 77 * 77).into(), &77.into()));
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused_in_a_line() {
    fails(&["--length", "0"], "needed a whole number, at least 1");
    fails(&["--length", "many"], "--length");
    fails(&["--length", "100", "--row-length", "101"], "--row-length: needed at most 100");
    fails(&["--length", "100", "--row-length", "0"], "needed a whole number, at least 1");
    fails(&["--operation", "median"], "median");
    fails(&["--ladder", "--sweep"], "--sweep");
    fails(&["--ladder", "--operation", "sum"], "--operation");
    fails(&["--length", "99999999999999"], "--length: 99999999999999 numbers do not fit");
    fails(&["--device", "no such"], "no such");
}
