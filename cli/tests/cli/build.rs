//! `nearfield build`, and `nearfield search` of what it saved.

use std::fs;

use anyhow::{Result, ensure};
use nearfield::Metric;
use nearfield::io::{Ids, read_ids, write_npy, write_truth};
use nearfield_testing::programs::has_device;
use nearfield_testing::rounded;
use nearfield_testing::sets::{clustered, nearest};
use tempfile::TempDir;

use crate::PROGRAM;

#[test]
fn a_saved_index_finds_what_its_rows_do() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let directory = TempDir::new()?;
    let at = directory.path();
    let (halves, rows) = rounded(&clustered(800, 32, 1));
    let queries = clustered(30, 32, 2);
    write_npy(at.join("b.npy"), [800, 32], &halves)?;
    write_npy(at.join("q.npy"), [30, 32], &queries)?;
    let (values, distances) = nearest(Metric::Cosine, &rows, &queries, 32, 20);
    write_truth(at.join("truth.npz"), &Ids { values, rows: 30, width: 20 }, &distances)?;
    let (rows, queries, truth) = ("b.npy", "--queries q.npy -k 20", "--truth truth.npz");
    PROGRAM.succeed(at, &format!("search --rows {rows} {queries} --metric cosine --ids rows.npy"))?;
    let wanted = read_ids(at.join("rows.npy"))?;
    for (kind, more, probes) in [("flat", "", ""), ("ivf", "--lists 20", "--probes 20")] {
        let built = PROGRAM.record(
            at,
            &format!("build --rows {rows} --index {kind} {more} --metric cosine --out {kind}.nf"),
        )?;
        assert_eq!((built["rows"].as_u64(), built["index"].as_str()), (Some(800), Some(kind)), "{built}");
        assert_eq!(built["bytes"].as_u64(), Some(fs::metadata(at.join(format!("{kind}.nf")))?.len()));
        let search = format!("search --index-file {kind}.nf {queries} {probes} {truth}");
        let record = PROGRAM.record(at, &format!("{search} --ids {kind}.npy"))?;
        assert_eq!(record["metric"], "cosine", "{record}");
        assert_eq!((&record["elements"], &record["rows"]), (&"f16".into(), &800.into()), "{record}");
        assert!(record["recall_by_distance"].as_f64() == Some(1.0), "{record}");
        assert_eq!(read_ids(at.join(format!("{kind}.npy")))?.values, wanted.values, "{kind}");
        let printed = PROGRAM.succeed(at, &search)?;
        assert!(
            printed.contains(&format!("{kind}.nf")) && printed.contains("metric     cosine"),
            "{printed}"
        );
    }
    // By default a part of the lists.
    let printed = PROGRAM.succeed(at, &format!("search --index-file ivf.nf {queries}"))?;
    assert!(printed.contains("1 of 20 lists"), "{printed}");
    let printed = PROGRAM.succeed(at, &format!("build --rows {rows} --index ivf --out ivf.nf --force"))?;
    assert!(printed.contains("ivf, 25 lists"), "{printed}");
    // Probes that the index has not.
    PROGRAM.fail(
        at,
        &format!("search --index-file flat.nf {queries} --probes 2"),
        &["--probes", "ivf", "flat.nf"],
    )?;
    PROGRAM.fail(
        at,
        &format!("search --index-file ivf.nf {queries} --probes 5000"),
        &["--probes", "lists", "5000"],
    )?;
    // A damaged file.
    let mut bytes = fs::read(at.join("flat.nf"))?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(at.join("damaged.nf"), &bytes)?;
    PROGRAM.fail(
        at,
        &format!("search --index-file damaged.nf {queries}"),
        &["--index-file", "damaged.nf", "checksum"],
    )
}

#[test]
fn a_row_that_no_index_takes_is_named_by_its_number_in_the_file() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let directory = TempDir::new()?;
    let mut values = vec![1.0f32; 500 * 4];
    // Row 96 of the 128 that two lists are trained on.
    values[375 * 4] = f32::INFINITY;
    write_npy(directory.path().join("b.npy"), [500, 4], &values)?;
    for kind in ["flat", "ivf --lists 2", "ivf --lists 100"] {
        PROGRAM.fail(
            directory.path(),
            &format!("build --rows b.npy --index {kind} --out i.nf"),
            &["row 375 holds"],
        )?;
    }
    write_npy::<f32>(directory.path().join("none.npy"), [0, 4], &[])?;
    PROGRAM.fail(
        directory.path(),
        "build --rows none.npy --index ivf --out i.nf",
        &["--rows", "at least one"],
    )
}

#[test]
fn refuses_bad_arguments() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    write_npy(at.join("three.npy"), [3, 2], &[0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0])?;
    let rows = "build --rows three.npy";
    fs::write(at.join("old.nf"), "old")?;
    for (arguments, parts) in [
        (format!("{rows} --out index.npy"), ["--out", "index.npy", ".nf"]),
        (format!("{rows} --out missing/index.nf"), ["--out", "directory", "missing"]),
        (format!("{rows} --out old.nf"), ["--out", "--force", "old.nf"]),
        (format!("{rows} --out i.nf --lists 3"), ["--lists", "--index ivf", "flat"]),
        (format!("{rows} --out i.nf --lists 4 --index ivf"), ["--lists", "1 to 3", "4"]),
        (format!("{rows} --out i.nf --index tree"), ["--index", "flat", "ivf"]),
        (format!("{rows} --out i.nf --metric near"), ["--metric", "l2sq", "near"]),
        ("build --rows missing.npy --out i.nf".into(), ["--rows", "missing.npy", ""]),
        ("search --queries three.npy".into(), ["required", "--rows", ""]),
        (
            "search --index-file old.nf --rows three.npy --queries three.npy".into(),
            ["--index-file", "--rows", ""],
        ),
        (
            "search --index-file old.nf --metric ip --queries three.npy".into(),
            ["--index-file", "--metric", ""],
        ),
        ("search --rows three.npy --probes 2 --queries three.npy".into(), ["--probes", "--rows", ""]),
        ("search --index-file old.nf --queries three.npy".into(), ["--index-file", "old.nf", "nearfield"]),
        ("search --index-file no.nf --queries three.npy".into(), ["--index-file", "no.nf", ""]),
    ] {
        PROGRAM.fail(at, &arguments, &parts)?;
    }
    ensure!(fs::read(at.join("old.nf"))? == b"old" && !at.join("i.nf").exists());
    Ok(())
}
