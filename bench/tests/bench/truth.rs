//! `nearfield-bench truth`, from the outside, held against brute force in f64.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_distances, read_ids, write_npy};
use nearfield::{Matrix, Metric};
use nearfield_testing::programs::{failed, succeeded, zeros};
use tempfile::TempDir;

use nearfield_testing::sets::nearest;

use crate::PROGRAM;

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A set of `nearfield-bench generate` in r.npy and q.npy, and its values in f32.
fn generate(directory: &Path, arguments: &str) -> Result<[Vec<f32>; 2]> {
    PROGRAM
        .succeed(directory, &format!("generate {arguments} --out-rows r.npy --out-queries q.npy --force"))?;
    let read = |name: &str| anyhow::Ok(VectorFile::open(directory.join(name))?.read_all()?.into_f32());
    Ok([read("r.npy")?, read("q.npy")?])
}

const FILES: &str = "truth --rows r.npy --queries q.npy";

#[test]
fn equals_nearest() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    for (set, dim, k) in [
        ("--data clustered --count 601 --dim 33 --query-count 21", 33, 10),
        ("--data integer --count 500 --dim 3 --query-count 70", 3, 100),
        ("--data duplicates --count 500 --dim 8 --query-count 5", 8, 50),
        ("--data equal --count 100 --dim 5 --query-count 3", 5, 7),
        ("--data adversarial --count 2700 --dim 6 --query-count 10", 6, 20),
        ("--data embedding --count 300 --dim 16 --query-count 4 --elements f16", 16, 1),
        ("--data uniform --count 1 --dim 1 --query-count 1", 1, 1),
    ] {
        let [rows, queries] = generate(path, set)?;
        for metric in Metric::ALL {
            let name = metric.name();
            PROGRAM.succeed(path, &format!("{FILES} --metric {name} -k {k} --out t.npz --force"))?;
            let (ids, distances) = nearest(metric, &rows, &queries, dim, k);
            let found = read_ids(path.join("t.npz"))?;
            let (found_distances, width) = read_distances(path.join("t.npz"))?.context("distances")?;
            assert_eq!((found.rows, found.width, width), (queries.len() / dim, k, k));
            assert!(found.values == ids, "{set}, {metric}: other ids");
            assert!(bits(&found_distances) == bits(&distances), "{set}, {metric}: other distances");
        }
    }
    Ok(())
}

#[test]
fn equals_the_truth_that_numpy_found() -> Result<()> {
    let directory = TempDir::new()?;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/data");
    let Matrix::F16(queries, dim) = VectorFile::open(data.join("query.f16.npy"))?.read(0..12)? else {
        anyhow::bail!("needed f16");
    };
    write_npy(directory.path().join("q.npy"), [12, dim], &queries)?;
    for (metric, name) in [("cosine", "cosine"), ("l2sq", "l2sq"), ("ip", "dot")] {
        let rows = data.join("base.f16.npy");
        let files = format!("--rows {} --queries q.npy --force", rows.display());
        PROGRAM.succeed(directory.path(), &format!("truth {files} -k 20 --metric {metric} --out t.npz"))?;
        let wanted = data.join(format!("groundtruth-normalised-{name}.npz"));
        let found = directory.path().join("t.npz");
        assert_eq!(read_ids(&found)?.values, read_ids(&wanted)?.values[..240], "{metric}");
        let sign = if metric == "ip" { -1.0 } else { 1.0 };
        let (found, wanted) = (read_distances(&found)?, read_distances(&wanted)?);
        let (found, wanted) = (found.context("distances")?.0, wanted.context("distances")?.0);
        for (found, wanted) in found.iter().zip(&wanted[..240]) {
            assert!((found - sign * wanted).abs() <= 1e-6, "{metric}: {found}, needed {wanted}");
        }
    }
    Ok(())
}

#[test]
fn pads_where_there_are_fewer_rows_than_k() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    let [rows, queries] = generate(path, "--data uniform --count 3 --dim 2 --query-count 2")?;
    PROGRAM.succeed(path, &format!("{FILES} --metric l2 -k 5 --out t.npz"))?;
    let (ids, distances) = nearest(Metric::L2, &rows, &queries, 2, 5);
    let found = read_distances(path.join("t.npz"))?.context("distances")?.0;
    assert_eq!((read_ids(path.join("t.npz"))?.values, &ids[3..5]), (ids.clone(), &[-1, -1][..]));
    assert_eq!(bits(&found), bits(&distances));
    write_npy::<f32>(path.join("none.npy"), [0, 2], &[])?;
    PROGRAM.succeed(path, "truth --rows none.npy --queries q.npy -k 2 --out a.npz")?;
    assert_eq!(read_ids(path.join("a.npz"))?.values, [-1; 4]);
    PROGRAM.succeed(path, "truth --rows r.npy --queries none.npy -k 2 --out b.npz")?;
    assert_eq!(read_ids(path.join("b.npz"))?.rows, 0);
    Ok(())
}

#[test]
fn every_format_holds_the_same_ids_whatever_the_threads() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    // Few queries and many: threads share the rows, or the queries.
    for queries in [1, 150] {
        generate(path, &format!("--data integer --count 400 --dim 4 --query-count {queries}"))?;
        for (threads, name) in
            [(1, "a.npz"), (3, "b.npz"), (16, "c.npz"), (2, "a.npy"), (2, "a.ibin"), (3, "a.bin")]
        {
            PROGRAM.succeed(path, &format!("{FILES} -k 9 --threads {threads} --force --out {name}"))?;
        }
        let whole = fs::read(path.join("a.npz"))?;
        assert!(whole == fs::read(path.join("b.npz"))? && whole == fs::read(path.join("c.npz"))?);
        for name in ["a.npy", "a.ibin", "a.bin"] {
            assert_eq!(read_ids(path.join(name))?, read_ids(path.join("a.npz"))?, "{name}");
        }
        assert_eq!(read_distances(path.join("a.bin"))?, read_distances(path.join("a.npz"))?);
    }
    let record = PROGRAM.record(path, &format!("{FILES} --out d.npz"))?;
    assert_eq!((&record["k"], &record["queries"]), (&10.into(), &150.into()), "{record}");
    assert_eq!((&record["metric"], &record["out"]), (&"cosine".into(), &"d.npz".into()), "{record}");
    Ok(())
}

#[test]
fn rows_of_later_pieces_keep_their_numbers() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    // Rows are read 32 MiB at a time, so these are two pieces.
    let mut file = zeros(&path.join("r.fbin"), 8_500, 1024)?;
    file.seek(SeekFrom::Start(8 + 8_400 * 1024 * 4))?;
    file.write_all(&1f32.to_le_bytes())?;
    drop(file);
    let mut query = vec![0f32; 1024];
    query[0] = 1.0;
    write_npy(path.join("q.npy"), [1, 1024], &query)?;
    let files = "truth --rows r.fbin --queries q.npy -k 3";
    PROGRAM.succeed(path, &format!("{files} --out t.npz"))?;
    assert_eq!(read_ids(path.join("t.npz"))?.values, [8400, 0, 1]);
    assert_eq!(read_distances(path.join("t.npz"))?.context("distances")?.0, [0.0, 1.0, 1.0]);

    let mut file = File::options().write(true).open(path.join("r.fbin"))?;
    file.seek(SeekFrom::Start(8 + 8_450 * 1024 * 4))?;
    file.write_all(&f32::INFINITY.to_le_bytes())?;
    PROGRAM.fail(path, &format!("{files} --out u.npz"), &["--rows", "r.fbin", "finite", "row 8450"])
}

#[test]
fn refuses_what_it_cannot_compare() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    generate(path, "--data uniform --count 10 --dim 4 --query-count 3")?;
    write_npy(path.join("other.npy"), [2, 3], &[0f32; 6])?;
    write_npy(path.join("broken.npy"), [2, 4], &[0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0])?;
    let whole = fs::read(path.join("r.npy"))?;
    fs::write(path.join("cut.npy"), &whole[..whole.len() - 1])?;
    fs::write(path.join("text.npy"), "no array")?;
    for (more, parts) in [
        ("--rows r.npy --queries other.npy --out t.npz", &["--queries", "dim 4", "dim 3"][..]),
        ("--rows r.npy --queries broken.npy --out t.npz", &["--queries", "broken.npy", "finite", "row 1"]),
        ("--rows broken.npy --queries q.npy --out t.npz", &["--rows", "broken.npy", "finite", "row 1"]),
        ("--rows cut.npy --queries q.npy --out t.npz", &["--rows", "cut.npy", "bytes"]),
        ("--rows r.npy --queries text.npy --out t.npz", &["--queries", "text.npy", "npy"]),
        ("--rows missing.npy --queries q.npy --out t.npz", &["--rows", "missing.npy"]),
        ("--rows r.npy --queries q.npy --out t.txt", &["--out", ".npz, .npy, .ibin, .bin"]),
        ("--rows r.npy --queries q.npy --out missing/t.npz", &["--out", "directory", "missing"]),
        ("--rows r.npy --queries q.npy --out r.npy --force", &["--out", "--rows", "r.npy"]),
        ("--rows r.npy --queries q.npy --out other.npy", &["--out", "--force", "other.npy"]),
        ("--rows r.npy --queries q.npy --out t.npz -k 0", &["--k", "at least 1"]),
        ("--rows r.npy --queries q.npy --out t.npz -k 999999999999999999", &["--k", "memory"]),
        ("--rows r.npy --queries q.npy --out t.npz --threads 18446744073709551615", &["--threads", "1024"]),
        ("--rows r.npy --queries q.npy --out t.npz --metric far", &["--metric", "cosine"]),
        ("--rows r.npy --out t.npz", &["--queries"]),
    ] {
        PROGRAM.fail(path, &format!("truth {more}"), parts)?;
    }
    Ok(())
}

/// Runs the program with bytes as its standard input.
fn piped(directory: &Path, arguments: &str, bytes: &[u8]) -> Result<Output> {
    let mut command = PROGRAM.command();
    command.current_dir(directory).args(arguments.split(' ')).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A program that refuses its input may end before it has read all.
    child.stdin.take().context("a pipe")?.write_all(bytes).ok();
    Ok(child.wait_with_output()?)
}

#[test]
fn the_standard_input_is_recognised_by_its_first_bytes() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    let rows: Vec<f32> = (0..40).map(|number| (number * 7 % 40) as f32).collect();
    write_npy(path.join("r.npy"), [10, 4], &rows)?;
    let row = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
    let csv: String = rows.chunks(4).map(|one| row(one) + "\n").collect();
    let jsonl: String = rows.chunks(4).map(|one| format!("[{}]\n", row(one))).collect();
    for bytes in [fs::read(path.join("r.npy"))?, csv.clone().into_bytes(), jsonl.into_bytes()] {
        for inputs in ["--rows - --queries r.npy", "--rows r.npy --queries -"] {
            let printed =
                succeeded(piped(path, &format!("truth {inputs} -k 1 --out t.npy --force"), &bytes)?)?;
            ensure!(printed.contains("10 x 4 f32, standard input"), "{printed}");
            assert_eq!(read_ids(path.join("t.npy"))?.values, Vec::from_iter(0..10));
        }
    }
    let files = "--queries r.npy -k 1 --out n.npy";
    for (arguments, bytes, parts) in [
        (format!("truth --rows - {files}"), &[][..], &["--rows", "standard input", "it is empty"][..]),
        (
            format!("truth --rows - {files}"),
            &[1, 0, 0, 0, 2],
            &["safetensors, HDF5, JSON lines or CSV", "\\x01"],
        ),
        (
            "truth --rows - --queries - -k 1 --out n.npy".to_owned(),
            csv.as_bytes(),
            &["--queries", "was read before"],
        ),
    ] {
        failed(&piped(path, &arguments, bytes)?, parts)?;
    }
    ensure!(!path.join("n.npy").exists());
    Ok(())
}
