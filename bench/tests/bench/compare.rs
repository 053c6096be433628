//! `nearfield-bench compare`, from the outside. It needs no adapter.

use std::fs;

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{failed, jsonl, lines};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

fn device(version: &str) -> Value {
    json!({
        "record": "device", "schema": 1, "adapter": "NVIDIA H200", "backend": "vulkan", "driver": "580",
        "version": version, "revision": "abc", "date": "2026-11-21",
    })
}

/// A case with this median time, and a spread of a twentieth to both sides.
fn case(name: &str, ms: f64) -> Value {
    json!({
        "record": "case", "suite": "exact", "case": name, "ms": ms, "ms_least": 0.95 * ms, "ms_most": 1.05 * ms,
        "device_ms": 0.5 * ms, "verified": 4,
    })
}

/// A case with a least, median and most time.
fn spread(name: &str, [least, ms, most]: [f64; 3]) -> Value {
    let mut line = case(name, ms);
    line["ms_least"] = json!(least);
    line["ms_most"] = json!(most);
    line["device_ms"] = json!(null);
    line
}

/// Compares two texts: the exit code, the output, and the error line if there is one.
fn compare(old: &str, new: &str, options: &[&str]) -> Result<(i32, String, String)> {
    let directory = TempDir::new()?;
    fs::write(directory.path().join("old.jsonl"), old)?;
    fs::write(directory.path().join("new.jsonl"), new)?;
    let output =
        PROGRAM.run_words(directory.path(), &[&["compare", "old.jsonl", "new.jsonl"], options].concat())?;
    let complaint = String::from_utf8(output.stderr)?;
    ensure!(complaint.is_empty() || complaint.starts_with("error: "), "{complaint}");
    ensure!(complaint.lines().count() < 2, "{complaint}");
    Ok((output.status.code().context("a code")?, String::from_utf8(output.stdout)?, complaint))
}

/// The printed JSON lines of a record.
fn records(printed: &str, record: &str) -> Result<Vec<Value>> {
    Ok(lines(printed)?.into_iter().filter(|line| line["record"] == record).collect())
}

/// Exit code and verdict for a case whose times went from `old` to `new`.
fn verdict(old: [f64; 3], new: [f64; 3], options: &[&str]) -> Result<(i32, String)> {
    let [old, new] = [old, new].map(|times| jsonl(&[device("1"), spread("a", times)]));
    let (code, printed, _) = compare(&old, &new, &[&["--json"], options].concat())?;
    let ratios = records(&printed, "ratio")?;
    Ok((code, ratios[0]["verdict"].as_str().context("a verdict")?.to_owned()))
}

#[test]
fn ratios_come_from_medians_and_ranges_from_the_ends() -> Result<()> {
    let old = jsonl(&[device("0.1.0"), case("a", 2.0), case("b", 1.0)]);
    let new = jsonl(&[device("0.2.0"), case("b", 0.5), case("a", 3.0)]);
    let (code, printed, complaint) = compare(&old, &new, &[])?;
    assert_eq!((code, complaint.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| rows.iter().find(|row| row.last() == Some(&name)).cloned().unwrap_or_default();
    let slower = ["2.000", "3.000", "1.500", "(1.357", "..", "1.658)", "slower", "1.500", "slower", "a"];
    let faster = ["1.000", "0.500", "0.500", "(0.452", "..", "0.553)", "faster", "0.500", "faster", "b"];
    assert_eq!((&row("a")[..], &row("b")[..]), (&slower[..], &faster[..]));
    assert!(printed.contains("different: version"), "{printed}");
    assert!(
        printed.starts_with("old: old.jsonl: NVIDIA H200, vulkan, 580, nearfield 0.1.0, abc, 2026-11-21\n")
    );
    let (_, lines, _) = compare(&old, &new, &["--json"])?;
    let (ratio, head) = (&records(&lines, "ratio")?[0], &records(&lines, "compare")?[0]);
    assert_eq!(
        (&ratio["case"], &ratio["ratio"], &ratio["device_ratio"]),
        (&json!("a"), &json!(1.5), &json!(1.5))
    );
    assert_eq!((&ratio["ratio_least"], &ratio["ratio_most"]), (&json!(1.357), &json!(1.658)));
    assert_eq!((&ratio["old_device_ms"], &head["differs"]), (&json!(1.0), &json!(["version"])));
    let mean = &records(&lines, "mean")?[0];
    assert_eq!((&mean["cases"], &mean["ratio"]), (&json!(2), &json!(0.866)));
    Ok(())
}

#[test]
fn a_case_past_the_limit_fails_unless_it_is_noisy() -> Result<()> {
    let old = [0.9, 1.0, 1.3];
    let limit = ["--fail-over", "10%"];
    for (new, wanted) in [
        ([1.35, 1.4, 1.5], (1, "slower")),
        // Even the least new time is above the old median, but not above all old times.
        ([1.05, 1.2, 1.3], (0, "noisy")),
        ([0.95, 1.2, 1.3], (0, "noisy")),
        ([1.05, 1.09, 1.3], (0, "same")),
        ([0.7, 0.8, 0.85], (0, "faster")),
        ([0.7, 0.8, 0.95], (0, "noisy")),
        ([0.7, 0.8, 1.05], (0, "noisy")),
    ] {
        let (code, verdict) = verdict(old, new, &limit)?;
        assert_eq!((code, verdict.as_str()), wanted, "{new:?}");
    }
    // Without a limit nothing fails, and a verdict needs times that do not overlap.
    assert_eq!(verdict(old, [1.25, 1.5, 1.6], &[])?, (0, "same".to_owned()));
    assert_eq!(verdict(old, [1.35, 1.5, 1.6], &[])?, (0, "slower".to_owned()));
    Ok(())
}

#[test]
fn one_error_line_after_the_table_counts_slower_cases() -> Result<()> {
    let old = jsonl(&[device("1"), case("a", 1.0), case("b", 1.0), case("c", 1.0)]);
    let mut wrong = case("c", 1.0);
    wrong["verified"] = json!(false);
    let new = jsonl(&[device("1"), case("a", 1.2), case("b", 1.0), wrong]);
    let (code, printed, complaint) = compare(&old, &new, &["--fail-over", "10"])?;
    assert_eq!(code, 1);
    assert_eq!(complaint, "error: --fail-over 10%: 1 of 3 cases slower, 1 failed\n");
    assert!(printed.contains("slower") && printed.contains("exact: c: answer is wrong"), "{printed}");
    assert_eq!(compare(&old, &new, &["--fail-over", "0.5%"])?.0, 1);
    assert_eq!(compare(&old, &old, &["--fail-over", "0"])?.0, 0);
    Ok(())
}

#[test]
fn failures_and_wrong_answers_fail_without_a_limit_too() -> Result<()> {
    let old = jsonl(&[device("1"), case("a", 1.0), case("b", 1.0)]);
    let failed =
        |name: Value| json!({"record": "failed", "suite": "exact", "case": name, "reason": "is off"});
    let mut wrong = case("b", 1.0);
    wrong["verified"] = json!(false);
    for (line, told) in [
        (failed(json!("b")), "  exact: b: failed: is off\n"),
        (failed(json!("fresh")), "  exact: fresh: failed: is off\n"),
        (failed(Value::Null), "  exact: failed: is off\n"),
        (wrong, "  exact: b: answer is wrong\n"),
    ] {
        let new = jsonl(&[device("1"), case("a", 1.0), line]);
        for (options, complaint) in
            [(&[][..], "new.jsonl: 1 of 2 cases failed"), (&["--fail-over", "1%"], "failed")]
        {
            let (code, printed, said) = compare(&old, &new, options)?;
            assert!(code == 1 && said.contains(complaint), "{code} {said}");
            assert!(printed.contains(&format!("\nfailed in new\n{told}")), "{printed}");
            assert!(!printed.contains("b (the other file"), "told once: {printed}");
        }
        let (code, printed, _) = compare(&old, &new, &["--json"])?;
        assert_eq!((code, records(&printed, "failed")?.len()), (1, 1), "{printed}");
        // A case that failed before and runs now is no failure.
        assert_eq!(compare(&new, &old, &["--fail-over", "1%"])?.0, 0);
    }
    // Nor is one that failed and was then run again.
    let again = jsonl(&[device("1"), case("a", 1.0), failed(json!("b")), case("b", 1.0)]);
    assert_eq!(compare(&old, &again, &[])?.0, 0);
    Ok(())
}

#[test]
fn a_case_may_be_slower_only_on_the_device() -> Result<()> {
    let timed = |[least, ms, most]: [f64; 3]| {
        let mut line = case("a", 1.0);
        line["device_ms"] = json!(ms);
        line["device_ms_least"] = json!(least);
        line["device_ms_most"] = json!(most);
        jsonl(&[device("1"), line])
    };
    let old = timed([0.19, 0.2, 0.21]);
    for (new, limit, code, verdict) in [
        ([0.29, 0.3, 0.31], Some("10%"), 1, "slower"),
        ([0.19, 0.3, 0.31], Some("10%"), 0, "noisy"),
        ([0.2, 0.21, 0.22], Some("10%"), 0, "same"),
        ([0.29, 0.3, 0.31], None, 0, "slower"),
    ] {
        let limit = limit.map_or(vec![], |limit| vec!["--fail-over", limit]);
        let (found, printed, _) = compare(&old, &timed(new), &[&["--json"][..], &limit].concat())?;
        let ratios = records(&printed, "ratio")?;
        assert_eq!((found, &ratios[0]["device_verdict"]), (code, &json!(verdict)), "{printed}");
        assert_eq!(ratios[0]["verdict"], "same");
    }
    Ok(())
}

#[test]
fn a_least_time_of_zero_is_kept() -> Result<()> {
    // The clock was too coarse: the case is not certainly slower, and its range has no upper end.
    let (coarse, fine) = ([0.0, 1.5, 1.6], [0.9, 1.0, 1.1]);
    assert_eq!(verdict(fine, coarse, &["--fail-over", "10%"])?, (0, "noisy".to_owned()));
    for (old, new, range) in
        [(fine, coarse, [json!(0.0), json!(1.778)]), (coarse, fine, [json!(0.5625), json!(null)])]
    {
        let lines = |times| jsonl(&[device("1"), spread("a", times)]);
        let (_, printed, _) = compare(&lines(old), &lines(new), &["--json"])?;
        let ratio = &records(&printed, "ratio")?[0];
        assert_eq!([&ratio["ratio_least"], &ratio["ratio_most"]], [&range[0], &range[1]], "{ratio}");
    }
    Ok(())
}

#[test]
fn cases_of_one_file_are_listed_and_the_last_repetition_counts() -> Result<()> {
    let gone = json!({"record": "not_run", "suite": "exact", "case": "gone", "reason": "no memory"});
    let old = jsonl(&[device("1"), case("a", 9.0), case("a", 1.0), case("gone", 1.0), case("only", 1.0)]);
    let new = jsonl(&[device("1"), case("a", 1.0), gone, case("fresh", 1.0)]);
    let (code, printed, _) = compare(&old, &new, &["--fail-over", "1%"])?;
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("repeated cases: 1, the last of each counts"), "{printed}");
    assert!(
        printed
            .contains("\nonly in old\n  exact: gone (the other file: not run: no memory)\n  exact: only\n")
    );
    assert!(printed.contains("\nonly in new\n  exact: fresh\n"), "{printed}");
    Ok(())
}

#[test]
fn rungs_match_by_letter_name_and_length() -> Result<()> {
    let rung = |length: u64| json!({"record": "rung", "suite": "reduce", "rung": "a", "name": "adds", "length": length, "ms": 1.0});
    let (_, printed, _) = compare(&jsonl(&[rung(8)]), &jsonl(&[rung(9), rung(8)]), &["--json"])?;
    let (ratios, only) = (records(&printed, "ratio")?, records(&printed, "only")?);
    assert_eq!((&ratios[0]["suite"], &ratios[0]["case"]), (&json!("ladder"), &json!("a adds, length 8")));
    assert_eq!((ratios.len(), only.len()), (1, 1), "{printed}");
    Ok(())
}

#[test]
fn bad_input_is_one_error_line() -> Result<()> {
    let good = jsonl(&[device("1"), case("a", 1.0)]);
    let other = jsonl(&[device("1"), case("b", 1.0)]);
    let cases: [(&str, &str, &[&str], i32, &str); 9] = [
        (&good, &other, &[], 1, "needed a case with times in both files, found none"),
        (&good, "", &[], 1, "new.jsonl: needed lines of `nearfield-bench --json`, found none"),
        ("what\n", &good, &[], 1, "old.jsonl, line 1: needed JSON"),
        (&good, "[1]\n", &[], 1, "new.jsonl, line 1: needed an object with a `record`"),
        (&good, &good, &["--fail-over", "0.1"], 2, "needed a percentage such as 10% or 0.5%"),
        (&good, &good, &["--fail-over", "much"], 2, "--fail-over"),
        (&good, &good, &["--fail-over", "nan%"], 2, "needed a percentage"),
        (&good, &good, &["--fail-over=-5%"], 2, "needed a percentage"),
        (&good, &good, &["third.jsonl"], 2, "third.jsonl"),
    ];
    for (old, new, options, wanted, part) in cases {
        let (code, printed, complaint) = compare(old, new, options)?;
        assert_eq!(code, wanted, "{complaint}");
        assert!(complaint.contains(part) && printed.is_empty(), "{part}: {complaint}{printed}");
    }
    let directory = TempDir::new()?;
    let output = PROGRAM.run_words(directory.path(), &["compare", "none.jsonl", "none.jsonl"])?;
    failed(&output, &["error: none.jsonl: "])
}
