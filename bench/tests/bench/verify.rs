//! `nearfield-bench verify`, from the outside.

use anyhow::{Context, Result, ensure};
use nearfield::Metric;
use nearfield::io::{VectorFile, write_npy};
use serde_json::Value;
use tempfile::TempDir;

use crate::PROGRAM;

/// The devices of this machine that are verified.
fn devices() -> Vec<&'static str> {
    let is_there = nearfield::Device::named("gpu").is_ok();
    let required = std::env::var("NEARFIELD_REQUIRE_GPU").is_ok_and(|value| value == "1");
    assert!(is_there || !required, "there is no adapter");
    if is_there { vec!["host", "gpu"] } else { vec!["host"] }
}

/// The pair is what the files say of it.
fn check(worst: &Value, metric: Metric, [rows, queries]: &[Vec<f32>; 2], dim: usize) -> Result<()> {
    for name in ["largest", "nearest_bound"] {
        let one = &worst[name];
        let number = |field: &str| one[field].as_f64().with_context(|| format!("{field} of {one}"));
        let vector = |values: &[f32], place: f64| values[place as usize * dim..][..dim].to_vec();
        let (query, row) = (vector(queries, number("query")?), vector(rows, number("row")?));
        let exact = metric.exact(&query, &row);
        // Readers of JSON may round the last bit.
        let is = |number: f64, wanted: f64| (number - wanted).abs() <= 1e-12 * (1.0 + wanted.abs());
        ensure!(is(number("exact")?, exact), "{one}");
        ensure!(is(number("error")?, (number("reported")? - exact).abs()), "{one}");
        ensure!(is(number("bound")? * 1e6, metric.error_bound(&query, &row) * 1e6), "{one}");
        ensure!(number("error")? <= number("bound")?, "{one}");
    }
    Ok(())
}

#[test]
fn every_device_keeps_its_bounds() -> Result<()> {
    let directory = TempDir::new()?;
    let here = directory.path();
    let set = "generate --data embedding --count 900 --dim 24 --query-count 12 --out-rows r.npy --out-queries q.npy";
    PROGRAM.succeed(here, set)?;
    let read = |name: &str| anyhow::Ok(VectorFile::open(here.join(name))?.read_all()?.into_f32());
    let vectors = [read("r.npy")?, read("q.npy")?];
    for device in devices() {
        for metric in Metric::ALL {
            let of = format!("verify --rows r.npy --queries q.npy -k 7 --metric {metric} --device {device}");
            let record = PROGRAM.record(here, &format!("{of} --sample 50"))?;
            assert_eq!(
                (&record["rows"], &record["queries"], &record["k"]),
                (&900.into(), &12.into(), &7.into())
            );
            assert_eq!(record["metric"], metric.name());
            for (name, compared) in [("search", 7 * 12), ("pairs", 50 * 12)] {
                let worst = &record[name];
                assert_eq!((&worst["compared"], &worst["exceeded"]), (&compared.into(), &0.into()), "{name}");
                check(worst, metric, &vectors, 24).with_context(|| format!("{device} {metric} {name}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn prints_text_and_fewer_results_where_there_are_fewer() -> Result<()> {
    let directory = TempDir::new()?;
    let here = directory.path();
    write_npy(here.join("three.npy"), [3, 2], &[0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0])?;
    write_npy(here.join("none.npy"), [0, 2], &[0.0f32; 0])?;
    let printed =
        PROGRAM.succeed(here, "verify --rows three.npy --queries three.npy --metric l2 --device host")?;
    for part in
        ["device     host, ", "9 distances compared, 0 exceed", "largest error    0.000e0", "query 0, row 0"]
    {
        ensure!(printed.contains(part), "{part}: {printed}");
    }
    let none = "verify --rows three.npy --queries none.npy --device host";
    let found = PROGRAM.record(here, none)?;
    assert_eq!((&found["search"]["compared"], &found["pairs"]), (&0.into(), &Value::Null));
    let threads = PROGRAM.record(here, &format!("{none} --threads 3"))?;
    assert_eq!(threads["device"]["name"], "host, 3 threads");
    let unsampled = "verify --rows three.npy --queries three.npy --device host --sample 0";
    let found = PROGRAM.record(here, unsampled)?;
    assert_eq!((&found["search"]["compared"], &found["pairs"]), (&9.into(), &Value::Null));
    Ok(())
}

#[test]
fn refuses_bad_input() -> Result<()> {
    let directory = TempDir::new()?;
    let here = directory.path();
    write_npy(here.join("two.npy"), [2, 2], &[0.0f32, 0.0, 3.0, 4.0])?;
    write_npy(here.join("wide.npy"), [1, 3], &[0.0f32, 0.0, 3.0])?;
    write_npy(here.join("broken.npy"), [2, 2], &[1.0f32, 2.0, f32::NAN, 4.0])?;
    for (arguments, parts) in [
        ("--rows two.npy", &["required", "--queries"][..]),
        ("--rows missing.npy --queries two.npy", &["--rows", "missing.npy"]),
        ("--rows two.npy --queries missing.npy", &["--queries", "missing.npy"]),
        ("--rows two.npy --queries wide.npy", &["--queries", "needed dim 2", "given dim 3"]),
        ("--rows broken.npy --queries two.npy --device host", &["--rows", "broken.npy", "row 1"]),
        ("--rows two.npy --queries broken.npy --device host", &["--queries", "broken.npy", "row 1"]),
        (
            "--rows two.npy --queries two.npy --metric far",
            &["'far'", "--metric", "l2sq, l2, cosine, ip, hamming or jaccard"],
        ),
        ("--rows two.npy --queries two.npy --sample few", &["'few'", "--sample"]),
        ("--rows two.npy --queries two.npy -k 0", &["'0'", "at least 1"]),
        ("--rows two.npy --queries two.npy --device nobody", &["--device", "\"nobody\""]),
    ] {
        PROGRAM.fail(here, &format!("verify {arguments}"), parts)?;
    }
    Ok(())
}
