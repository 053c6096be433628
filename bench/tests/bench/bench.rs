//! `nearfield-bench`, from the outside: what all suites have in common.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use nearfield::io::write_npy;
use nearfield_testing::programs::{failed, hide_drivers, lines as parsed, succeeded};
use serde_json::Value;

use crate::PROGRAM;

fn command(device: &str, arguments: &str) -> Command {
    let mut command = PROGRAM.at(Path::new("."), arguments);
    command.env("NEARFIELD_ADAPTER", device);
    command
}

fn run(arguments: &str) -> Result<Output> {
    Ok(command("host", arguments).output()?)
}

/// The lines of a run that has to succeed.
fn lines(arguments: &str) -> Result<Vec<Value>> {
    let printed = succeeded(run(&format!("{arguments} --json"))?).with_context(|| arguments.to_owned())?;
    parsed(&printed)
}

fn cases(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["record"] == "case").collect()
}

/// Checks that a run fails and says this.
fn refused(arguments: &str, part: &str) -> Result<()> {
    failed(&run(arguments)?, &[part]).with_context(|| arguments.to_owned())
}

#[test]
fn a_run_names_its_device_and_each_case_has_a_spread_and_a_share_of_a_ceiling() -> Result<()> {
    // One k is asked for twice.
    let command = "exact --count 600 --dim 24 --sizes 200,600 --batch 1,7 -k 1,5,5 --quantization int8,none";
    let lines = lines(&format!("{command} --runs 3"))?;
    let device = &lines[0];
    assert_eq!((&device["record"], &device["schema"]), (&"device".into(), &1.into()));
    for name in ["date", "time", "adapter", "backend", "driver", "kind", "processor", "os", "version"] {
        assert!(device[name].is_string(), "{name} of {device}");
    }
    let told = device["command"].as_str().context("a command")?;
    assert!(told.starts_with("nearfield-bench exact --count 600"), "{told}");
    for name in ["copy_bytes_per_s", "read_bytes_per_s", "flops_per_s", "latency_ms"] {
        assert!(device[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {device}");
    }
    for curve in ["copy_curve", "read_curve"] {
        let points = device[curve].as_array().context("a curve")?;
        let sizes: Vec<f64> = points.iter().filter_map(|point| point[0].as_f64()).collect();
        assert!(sizes.len() >= 4 && sizes.is_sorted(), "{curve}: {points:?}");
    }
    let cases = cases(&lines);
    assert_eq!(cases.len(), 2 * 2 * 3 * 2);
    let names: HashSet<&str> = cases.iter().filter_map(|case| case["case"].as_str()).collect();
    assert_eq!(names.len(), cases.len(), "every case has a name of its own: {names:?}");
    for case in cases {
        let figure = |name: &str| case[name].as_f64().with_context(|| format!("{name} of {case}"));
        assert!(figure("ms_least")? <= figure("ms")? && figure("ms")? <= figure("ms_most")?, "{case}");
        for name in ["bytes", "operations", "intensity", "bytes_per_s", "operations_per_s"] {
            assert!(figure(name)? > 0.0, "{name} of {case}");
        }
        // The host engine's products of integers have no ceiling to be held against.
        let bound = case["bound"].as_str();
        assert_eq!(case["screened"] == true, bound.is_none(), "{case}");
        assert!(
            bound.is_none_or(|bound| ["read", "flops"].contains(&bound) && figure("share").is_ok()),
            "{case}"
        );
        assert!(figure("verified")? >= 1.0 && figure("runs")? >= 3.0, "{case}");
    }
    Ok(())
}

/// Names are made of the identity fields. The same recipe has other rows where there are more of them.
#[test]
fn cases_of_other_data_have_other_names() -> Result<()> {
    let here = tempfile::tempdir()?;
    let file = |name: &str| here.path().join(name).display().to_string();
    for name in ["one.npy", "other.npy"] {
        write_npy(file(name), [1, 4], &[1f32, 2.0, 3.0, 4.0])?;
    }
    let mut names = HashSet::new();
    for command in [
        "exact --data embedding --count 300 --dim 8 --batch 1 --sizes 200",
        "exact --data embedding --count 200 --dim 8 --batch 1",
        "exact --data embedding --count 200 --dim 8 --batch 1 --seed 2",
        "distance --data embedding --count 300 --dim 8 --batch 1 --sizes 200 --metric l2",
        "distance --data embedding --count 200 --dim 8 --batch 1 --metric l2",
        // A file of one query is enough for one.
        &format!("exact --rows {0} --queries {0} --batch 1", file("one.npy")),
        &format!("exact --rows {} --queries {} --batch 1", file("one.npy"), file("other.npy")),
    ] {
        let lines = lines(&format!("{command} --runs 3"))?;
        let [case] = cases(&lines)[..] else { anyhow::bail!("{command}: {lines:?}") };
        assert!(case["verified"].as_u64() >= Some(1), "{case}");
        let name = case["case"].as_str().context("a name")?.to_owned();
        assert!(names.insert(name.clone()), "{command}: {name} again");
    }
    Ok(())
}

/// Files of 500 rows and of 7 queries, whose fourth has a NaN where asked for.
fn files(directory: &Path, has_nan: bool) -> Result<String> {
    let values = |count: usize| (0..count * 24).map(|place| (place as f32).sin()).collect::<Vec<_>>();
    let mut queries = values(7);
    if has_nan {
        queries[3 * 24] = f32::NAN;
    }
    let (rows_file, queries_file) = (directory.join("small.npy"), directory.join("few.npy"));
    write_npy(&rows_file, [500, 24], &values(500))?;
    write_npy(&queries_file, [7, 24], &queries)?;
    Ok(format!("--rows {} --queries {}", rows_file.display(), queries_file.display()))
}

#[test]
fn a_case_that_fails_is_told_before_the_run_ends_and_is_on_the_page() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (files, report) = (files(directory.path(), true)?, directory.path().join("out"));
    let output = run(&format!("exact {files} --batch 2,7 --runs 3 --json --report {}", report.display()))?;
    let (printed, text) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert!(text.starts_with("error: ") && text.contains("queries: needed finite values"), "{text}");
    let lines = parsed(&fs::read_to_string(report.join("figures.jsonl"))?)?;
    let last = lines.last().context("a line")?;
    assert_eq!((&last["record"], &last["suite"]), (&"failed".into(), &"exact".into()), "{last}");
    assert!(last["case"].as_str().is_some_and(|name| name.contains(" queries 2, ")), "{last}");
    assert!(last["reason"].as_str().is_some_and(|reason| text.contains(reason)), "{last}");
    assert!(cases(&lines).is_empty());
    let page = fs::read_to_string(report.join("index.html"))?;
    assert!(page.contains("Failed, which ended the run: exact rows 500, dim 24"), "{page}");
    assert_eq!(parsed(&printed)?.last(), Some(last), "the same is printed");
    Ok(())
}

#[test]
fn a_reader_that_leaves_early_does_not_cost_the_report() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let arguments = format!("reduce --length 1000 --runs 3 --report {}", directory.path().display());
    let mut child = command("host", &arguments).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
    assert!(child.wait()?.success(), "an early reader is no failure");
    let lines = parsed(&fs::read_to_string(directory.path().join("figures.jsonl"))?)?;
    assert_eq!(cases(&lines).len(), 4, "all operations are in the report: {lines:?}");
    assert!(fs::read_to_string(directory.path().join("index.html"))?.contains("</html>"));
    Ok(())
}

#[test]
fn a_finished_run_alone_replaces_a_report_and_no_run_a_page_of_others() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let [figures, page] = ["figures.jsonl", "index.html"].map(|name| directory.path().join(name));
    let good = format!("reduce --length 1000 --runs 3 --report {}", directory.path().display());
    succeeded(run(&good)?)?;
    refused(&good, "--report: needed a new file or --force, ")?;
    let good = format!("{good} --force");
    succeeded(run(&good)?)?;
    let before = fs::read_to_string(&figures)?;
    let wrong = good.replace("reduce --length 1000", "exact --rows nowhere.npy --queries nowhere.npy");
    refused(&wrong, "nowhere.npy")?;
    let held = fs::File::open(&figures)?;
    held.lock()?;
    refused(&good, "another run is writing there")?;
    drop(held);
    assert!(page.exists());
    fs::write(&page, "<h1>my garden</h1>")?;
    refused(&good, "needed a directory without a page of others")?;
    assert_eq!([fs::read_to_string(&page)?, fs::read_to_string(&figures)?], ["<h1>my garden</h1>", &before]);
    Ok(())
}

/// The values of a field in the cases, each once.
fn values(lines: &[Value], field: &str) -> Vec<u64> {
    let mut values: Vec<u64> = cases(lines).iter().filter_map(|case| case[field].as_u64()).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[test]
fn defaults_are_no_more_than_a_file_has() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let files = files(directory.path(), false)?;
    for suite in ["exact", "distance", "ivf --iterations 2 --lists 3"] {
        let lines = lines(&format!("{suite} {files} --runs 3"))?;
        assert_eq!(values(&lines, "queries"), [1, 7], "{suite}");
        assert!(!suite.starts_with("ivf") || values(&lines, "probes") == [1, 3], "{lines:?}");
        refused(
            &format!("{suite} {files} --batch 8"),
            "--batch: needed at most 7, as the file has, given 8",
        )?;
    }
    if nearfield::Device::named("software").is_err() {
        println!("skipped: no software adapter");
        return Ok(());
    }
    let arguments = "breakeven --count 1200 --dim 4 --batch 1 --runs 3 --json";
    let output = command("software", arguments).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(values(&parsed(&String::from_utf8(output.stdout)?)?, "rows"), [1000, 1200]);
    Ok(())
}

#[test]
fn answers_of_every_batch_are_checked_as_many_as_asked_for_or_all() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let files = files(directory.path(), false)?;
    let made = "--count 300 --dim 8";
    for (arguments, verified) in [
        (format!("{made} --batch 1,3,30 --verify 20"), &[4, 12, 20][..]),
        (format!("{made} --batch 1 --verify 2"), &[4]),
        (format!("{files} --batch 2,7 --verify 50"), &[6, 7]),
    ] {
        let lines = lines(&format!("exact {arguments} --runs 3"))?;
        let found: Vec<u64> = cases(&lines).iter().filter_map(|case| case["verified"].as_u64()).collect();
        assert_eq!(found, verified, "{arguments}: {lines:?}");
    }
    Ok(())
}

#[test]
fn graphs_are_compared_with_searches_and_pairs_are_counted() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let files = files(directory.path(), false)?;
    for elements in ["f32", "i8"] {
        let made = format!("graph --count 300 --dim 8 --data embedding --elements {elements}");
        let lines = lines(&format!("{made} --k 3,400 --radius 0.2 --verify 400 --runs 3"))?;
        let [few, all, pairs] = cases(&lines)[..] else { anyhow::bail!("needed three cases: {lines:?}") };
        assert_eq!((&few["k"], &all["k"], &pairs["radius"]), (&3.into(), &400.into(), &0.2.into()));
        assert!(few["search_ms"].as_f64() > Some(0.0) && pairs["search_ms"].is_null(), "{lines:?}");
        assert!((1..300 * 299 / 2).contains(&pairs["pairs"].as_u64().context("pairs")?), "{pairs}");
        assert!([few, all, pairs].iter().all(|case| case["verified"] == 300), "{lines:?}");
    }
    refused(&format!("graph {files}"), "--queries: needed none")?;
    refused(
        &format!("exact {}", files.split(" --queries").next().unwrap_or_default()),
        "--queries: needed a file",
    )
}

#[test]
fn nothing_is_built_when_the_time_is_over() -> Result<()> {
    for (suite, builds) in [
        ("exact --count 300 --dim 8 --batch 1,2 --quantization none,int8", "upload"),
        ("ivf --count 300 --dim 8 --batch 1 --probes 1", "build"),
        ("serve --count 300 --dim 8", "case"),
        ("distance --count 300 --dim 8 --batch 1,2", "case"),
        ("reduce --length 1000 --operation sum,dot", "case"),
        ("reduce --length 1000 --row-length 10", "case"),
    ] {
        let lines = lines(&format!("{suite} --budget 1ms"))?;
        let of = |record: &str| lines.iter().filter(|line| line["record"] == record).collect::<Vec<_>>();
        assert!(of(builds).is_empty() && of("case").is_empty(), "{suite}: {lines:?}");
        let names: HashSet<String> = of("not_run").iter().map(|line| line["case"].to_string()).collect();
        assert!(!names.is_empty() && names.len() == of("not_run").len(), "{suite}: {names:?}");
    }
    Ok(())
}

#[test]
fn distances_are_verified_and_timed() -> Result<()> {
    let arguments = "--batch 1,9,30 --metric l2sq,l2,cosine,ip --precision fast,compensated --runs 3";
    let lines = lines(&format!("distance --count 400 --dim 19 {arguments}"))?;
    let cases = cases(&lines);
    assert_eq!(cases.len(), 3 * 4 * 2);
    assert_eq!(cases.iter().filter(|case| case["precision"] == "compensated").count(), 3 * 4);
    for case in cases {
        let error = case["error"].as_f64().context("an error")?;
        assert!((0.0..=1.0).contains(&error), "{case}");
        // So few rows would stay in a cache.
        assert!(case["rotated"].as_u64() > Some(4), "{case}");
    }
    Ok(())
}

#[test]
fn lists_have_their_recall_and_a_build() -> Result<()> {
    let lines =
        lines("ivf --count 2000 --dim 16 --lists 20 --probes 1,20 --batch 1,50 --runs 3 --metric l2sq")?;
    assert!(lines.iter().any(|line| line["record"] == "build" && line["train_ms"].as_f64() > Some(0.0)));
    let cases = cases(&lines);
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (recall, by_id) = (case["recall"].as_f64(), case["recall_by_id"].as_f64());
        assert!(recall >= by_id && by_id > Some(0.0), "{case}");
        assert!(case["probes"] != 20 || by_id == Some(1.0), "{case}");
        assert_eq!((&case["verified"], &case["iterations"]), (&200.into(), &10.into()), "{case}");
    }
    Ok(())
}

#[test]
fn many_callers_have_latencies_and_the_answers_of_one() -> Result<()> {
    let made = "--count 3000 --dim 16 --duration 300ms";
    let closed = lines(&format!("serve {made} --threads 1,8 --probes 3,4 --lists 20 --batch 2"))?;
    let closed = cases(&closed);
    assert_eq!(closed.len(), 4);
    for case in closed {
        let of = |key: &str| case[key].as_f64().with_context(|| format!("{key} of {case}"));
        let latencies = ["ms_least", "ms", "p90_ms", "p99_ms", "p999_ms", "ms_most"];
        let latencies = latencies.iter().map(|key| of(key)).collect::<Result<Vec<f64>>>()?;
        assert!(latencies[0] > 0.0 && latencies.is_sorted(), "{case}");
        assert!(of("queries_per_s")? > 0.0 && of("together")? >= 2.0 && case["rate"].is_null(), "{case}");
        assert!(case["threads"] == 8 || of("together")? == 2.0, "one thread searches alone: {case}");
        assert_eq!((&case["verified"], &case["late"]), (&case["runs"], &0.into()), "{case}");
    }
    let shared = lines(&format!("serve {made} --threads 2 --device host,host --distribution replicated"))?;
    assert_eq!(cases(&shared)[0]["places"], "2 replicas", "{shared:?}");
    let open = lines(&format!("serve {made} --threads 4 --rate 200 --apart"))?;
    let open = cases(&open)[0];
    assert!(
        open["runs"].as_u64().is_some_and(|runs| (30..100).contains(&runs)),
        "300 ms of 200 a second: {open}"
    );
    assert_eq!((&open["together"], &open["joined"]), (&1.0.into(), &false.into()), "{open}");
    // More arrive than one thread can answer: those that were left count too.
    let late = lines(&format!("serve {made} --threads 1 --rate 1000000"))?;
    assert!(cases(&late)[0]["late"].as_u64() > Some(100), "{late:?}");
    Ok(())
}

#[test]
fn all_suites_leave_lines_behind_on_every_device_and_name_what_had_no_time() -> Result<()> {
    let mut devices = vec![("host", "")];
    if nearfield::Device::named("software").is_ok() {
        devices.push(("software", "select breakeven"));
    }
    for (device, more) in devices {
        let directory = tempfile::tempdir()?;
        let arguments = format!("all --budget 4s --report {}", directory.path().display());
        succeeded(command(device, &arguments).output()?)?;
        let lines = parsed(&fs::read_to_string(directory.path().join("figures.jsonl"))?)?;
        for suite in "reduce distance exact graph ivf serve".split(' ').chain(more.split_whitespace()) {
            let of: Vec<&Value> = lines.iter().filter(|line| line["suite"] == suite).collect();
            let start = format!("nearfield-bench {suite} ");
            assert!(
                of[0]["command"].as_str().is_some_and(|text| text.starts_with(&start)),
                "{suite}: {of:?}"
            );
            assert!(of.iter().any(|line| line["record"] != "suite"), "{suite}: neither figures nor why not");
        }
        for line in lines.iter().filter(|line| line["record"] == "not_run") {
            assert!(line["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{line}");
        }
        assert!(
            fs::read_to_string(directory.path().join("index.html"))?.ends_with("</html>\n"),
            "a whole page"
        );
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_run_that_is_ended_keeps_the_lines_it_has_finished() -> Result<()> {
    let directory = tempfile::tempdir()?;
    // Without an end, as far as the test is concerned.
    let operations = vec!["dot"; 1000].join(",");
    let arguments = format!(
        "reduce --length 1000000 --json --operation {operations} --report {}",
        directory.path().display()
    );
    let mut child = command("host", &arguments).stdout(Stdio::piped()).spawn()?;
    let printed = BufReader::new(child.stdout.take().context("a pipe")?).lines().take(3);
    let printed = printed.collect::<std::io::Result<Vec<String>>>()?;
    // Programs that a script starts in the background ignore interrupts, so this is no interrupt. The standard library has no
    // safe call for signals.
    assert!(Command::new("kill").arg(child.id().to_string()).status()?.success());
    assert!(!child.wait()?.success(), "it was ended");
    let kept = fs::read_to_string(directory.path().join("figures.jsonl"))?;
    assert!(kept.starts_with(&(printed.join("\n") + "\n")), "{kept}");
    assert!(cases(&parsed(&kept)?).len() >= 2, "{kept}");
    Ok(())
}

#[test]
fn arguments_that_make_no_sense_are_refused_in_a_line() -> Result<()> {
    let here = tempfile::tempdir()?;
    fs::write(here.path().join("a-file"), "no vectors")?;
    for (arguments, part) in [
        ("exakt", "exakt"),
        ("exact --batch 0", "at least 1"),
        ("exact --count 100 --dim 4 --sizes 101", "--sizes: needed at most 100"),
        ("exact --count 10 --dim 4 --device nobody", "nobody"),
        ("exact --rows nowhere.npy --queries nowhere.npy", "nowhere.npy"),
        ("exact --count 10 --dim 4 --report HERE/a-file", "needed a directory"),
        ("exact --count 4000000000000 --dim 768", "--count: 4000000000000 vectors of dim 768 do not fit"),
        ("exact --budget soon", "--budget"),
        ("exact --runs 0", "--runs"),
        ("exact --metric Cosine,ip", "did you mean cosine?"),
        (
            "exact --count 100 --dim 8 --residency mapped",
            "--residency mapped: needed rows of a file (--rows)",
        ),
        ("exact --rows a.npy --queries a.npy --count 5", "--count"),
        ("exact --rows a.npy --queries a.npy --dim 5", "--dim"),
        ("exact --rows a.npy --queries a.npy --seed 5", "--seed"),
        ("ivf --count 100 --dim 4 --lists 5 --probes 6", "--probes: needed 1 to 5"),
        ("serve --count 100 --dim 4 --probes 9 --lists 8", "--probes: needed 1 to 8"),
        ("serve --count 100 --dim 4 --threads 0", "--threads"),
        ("serve --count 100 --dim 4 --lists 8", "--probes"),
        ("reduce --length 0", "needed a whole number, at least 1"),
        ("reduce --length many", "--length"),
        ("reduce --length 100 --row-length 101", "--row-length: needed at most 100"),
        ("reduce --length 100 --row-length 0", "needed a whole number, at least 1"),
        ("reduce --operation median", "needed one of sum, "),
        ("reduce --length 99999999999999", "--length: 99999999999999 numbers do not fit"),
        ("select", "needed a GPU"),
        ("select --shapes 0x10", "needed rows and elements of each, like 100x1000000"),
        ("select --shapes 10", "needed rows and elements of each, like 100x1000000"),
        ("select --values odd", "odd"),
        ("all --rows nowhere.npy", "--queries"),
        ("all --rows HERE/a-file --queries HERE/a-file", "--rows: "),
        ("all --python python3", "--peers"),
        ("peers --suites exact --lists 4", "--suites ivf, given exact"),
        ("peers --suites exact,ivf --length 4", "--suites reduce, given exact,ivf"),
        ("peers --suites reduce --select-k 4", "--suites select, given reduce"),
    ] {
        let arguments = arguments.replace("HERE", &here.path().display().to_string());
        failed(&run(&arguments)?, &[part]).with_context(|| arguments)?;
    }
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_driver_suites_run_on_the_host_or_say_in_a_line_what_they_need() -> Result<()> {
    let without = |arguments: &str| hide_drivers(&mut PROGRAM.at(Path::new("."), arguments)).output();
    let lines = parsed(&succeeded(without("exact --count 500 --dim 8 --batch 1,9 --runs 1 --json")?)?)?;
    assert_eq!((&lines[0]["kind"], &lines[0]["integer_ops_per_s"]), (&"host".into(), &Value::Null));
    assert!(lines[0]["copy_bytes_per_s"].as_f64() > Some(0.0), "{lines:?}");
    assert_eq!(cases(&lines).len(), 2, "{lines:?}");
    failed(&without("select")?, &["--device", "needed a GPU", "given host, ", "because there is no GPU"])
}

/// A second.
#[test]
fn small_changes_of_a_saved_index_are_timed() -> Result<()> {
    let record = PROGRAM.record(
        Path::new("."),
        "durable --count 2000 --dim 8 --rows 3 --adds 4 --checkpoint-rate 1 --device host",
    )?;
    let of = |name: &str| record[name].as_f64().unwrap_or_default();
    ensure!((of("rows"), of("added")) == (2000.0, 12.0), "{record}");
    ensure!(
        ["add_ms", "sync_ms", "open_ms", "checkpoint_ms", "searches_per_s_beside"]
            .iter()
            .all(|name| of(name) > 0.0),
        "{record}"
    );
    // Each change has a head, an id a row, a checksum, its end and a sync.
    ensure!(of("log_bytes") == 4.0 * f64::from(32 + 3 * (8 + 32) + 8 + 32 + 32), "{record}");
    Ok(())
}

/// Each command has examples that paste into a shell: none is long enough for clap to break it.
#[test]
fn help_has_examples_of_a_line_each() -> Result<()> {
    for (command, part) in [
        ("exact", "nearfield-bench exact"),
        ("reduce", "nearfield-bench reduce"),
        ("select", "nearfield-bench select"),
        ("generate", "nearfield-bench generate --data"),
        ("truth", "pairs_per_second"),
        ("verify", "nearfield-bench verify"),
        ("soak", "nearfield-bench soak"),
        ("durable", "nearfield-bench durable"),
    ] {
        let help = PROGRAM.succeed(Path::new("."), &format!("{command} --help"))?;
        ensure!(help.contains(part), "{command:?}: {help}");
        let (_, after) = help.split_once("\nExample").context("needed examples")?;
        let lines = after.lines().skip(1).take_while(|line| !line.is_empty());
        let broken = lines.filter(|line| !line.contains("nearfield")).collect::<Vec<_>>();
        ensure!(broken.is_empty(), "{command:?}: {broken:?}");
    }
    Ok(())
}
