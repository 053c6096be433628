//! `nearfield search` with everything that it takes and writes, and `show`, `kmeans`, `reduce`, `completions` and `man`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use nearfield::io::{read_distances, read_ids, write_npy};
use nearfield_testing::programs::{lines, succeeded};
use nearfield_testing::sets::clustered;
use serde_json::Value;
use tempfile::TempDir;

use crate::PROGRAM;

/// A directory with ten rows of two elements around a circle, and two of them as queries.
fn circle() -> Result<TempDir> {
    let directory = TempDir::new()?;
    let angle = |row: usize| (row as f32 * 0.2).sin_cos();
    let rows: Vec<f32> = (0..10).flat_map(|row| [angle(row).1, angle(row).0]).collect();
    write_npy(directory.path().join("rows.npy"), [10, 2], &rows)?;
    write_npy(directory.path().join("queries.npy"), [2, 2], &[&rows[..2], &rows[18..]].concat())?;
    let names: String = (0..10).map(|row| format!("row, {row}\n")).collect();
    fs::write(directory.path().join("names.txt"), names)?;
    Ok(directory)
}

/// Writes a one-dimensional array of this dtype: the low bytes of each value.
fn list(path: &Path, dtype: &str, values: impl IntoIterator<Item = i64>) -> Result<()> {
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
    let directory = circle()?;
    let at = directory.path();
    let printed = PROGRAM.succeed(at, &format!("{SEARCH} -k 2 --labels names.txt"))?;
    assert!(printed.contains("query 0    row, 0 (id 0) at 0, row, 1 (id 1) at 0.0199"), "{printed}");
    let printed = PROGRAM.succeed(at, &format!("{SEARCH} -k 7 --show 1"))?;
    assert!(printed.contains("and 2 more") && !printed.contains("query 1"), "{printed}");
    fs::write(at.join("few.txt"), "one\n")?;
    PROGRAM.fail(at, &format!("{SEARCH} --labels few.txt"), &["--labels few.txt", "10 lines", "given 1"])?;
    fs::write(at.join("bytes.txt"), [0xff, 0xfe])?;
    PROGRAM.fail(at, &format!("{SEARCH} --labels bytes.txt"), &["--labels bytes.txt", "UTF-8"])
}

#[test]
fn answers_are_written_by_the_ending_of_the_file_and_never_over_another() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    PROGRAM.succeed(at, &format!("{SEARCH} -k 2 --labels names.txt --out found.csv"))?;
    let table = fs::read_to_string(at.join("found.csv"))?;
    assert!(table.starts_with("query,rank,id,distance,label\n0,0,0,0,\"row, 0\"\n0,1,1,0.0199"), "{table}");
    assert_eq!(table.lines().count(), 5);
    PROGRAM.succeed(at, &format!("{SEARCH} -k 2 --out found.jsonl"))?;
    let queries = lines(&fs::read_to_string(at.join("found.jsonl"))?)?;
    assert_eq!((&queries[1]["query"], &queries[1]["ids"][0]), (&1.into(), &9.into()));
    PROGRAM.succeed(at, &format!("{SEARCH} -k 12 --out found.npz"))?;
    let ids = read_ids(at.join("found.npz"))?;
    assert_eq!((ids.rows, ids.width, &ids.values[9..13]), (2, 12, &[9, -1, -1, 9][..]));
    let distances = read_distances(at.join("found.npz"))?.context("distances")?.0;
    assert!(distances[11].is_nan() && distances[12] == 0.0);
    PROGRAM.fail(at, &format!("{SEARCH} --out found.csv"), &["--out", "--force", "found.csv"])?;
    PROGRAM.succeed(at, &format!("{SEARCH} --out found.csv --force"))?;
    PROGRAM.fail(at, &format!("{SEARCH} --out found.txt"), &["--out", ".csv, .jsonl, .npz"])?;
    PROGRAM.fail(at, &format!("{SEARCH} --radius 1 --out new.npz"), &["--out", ".csv or .jsonl", "new.npz"])
}

#[test]
fn rows_that_stay_in_their_file_are_found_as_others_are() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    let kept = PROGRAM.record(at, &format!("{SEARCH} -k 3 --ids kept.npy"));
    let mapped = PROGRAM.record(at, &format!("{SEARCH} -k 3 --keep-rows mapped --ids mapped.npy"));
    assert_eq!((&kept?["row_place"], &mapped?["row_place"]), (&"host".into(), &"file".into()));
    assert_eq!(fs::read(at.join("kept.npy"))?, fs::read(at.join("mapped.npy"))?);
    PROGRAM.succeed(at, "build --device host --rows rows.npy --keep-rows mapped --out mapped.nf")?;
    PROGRAM.succeed(at, "build --device host --rows rows.npy --out kept.nf")?;
    assert_eq!(fs::read(at.join("mapped.nf"))?, fs::read(at.join("kept.nf"))?);
    let of_index = "search --device host --index-file mapped.nf --queries queries.npy --keep-rows mapped";
    assert_eq!(PROGRAM.record(at, &format!("{of_index} -k 3 --ids of_index.npy"))?["row_place"], "file");
    assert_eq!(fs::read(at.join("of_index.npy"))?, fs::read(at.join("kept.npy"))?);
    PROGRAM.succeed(
        at,
        "build --device host --rows rows.npy --keep-rows mapped --index ivf --lists 2 --out lists.nf",
    )?;
    PROGRAM.fail(
        at,
        &of_index.replace("mapped.nf", "lists.nf"),
        &["--keep-rows mapped", "flat", "lists.nf"],
    )?;
    list(&at.join("own.npy"), "<i8", 10..20)?;
    for command in [SEARCH, "build --device host --rows rows.npy --out own.nf"] {
        PROGRAM.fail(
            at,
            &format!("{command} --keep-rows mapped --row-ids own.npy"),
            &["--keep-rows mapped", "--row-ids"],
        )?;
    }
    Ok(())
}

#[test]
fn a_radius_finds_all_rows_within_it() -> Result<()> {
    let directory = circle()?;
    // The cosines of 0.2, 0.4 and 0.6 are 0.02, 0.079 and 0.175 below 1.
    let found = PROGRAM.record(directory.path(), &format!("{SEARCH} --radius 0.1 --out near.csv"))?;
    assert_eq!((&found["found"], &found["k"]), (&6.into(), &Value::Null), "{found}");
    let table = fs::read_to_string(directory.path().join("near.csv"))?;
    assert!(table.contains("\n1,2,7,0.07"), "{table}");
    PROGRAM.fail(directory.path(), &format!("{SEARCH} --radius 0.1 -k 3"), &["--radius", "-k"])
}

#[test]
fn rows_have_the_given_ids_and_filters_choose_among_them() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    list(&at.join("ids.npy"), "<u2", 100..110)?;
    list(&at.join("few.npy"), "<i4", [101, 108, 7])?;
    list(&at.join("negative.npy"), "|i1", [3, -1])?;
    list(&at.join("mask.npy"), "|b1", (0..10).map(|row| i64::from(row == 3 || row == 8)))?;
    list(&at.join("reals.npy"), "<f4", [0])?;
    PROGRAM.succeed(
        at,
        &format!("{SEARCH} -k 5 --row-ids ids.npy --filter few.npy --labels names.txt --out one.jsonl"),
    )?;
    let queries = lines(&fs::read_to_string(at.join("one.jsonl"))?)?;
    assert_eq!(queries[0]["ids"], serde_json::json!([101, 108]));
    assert_eq!(queries[0]["labels"], serde_json::json!(["row, 1", "row, 8"]));
    PROGRAM.succeed(at, &format!("{SEARCH} -k 5 --filter mask.npy --out two.jsonl"))?;
    assert_eq!(lines(&fs::read_to_string(at.join("two.jsonl"))?)?[1]["ids"], serde_json::json!([8, 3]));
    // The same ids and rows in an index.
    PROGRAM
        .succeed(at, "build --device host --rows rows.npy --row-ids ids.npy --elements f16 --out index.nf")?;
    let found = PROGRAM.record(
        at,
        "search --device host --index-file index.nf --queries queries.npy -k 2 --out three.jsonl",
    )?;
    assert_eq!(found["elements"], "f16");
    assert_eq!(lines(&fs::read_to_string(at.join("three.jsonl"))?)?[0]["ids"], serde_json::json!([100, 101]));
    PROGRAM.fail(at, &format!("{SEARCH} --row-ids few.npy"), &["--row-ids few.npy", "10 ids", "given 3"])?;
    PROGRAM.fail(
        at,
        &format!("{SEARCH} --filter negative.npy"),
        &["--filter", "ids of 0 or more", "-1 at 1"],
    )?;
    PROGRAM.fail(at, &format!("{SEARCH} --filter reals.npy"), &["--filter", "integers", "<f4"])?;
    PROGRAM.fail(at, &format!("{SEARCH} --filter rows.npy"), &["--filter", "integers", "<f4"])
}

#[test]
fn an_output_never_replaces_the_archive_that_it_is_made_of() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    PROGRAM.succeed(at, "search --device host --rows rows.npy --queries queries.npy -k 2 --out a.npz")?;
    let search = "search --device host --rows a.npz:distances --queries a.npz:distances --force";
    PROGRAM.fail(at, &format!("{search} --out a.npz"), &["--out", "--rows", "a.npz"])
}

#[test]
fn what_is_converted_or_left_out_is_said() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    fs::write(at.join("rows.csv"), "0,1,2\n1,0,0\n0,1,0\n")?;
    fs::write(at.join("query.csv"), "1,0.5,0\n")?;
    let csv = "search --device host --rows rows.csv --queries query.csv";
    assert!(PROGRAM.succeed(at, csv)?.contains("header"), "{}", PROGRAM.succeed(at, csv)?);
    assert!(PROGRAM.record(at, csv)?["converted"].is_string());
    list(&at.join("mask.npy"), "|b1", [0, 1, 1])?;
    list(&at.join("ones.npy"), "|u1", [0, 1, 1])?;
    list(&at.join("ids.npy"), "<i8", [1, 77])?;
    let said = |filter: &str| -> Result<String> {
        let output = PROGRAM
            .command()
            .current_dir(at)
            .args(SEARCH.split_whitespace())
            .args(["--filter", filter])
            .output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(said("mask.npy")?.contains("note: --filter: the mask has 3 elements"), "{}", said("mask.npy")?);
    assert!(said("ids.npy")?.contains("note: --filter: 1 of 2 ids are those of no row"));
    assert!(said("ones.npy")?.contains("or a mask of dtype bool, found id 1 twice"));
    // Names by the ids of an index.
    list(&at.join("own.npy"), "<i8", 100..110)?;
    PROGRAM.succeed(at, "build --device host --rows rows.npy --row-ids own.npy --out own.nf")?;
    let own = "search --device host --index-file own.nf --queries queries.npy";
    PROGRAM.fail(at, &format!("{own} --labels names.txt"), &["--labels", "id 109", "10 lines"])?;
    PROGRAM.fail(at, &format!("{own} --radius 0.3 --probes 1"), &["--radius", "--probes"])
}

#[test]
fn what_makes_answers_shorter_is_said() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    let said = |arguments: &str| -> Result<String> {
        let output = PROGRAM.command().current_dir(at).args(arguments.split_whitespace()).output()?;
        assert!(output.status.success());
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(said(&format!("{SEARCH} -k 11"))?.contains("note: -k 11 is more than the 10 rows there are"));
    assert_eq!(said(&format!("{SEARCH} -k 10"))?, "");
    write_npy::<f32>(at.join("none.npy"), [0, 2], &[])?;
    let none = said("search --device host --rows none.npy --queries queries.npy")?;
    assert!(none.contains("note: --rows none.npy has no rows"), "{none}");
    let none = said("search --device host --rows rows.npy --queries none.npy")?;
    assert!(none.contains("note: --queries none.npy has no queries"), "{none}");
    Ok(())
}

#[test]
fn mistakes_get_a_suggestion() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    PROGRAM.fail(
        at,
        "search --row rows.npy --querys queries.npy",
        &["--row", "similar argument exists: '--rows'"],
    )?;
    PROGRAM.fail(at, "serch", &["serch", "similar subcommand exists", "'search'"])?;
    PROGRAM.fail(
        at,
        &format!("{SEARCH} --metric L2"),
        &["'L2'", "--metric", "METRIC>': needed l2sq, l2, cosine or ip; did you mean l2?"],
    )?;
    PROGRAM.fail(at, &format!("{SEARCH} --screen I8"), &["'I8'", "--screen", "did you mean i8?"])?;
    // Errors name the option and the form that it needs.
    PROGRAM.fail(
        at,
        "search rows.npy queries.npy",
        &["'rows.npy'", "Usage: nearfield search <--rows <FILE>|--index-file <INDEX.nf>> --queries <FILE>"],
    )?;
    let output = PROGRAM
        .command()
        .current_dir(at)
        .args(SEARCH.split_whitespace())
        .args(["--scratch", "1"])
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, after) = complaint.split_once("error: --scratch: needed at least ").context("an error")?;
    let (bytes, after) = after.split_once(" bytes (").context("bytes")?;
    assert!(after.ends_with("for a search of 10 of 10 rows, given 1\n"), "{complaint}");
    PROGRAM.succeed(at, &format!("{SEARCH} --scratch {bytes}"))?;
    let fewer = bytes.parse::<u64>()? - 1;
    PROGRAM.fail(at, &format!("{SEARCH} --scratch {fewer}"), &["--scratch", bytes])
}

#[test]
fn a_recall_chooses_the_probes_and_show_tells_of_the_lists() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    write_npy(at.join("rows.npy"), [900, 16], &clustered(900, 16, 1))?;
    write_npy(at.join("queries.npy"), [60, 16], &clustered(60, 16, 2))?;
    let build =
        "build --device host --rows rows.npy --index ivf --lists 30 --metric l2sq --iterations 4 --seed 9";
    PROGRAM.succeed(at, &format!("{build} --out index.nf"))?;
    PROGRAM.succeed(at, &format!("{build} --threads 1 --out same.nf"))?;
    assert!(fs::read(at.join("index.nf"))? == fs::read(at.join("same.nf"))?, "the same seed");
    let search = "search --device host --index-file index.nf --queries queries.npy";
    let probes = |recall: &str| -> Result<u64> {
        PROGRAM.record(at, &format!("{search} --recall {recall}"))?["probes"].as_u64().context("probes")
    };
    assert!(1 <= probes("0.5")? && probes("0.5")? < probes("0.99")? && probes("0.99")? <= 30);
    for wrong in ["1.5", "-0.5", "95%", "nan"] {
        PROGRAM.fail(at, &format!("{search} --recall {wrong}"), &["--recall", "0 to 1", wrong])?;
    }
    let about = PROGRAM.record(at, "show index.nf")?;
    assert_eq!((&about["index"], &about["metric"]), (&"ivf".into(), &"l2sq".into()), "{about}");
    assert_eq!((&about["lists"]["count"], &about["lists"]["mean"]), (&30.into(), &30.0.into()), "{about}");
    assert_eq!(about["parts"]["rows"], 900 * 16 * 4, "{about}");
    let printed = PROGRAM.succeed(at, "show index.nf")?;
    assert!(printed.contains("lists      30 of ") && printed.contains("rows: 56.2 KiB"), "{printed}");
    PROGRAM.succeed(at, "build --device host --rows rows.npy --out flat.nf")?;
    assert_eq!(PROGRAM.record(at, "show flat.nf")?["lists"], Value::Null);
    for command in ["show rows.npy", "search --queries queries.npy --index-file rows.npy"] {
        PROGRAM.fail(
            at,
            command,
            &["index that `nearfield build` saved", "found vectors (900 x 16 f32, rows.npy)", "--rows"],
        )?;
    }
    for command in ["search --queries queries.npy", "kmeans --clusters 2", "build --out new.nf"] {
        PROGRAM.fail(
            at,
            &format!("{command} --rows index.nf"),
            &["--rows", "index.nf is an index", "--index-file"],
        )?;
    }
    PROGRAM.fail(at, "search --rows rows.npy --queries index.nf", &["--queries", "index.nf is an index"])?;
    fs::write(at.join("index.txt"), "no index")?;
    PROGRAM.fail(at, "show index.txt", &["index.txt", "index of nearfield"])?;
    PROGRAM.fail(at, "build --rows rows.npy --seed 3 --out new.nf", &["--seed", "--index ivf"])?;
    PROGRAM.fail(
        at,
        "search --index-file flat.nf --queries queries.npy --recall 0.9",
        &["--recall", "ivf", "flat.nf"],
    )
}

#[test]
fn kmeans_writes_centroids_and_the_nearest_of_each_row() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    let rows: Vec<f32> = (0..60).map(|row| (row % 3) as f32 * 100.0 + (row / 3) as f32 * 0.01).collect();
    write_npy(at.join("rows.npy"), [60, 1], &rows)?;
    let kmeans = "kmeans --device host --rows rows.npy --clusters 3 --metric l2sq";
    let found = PROGRAM.record(at, &format!("{kmeans} --centroids c.npy --assignments a.npy"))?;
    assert_eq!(found["sizes"], serde_json::json!([20, 20.0, 20]), "{found}");
    let assignments = read_ids(at.join("a.npy"))?.values;
    assert!((0..60).all(|row| assignments[row] == assignments[row % 3]));
    let printed = PROGRAM.succeed(at, &kmeans.replace("host", "host --seed 4"))?;
    assert!(printed.contains("clusters   3, of 20 to 20 rows"), "{printed}");
    PROGRAM.fail(at, &format!("{kmeans} --centroids c.npy"), &["--centroids", "--force"])?;
    PROGRAM.fail(
        at,
        &kmeans.replace("clusters 3", "clusters 61"),
        &["error: --clusters: needed 1 to 60", "given 61"],
    )?;
    write_npy::<f32>(at.join("none.npy"), [0, 1], &[])?;
    PROGRAM.fail(at, &kmeans.replace("rows.npy", "none.npy"), &["error: --rows: needed at least one"])?;
    PROGRAM.fail(at, &format!("{kmeans} --force"), &["--force", "--centroids or --assignments"])
}

#[test]
fn reduce_reduces_rows_or_all_values() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    write_npy(at.join("a.npy"), [2, 3], &[1.0f32, -5.0, 3.0, 2.0, 2.0, 0.5])?;
    write_npy(at.join("b.npy"), [2, 3], &[1.0f32, 1.0, 1.0, 4.0, 0.0, 2.0])?;
    let results = |arguments: &str| -> Result<Value> {
        Ok(PROGRAM.record(at, &format!("reduce --device host --rows a.npy {arguments}"))?["results"].clone())
    };
    assert_eq!(results("--operation sum")?, serde_json::json!([-1.0, 4.5]));
    assert_eq!(results("--operation argmin")?, serde_json::json!([1, 2]));
    assert_eq!(results("--operation norm-max --whole")?, serde_json::json!([5.0]));
    assert_eq!(results("--operation argmax --whole")?, serde_json::json!([2]));
    // The mean of squares less the square of the mean.
    let deviation = |squares: f64, mean: f64| (squares - mean * mean).sqrt() as f32;
    let wanted = [deviation(35.0 / 3.0, -1.0 / 3.0), deviation(8.25 / 3.0, 1.5)];
    assert_eq!(results("--operation std")?, serde_json::json!(wanted));
    let whole = [deviation(43.25 / 6.0, 3.5 / 6.0)];
    assert_eq!(results("--operation std --whole")?, serde_json::json!(whole));
    assert_eq!(
        results("--operation dot --with b.npy --compensated --out dot.npy")?,
        serde_json::json!([-1.0, 9.0])
    );
    assert_eq!(nearfield::io::VectorFile::open(at.join("dot.npy"))?.read_all()?.into_f32(), [-1.0, 9.0]);
    let printed = PROGRAM.succeed(at, "reduce --device host --rows a.npy --operation norm-l2 --show 1")?;
    assert!(printed.contains("norm-l2    5.91608, …"), "{printed}");
    PROGRAM.fail(at, "reduce --rows a.npy --operation dot", &["--operation", "--with", "dot"])?;
    PROGRAM.fail(
        at,
        "reduce --rows a.npy --operation sum --with b.npy",
        &["--with", "--operation dot", "given sum"],
    )
}

#[test]
fn numbers_that_json_lacks_are_texts() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    write_npy(at.join("a.npy"), [3, 2], &[f32::INFINITY, 1.0, f32::NEG_INFINITY, 1.0, f32::NAN, 1.0])?;
    let found = PROGRAM.record(at, "reduce --device host --rows a.npy --operation sum")?;
    assert_eq!(found["results"], serde_json::json!(["inf", "-inf", "NaN"]));
    let found = PROGRAM.record(at, &format!("{SEARCH} --radius inf"))?;
    assert_eq!((&found["radius"], &found["found"]), (&"inf".into(), &20.into()), "{found}");
    assert_eq!(PROGRAM.record(at, &format!("{SEARCH} --radius 0.5"))?["radius"], 0.5);
    assert_eq!(PROGRAM.record(at, SEARCH)?["radius"], Value::Null);
    for wrong in ["nan", "near"] {
        PROGRAM.fail(at, &format!("{SEARCH} --radius {wrong}"), &["--radius", "needed a number", wrong])?;
    }
    Ok(())
}

#[test]
fn options_without_effect_are_refused() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    for operation in ["min", "max", "argmin", "argmax", "norm-max", "std"] {
        let arguments = format!("reduce --rows rows.npy --operation {operation} --compensated");
        let given = format!("given {operation}");
        PROGRAM.fail(
            at,
            &arguments,
            &["--compensated: needed --operation sum, sum-squares, mean, norm-l1, norm-l2, dot", &given],
        )?;
    }
    for operation in ["sum", "sum-squares", "mean", "norm-l1", "norm-l2", "dot --with rows.npy"] {
        PROGRAM.succeed(
            at,
            &format!("reduce --device host --rows rows.npy --operation {operation} --compensated"),
        )?;
    }
    let sum = "reduce --rows rows.npy --operation sum";
    let labels = format!("{SEARCH} --labels names.txt");
    for (arguments, parts) in [
        (format!("{sum} --whole --show 2"), ["--show", "--whole"]),
        (format!("{sum} --force"), ["--force", "--out"]),
        (format!("{SEARCH} --force"), ["--force", "--out or --ids or --distances"]),
        (format!("{SEARCH} --show 2 --json"), ["--show", "--json"]),
        (format!("{labels} --json"), ["--labels", "--out .csv or .jsonl with --json"]),
        (format!("{labels} --json --out found.npz"), ["--labels", "--json"]),
        (format!("{labels} --show 0 --ids ids.npy"), ["--labels", "--show 0"]),
    ] {
        PROGRAM.fail(at, &arguments, &parts)?;
    }
    // With effect.
    PROGRAM.succeed(at, &format!("{labels} --show 0 --out found.csv"))?;
    PROGRAM.succeed(at, &format!("{labels} --json --out found.jsonl"))?;
    PROGRAM.succeed(at, &format!("{labels} --out found.npz"))?;
    Ok(())
}

#[test]
fn padded_answers_that_no_memory_holds_are_refused_before_the_search() -> Result<()> {
    let directory = circle()?;
    let at = directory.path();
    // A note on k would precede the error if the rows had been sent.
    for (k, output) in [
        ("100000000000000", "--ids ids.npy"),
        ("100000000000000", "--distances distances.npy"),
        ("18446744073709551615", "--out found.npz"),
    ] {
        let arguments = format!("{SEARCH} -k {k} {output}");
        PROGRAM.fail(at, &arguments, &["--k", k, "results for each of 2 queries", "memory"])?;
        let output = PROGRAM.command().current_dir(at).args(arguments.split_whitespace()).output()?;
        assert!(!String::from_utf8_lossy(&output.stderr).contains("note: "), "{output:?}");
    }
    // Nothing is padded.
    write_npy::<f32>(at.join("none.npy"), [0, 2], &[])?;
    let none = "--rows rows.npy --queries none.npy -k 18446744073709551615";
    PROGRAM.succeed(at, &format!("search --device host {none} --ids none-ids.npy"))?;
    PROGRAM.succeed(at, &format!("{SEARCH} -k 18446744073709551615 --out found.csv"))?;
    Ok(())
}

#[test]
fn shells_and_man_get_their_files() -> Result<()> {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let printed = succeeded(PROGRAM.command().args(["completions", shell]).output()?)?;
        assert!(printed.contains("index-file") && printed.contains("kmeans"), "{shell}");
    }
    let directory = TempDir::new()?;
    PROGRAM.succeed(directory.path(), "man --out pages")?;
    let page = fs::read_to_string(directory.path().join("pages/nearfield-search.1"))?;
    assert!(page.contains("Examples") && page.contains("truth"), "{page}");
    let at = directory.path();
    fs::write(at.join("pages/nearfield-tune.1"), "my own")?;
    fs::remove_file(at.join("pages/nearfield-show.1"))?;
    PROGRAM.fail(at, "man --out pages", &["--out", "--force", "nearfield"])?;
    assert_eq!(fs::read_to_string(at.join("pages/nearfield-tune.1"))?, "my own");
    assert!(!at.join("pages/nearfield-show.1").exists(), "a page was written before another was refused");
    PROGRAM.succeed(at, "man --out pages --force")?;
    assert!(fs::read_to_string(at.join("pages/nearfield-tune.1"))?.contains("NAME"));
    assert!(at.join("pages/nearfield-show.1").exists());
    Ok(())
}
