//! `nearfield-bench compare`, from the outside. It needs no adapter.

use std::fs;

use anyhow::{Context, Result};
use nearfield_testing::programs::{failed, jsonl, lines};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

/// A case with a least, median and most time by the wall clock and on the device.
fn case(name: &str, wall: [f64; 3], device: [f64; 3]) -> Value {
    json!({
        "record": "case", "suite": "exact", "case": name, "ms_least": wall[0], "ms": wall[1], "ms_most": wall[2],
        "device_ms_least": device[0], "device_ms": device[1], "device_ms_most": device[2], "verified": 4,
    })
}

/// A case with a spread of a twentieth to both sides, which takes half of its time on the device.
fn steady(name: &str, ms: f64) -> Value {
    let [wall, device] = [ms, 0.5 * ms].map(|ms| [0.95 * ms, ms, 1.05 * ms]);
    case(name, wall, device)
}

fn device(version: &str) -> Value {
    json!({"record": "device", "adapter": "NVIDIA H200", "version": version, "date": "2026-11-21"})
}

/// Compares lines: the exit code, the output, and the error line if there is one.
fn compare(old: &[Value], new: &[Value], options: &str) -> Result<(i32, String, String)> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("old.jsonl"), jsonl(old))?;
    fs::write(directory.path().join("new.jsonl"), jsonl(new))?;
    let output = PROGRAM.run(directory.path(), &format!("compare old.jsonl new.jsonl {options}"))?;
    let [printed, complaint] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok((output.status.code().context("a code")?, printed, complaint))
}

/// The printed JSON lines of a record.
fn records(printed: &str, record: &str) -> Result<Vec<Value>> {
    Ok(lines(printed)?.into_iter().filter(|line| line["record"] == record).collect())
}

#[test]
fn ratios_come_from_medians_and_ranges_from_the_ends() -> Result<()> {
    let old = [device("0.1.0"), steady("a", 2.0), steady("b", 1.0)];
    let new = [device("0.2.0"), steady("b", 0.5), steady("a", 3.0)];
    let (code, printed, complaint) = compare(&old, &new, "")?;
    assert_eq!((code, complaint.as_str()), (0, ""));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = printed.lines().map(words).collect();
    for row in [
        "old: old.jsonl: NVIDIA H200, 0.1.0, 2026-11-21",
        "different: [\"version\"]",
        "exact 2.000 3.000 1.500 (1.357 .. 1.658) slower 1.500 slower a",
        "exact 1.000 0.500 0.500 (0.452 .. 0.553) faster 0.500 faster b",
        "exact 0.866 0.866 geometric mean of 2",
    ] {
        assert!(rows.iter().any(|other| other == row), "{row}: {printed}");
    }
    let (_, printed, _) = compare(&old, &new, "--json")?;
    let (ratio, mean) = (&records(&printed, "ratio")?[0], &records(&printed, "mean")?[0]);
    for (field, wanted) in
        [("old_device_ms", 1.0), ("ratio", 1.5), ("ratio_least", 1.357), ("device_ratio", 1.5)]
    {
        assert_eq!(ratio[field], wanted, "{ratio}");
    }
    assert_eq!((&mean["cases"], &mean["ratio"]), (&json!(2), &json!(0.866)));
    Ok(())
}

#[test]
fn each_clock_has_a_verdict_and_only_slower_fails() -> Result<()> {
    let (old, same) = ([0.9, 1.0, 1.3], [0.5, 0.5, 0.5]);
    for (new, limit, code, verdict) in [
        ([1.35, 1.4, 1.5], "--fail-over 10%", 1, "slower"),
        // Even the least new time is above the old median, but not above all old times.
        ([1.05, 1.2, 1.3], "--fail-over 10%", 0, "noisy"),
        ([0.95, 1.2, 1.3], "--fail-over 10%", 0, "noisy"),
        ([1.05, 1.09, 1.3], "--fail-over 10%", 0, "same"),
        ([0.7, 0.8, 0.85], "--fail-over 10%", 0, "faster"),
        ([0.7, 0.8, 0.95], "--fail-over 10%", 0, "noisy"),
        // The clock was too coarse.
        ([0.0, 1.5, 1.6], "--fail-over 10%", 0, "noisy"),
        // Without a limit nothing fails, and a verdict needs times that do not overlap.
        ([1.25, 1.5, 1.6], "", 0, "same"),
        ([1.35, 1.5, 1.6], "", 0, "slower"),
    ] {
        for (prefix, other, before, after) in [
            ("", "device_", case("a", old, same), case("a", new, same)),
            ("device_", "", case("a", same, old), case("a", same, new)),
        ] {
            let (found, printed, _) = compare(&[before], &[after], &format!("--json {limit}"))?;
            let ratio = &records(&printed, "ratio")?[0];
            assert_eq!(
                (found, &ratio[format!("{prefix}verdict")]),
                (code, &json!(verdict)),
                "{new:?}: {ratio}"
            );
            assert_eq!(ratio[format!("{other}verdict")], "same", "{ratio}");
        }
    }
    // A least time of zero has a range without an upper end.
    let (_, printed, _) = compare(&[case("a", [0.0, 1.5, 1.6], same)], &[case("a", old, same)], "--json")?;
    let ratio = &records(&printed, "ratio")?[0];
    assert_eq!((&ratio["ratio_least"], &ratio["ratio_most"]), (&json!(0.5625), &Value::Null), "{ratio}");
    Ok(())
}

#[test]
fn failures_and_wrong_answers_fail_without_a_limit_too() -> Result<()> {
    let old = [steady("a", 1.0), steady("b", 1.0)];
    let failed =
        |name: Value| json!({"record": "failed", "suite": "exact", "case": name, "reason": "is off"});
    let mut wrong = steady("b", 1.0);
    wrong["verified"] = json!(false);
    for (line, told) in [
        (failed(json!("b")), "failed in new: exact: b: failed: is off\n"),
        (failed(json!("fresh")), "failed in new: exact: fresh: failed: is off\n"),
        (failed(Value::Null), "failed in new: exact: failed: is off\n"),
        (wrong, "failed in new: exact: b: answer is wrong\n"),
    ] {
        let new = [steady("a", 1.0), line];
        let (code, printed, said) = compare(&old, &new, "")?;
        assert_eq!((code, said.as_str()), (1, "error: new.jsonl: 1 of 2 cases failed\n"));
        assert!(printed.contains(told) && !printed.contains("b (the other file"), "told once: {printed}");
        // A case that failed before and runs now is no failure.
        assert_eq!(compare(&new, &old, "--fail-over 1%")?.0, 0);
    }
    let (_, _, said) = compare(&old, &[steady("a", 1.2), failed(json!("b"))], "--fail-over 10")?;
    assert_eq!(said, "error: --fail-over 10%: 1 of 2 cases slower, 1 failed\n");
    // Nor is one that failed and was then run again.
    assert_eq!(compare(&old, &[steady("a", 1.0), failed(json!("b")), steady("b", 1.0)], "")?.0, 0);
    Ok(())
}

#[test]
fn cases_match_by_name_and_the_last_repetition_counts() -> Result<()> {
    let gone = json!({"record": "not_run", "suite": "exact", "case": "gone", "reason": "no memory"});
    let old = [steady("a", 9.0), steady("a", 1.0), steady("gone", 1.0), steady("only", 1.0)];
    let new = [steady("a", 1.0), gone, steady("fresh", 1.0)];
    let (code, printed, _) = compare(&old, &new, "--fail-over 1%")?;
    assert_eq!(code, 0, "{printed}");
    for line in [
        "only in old: exact: gone (the other file: not run: no memory)\n",
        "only in old: exact: only\n",
        "only in new: exact: fresh\n",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    Ok(())
}

#[test]
fn bad_input_is_one_error_line() -> Result<()> {
    let directory = TempDir::new()?;
    let good = jsonl(&[steady("a", 1.0)]);
    for (name, text) in [
        ("good", good.as_str()),
        ("other", &jsonl(&[steady("b", 1.0)])),
        ("empty", ""),
        ("words", "what\n"),
        ("array", "[1]\n"),
    ] {
        fs::write(directory.path().join(name), text)?;
    }
    for (arguments, part) in [
        ("good other", "needed a case with times in both files, found none"),
        ("good empty", "empty: needed lines of `nearfield-bench --json`, found none"),
        ("words good", "words, line 1: needed JSON"),
        ("good array", "array, line 1: needed an object with a `record`"),
        ("none none", "error: none: "),
        ("good good --fail-over 0.1", "needed a percentage such as 10% or 0.5%"),
        ("good good --fail-over much", "--fail-over"),
        ("good good --fail-over nan%", "needed a percentage"),
        ("good good --fail-over=-5%", "needed a percentage"),
        ("good good third", "third"),
    ] {
        failed(&PROGRAM.run(directory.path(), &format!("compare {arguments}"))?, &[part])
            .with_context(|| arguments.to_owned())?;
    }
    Ok(())
}
