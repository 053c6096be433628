//! `nearfield kmeans`, `reduce`, `completions` and `man`.

use std::fs;

use anyhow::Result;
use nearfield::io::VectorFile;
use serde_json::{Value, json};

use crate::Here;

#[test]
fn kmeans_writes_centroids_and_the_nearest_of_each_row() -> Result<()> {
    let here = Here::new()?;
    let rows: Vec<f32> = (0..60).map(|row| (row % 3) as f32 * 100.0 + (row / 3) as f32 * 0.01).collect();
    here.write("rows.npy", [60, 1], &rows)?;
    here.write("none.npy", [0, 1], &[])?;
    let kmeans = "kmeans --device host --metric l2sq --rows rows.npy --clusters 3";
    let found = here.record(&format!("{kmeans} --centroids c.npy --assignments a.npy"))?;
    assert_eq!(found["sizes"], json!([20, 20.0, 20]), "{found}");
    let assignments = here.ids("a.npy")?.values;
    assert!((0..60).all(|row| assignments[row] == assignments[row % 3]));
    let printed = here.run(&format!("{kmeans} --seed 4"))?;
    assert!(printed.contains("clusters   3, of 20 to 20 rows"), "{printed}");
    here.fail(
        "kmeans --device host --metric l2sq",
        &[
            ("--rows rows.npy --clusters 3 --centroids c.npy", &["--centroids", "--force"]),
            ("--rows rows.npy --clusters 3 --force", &["--force", "--centroids or --assignments"]),
            ("--rows rows.npy --clusters 61", &["error: --clusters: needed 1 to 60", "given 61"]),
            ("--rows none.npy --clusters 3", &["error: --rows: needed at least one"]),
        ],
    )
}

#[test]
fn reduce_reduces_rows_or_all_values() -> Result<()> {
    let here = Here::new()?;
    here.write("a.npy", [2, 3], &[1.0, -5.0, 3.0, 2.0, 2.0, 0.5])?;
    here.write("b.npy", [2, 3], &[1.0, 1.0, 1.0, 4.0, 0.0, 2.0])?;
    here.write("c.npy", [3, 2], &[f32::INFINITY, 1.0, f32::NEG_INFINITY, 1.0, f32::NAN, 1.0])?;
    // The mean of squares less the square of the mean.
    let deviation = |squares: f64, mean: f64| (squares - mean * mean).sqrt() as f32;
    let by_row = [deviation(35.0 / 3.0, -1.0 / 3.0), deviation(8.25 / 3.0, 1.5)];
    for (arguments, wanted) in [
        ("--rows a.npy --operation sum", json!([-1.0, 4.5])),
        ("--rows a.npy --operation argmin", json!([1, 2])),
        ("--rows a.npy --operation norm-max --whole", json!([5.0])),
        ("--rows a.npy --operation argmax --whole", json!([2])),
        ("--rows a.npy --operation std", json!(by_row)),
        ("--rows a.npy --operation std --whole", json!([deviation(43.25 / 6.0, 3.5 / 6.0)])),
        ("--rows a.npy --operation dot --with b.npy --compensated --out dot.npy", json!([-1.0, 9.0])),
        // Numbers that JSON lacks are texts.
        ("--rows c.npy --operation sum", json!(["inf", "-inf", "NaN"])),
    ] {
        let found: Value = here.record(&format!("reduce --device host {arguments}"))?;
        assert_eq!(found["results"], wanted, "{arguments}");
    }
    assert_eq!(VectorFile::open(here.at("dot.npy"))?.read_all()?.into_f32(), [-1.0, 9.0]);
    let printed = here.run("reduce --device host --rows a.npy --operation norm-l2 --show 1")?;
    assert!(printed.contains("norm-l2    5.91608, …"), "{printed}");
    here.fail(
        "reduce --rows a.npy --operation",
        &[
            ("dot", &["--operation", "--with", "dot"]),
            ("sum --with b.npy", &["--with", "--operation dot", "given sum"]),
            ("sum --whole --show 2", &["--show", "--whole"]),
            ("sum --force", &["--force", "--out"]),
        ],
    )?;
    for operation in ["min", "max", "argmin", "argmax", "norm-max", "std"] {
        let needed = "--compensated: needed --operation sum, sum-squares, mean, norm-l1, norm-l2, dot";
        let compensated = format!("{operation} --compensated");
        let given = format!("given {operation}");
        here.fail("reduce --rows a.npy --operation", &[(&compensated, &[needed, &given])])?;
    }
    for operation in ["sum", "sum-squares", "mean", "norm-l1", "norm-l2", "dot --with a.npy"] {
        here.run(&format!("reduce --device host --rows a.npy --operation {operation} --compensated"))?;
    }
    Ok(())
}

#[test]
fn shells_and_man_get_their_files() -> Result<()> {
    let here = Here::new()?;
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let printed = here.run(&format!("completions {shell}"))?;
        assert!(printed.contains("index-file") && printed.contains("kmeans"), "{shell}");
    }
    here.run("man --out pages")?;
    let page = here.text("pages/nearfield-search.1")?;
    assert!(page.contains("Examples") && page.contains("truth"), "{page}");
    fs::write(here.at("pages/nearfield-tune.1"), "my own")?;
    fs::remove_file(here.at("pages/nearfield-show.1"))?;
    here.fail("man --out pages", &[("", &["--out", "--force", "nearfield"])])?;
    assert_eq!(here.text("pages/nearfield-tune.1")?, "my own");
    assert!(!here.at("pages/nearfield-show.1").exists(), "a page was written before another was refused");
    here.run("man --out pages --force")?;
    assert!(here.text("pages/nearfield-tune.1")?.contains("NAME"));
    assert!(here.at("pages/nearfield-show.1").exists());
    Ok(())
}
