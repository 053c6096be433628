//! `nearfield-bench peers`, from the outside: a script stands for Python, and Python itself runs where there is one.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{lines as parsed, succeeded};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

/// A directory with a script that stands for Python, and one for temporary files.
struct Place {
    all: TempDir,
}

impl Place {
    fn new(script: &str) -> Result<Self> {
        let place = Self { all: TempDir::new()? };
        fs::create_dir(place.temporary())?;
        // By a process of its own: a program that another thread starts could hold the file open, which then would not start.
        let mut shell = Command::new("sh")
            .args(["-c", "cat > \"$0\" && chmod +x \"$0\"", &place.python()])
            .stdin(Stdio::piped())
            .spawn()?;
        let mut pipe = shell.stdin.take().context("a pipe")?;
        // Python is tried before it runs the script.
        writeln!(pipe, "#!/bin/sh\n[ \"$1\" = -c ] && exit\n{script}")?;
        drop(pipe);
        ensure!(shell.wait()?.success(), "no script");
        Ok(place)
    }

    fn python(&self) -> String {
        self.all.path().join("python").display().to_string()
    }

    fn temporary(&self) -> std::path::PathBuf {
        self.all.path().join("tmp")
    }

    fn command(&self, python: &str, arguments: &str) -> Command {
        let mut command = PROGRAM.command();
        command.args(arguments.split_whitespace()).args(["--python", python]);
        command.env("TMPDIR", self.temporary()).env("NEARFIELD_ADAPTER", "host").current_dir(self.all.path());
        command
    }

    /// Runs the program, which must leave nothing behind.
    fn run(&self, python: &str, arguments: &str) -> Result<Output> {
        let output = self.command(python, arguments).output()?;
        let left: Vec<_> = fs::read_dir(self.temporary())?.collect::<Result<_, _>>()?;
        ensure!(left.is_empty(), "{left:?} was left behind");
        Ok(output)
    }

    /// Runs the program, which has to succeed, and returns what it printed.
    fn succeed(&self, arguments: &str) -> Result<String> {
        succeeded(self.run(&self.python(), arguments)?)
    }

    /// The one line of a run that has to fail.
    fn complaint(&self, python: &str, arguments: &str) -> Result<String> {
        let output = self.run(python, arguments)?;
        let text = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1), "{} {text}", output.status);
        ensure!(text.starts_with("error: ") && text.lines().count() == 1, "{text}");
        Ok(text)
    }
}

const SMALL: &str = "peers --count 40 --dim 3 --batch 2 -k 4";

/// A script that prints these lines.
fn printing(lines: &[Value]) -> String {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    format!("read go\ncat <<'END'\n{}\nEND", lines.join("\n"))
}

fn some_lines() -> [Value; 3] {
    [
        json!({ "record": "peers", "adapter": "a machine", "python": "3.11", "versions": { "numpy": "2.4" } }),
        json!({
            "record": "peer", "suite": "exact", "peer": "faiss-cpu", "rows": 40, "dim": 3, "metric": "cosine", "queries": 2,
            "k": 4, "ms": 1.5, "ms_least": 0.75, "ms_most": 2.0, "queries_per_s": 1333.3, "recall": 0.975,
        }),
        json!({ "record": "peer", "suite": "ivf", "peer": "cuvs", "not_run": "needs cuVS: no such module" }),
    ]
}

#[test]
fn figures_of_peers_are_printed_and_reported() -> Result<()> {
    let lines = some_lines();
    let place = Place::new(&printing(&lines))?;
    assert_eq!(parsed(&place.succeed(&format!("{SMALL} --json --report out"))?)?, lines);
    let file = place.all.path().join("out/figures.jsonl");
    assert_eq!(parsed(&fs::read_to_string(&file)?)?, lines);
    let page = fs::read_to_string(place.all.path().join("out/index.html"))?;
    assert!(page.contains("faiss-cpu") && page.contains("no such module"));
    let text = place.succeed(SMALL)?;
    for part in [
        "a machine",
        "numpy 2.4",
        "faiss-cpu",
        "1.500 ms (0.750 .. 2.000), noisy, ",
        "recall 0.9750",
        "cuvs: not run: needs cuVS: no such module",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(text.lines().count(), 3);
    Ok(())
}

#[test]
fn the_script_is_given_the_vectors_and_what_is_asked_for() -> Result<()> {
    // It tells the sizes of the files that were written for it, and its options.
    let script = r#"
        read go
        sizes=$(cd "$(dirname "$1")" && wc -c *.npy 2> /dev/null | tr -s '\n ' '  ')
        echo "{\"record\":\"peer\",\"sizes\":\"$sizes\",\"options\":$2}""#;
    let place = Place::new(script)?;
    nearfield::io::write_npy(place.all.path().join("some.npy"), [4, 1], &[0f32, 1.0, 2.0, 3.0])?;
    let asked = "--metric l2sq --suites exact,ivf --peers numpy,faiss-cpu --lists 5 --probes 1,5 --runs 7 --allowed 0.25,1";
    for (arguments, wanted) in [
        (
            format!("{SMALL} {asked}"),
            json!({
                "suites": ["exact", "ivf"], "peers": ["numpy", "faiss-cpu"], "batch": [2], "metric": "l2sq", "probes": [1, 5],
                "lists": 5, "runs": 7, "k": [4], "allowed": [0.25, 1.0], "data": "clustered", "select_k": [1, 16, 256],
            }),
        ),
        (
            "peers --count 9 --dim 2 --suites exact".to_owned(),
            json!({ "batch": [1, 1024], "allowed": [null] }),
        ),
        // Python reads these itself, and there are only four.
        (
            "peers --rows some.npy --queries some.npy --suites exact".to_owned(),
            json!({ "batch": [1, 4], "rows": "some.npy", "queries": "some.npy" }),
        ),
    ] {
        let line = &parsed(&place.succeed(&format!("{arguments} --json --budget 1h"))?)?[0];
        let options = &line["options"];
        for (name, value) in wanted.as_object().context("an object")? {
            assert_eq!(options[name], *value, "{arguments}: {name} of {options}");
        }
        assert!(options["budget"].as_f64().is_some_and(|left| (3000.0..3600.0).contains(&left)), "{options}");
        let sizes = line["sizes"].as_str().context("sizes")?;
        // The header of a small .npy takes 128 bytes; of made queries there are as many as are checked.
        let is_made = sizes.contains("608 rows.npy") && sizes.contains("2528 queries.npy");
        assert!(is_made || !arguments.starts_with(SMALL), "{sizes}");
        assert_eq!(sizes.contains("rows.npy"), !arguments.contains("some.npy"), "{sizes}");
    }
    Ok(())
}

#[test]
fn a_script_that_fails_or_a_python_that_is_not_there_is_one_line() -> Result<()> {
    let no_line = |line: &str| format!("echo '{line}'\nexec sleep 1000");
    for (script, python, part) in [
        // A script that goes on is ended.
        (no_line("Segmentation fault"), "", "line 1"),
        (no_line("[1]"), "", "line 1"),
        (no_line("{\"record\":\"case\"}"), "", "line 1"),
        (no_line("{}"), "", "line 1"),
        ("exit 3".to_owned(), "", "exit status: 3"),
        ("exit 0".to_owned(), "", "printed none"),
        (String::new(), "false", "needed a Python with numpy 2, false says: exit status: 1"),
        (String::new(), "./no-such-python", "./no-such-python"),
    ] {
        let place = Place::new(&script)?;
        let python = if python.is_empty() { place.python() } else { python.to_owned() };
        let text = place.complaint(&python, SMALL)?;
        assert!(text.contains("--python") && text.contains(part), "{text}");
    }
    // Lines that came before are reported, and that it failed.
    let place = Place::new(&format!("{}\nexit 3", printing(&some_lines())))?;
    let text = place.complaint(&place.python(), &format!("{SMALL} --report out"))?;
    let lines = parsed(&fs::read_to_string(place.all.path().join("out/figures.jsonl"))?)?;
    let last = lines.last().context("a line")?;
    assert_eq!(
        (lines.len(), &last["record"], &last["suite"]),
        (4, &json!("failed"), &json!("peers")),
        "{last}"
    );
    assert!(last["reason"].as_str().is_some_and(|reason| text.contains(reason)), "{last}");
    assert!(
        fs::read_to_string(place.all.path().join("out/index.html"))?
            .contains("Failed, which ended the run: peers")
    );
    Ok(())
}

#[test]
fn all_suites_go_without_peers_that_do_not_start() -> Result<()> {
    let place = Place::new("exit 0")?;
    let output = place.run("./no-such-python", "all --peers --scale small --budget 1s --json")?;
    let lines = parsed(&succeeded(output)?)?;
    let of = |record: &str| {
        lines.iter().filter(|line| line["record"] == record && line["suite"] == "peers").collect::<Vec<_>>()
    };
    let commands: Vec<&str> = of("suite").iter().filter_map(|line| line["command"].as_str()).collect();
    for suite in ["exact", "ivf", "reduce"] {
        let start = format!("nearfield-bench peers --suites {suite} ");
        assert!(commands.iter().any(|command| command.starts_with(&start)), "{start} in {commands:?}");
    }
    assert_eq!(of("not_run").len(), commands.len());
    Ok(())
}

/// Whether there is a Python that runs the script. A test without one says that it is skipped.
fn has_numpy() -> bool {
    let check = "import numpy, sys; sys.exit(sys.version_info < (3, 9))";
    let status = Command::new("python3").args(["-c", check]).stderr(Stdio::null()).status();
    let is_there = status.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("skipped: no Python with numpy");
    }
    is_there
}

#[test]
fn numpy_finds_what_is_nearest_and_computes_all_products() -> Result<()> {
    let place = Place::new("exit 0")?;
    let arguments = "peers --count 700 --dim 8 --batch 1,20 -k 3,10 --suites exact,distance --peers numpy --runs 3 --json";
    if !has_numpy() {
        assert!(place.complaint("python3", arguments)?.contains("numpy"));
        return Ok(());
    }
    for metric in ["cosine", "ip", "l2sq", "l2"] {
        let lines = parsed(&succeeded(place.run("python3", &format!("{arguments} --metric {metric}"))?)?)?;
        assert_eq!(lines[0]["record"], "peers");
        // A product of matrices is no distance by L2.
        let has_products = ["cosine", "ip"].contains(&metric);
        assert_eq!(lines.len(), 1 + 4 + if has_products { 2 } else { 1 }, "{lines:?}");
        for line in &lines[1..] {
            assert_eq!(
                (&line["peer"], &line["metric"], &line["rows"]),
                (&"numpy".into(), &metric.into(), &700.into())
            );
            if line["suite"] == "exact" {
                assert_eq!(line["recall"], 1.0, "{line}");
                assert!(line["verified"].as_u64() > Some(0) && line["ms"].as_f64() > Some(0.0), "{line}");
            } else {
                assert_eq!(line["error"].as_f64().is_some_and(|error| error <= 1e-6), has_products, "{line}");
                assert_eq!(line["not_run"].is_null(), has_products, "{line}");
            }
        }
    }
    Ok(())
}

#[test]
fn vectors_without_distances_are_refused_and_small_sets_are_enough() -> Result<()> {
    if !has_numpy() {
        return Ok(());
    }
    let place = Place::new("exit 0")?;
    let (three, broken) = (place.all.path().join("three.npy"), place.all.path().join("broken.npy"));
    nearfield::io::write_npy(&three, [3, 2], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
    nearfield::io::write_npy(&broken, [3, 2], &[0f32, 1.0, f32::NAN, 3.0, 4.0, f32::INFINITY])?;
    let arguments = |rows: &str, queries: &str| {
        let files = format!("--rows {rows}.npy --queries {queries}.npy");
        format!("peers {files} --batch 1 --suites exact,ivf --peers numpy --runs 3 --json")
    };
    for (rows, queries, argument) in [("broken", "three", "--rows"), ("three", "broken", "--queries")] {
        let text = place.complaint("python3", &arguments(rows, queries))?;
        let wanted = format!("error: {argument}: needed finite values, row 1 holds a NaN or an infinity\n");
        assert_eq!(text, wanted);
    }
    nearfield::io::write_npy(&broken, [3, 2], &[0f32, 0.0, 1e-15, 1e15, 0.0, 1e-20])?;
    let text = place.complaint("python3", &arguments("three", "broken"))?;
    assert!(
        text.contains("--queries: needed norms that are 0 or within") && text.contains("row 2"),
        "{text}"
    );
    // Omitted numbers default to what there is; given ones that do not fit are refused.
    let output = place.run("python3", &arguments("three", "three"))?;
    let lines = parsed(&succeeded(output)?)?;
    assert_eq!((&lines[1]["k"], &lines[1]["recall"]), (&3.into(), &1.0.into()), "{lines:?}");
    for (wrong, part) in
        [("-k 4", "-k: needed at most 3"), ("--lists 2 --probes 3", "--probes: needed at most 2")]
    {
        let text = place.complaint("python3", &format!("{} {wrong}", arguments("three", "three")))?;
        assert!(text.contains(part), "{text}");
    }
    Ok(())
}

#[test]
fn a_run_that_is_killed_leaves_no_process_and_no_files() -> Result<()> {
    if !has_numpy() {
        return Ok(());
    }
    let place = Place::new("exit 0")?;
    let arguments =
        "peers --count 20000 --dim 64 --batch 500 --runs 1000000 --suites exact --peers numpy --json";
    let mut running = place.command("python3", arguments).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(running.stdout.take().context("a pipe")?).read_line(&mut line)?;
    ensure!(line.contains("\"peers\""), "{line}");
    running.kill()?;
    running.wait()?;
    let is_empty = |directory: &Path| fs::read_dir(directory).map(|mut entries| entries.next().is_none());
    let started = Instant::now();
    while !is_empty(&place.temporary())? {
        ensure!(started.elapsed() < Duration::from_secs(60), "files are left");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
