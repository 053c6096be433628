//! `nearfield build`, and `nearfield search` of what it saved.

use std::fs;

use anyhow::{Context, Result, ensure};
use nearfield::Metric;
use nearfield::io::{Ids, write_npy, write_truth};
use nearfield_testing::programs::has_device;
use nearfield_testing::rounded;
use nearfield_testing::sets::{clustered, nearest};

use crate::Here;

#[test]
fn a_saved_index_finds_what_its_rows_do() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::new()?;
    let (halves, rows) = rounded(&clustered(800, 32, 1));
    let queries = clustered(30, 32, 2);
    write_npy(here.at("b.npy"), [800, 32], &halves)?;
    here.write("q.npy", [30, 32], &queries)?;
    let (values, distances) = nearest(Metric::Cosine, &rows, &queries, 32, 20);
    write_truth(here.at("truth.npz"), &Ids { values, rows: 30, width: 20 }, &distances)?;
    let (queries, truth) = ("--queries q.npy -k 20", "--truth truth.npz");
    here.run(&format!("search --rows b.npy {queries} --metric cosine --ids rows.npy"))?;
    let wanted = here.ids("rows.npy")?;
    for (kind, more, probes) in [("flat", "", ""), ("ivf", "--lists 20", "--probes 20")] {
        let build = format!("build --rows b.npy --index {kind} {more} --metric cosine --out {kind}.nf");
        let built = here.record(&build)?;
        assert_eq!((built["rows"].as_u64(), built["index"].as_str()), (Some(800), Some(kind)), "{built}");
        assert_eq!(built["bytes"].as_u64(), Some(here.read(&format!("{kind}.nf"))?.len() as u64));
        let search = format!("search --index-file {kind}.nf {queries} {probes} {truth}");
        let record = here.record(&format!("{search} --ids {kind}.npy"))?;
        assert_eq!(record["metric"], "cosine", "{record}");
        assert_eq!((&record["elements"], &record["rows"]), (&"f16".into(), &800.into()), "{record}");
        assert!(record["recall_by_distance"].as_f64() == Some(1.0), "{record}");
        assert_eq!(here.ids(&format!("{kind}.npy"))?.values, wanted.values, "{kind}");
        let printed = here.run(&search)?;
        assert!(printed.contains(&format!("{kind}.nf")), "{printed}");
        assert!(printed.contains("metric     cosine"), "{printed}");
    }
    // By default a part of the lists.
    let printed = here.run(&format!("search --index-file ivf.nf {queries}"))?;
    assert!(printed.contains("1 of 20 lists"), "{printed}");
    let printed = here.run("build --rows b.npy --index ivf --out ivf.nf --force")?;
    assert!(printed.contains("ivf, 25 lists"), "{printed}");
    let mut bytes = here.read("flat.nf")?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(here.at("damaged.nf"), &bytes)?;
    here.fail(
        &format!("search {queries} --index-file"),
        &[
            // Probes that the index has not.
            ("flat.nf --probes 2", &["--probes", "ivf", "flat.nf"]),
            ("ivf.nf --probes 5000", &["--probes", "lists", "5000"]),
            ("damaged.nf", &["--index-file", "damaged.nf", "checksum"]),
        ],
    )
}

#[test]
fn rows_of_integers_are_stored_as_they_are() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::new()?;
    let rows: Vec<u8> = (0..900u32 * 20).map(|at| (at * at % 251) as u8).collect();
    let wide: Vec<f32> = rows.iter().map(|&x| x.into()).collect();
    write_npy(here.at("b.npy"), [900, 20], &rows)?;
    here.write("wide.npy", [900, 20], &wide)?;
    write_npy(here.at("q.npy"), [9, 20], &rows[40 * 20..49 * 20])?;
    let search = "--queries q.npy -k 7 --force --ids ids.npy --distances d.npy";
    let record = here.record(&format!("search --rows b.npy --metric l2sq {search}"))?;
    assert_eq!((&record["elements"], &record["converted"]), (&"u8".into(), &serde_json::Value::Null));
    let wanted = (here.ids("ids.npy")?, here.read("d.npy")?);
    // Whole numbers of another type fit, too, where all are in its range.
    for build in [
        "--rows b.npy",
        "--rows wide.npy --elements u8",
        "--rows wide.npy --elements u8 --index ivf --lists 6",
    ] {
        here.run(&format!("build {build} --metric l2sq --out b.nf --force"))?;
        let probes = if build.contains("ivf") { "--probes 6" } else { "" };
        let record = here.record(&format!("search --index-file b.nf {probes} {search}"))?;
        assert_eq!(record["elements"], "u8", "{build}");
        assert!((here.ids("ids.npy")?, here.read("d.npy")?) == wanted, "{build}: another answer");
    }
    here.fail(
        "build --rows wide.npy --metric l2sq --out other.nf",
        &[("--elements i8", &["--elements: needed numbers that i8 holds exactly", "in row 0"])],
    )
}

#[test]
fn bits_are_searched_as_bits_where_the_caller_says_so() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::new()?;
    let rows: Vec<u8> = (0..700u32 * 3).map(|at| (at * at % 253) as u8).collect();
    let bools: Vec<u8> = rows.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    write_npy(here.at("b.npy"), [700, 3], &rows)?;
    write_npy(here.at("q.npy"), [4, 3], &rows[30..42])?;
    // The header of bytes says that they are bools.
    let npy = |name: &str, shape: [usize; 2], values: &[u8]| -> Result<()> {
        write_npy(here.at(name), shape, values)?;
        let bytes = here.read(name)?;
        let place = bytes.windows(3).position(|word| word == b"|u1").context("a header")?;
        fs::write(here.at(name), [&bytes[..place], b"|b1", &bytes[place + 3..]].concat())?;
        Ok(())
    };
    npy("bools.npy", [700, 24], &bools)?;
    npy("odd.npy", [2, 12], &bools[..24])?;
    let wanted: Vec<Vec<(u32, i64)>> = rows[30..42]
        .chunks(3)
        .map(|query| {
            let distance = |row: &[u8]| query.iter().zip(row).map(|(q, x)| (q ^ x).count_ones()).sum();
            let mut all: Vec<(u32, i64)> = rows.chunks(3).map(distance).zip(0..).collect();
            all.sort_unstable();
            all.truncate(6);
            all
        })
        .collect();
    let check = |arguments: &str| -> Result<()> {
        let record =
            here.record(&format!("search {arguments} -k 6 --force --ids ids.npy --distances d.npy"))?;
        assert_eq!(
            (&record["elements"], &record["metric"]),
            (&"bits".into(), &"hamming".into()),
            "{arguments}"
        );
        let ids: Vec<i64> = wanted.iter().flatten().map(|hit| hit.1).collect();
        assert_eq!(here.ids("ids.npy")?.values, ids, "{arguments}");
        Ok(())
    };
    check("--rows b.npy --queries q.npy --bits")?;
    check("--rows bools.npy --queries q.npy --bits")?;
    check("--rows b.npy --queries q.npy --bits --metric hamming --residency mapped")?;
    here.run("build --rows bools.npy --bits --metric hamming --out b.nf")?;
    check("--index-file b.nf --queries q.npy")?;
    here.fail(
        "search",
        &[
            ("--rows b.npy --queries q.npy --metric hamming", &["--metric hamming: needed --bits"]),
            (
                "--rows b.npy --queries q.npy --bits --metric l2",
                &["--bits: needed --metric hamming or jaccard"],
            ),
            ("--rows bools.npy --queries q.npy", &["needed dim 24"]),
            ("--rows bools.npy --queries bools.npy", &["needed numbers, or --bits", "bool in row 0"]),
            ("--rows odd.npy --queries q.npy --bits", &["--rows", "a multiple of eight", "12 of bool"]),
        ],
    )?;
    here.run("build --rows b.npy --bits --index ivf --lists 4 --out lists.nf")?;
    check("--index-file lists.nf --queries q.npy --probes 4")
}

#[test]
fn store_quantises_rows_and_says_so() -> Result<()> {
    let here = Here::new()?;
    here.write("a.npy", [2, 4], &[0.5f32, -1.0, 0.25, 0.0, 2.0, 0.0, 0.0, 1.0])?;
    here.run("build --device host --rows a.npy --store i8 --out i.nf")?;
    let record = here.record("show i.nf")?;
    assert_eq!((&record["elements"], &record["quantises"]), (&"i8".into(), &true.into()));
    let record = here.record("search --device host --index-file i.nf --queries a.npy -k 1")?;
    assert_eq!(record["rows"], 2);
    here.fail(
        "build --device host --rows a.npy --out j.nf --store i8",
        &[
            ("--metric ip", &["store: needed f32, f16 or bf16, or i8 under the metric cosine", "metric ip"]),
            ("--elements i8", &["cannot be used with"]),
            ("--residency mapped", &["rows as the file has them, given --store"]),
        ],
    )
}

#[test]
fn a_row_that_no_index_takes_is_named_by_its_number_in_the_file() -> Result<()> {
    if !has_device() {
        return Ok(());
    }
    let here = Here::new()?;
    let mut values = vec![1.0f32; 500 * 4];
    // Row 96 of the 128 that two lists are trained on.
    values[375 * 4] = f32::INFINITY;
    here.write("b.npy", [500, 4], &values)?;
    here.write("none.npy", [0, 4], &[])?;
    here.fail(
        "build --out i.nf",
        &[
            ("--rows b.npy --index flat", &["row 375 holds"]),
            ("--rows b.npy --index ivf --lists 2", &["row 375 holds"]),
            ("--rows b.npy --index ivf --lists 100", &["row 375 holds"]),
            ("--rows none.npy --index ivf", &["--rows", "at least one"]),
        ],
    )
}

#[test]
fn refuses_bad_arguments() -> Result<()> {
    let here = Here::with_three_rows()?;
    fs::write(here.at("old.nf"), "old")?;
    here.fail(
        "build --rows three.npy --out",
        &[
            ("index.npy", &["--out", "index.npy", ".nf"]),
            ("missing/index.nf", &["--out", "directory", "missing"]),
            ("old.nf", &["--out", "--force", "old.nf"]),
            ("i.nf --lists 3", &["--lists", "--index ivf", "flat"]),
            ("i.nf --lists 4 --index ivf", &["--lists", "1 to 3", "4"]),
            ("i.nf --index tree", &["--index", "flat", "ivf"]),
            ("i.nf --metric near", &["--metric", "l2sq", "near"]),
        ],
    )?;
    here.fail("build", &[("--rows missing.npy --out i.nf", &["--rows", "missing.npy"])])?;
    here.fail(
        "search --queries three.npy",
        &[
            ("", &["required", "--rows"]),
            ("--index-file old.nf --rows three.npy", &["--index-file", "--rows"]),
            ("--index-file old.nf --metric ip", &["--index-file", "--metric"]),
            ("--rows three.npy --probes 2", &["--probes", "--rows"]),
            ("--index-file old.nf", &["--index-file", "old.nf", "nearfield"]),
            ("--index-file no.nf", &["--index-file", "no.nf"]),
        ],
    )?;
    ensure!(here.read("old.nf")? == b"old" && !here.at("i.nf").exists());
    Ok(())
}
