//! `nearfield info --test` and `--report`.

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{adapter, has_adapter};
use serde_json::Value;

use crate::Here;

/// Fails unless a report has these fields, and no others.
fn has(value: &Value, fields: &[&str]) -> Result<()> {
    let mut found: Vec<_> = value.as_object().context("an object")?.keys().map(String::as_str).collect();
    let mut fields = fields.to_vec();
    found.sort_unstable();
    fields.sort_unstable();
    ensure!(found == fields, "needed {fields:?}, found {found:?}");
    Ok(())
}

const FIELDS: [&str; 7] = ["version", "system", "architecture", "adapter", "forms", "checks", "times"];

#[test]
fn a_report_has_times_of_the_host_and_says_that_it_runs_no_kernels() -> Result<()> {
    let here = Here::new()?;
    let report = "info --report report.json --device host";
    let printed = here.run(report)?;
    for part in
        ["\n  kind         host\n", "runs no kernels, so there is nothing to test.", "wrote report.json"]
    {
        ensure!(printed.contains(part), "{part}: {printed}");
    }
    here.fail(
        "info",
        &[
            ("--report report.json --device host", &["--report", "needed a new file or --force"]),
            ("--report report.txt", &["--report", ".json"]),
            ("--force", &["--force: needed a file to replace by --report, given none"]),
            ("--device host", &["--device: needed --test or --report", "given host"]),
        ],
    )?;
    let text = here.text("report.json")?;
    ensure!(!text.contains(here.path().to_str().context("a path")?), "{text}");
    let document: Value = serde_json::from_str(&text)?;
    has(&document, &FIELDS)?;
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["adapter"]["kind"], "host");
    ensure!(document["forms"].is_null() && document["checks"] == serde_json::json!([]), "{document}");
    let times = document["times"].as_array().context("a list")?;
    let queries: Vec<_> = times.iter().map(|one| (one["index"].as_str(), one["queries"].as_u64())).collect();
    let of = |index| [1, 100, 1000].map(|queries| (Some(index), Some(queries)));
    assert_eq!(queries, [of("flat"), of("ivf")].concat());
    for one in times {
        has(one, &["index", "rows", "dim", "queries", "milliseconds", "stages"])?;
        ensure!(one["milliseconds"].as_f64() > Some(0.0) && one["stages"].is_null(), "{one}");
    }
    Ok(())
}

#[test]
fn kernels_answer_on_the_adapter_as_the_host_does() -> Result<()> {
    if !has_adapter() {
        return Ok(());
    }
    let printed = Here::new()?.run(&format!("info --test --json --device {}", adapter()))?;
    let document: Value = serde_json::from_str(&printed)?;
    has(&document, &FIELDS)?;
    ensure!(document["times"].is_null() && document["adapter"]["max_buffer_bytes"].is_u64(), "{document}");
    let forms = &document["forms"];
    let fields = ["subgroups", "byte_products", "registers", "matrix_side", "matrices_are_right", "refusals"];
    has(forms, &fields)?;
    ensure!([64, 128].map(Value::from).contains(&forms["registers"]), "{forms}");
    let checks = document["checks"].as_array().context("a list")?;
    // Two kinds of index or more, of two kinds of elements and four metrics.
    ensure!(checks.len() >= 16 && checks.iter().all(|check| check["passed"] == true), "{document}");
    checks.iter().try_for_each(|check| has(check, &["name", "passed", "differed"]))
}
