//! `nearfield graph`, `pairs` and `dedup`.

use anyhow::Result;
use serde_json::json;

use crate::Here;

/// Rows on a line: 0 and 1 are near, 3 and 5 are, and 4 is between 1 and 2.
fn rows() -> Result<Here> {
    let here = Here::new()?;
    here.write("rows.npy", [6, 1], &[0.0, 1.0, 1.9, 10.0, 2.8, 10.5])?;
    Ok(here)
}

const OF_ROWS: &str = "--device host --metric l2 --rows rows.npy";

#[test]
fn graph_writes_the_nearest_other_rows_of_every_row() -> Result<()> {
    let here = rows()?;
    let found = here.record(&format!("graph {OF_ROWS} -k 1 --out graph.csv"))?;
    assert_eq!((&found["k"], &found["edges"], &found["rows"]), (&json!(1), &json!(6), &json!(6)), "{found}");
    let lines: Vec<String> = here.text("graph.csv")?.lines().map(str::to_owned).collect();
    assert_eq!(lines[..3], ["row,rank,id,distance", "0,0,1,1", "1,0,2,0.9"]);
    assert_eq!(lines.len(), 7);
    let piped = here.run(&format!("graph {OF_ROWS} -k 1 --out -"))?;
    assert_eq!(piped, here.text("graph.csv")?);
    let printed = here.run(&format!("graph {OF_ROWS}"))?;
    assert!(printed.contains("edges      30 edges"), "fewer rows than k: {printed}");

    assert_eq!(here.run(&format!("graph {OF_ROWS} -k 1 --stream --out -"))?, piped);
    let streamed = here.record(&format!("graph {OF_ROWS} -k 1 --stream"))?;
    assert_eq!(streamed["edges"], json!(6), "{streamed}");

    here.run("build --device host --metric l2 --index ivf --lists 2 --rows rows.npy --out index.nf")?;
    let of_index = "graph --device host --index-file index.nf -k 1";
    here.run(&format!("{of_index} --probes 2 --out - "))?;
    here.run("build --device host --metric l2 --rows rows.npy --out flat.nf")?;
    #[cfg(not(feature = "parquet"))]
    here.fail(
        &format!("graph {OF_ROWS}"),
        &[("--out new.parquet", &["--out", "needed a program with the feature `parquet`"])],
    )?;
    here.fail(
        "graph --device host",
        &[
            ("--rows rows.npy --out graph.csv", &["--out", "--force"]),
            ("--rows rows.npy --out graph.txt", &["--out", ".csv, .parquet, .npz"]),
            ("--rows rows.npy --out new.csv --symmetry union", &["--symmetry: needed --out of a .npz"]),
            ("--rows rows.npy --out new.npz --stream", &["--stream: needed --out of a table"]),
            ("--rows rows.npy --out - --json", &["--out -: needed no --json"]),
            ("--rows rows.npy -k 0", &["-k", "at least 1"]),
            ("--index-file index.nf --stream --probes 99 --out new.csv", &["error: probes: needed 1 to 2"]),
            ("--index-file flat.nf --probes 1", &["--probes: needed an ivf index"]),
            ("--index-file rows.npy", &["--index-file: needed an index"]),
            ("", &["--rows"]),
        ],
    )
}

#[test]
fn graph_writes_a_sparse_matrix() -> Result<()> {
    let here = rows()?;
    let of = |symmetry: &str| -> Result<(serde_json::Value, Vec<f32>)> {
        let found = here.record(&format!("graph {OF_ROWS} -k 1 {symmetry} --out g.npz --force"))?;
        Ok((found["edges"].clone(), nearfield::io::read_values(here.at("g.npz:data"))?))
    };
    assert_eq!(of("")?, (json!(6), vec![1.0, 0.9, 0.9, 0.5, 0.9, 0.5]));
    let places = nearfield::io::read_row_ids(here.at("g.npz:indices"))?;
    assert_eq!(places, [1, 2, 1, 5, 2, 3]);
    assert_eq!(of("--symmetry union")?.0, json!(8));
    assert_eq!(of("--symmetry intersection")?.0, json!(4));
    here.fail(
        &format!("pairs {OF_ROWS} --radius 1"),
        &[("--out pairs.npz", &[".csv, .parquet", "for a graph"])],
    )
}

#[test]
fn pairs_are_counted_or_written() -> Result<()> {
    let here = rows()?;
    let found = here.record(&format!("pairs {OF_ROWS} --radius 1.05 --out pairs.csv"))?;
    assert_eq!(found["pairs"], json!(4), "{found}");
    assert_eq!(here.text("pairs.csv")?, "a,b,distance\n0,1,1\n1,2,0.9\n2,4,0.9\n3,5,0.5\n");
    assert_eq!(here.run(&format!("pairs {OF_ROWS} --radius 1.05 --out -"))?, here.text("pairs.csv")?);
    let printed = here.run(&format!("pairs {OF_ROWS} --radius 1.05"))?;
    assert!(printed.contains("pairs      4 pairs"), "{printed}");
    here.fail(&format!("pairs {OF_ROWS}"), &[("", &["--radius"]), ("--radius x", &["--radius", "a number"])])
}

#[test]
fn dedup_tells_which_rows_to_keep_in_any_order() -> Result<()> {
    let here = rows()?;
    let dedup = format!("dedup {OF_ROWS} --threshold 1.05");
    let found = here.record(&format!("{dedup} --out removed.csv --kept kept.npy"))?;
    assert_eq!(
        [&found["groups"], &found["kept"], &found["removed"]],
        [&json!(2), &json!(2), &json!(4)],
        "{found}"
    );
    let removed: Vec<String> = here.text("removed.csv")?.lines().map(str::to_owned).collect();
    assert_eq!(removed[..3], ["id,near,distance", "1,0,1", "2,1,0.9"]);
    assert_eq!(here.ids("kept.npy")?.values, [0, 3]);
    nearfield::io::write_npy(here.at("order.npy"), [6, 1], &[1i64, 4, 0, 2, 3, 5])?;
    let kept = |rule: &str| -> Result<Vec<i64>> {
        here.run(&format!("{dedup} --order order.npy --keep {rule} --kept kept.npy --force"))?;
        Ok(here.ids("kept.npy")?.values)
    };
    assert_eq!((kept("earliest")?, kept("group")?), (vec![1, 4, 3], vec![1, 3]));
    nearfield::io::write_npy(here.at("few.npy"), [2, 1], &[1i64, 4])?;
    here.fail(
        &dedup,
        &[
            ("--order few.npy", &["order", "6 ids", "given 2"]),
            ("--kept kept.npy", &["--kept", "--force"]),
            ("--kept rows.npy --force", &["--kept", "file of its own"]),
            ("--keep best", &["--keep", "earliest, group"]),
        ],
    )
}
