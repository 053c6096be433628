//! `nearfield search` with everything that it takes and writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use nearfield::io::{VectorFile, read_distances};
use nearfield_testing::programs::lines;
use nearfield_testing::sets::clustered;
use serde_json::{Value, json};

use crate::Here;

/// Ten rows of two elements around a circle, and two of them as queries.
fn circle() -> Result<Here> {
    let here = Here::new()?;
    let angle = |row: usize| (row as f32 * 0.2).sin_cos();
    let rows: Vec<f32> = (0..10).flat_map(|row| [angle(row).1, angle(row).0]).collect();
    here.write("rows.npy", [10, 2], &rows)?;
    here.write("queries.npy", [2, 2], &[&rows[..2], &rows[18..]].concat())?;
    let names: String = (0..10).map(|row| format!("row, {row}\n")).collect();
    fs::write(here.at("names.txt"), names)?;
    Ok(here)
}

/// Writes a one-dimensional array of this dtype: the low bytes of each value.
pub(crate) fn list(path: &Path, dtype: &str, values: impl IntoIterator<Item = i64>) -> Result<()> {
    let size: usize = dtype[2..].parse()?;
    let values: Vec<i64> = values.into_iter().collect();
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({},), }}", values.len());
    let mut bytes = [b"\x93NUMPY\x01\x00".as_slice(), &118u16.to_le_bytes()].concat();
    bytes.extend_from_slice(format!("{header:117}\n").as_bytes());
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()[..size]));
    Ok(fs::write(path, bytes)?)
}

const SEARCH: &str = "search --device host --rows rows.npy --queries queries.npy";

#[test]
fn the_first_answers_are_printed_with_their_names() -> Result<()> {
    let here = circle()?;
    let printed = here.run(&format!("{SEARCH} -k 2 --labels names.txt"))?;
    assert!(printed.contains("query 0    row, 0 (id 0) at 0, row, 1 (id 1) at 0.0199"), "{printed}");
    let printed = here.run(&format!("{SEARCH} -k 7 --show 1"))?;
    assert!(printed.contains("and 2 more") && !printed.contains("query 1"), "{printed}");
    fs::write(here.at("few.txt"), "one\n")?;
    fs::write(here.at("bytes.txt"), [0xff, 0xfe])?;
    here.fail(
        SEARCH,
        &[
            ("--labels few.txt", &["--labels few.txt", "10 lines", "given 1"]),
            ("--labels bytes.txt", &["--labels bytes.txt", "UTF-8"]),
        ],
    )
}

#[test]
fn answers_are_written_by_the_ending_of_the_file_and_never_over_another() -> Result<()> {
    let here = circle()?;
    here.run(&format!("{SEARCH} -k 2 --labels names.txt --out found.csv"))?;
    let table = here.text("found.csv")?;
    assert!(table.starts_with("query,rank,id,distance,label\n0,0,0,0,\"row, 0\"\n0,1,1,0.0199"), "{table}");
    assert_eq!(table.lines().count(), 5);
    here.run(&format!("{SEARCH} -k 2 --out found.jsonl"))?;
    let queries = lines(&here.text("found.jsonl")?)?;
    assert_eq!((&queries[1]["query"], &queries[1]["ids"][0]), (&1.into(), &9.into()));
    // The same lines on the standard output.
    assert_eq!(here.run(&format!("{SEARCH} -k 2 --labels names.txt --out -"))?, table);
    assert_eq!(here.run(&format!("{SEARCH} -k 2 --format jsonl"))?, here.text("found.jsonl")?);
    assert_eq!(here.run(&format!("{SEARCH} -k 2 --out - --format jsonl"))?, here.text("found.jsonl")?);
    here.run(&format!("{SEARCH} -k 12 --out found.npz --ids ids.npy --distances distances.npy"))?;
    let ids = here.ids("found.npz")?;
    assert_eq!((ids.rows, ids.width, &ids.values[9..13]), (2, 12, &[9, -1, -1, 9][..]));
    assert!(here.ids("ids.npy")? == ids, "other ids in the npy");
    for distances in [
        read_distances(here.at("found.npz"))?.context("distances")?.0,
        VectorFile::open(here.at("distances.npy"))?.read_all()?.into_f32(),
    ] {
        assert!(distances[..10].iter().all(|one| one.is_finite()), "{distances:?}");
        assert!(distances[10..12].iter().all(|one| one.is_nan()) && distances[12] == 0.0, "{distances:?}");
    }
    here.run(&format!("{SEARCH} --out found.csv --force"))?;
    let of_archive = "--rows found.npz:distances --queries found.npz:distances --force --out found.npz";
    here.fail(
        &format!("search --device host {of_archive}"),
        &[("", &["--out", ", found.npz is that of --rows"])],
    )?;
    here.fail(
        SEARCH,
        &[
            ("--out found.csv", &["--out", "--force", "found.csv"]),
            ("--out found.txt", &["--out", ".csv, .jsonl, .npz"]),
            ("--radius 1 --out new.npz", &["--out", ".csv or .jsonl", "new.npz"]),
            ("--format csv --out new.csv", &["--format: needed no file", "new.csv"]),
            ("--out - --json", &["--json: needed a file of --out"]),
            ("--format csv --truth found.npz", &["--format", "--truth"]),
        ],
    )
}

#[test]
fn rows_that_stay_in_their_file_are_found_as_others_are() -> Result<()> {
    let here = circle()?;
    let kept = here.record(&format!("{SEARCH} -k 3 --ids kept.npy"))?;
    let mapped = here.record(&format!("{SEARCH} -k 3 --residency mapped --ids mapped.npy"))?;
    assert_eq!((&kept["residency"], &mapped["residency"]), (&"host".into(), &"mapped".into()));
    let unscreened = here.record(&format!("{SEARCH} -k 3 --quantization none --ids unscreened.npy"))?;
    assert_eq!(
        (&unscreened["quantized"], here.read("unscreened.npy")?),
        (&false.into(), here.read("kept.npy")?)
    );
    assert_eq!(here.read("kept.npy")?, here.read("mapped.npy")?);
    let build = "build --device host --rows rows.npy";
    here.run(&format!("{build} --residency mapped --out mapped.nf"))?;
    here.run(&format!("{build} --out kept.nf"))?;
    assert_eq!(here.read("mapped.nf")?, here.read("kept.nf")?);
    let of_index = "search --device host --queries queries.npy --residency mapped -k 3 --index-file";
    assert_eq!(here.record(&format!("{of_index} mapped.nf --ids of_index.npy"))?["residency"], "mapped");
    assert_eq!(here.read("of_index.npy")?, here.read("kept.npy")?);
    here.run(&format!("{build} --residency mapped --index ivf --lists 2 --out lists.nf"))?;
    here.fail(of_index, &[("lists.nf", &["--residency mapped", "flat", "lists.nf"])])?;
    list(&here.at("own.npy"), "<i8", 10..20)?;
    for command in [SEARCH, "build --device host --rows rows.npy --out own.nf"] {
        here.fail(
            command,
            &[("--residency mapped --row-ids own.npy", &["--residency mapped", "--row-ids"])],
        )?;
    }
    Ok(())
}

#[test]
fn a_radius_finds_all_rows_within_it() -> Result<()> {
    let here = circle()?;
    // The cosines of 0.2, 0.4 and 0.6 are 0.02, 0.079 and 0.175 below 1.
    let found = here.record(&format!("{SEARCH} --radius 0.1 --out near.csv"))?;
    assert_eq!((&found["found"], &found["k"]), (&6.into(), &Value::Null), "{found}");
    let table = here.text("near.csv")?;
    assert!(table.contains("\n1,2,7,0.07"), "{table}");
    let found = here.record(&format!("{SEARCH} --radius inf"))?;
    assert_eq!((&found["radius"], &found["found"]), (&"inf".into(), &20.into()), "{found}");
    assert_eq!(here.record(&format!("{SEARCH} --radius 0.5"))?["radius"], 0.5);
    assert_eq!(here.record(SEARCH)?["radius"], Value::Null);
    here.fail(
        SEARCH,
        &[
            ("--radius 0.1 -k 3", &["--radius", "-k"]),
            ("--radius nan", &["--radius", "needed a number", "nan"]),
            ("--radius near", &["--radius", "needed a number", "near"]),
        ],
    )
}

#[test]
fn rows_have_the_given_ids_and_filters_choose_among_them() -> Result<()> {
    let here = circle()?;
    list(&here.at("ids.npy"), "<u2", 100..110)?;
    list(&here.at("few.npy"), "<i4", [101, 108, 7])?;
    list(&here.at("negative.npy"), "|i1", [3, -1])?;
    list(&here.at("mask.npy"), "|b1", (0..10).map(|row| i64::from(row == 3 || row == 8)))?;
    list(&here.at("reals.npy"), "<f4", [0])?;
    let found = |arguments: &str, query: usize| -> Result<Value> {
        here.run(&format!("{arguments} --out found.jsonl --force"))?;
        Ok(lines(&here.text("found.jsonl")?)?[query].clone())
    };
    let few = format!("{SEARCH} -k 5 --row-ids ids.npy --filter few.npy --labels names.txt");
    let few = found(&few, 0)?;
    assert_eq!((&few["ids"], &few["labels"]), (&json!([101, 108]), &json!(["row, 1", "row, 8"])));
    assert_eq!(found(&format!("{SEARCH} -k 5 --filter mask.npy"), 1)?["ids"], json!([8, 3]));
    // The same ids and rows in an index.
    here.run("build --device host --rows rows.npy --row-ids ids.npy --elements f16 --out index.nf")?;
    let of_index = "search --device host --index-file index.nf --queries queries.npy -k 2";
    assert_eq!(here.record(of_index)?["elements"], "f16");
    assert_eq!(found(of_index, 0)?["ids"], json!([100, 101]));
    here.fail(of_index, &[("--labels names.txt", &["--labels", "id 109", "10 lines"])])?;
    here.fail(
        SEARCH,
        &[
            ("--row-ids few.npy", &["--row-ids few.npy", "10 ids", "given 3"]),
            ("--filter negative.npy", &["--filter", "ids of 0 or more", "-1 at 1"]),
            ("--filter reals.npy", &["--filter", "integers", "<f4"]),
            ("--filter rows.npy", &["--filter", "integers", "<f4"]),
        ],
    )
}

#[test]
fn what_is_converted_or_left_out_or_makes_answers_shorter_is_said() -> Result<()> {
    let here = circle()?;
    fs::write(here.at("rows.csv"), "0,1,2\n1,0,0\n0,1,0\n")?;
    fs::write(here.at("query.csv"), "1,0.5,0\n")?;
    let csv = "search --device host --rows rows.csv --queries query.csv";
    let printed = here.run(csv)?;
    assert!(printed.contains("header") && here.record(csv)?["converted"].is_string(), "{printed}");
    list(&here.at("mask.npy"), "|b1", [0, 1, 1])?;
    list(&here.at("ones.npy"), "|u1", [0, 1, 1])?;
    list(&here.at("ids.npy"), "<i8", [1, 77])?;
    here.write("none.npy", [0, 2], &[])?;
    for (arguments, wanted) in [
        (format!("{SEARCH} --filter mask.npy"), "note: --filter: the mask has 3 elements"),
        (format!("{SEARCH} --filter ids.npy"), "note: --filter: 1 of 2 ids are those of no row"),
        (format!("{SEARCH} -k 11"), "note: -k 11 is more than the 10 rows there are"),
        (SEARCH.replace("rows.npy", "none.npy"), "note: --rows none.npy has no rows"),
        (SEARCH.replace("queries.npy", "none.npy"), "note: --queries none.npy has no queries"),
    ] {
        let said = here.said(&arguments, true)?;
        assert!(said.contains(wanted), "{arguments}: {said}");
    }
    let masked = format!("{SEARCH} --filter mask.npy");
    assert!(here.run(&masked)?.contains("; the filter allows 2 of 10 rows\n"));
    assert_eq!(here.record(&masked)?["allowed_rows"], 2);
    assert_eq!(here.said(&format!("{SEARCH} -k 10"), true)?, "");
    here.fail(SEARCH, &[("--filter ones.npy", &["or a mask of dtype bool, found id 1 twice"])])
}

#[test]
fn mistakes_get_a_suggestion() -> Result<()> {
    let here = circle()?;
    let usage = "Usage: nearfield search <--rows <FILE>|--index-file <INDEX.nf>> --queries <FILE>";
    here.fail(
        "",
        &[
            ("search --row rows.npy --querys queries.npy", &["--row", "similar argument exists: '--rows'"]),
            ("serch", &["serch", "similar subcommand exists", "'search'"]),
            // Errors name the option and the form that it needs.
            ("search rows.npy queries.npy", &["'rows.npy'", usage]),
        ],
    )?;
    let metric = "METRIC>': needed l2sq, l2, cosine, ip, hamming or jaccard; did you mean l2?";
    here.fail(
        SEARCH,
        &[
            ("--metric L2", &["'L2'", "--metric", metric]),
            ("--quantization INT8", &["'INT8'", "--quantization", "did you mean int8?"]),
        ],
    )?;
    let complaint = here.said(&format!("{SEARCH} --scratch 1"), false)?;
    let (_, after) = complaint.split_once("error: --scratch: needed at least ").context("an error")?;
    let (_, after) = after.split_once(" (--scratch ").context("bytes")?;
    let (bytes, after) = after.split_once("B) ").context("bytes")?;
    assert_eq!(after, "for a search of 10 of 10 rows, given 1 B\n", "{complaint}");
    here.run(&format!("{SEARCH} --scratch {bytes}"))?;
    let fewer = format!("--scratch {}", bytes.parse::<u64>()? - 1);
    here.fail(SEARCH, &[(&fewer, &["--scratch", bytes])])
}

#[test]
fn a_recall_chooses_the_probes_and_show_tells_of_the_lists() -> Result<()> {
    let here = Here::new()?;
    here.write("rows.npy", [900, 16], &clustered(900, 16, 1))?;
    here.write("queries.npy", [60, 16], &clustered(60, 16, 2))?;
    let build =
        "build --device host --rows rows.npy --index ivf --lists 30 --metric l2sq --iterations 4 --seed 9";
    here.run(&format!("{build} --out index.nf"))?;
    here.run(&format!("{build} --threads 1 --out same.nf"))?;
    assert!(here.read("index.nf")? == here.read("same.nf")?, "the same seed");
    let search = "search --device host --index-file index.nf --queries queries.npy";
    let probes = |recall: &str| -> Result<u64> {
        here.record(&format!("{search} --recall {recall}"))?["probes"].as_u64().context("probes")
    };
    let [few, many] = [probes("0.5")?, probes("0.99")?];
    assert!(1 <= few && few < many && many <= 30, "{few} and {many}");
    for wrong in ["1.5", "-0.5", "95%", "nan"] {
        here.fail(search, &[(&format!("--recall {wrong}"), &["--recall", "0 to 1", wrong])])?;
    }
    here.fail(search, &[("--radius 0.3 --probes 1", &["--radius", "--probes"])])?;
    let about = here.record("show index.nf")?;
    assert_eq!((&about["index"], &about["metric"]), (&"ivf".into(), &"l2sq".into()), "{about}");
    assert_eq!((&about["lists"]["count"], &about["lists"]["mean"]), (&30.into(), &30.0.into()), "{about}");
    assert_eq!(about["parts"]["rows"], 900 * 16 * 4, "{about}");
    let printed = here.run("show index.nf")?;
    assert!(printed.contains("lists      30 of ") && printed.contains("rows: 56.2 KiB"), "{printed}");
    here.run("build --device host --rows rows.npy --out flat.nf")?;
    assert_eq!(here.record("show flat.nf")?["lists"], Value::Null);
    fs::write(here.at("index.txt"), "no index")?;
    let vectors: &[&str] =
        &["index that `nearfield build` saved", "found vectors (900 x 16 f32, rows.npy)", "--rows"];
    let index: &[&str] = &["--rows", "index.nf is an index", "--index-file"];
    here.fail(
        "",
        &[
            ("show rows.npy", vectors),
            ("search --queries queries.npy --index-file rows.npy", vectors),
            ("search --queries queries.npy --rows index.nf", index),
            ("kmeans --clusters 2 --rows index.nf", index),
            ("build --out new.nf --rows index.nf", index),
            ("search --rows rows.npy --queries index.nf", &["--queries", "index.nf is an index"]),
            ("show index.txt", &["index.txt", "index of nearfield"]),
            ("build --rows rows.npy --seed 3 --out new.nf", &["--seed", "--index ivf"]),
            (
                "search --index-file flat.nf --queries queries.npy --recall 0.9",
                &["--recall", "ivf", "flat.nf"],
            ),
        ],
    )
}

#[test]
fn options_without_effect_are_refused() -> Result<()> {
    let here = circle()?;
    let labels = format!("{SEARCH} --labels names.txt");
    here.fail(
        SEARCH,
        &[
            ("--force", &["--force", "--out or --ids or --distances"]),
            ("--show 2 --json", &["--show", "--json"]),
        ],
    )?;
    here.fail(
        &labels,
        &[
            ("--json", &["--labels", "--out .csv or .jsonl with --json"]),
            ("--json --out found.npz", &["--labels", "--json"]),
            ("--show 0 --ids ids.npy", &["--labels", "--show 0"]),
        ],
    )?;
    // With effect.
    for more in ["--show 0 --out found.csv", "--json --out found.jsonl", "--out found.npz"] {
        here.run(&format!("{labels} {more}"))?;
    }
    Ok(())
}

#[test]
fn padded_answers_that_no_memory_holds_are_refused_before_the_search() -> Result<()> {
    let here = circle()?;
    // A note on k would precede the error if the rows had been sent.
    for (k, output) in [
        ("100000000000000", "--ids ids.npy"),
        ("100000000000000", "--distances distances.npy"),
        ("18446744073709551615", "--out found.npz"),
    ] {
        let arguments = format!("{SEARCH} -k {k} {output}");
        here.fail(&arguments, &[("", &["--k", k, "results for each of 2 queries", "memory"])])?;
        let said = here.said(&arguments, false)?;
        assert!(!said.contains("note: "), "{said}");
    }
    // Nothing is padded.
    here.write("none.npy", [0, 2], &[])?;
    let most = "-k 18446744073709551615";
    here.run(&format!("{} {most} --ids none-ids.npy", SEARCH.replace("queries.npy", "none.npy")))?;
    here.run(&format!("{SEARCH} {most} --out found.csv"))?;
    Ok(())
}
