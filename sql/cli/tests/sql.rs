//! `nearfield-sql`, from the outside.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use datafusion::arrow::ipc::reader::FileReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use nearfield::io::write_npy;
use nearfield::{Device, Flat, MatrixView, Metric};
use nearfield_testing::programs::{Program, failed, lines, succeeded};
use tempfile::TempDir;

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_nearfield-sql"));

/// Runs statements with these options, and returns what was printed.
fn sql(at: &Path, statements: &str, options: &str) -> Result<String> {
    let mut arguments = vec![statements];
    arguments.extend(options.split_whitespace());
    succeeded(PROGRAM.run_words(at, &arguments)?).with_context(|| statements.to_owned())
}

fn sql_fails(at: &Path, statements: &str, options: &str, parts: &[&str]) -> Result<()> {
    let mut arguments = vec![statements];
    arguments.extend(options.split_whitespace());
    failed(&PROGRAM.run_words(at, &arguments)?, parts).with_context(|| statements.to_owned())
}

/// Three vectors.
const VECTORS: [f32; 6] = [0.0, 1.0, 1.0, 1.0, 3.0, 0.0];

/// A directory with three vectors in every format. `t.stream.arrow` is without a footer.
fn tables() -> Result<TempDir> {
    let directory = TempDir::new()?;
    let at = directory.path();
    write_npy(at.join("v.npy"), [3, 2], &VECTORS)?;
    let rows = "SELECT column1 AS n, column2 AS vec FROM (VALUES (10, [0.0, 1.0]), (11, [1.0, 1.0]), (12, [3.0, 0.0]))";
    sql(at, &format!("COPY ({rows}) TO 't.parquet'; COPY ({rows}) TO 't.arrow'"), "")?;
    fs::create_dir(at.join("parts"))?;
    for (from, to) in [
        ("arrow", "t.ipc"),
        ("arrow", "t.feather"),
        ("parquet", "parts/a.parquet"),
        ("parquet", "parts/b.parquet"),
    ] {
        fs::copy(at.join(format!("t.{from}")), at.join(to))?;
    }
    let batches = FileReader::try_new(File::open(at.join("t.arrow"))?, None)?;
    let mut stream = StreamWriter::try_new(File::create(at.join("t.stream.arrow"))?, &batches.schema())?;
    batches.into_iter().try_for_each(|batch| stream.write(&batch?))?;
    stream.finish()?;
    fs::write(at.join("t.csv"), "n,name\n10,ten\n11,eleven\n")?;
    fs::write(at.join("t.tsv"), "n\tname\n10\tten\n")?;
    fs::write(at.join("t.jsonl"), "{\"n\": 10}\n{\"n\": 11}\n")?;
    Ok(directory)
}

#[test]
fn every_file_is_a_table() -> Result<()> {
    let directory = tables()?;
    let at = directory.path();
    for (file, count) in [
        ("t.parquet", 3),
        ("t.arrow", 3),
        ("t.stream.arrow", 3),
        ("t.ipc", 3),
        ("t.feather", 3),
        ("parts", 6),
        ("parts/*.parquet", 6),
        ("t.csv", 2),
        ("t.tsv", 1),
        ("t.jsonl", 2),
        ("v.npy", 3),
    ] {
        let counted = sql(at, "SELECT count(*) AS rows FROM T", &format!("--table t={file} --json"))?;
        assert_eq!(counted, format!("{{\"rows\":{count}}}\n"), "{file}");
    }
    for (file, count) in
        [("t.parquet", 3), ("t.arrow", 3), ("t.csv", 2), ("v.npy", 3), ("t.parquet:vec", 3), ("parts/", 6)]
    {
        let counted = sql(at, &format!("SELECT count(*) AS rows FROM '{file}'"), "--json")?;
        assert_eq!(counted, format!("{{\"rows\":{count}}}\n"), "{file}");
    }
    let row = sql(at, "SELECT id, vector, arrow_typeof(vector) AS type FROM 'v.npy' WHERE id = 2", "--json")?;
    let row = &lines(&row)?[0];
    assert_eq!(row["vector"], serde_json::json!([3.0, 0.0]));
    assert!(row["type"].as_str().is_some_and(|name| name.starts_with("FixedSizeList(2 x")), "{row}");
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cli/data/base.f16.npy");
    let halves = sql(at, &format!("SELECT arrow_typeof(vector) AS type FROM '{base}' LIMIT 1"), "--json")?;
    assert!(halves.contains("Float16"), "{halves}");
    Ok(())
}

#[test]
fn the_functions_of_nearfield_search_files_and_saved_indexes() -> Result<()> {
    let directory = tables()?;
    let at = directory.path();
    let mut index = Flat::builder(&Device::host(), Metric::L2, 2).build()?;
    index.add(MatrixView::new(&VECTORS, 2)?)?;
    index.save(at.join("v.nf"))?;
    let search = |call: &str| {
        let found = sql(
            at,
            &format!("SELECT * FROM {call} ORDER BY rank"),
            "--device host --threads 2 --table v=v.npy --table t=t.parquet --json",
        )?;
        lines(&found)
    };
    for call in [
        "knn(v, vector, [1.0, 0.9], 2, 'l2')",
        "knn(t, vec, [1.0, 0.9], 2, 'l2')",
        "knn_index('v.nf', [1.0, 0.9], 2)",
    ] {
        let found = search(call)?;
        let id = if call.contains("vec,") { "n" } else { "id" };
        let ids: Vec<i64> = found.iter().filter_map(|row| row[id].as_i64()).map(|id| id % 10).collect();
        assert_eq!(ids, [1, 0], "{call}");
    }
    for table in ["v.npy", "v.nf"] {
        let ordered = "SELECT id FROM v ORDER BY array_distance(vector, [1.0, 0.9]) LIMIT 2";
        let answer = sql(at, ordered, &format!("--json --table v={table} --device host"))?;
        assert_eq!(answer, "{\"id\":1}\n{\"id\":0}\n", "{table}");
    }
    let call = "SELECT * FROM knn(v, vector, [1.0, 0.9], 1)";
    sql_fails(at, call, "--table v=v.npy --device nobody", &["nobody"])
}

#[test]
fn binary_columns_are_rows_of_bits() -> Result<()> {
    let directory = tables()?;
    let at = directory.path();
    let rows =
        "SELECT column1 AS n, column2 AS bits FROM (VALUES (10, X'0a0b'), (11, X'ff0b'), (12, X'0a0f'))";
    sql(at, &format!("COPY ({rows}) TO 'b.parquet'; COPY ({rows}) TO 'b.arrow'"), "")?;
    for file in ["b.parquet", "b.arrow"] {
        let table = format!("--json --device host --table b={file} --table v={file}:bits");
        let nearest = "SELECT n, _distance FROM knn(b, bits, X'0a0f', 2, 'hamming') ORDER BY rank";
        let wanted = "{\"n\":12,\"_distance\":0.0}\n{\"n\":10,\"_distance\":1.0}\n";
        assert_eq!(sql(at, nearest, &table)?, wanted, "{file}");
        for of_vectors in ["v".to_owned(), format!("'{file}:bits'")] {
            let nearest = format!(
                "SELECT id, arrow_typeof(vector) AS type FROM {of_vectors} ORDER BY jaccard_distance(vector, X'ff0b') LIMIT 1"
            );
            let wanted = "{\"id\":1,\"type\":\"FixedSizeBinary(2)\"}\n";
            assert_eq!(sql(at, &nearest, &table)?, wanted, "{file}");
        }
    }
    sql_fails(
        at,
        "SELECT * FROM knn(v, vector, X'0a0f', 2)",
        "--table v=b.parquet:bits",
        &["holds bits", "hamming and jaccard"],
    )
}

#[test]
fn rows_are_printed_or_written_by_the_ending_of_the_file() -> Result<()> {
    let directory = tables()?;
    let at = directory.path();
    let all = "SELECT n, vec FROM 't.parquet' ORDER BY n";
    let printed = sql(at, all, "--show 2")?;
    assert!(printed.contains("| 11 | [1.0, 1.0] |") && !printed.contains("12"), "{printed}");
    let output = PROGRAM.run_words(at, &[all, "--show", "2"])?;
    assert!(String::from_utf8(output.stderr)?.contains("note: the first 2 rows; --show"), "no note");
    let printed = sql(at, "SELECT n, NULL AS b FROM 't.parquet' WHERE n > 99", "")?;
    assert!(printed.contains("| n | b |"), "{printed}");
    let printed = sql(at, "SELECT make_array(1,2,3,4,5,6,7,8,9,10) AS long", "")?;
    assert!(printed.contains("7, 8, … 10 elements]"), "{printed}");

    let printed = sql(at, all, "--out o.csv")?;
    assert!(printed.contains("wrote      o.csv, 3 rows"), "{printed}");
    assert_eq!(
        fs::read_to_string(at.join("o.csv"))?,
        "n,vec\n10,\"[0.0, 1.0]\"\n11,\"[1.0, 1.0]\"\n12,\"[3.0, 0.0]\"\n"
    );
    let printed = sql(at, all, "--out o.jsonl --json")?;
    assert_eq!((&lines(&printed)?[0]["rows"], &lines(&printed)?[0]["out"]), (&3.into(), &"o.jsonl".into()));
    assert_eq!(
        lines(&fs::read_to_string(at.join("o.jsonl"))?)?[2],
        serde_json::json!({ "n": 12, "vec": [3.0, 0.0] })
    );
    sql(at, all, "--out o.parquet")?;
    assert_eq!(sql(at, "SELECT n FROM 'o.parquet' WHERE vec[1] = 3", "--json")?, "{\"n\":12}\n");
    sql(at, "SELECT n FROM 't.parquet' WHERE n > 99", "--out none.csv")?;
    assert_eq!(fs::read_to_string(at.join("none.csv"))?, "n\n");

    sql_fails(at, all, "--out o.csv", &["--out", "--force", "o.csv"])?;
    sql(at, all, "--out o.csv --force")?;
    sql_fails(at, all, "--out o.txt", &["--out", ".csv, .jsonl"])?;
    sql_fails(at, all, "--table t=t.csv --out t.csv --force", &["--out", "that of --table"])?;
    sql_fails(at, "SELECT n / 0 FROM 't.parquet'", "--out wrong.csv", &["SQL: --out wrong.csv", "zero"])?;
    assert!(!at.join("wrong.csv").exists());
    Ok(())
}

#[test]
fn statements_come_one_after_the_other_and_from_files() -> Result<()> {
    let directory = tables()?;
    let at = directory.path();
    let statements = "CREATE TABLE a AS SELECT 1 AS x;\n SELECT x + 1 AS y FROM a; -- the end;\n;";
    assert_eq!(sql(at, statements, "--json")?, "{\"y\":2}\n");
    sql(at, "SELECT 1; CREATE TABLE a AS SELECT 2 AS x; SELECT x FROM a", "--out last.csv")?;
    assert_eq!(fs::read_to_string(at.join("last.csv"))?, "x\n2\n");
    fs::write(at.join("s.sql"), statements)?;
    assert_eq!(PROGRAM.succeed(at, "--file s.sql --json")?, "{\"y\":2}\n");
    let mut child = PROGRAM
        .command()
        .current_dir(at)
        .args(["--file", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("stdin")?.write_all(statements.as_bytes())?;
    assert_eq!(succeeded(child.wait_with_output()?)?, "{\"y\":2}\n");
    // A thousand terms do not overflow the stack.
    let sum = vec!["1"; 1000].join(" + ");
    assert_eq!(sql(at, &format!("SELECT {sum} AS sum"), "--json")?, "{\"sum\":1000}\n");
    Ok(())
}

#[test]
fn help_has_examples_of_a_line_each() -> Result<()> {
    let help = PROGRAM.succeed(Path::new("."), "--help")?;
    let (_, examples) = help.split_once("\nExamples:\n").context("needed examples")?;
    assert!(examples.lines().all(|line| line.starts_with("  nearfield-sql ")), "{help}");
    Ok(())
}

#[test]
fn wrong_statements_and_tables_are_named() -> Result<()> {
    let directory = tables()?;
    let at = directory.path();
    for (statements, options, parts) in [
        ("SELEC 1", "", &["SQL: ", "SELEC", "Line: 1"][..]),
        ("", "", &["SQL: needed a statement"]),
        (" ; ;", "", &["SQL: needed a statement"]),
        ("CREATE TABLE a AS SELECT 1 AS x; SELECT y FROM a", "", &["SQL, statement 2: ", "y"]),
        ("SELECT * FROM nothing", "", &["SQL: ", "nothing"]),
        ("SELECT * FROM 'none.npy'", "", &["SQL: ", "none.npy"]),
        ("SELECT 1", "--file s.sql", &["--file"]),
        ("SELECT 1", "--table t", &["--table", "NAME=FILE"]),
        ("SELECT 1", "--table 1=t.csv", &["--table", "letters"]),
        ("SELECT 1", "--table t=none.csv", &["--table t=none.csv: needed a file"]),
        ("SELECT 1", "--table t=none.npy", &["--table", "none.npy"]),
        ("SELECT 1", "--table t=t.txt", &["--table t=t.txt", ".npy"]),
        ("SELECT 1", "--table t=t.csv --table T=t.tsv", &["--table T", "once"]),
        ("SELECT 1", "--table t=empty", &["--table t=empty", "No files found"]),
        ("SELECT 1", "--table t=broken.parquet", &["--table t=broken.parquet", "arquet"]),
        ("SELECT 1", "--table t=broken.arrow", &["--table t=broken.arrow"]),
        ("SELECT * FROM 'broken.npy'", "", &["broken.npy"]),
    ] {
        fs::create_dir_all(at.join("empty"))?;
        for name in ["broken.parquet", "broken.arrow", "broken.npy", "t.txt"] {
            fs::write(at.join(name), "ARROW1 no file of this kind")?;
        }
        sql_fails(at, statements, options, parts)?;
    }
    PROGRAM.fail(at, "", &["<SQL>", "--file"])?;
    PROGRAM.fail(at, "--file none.sql", &["--file none.sql", "No such file"])?;
    let nested = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    sql_fails(at, &nested, "", &["SQL: ", "recursion"])
}
