//! `nearfield-bench generate`, from the outside: the same bytes everywhere, and what each recipe promises.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use nearfield::io::{VectorFile, write_npy};
use nearfield::{ElementKind, Matrix, MatrixView};
use nearfield_testing::programs::{failed, names};
use tempfile::TempDir;

use crate::PROGRAM;

/// Every recipe with the hash of a small set's two files: these bytes are promised to every machine.
const RECIPES: [(&str, u64); 11] = [
    ("uniform", 0xbfb3_4b9c_def2_2068),
    ("clustered", 0x2836_4c3e_b231_b3a4),
    ("low-rank", 0x5975_8140_8590_14ed),
    ("embedding", 0x5451_7a1a_000f_1d1a),
    ("integer", 0x0e0c_0b89_601b_7094),
    ("adversarial", 0xf54d_04a6_a550_d1f3),
    ("duplicates", 0x7c7d_8e41_fda3_9a6e),
    ("sorted", 0xf5f8_2701_e7c7_3595),
    ("outlier", 0x9d89_9e5b_51b4_78b4),
    ("norms", 0xcf51_20f8_2f69_4983),
    ("equal", 0xf8e6_97a9_3dc3_8a59),
];

fn succeed(directory: &Path, arguments: &str) -> Result<String> {
    PROGRAM.succeed(directory, &format!("generate {arguments}"))
}

/// Rows and queries of a set, in f32.
fn set(recipe: &str, rows: usize, dim: usize, queries: usize) -> Result<[Vec<f32>; 2]> {
    let directory = TempDir::new()?;
    let sizes = format!("--count {rows} --dim {dim} --query-count {queries}");
    succeed(directory.path(), &format!("--data {recipe} {sizes} --out-rows r.fbin --out-queries q.fbin"))?;
    let [rows_file, queries_file] =
        ["r.fbin", "q.fbin"].map(|name| VectorFile::open(directory.path().join(name)));
    let (rows_file, queries_file) = (rows_file?, queries_file?);
    assert_eq!((rows_file.rows(), rows_file.dim()), (rows, dim));
    assert_eq!((queries_file.rows(), queries_file.dim()), (queries, dim));
    Ok([rows_file.read_all()?.into_f32(), queries_file.read_all()?.into_f32()])
}

fn norm(vector: &[f32]) -> f64 {
    dot(vector, vector).sqrt()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// FNV-1a.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn the_same_seed_gives_the_same_bytes() -> Result<()> {
    let directory = TempDir::new()?;
    let help = succeed(directory.path(), "--help")?;
    let mut wrong = vec![];
    for (recipe, wanted) in RECIPES {
        assert!(help.contains(&format!("- {recipe}:")), "{recipe}: {help}");
        let mut all = vec![];
        for threads in [1, 2, 7] {
            let files = "--out-rows r.npy --out-queries q.npy --force";
            // Three pieces of rows, the last one cut.
            let sizes = format!("--count 700 --dim 7 --query-count 300 --seed 5 --threads {threads}");
            succeed(directory.path(), &format!("--data {recipe} {sizes} {files}"))?;
            let read = |name: &str| fs::read(directory.path().join(name));
            all.push([read("r.npy")?, read("q.npy")?]);
        }
        assert!(all[0] == all[1] && all[0] == all[2], "{recipe}: other threads, other bytes");
        let [rows, queries] = &all[0];
        assert_ne!(rows[128..8000], queries[128..8000], "{recipe}: rows and queries are the same");
        let found = hash(rows.iter().chain(queries).copied());
        if found != wanted {
            wrong.push(format!("(\"{recipe}\", {found:#018x})"));
        }
        if recipe != "equal" {
            succeed(
                directory.path(),
                &format!("--data {recipe} --count 700 --dim 7 --seed 6 --out-rows o.npy --force"),
            )?;
            assert_ne!(
                fs::read(directory.path().join("o.npy"))?,
                *rows,
                "{recipe}: the seed does not matter"
            );
        }
    }
    assert!(wrong.is_empty(), "other bytes than promised: {}", wrong.join(", "));
    Ok(())
}

#[test]
fn plain_recipes_keep_their_promises() -> Result<()> {
    let [rows, _] = set("uniform", 600, 20, 1)?;
    assert!(rows.iter().all(|x| (-1.0..1.0).contains(x)));
    let square = rows.iter().map(|x| x * x).sum::<f32>() / rows.len() as f32;
    assert!((square - 1.0 / 3.0).abs() < 0.02, "{square}");

    let [rows, queries] = set("clustered", 600, 20, 50)?;
    for vector in rows.chunks(20).chain(queries.chunks(20)) {
        assert!((0.4999..2.0001).contains(&norm(vector)), "{}", norm(vector));
    }

    let [rows, queries] = set("integer", 600, 20, 50)?;
    assert!(rows.iter().chain(&queries).all(|x| x.fract() == 0.0 && x.abs() <= 3.0));
    // Ties: 600 rows have far fewer different distances.
    let view = MatrixView::new(&rows, 20)?;
    let mut distances: Vec<i64> = (0..600)
        .map(|row| nearfield::Metric::L2Squared.exact(&queries[..20], view.row(row)) as i64)
        .collect();
    distances.sort_unstable();
    distances.dedup();
    assert!(distances.len() < 200, "{}", distances.len());

    let [rows, _] = set("low-rank", 2000, 64, 1)?;
    assert!(rows.chunks(64).all(|row| (norm(row) - 1.0).abs() < 1e-5));
    let components = components(&rows, 64);
    assert!((10.0..32.0).contains(&components), "{components}");
    Ok(())
}

#[test]
fn hard_recipes_keep_their_promises() -> Result<()> {
    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let [rows, queries] = set("duplicates", 2000, 12, 100)?;
    let mut counts: HashMap<Vec<u32>, usize> = HashMap::new();
    rows.chunks(12).for_each(|row| *counts.entry(bits(row)).or_default() += 1);
    let copies: usize = counts.values().filter(|&&count| count > 1).sum();
    assert!((1960..2000).contains(&copies) && counts.len() <= 8 + 2000 - copies, "{copies} copies");
    assert!(queries.chunks(12).any(|query| counts.get(&bits(query)).is_some_and(|&count| count > 100)));

    let [rows, queries] = set("equal", 300, 12, 2)?;
    assert!(rows.chunks(12).all(|row| row == &rows[..12]));
    assert_ne!(queries[..12], queries[12..]);

    let [rows, queries] = set("sorted", 1000, 48, 3)?;
    for metric in nearfield::Metric::ALL {
        for query in queries.chunks(48) {
            let every_tenth: Vec<f64> =
                rows.chunks(48).step_by(10).map(|row| metric.exact(query, row)).collect();
            assert!(every_tenth.is_sorted_by(|a, b| a > b), "{metric}: {every_tenth:?}");
        }
    }

    let [rows, queries] = set("outlier", 300, 12, 30)?;
    for vector in rows.chunks(12).chain(queries.chunks(12)) {
        assert!((15.0..17.0).contains(&vector[4]), "{vector:?}");
        let rest = vector.iter().enumerate().map(|(place, x)| if place == 4 { x - 16.0 } else { *x });
        assert!((norm(&rest.collect::<Vec<_>>()) - 1.0).abs() < 1e-4);
    }

    let [rows, queries] = set("norms", 2000, 12, 300)?;
    let norms: Vec<f64> = rows.chunks(12).chain(queries.chunks(12)).map(norm).collect();
    let (least, most) = norms.iter().fold((f64::MAX, 0f64), |(a, b), &x| (a.min(x), b.max(x)));
    assert!(least >= 2f64.powi(-50) && least < 2f64.powi(-47), "{least:e}");
    assert!(most <= 2f64.powi(50) && most > 2f64.powi(47), "{most:e}");

    // Stretches of 512 rows: the second one has the copies, the fifth is all the same.
    let [rows, _] = set("adversarial", 3000, 12, 5)?;
    let unique = |range: std::ops::Range<usize>| {
        let mut all: Vec<_> = rows[range.start * 12..range.end * 12].chunks(12).map(bits).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    assert_eq!(unique(0..512), 512);
    assert!(unique(512..1024) < 30);
    assert_eq!(unique(1024..2048), 1024);
    assert_eq!(unique(2048..2560), 1);
    assert!(rows.chunks(12).all(|row| (2f64.powi(-50)..2f64.powi(50)).contains(&norm(row))));
    Ok(())
}

#[test]
fn embeddings_are_like_real_ones() -> Result<()> {
    let (count, dim, asked) = (6000, 128, 200);
    let [rows, queries] = set("embedding", count, dim, asked)?;
    assert!(rows.chunks(dim).chain(queries.chunks(dim)).all(|vector| (norm(vector) - 1.0).abs() < 1e-5));
    let pairs = rows.chunks(dim).zip(rows.chunks(dim).skip(count / 2));
    let cosines: Vec<f64> = pairs.map(|(a, b)| dot(a, b)).collect();
    let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
    assert!((mean - 0.174).abs() < 0.03, "random pairs at cosine {mean}");

    // As the spectrum of the recipe makes it: half of the variance lies in a tenth of the components.
    let components = components(&rows, dim);
    assert!((20.0..60.0).contains(&components), "{components} of {dim} components");
    // No dimension of the file stands out: the principal axes are turned.
    let variances = covariance(&rows, dim);
    let most = (0..dim).map(|place| variances[place * dim + place]).fold(0.0, f64::max);
    let whole: f64 = (0..dim).map(|place| variances[place * dim + place]).sum();
    assert!(most < 3.0 * whole / dim as f64, "{most} of {whole}");

    // Near-duplicates: of the real queries a quarter has a neighbour above 0.95, 6 in 10 one above 0.8.
    let nearest: Vec<f64> = queries
        .chunks(dim)
        .map(|query| rows.chunks(dim).map(|row| dot(query, row)).fold(-1.0, f64::max))
        .collect();
    let part = |limit: f64| nearest.iter().filter(|&&cosine| cosine > limit).count() as f64 / asked as f64;
    assert!((0.12..0.4).contains(&part(0.95)), "{}", part(0.95));
    assert!((0.4..0.8).contains(&part(0.8)), "{}", part(0.8));
    Ok(())
}

/// `[dim, dim]`.
fn covariance(rows: &[f32], dim: usize) -> Vec<f64> {
    let count = (rows.len() / dim) as f64;
    let mean = |place: usize| rows[place..].iter().step_by(dim).map(|&x| f64::from(x)).sum::<f64>() / count;
    let means: Vec<f64> = (0..dim).map(mean).collect();
    let mut sums = vec![0.0; dim * dim];
    for row in rows.chunks(dim) {
        let row: Vec<f64> = row.iter().zip(&means).map(|(&x, mean)| f64::from(x) - mean).collect();
        for (line, x) in sums.chunks_mut(dim).zip(&row) {
            line.iter_mut().zip(&row).for_each(|(sum, y)| *sum += x * y);
        }
    }
    sums
}

/// The number of principal components of equal variance that would spread the variance as these rows do.
fn components(rows: &[f32], dim: usize) -> f64 {
    let matrix = covariance(rows, dim);
    let whole: f64 = (0..dim).map(|place| matrix[place * dim + place]).sum();
    // The trace of the square, which is the sum of the squared eigenvalues.
    whole * whole / matrix.iter().map(|x| x * x).sum::<f64>()
}

#[test]
fn every_format_holds_the_same_vectors() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    let sizes = "--data embedding --count 300 --dim 10";
    for (out, more) in [
        ("a.npy", ""),
        ("a.fbin", "--elements f32"),
        ("a.f16bin", ""),
        ("b.npy", "--elements f16 --threads 1"),
    ] {
        succeed(path, &format!("{sizes} --out-rows {out} {more}"))?;
    }
    let read = |name: &str| VectorFile::open(path.join(name))?.read_all();
    let (wide, narrow) = (read("a.npy")?, read("b.npy")?);
    assert_eq!((wide.kind(), narrow.kind()), (ElementKind::F32, ElementKind::F16));
    assert_eq!(read("a.fbin")?, wide);
    assert_eq!(read("a.f16bin")?, narrow);
    let rounded = wide.into_f32().iter().map(|&x| half::f16::from_f32(x)).collect();
    assert_eq!(narrow, Matrix::F16(rounded, 10));
    // An npy is what `write_npy` writes.
    let [rows, _] = set("embedding", 300, 10, 1)?;
    write_npy(path.join("c.npy"), [300, 10], &rows)?;
    assert_eq!(fs::read(path.join("a.npy"))?, fs::read(path.join("c.npy"))?);

    let record =
        PROGRAM.record(path, &format!("generate {sizes} --seed 9 --out-queries q.npy --query-count 17"))?;
    assert_eq!((&record["data"], &record["seed"]), (&"embedding".into(), &9.into()), "{record}");
    assert_eq!(record["files"], serde_json::json!({"queries": "q.npy"}));
    assert_eq!(VectorFile::open(path.join("q.npy"))?.rows(), 17);
    Ok(())
}

#[test]
fn refuses_bad_arguments() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    for (arguments, parts) in [
        ("--data uniform --count 10 --dim 0 --out-rows a.npy", &["--dim", "at least 1", "'0'"][..]),
        ("--data uniform --count 10 --dim 9999999 --out-rows a.npy", &["--dim", "1048576", "9999999"]),
        ("--data gaussian --count 10 --dim 4 --out-rows a.npy", &["--data", "'gaussian'"]),
        ("--data norms --count 10 --dim 4 --out-rows a.f16bin", &["--data", "f16", "norms"]),
        ("GOOD", &["--out-rows"]),
        ("GOOD --out-rows a.npy --threads 2000", &["--threads", "1 to 1024"]),
        ("GOOD --out-rows a.npy --query-count 3", &["--query-count", "--out-queries"]),
        ("GOOD --out-rows a.txt", &["--out-rows", ".npy, .fbin, .f16bin", "a.txt"]),
        ("GOOD --out-rows missing/a.npy", &["--out-rows", "directory", "missing"]),
        ("GOOD --out-rows a.npy --out-queries ./a.npy", &["--out-queries", "--out-rows", "a.npy"]),
        ("GOOD --out-rows a.fbin --elements f16", &["--elements", "f32", "f16"]),
        ("GOOD --out-rows a.f16bin --elements f32", &["--elements", "f16", "f32"]),
        ("GOOD --out-rows a.npy --elements f64", &["--elements", "f64"]),
        #[cfg(target_os = "linux")]
        ("GOOD --out-rows /proc/a.npy", &["--out-rows", "/proc/a.npy"]),
        // A petabyte.
        (
            "--data equal --count 1000000000000 --dim 256 --out-rows a.npy",
            &["--out-rows", "a.npy", "needed 1024000000000000 free bytes", "found"],
        ),
        // More than a header of 32 bits holds; nothing is made.
        ("--data equal --count 5000000000 --dim 1 --out-rows a.fbin", &["--out-rows", "a.fbin", "2^32"]),
    ] {
        let arguments = arguments.replace("GOOD", "--data uniform --count 10 --dim 4");
        PROGRAM.fail(path, &format!("generate {arguments}"), parts)?;
    }
    Ok(())
}

#[test]
fn overwrites_only_when_told_to() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    let good = "--data uniform --count 10 --dim 4 --out-rows a.npy";
    fs::write(path.join("a.npy"), "precious")?;
    PROGRAM.fail(path, &format!("generate {good}"), &["--out-rows", "--force", "a.npy"])?;
    assert_eq!(fs::read_to_string(path.join("a.npy"))?, "precious");
    succeed(path, &format!("{good} --force"))?;
    assert_eq!(VectorFile::open(path.join("a.npy"))?.rows(), 10);
    assert_eq!(names(path)?, ["a.npy"]);
    Ok(())
}

/// 130 and 143 in a shell.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_behind_and_ends_the_program_by_its_signal() -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let directory = TempDir::new()?;
        fs::write(directory.path().join("a.npy"), "precious")?;
        let arguments = "generate --data uniform --count 4000000 --dim 128 --out-rows a.npy --force";
        let mut command = PROGRAM.command();
        let mut child = command.current_dir(directory.path()).args(arguments.split(' ')).spawn()?;
        while names(directory.path())?.len() < 2 {
            ensure!(child.try_wait()?.is_none(), "the file is being written");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let id = child.id().to_string();
        ensure!(Command::new("kill").args(["-s", signal, &id]).status()?.success());
        assert_eq!(child.wait()?.signal(), Some(number));
        assert_eq!(names(directory.path())?, ["a.npy"]);
        assert_eq!(fs::read_to_string(directory.path().join("a.npy"))?, "precious");
    }
    Ok(())
}

/// A file that may not grow stands for a disk that is full.
#[cfg(unix)]
#[test]
fn leaves_no_half_file_on_a_full_disk() -> Result<()> {
    let directory = TempDir::new()?;
    let program = PROGRAM.0;
    let arguments = "generate --data uniform --count 100000 --dim 4 --out-rows a.npy";
    let script = format!("trap '' XFSZ; ulimit -f 64; exec '{program}' {arguments}");
    let output = Command::new("sh").current_dir(directory.path()).args(["-c", &script]).output()?;
    failed(&output, &["--out-rows", "a.npy", "large"])?;
    assert!(names(directory.path())?.is_empty(), "{:?}", names(directory.path())?);
    Ok(())
}
