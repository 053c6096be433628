//! `nearfield bench draw`: the ladder of reductions as a chart and as a table.

mod chart;
mod lines;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args as ClapArgs;

use super::lines::Line;
use super::units::{count, percent, rate_text, time_text};
use crate::files;
use chart::chart;
use lines::{Run, read, runs};

/// Arguments of `nearfield bench draw`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// JSON lines of `nearfield bench reduce --ladder --json`
    #[arg(value_name = "LINES")]
    lines: PathBuf,
    /// SVG file to write; one that is there is replaced
    #[arg(value_name = "CHART", value_parser = chart_path)]
    chart: PathBuf,
    /// Also print a table, in Markdown
    #[arg(long)]
    table: bool,
}

const HELP: &str = "\
Example:
  nearfield bench reduce --ladder --json > ladder.jsonl
  nearfield bench draw ladder.jsonl ladder.svg --table

The chart has a dark bar for each rung, in the order of the file: bytes read per second of time on the \
device, on a logarithmic axis, beside what the device copies. A light bar is by wall clock, from the call \
to the result, with what the host does. Where the adapter does not time itself, all bars are by wall \
clock, and the chart says so. Of several lengths the chart has the largest, the table all.";

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Result<()> {
    files::refuse_overwriting(&[("LINES", Some(&args.lines))], &[("CHART", Some(&args.chart))])?;
    let runs = in_file(&args.lines)?;
    let largest = runs.iter().max_by_key(|run| run.length).context("a rung has a length")?;
    fs::write(&args.chart, chart(largest)?).with_context(|| args.chart.display().to_string())?;
    if args.table {
        let tables: Vec<String> = runs.iter().map(table).collect();
        stdout().write_all(tables.join("\n").as_bytes())?;
    }
    Ok(())
}

/// The ladder of every length in some lines, the longest first: the chart, and the name of what it is of.
pub(super) fn ladders(lines: &[&Line]) -> Result<Vec<(String, String)>> {
    let mut runs = runs(lines);
    runs.sort_by_key(|run| std::cmp::Reverse(run.length));
    let title = |run: &Run| format!("Dot product of two vectors of {} f32", count(run.length));
    runs.iter().map(|run| Ok((title(run), chart(run)?))).collect()
}

/// The rungs in a file, by length.
fn in_file(path: &Path) -> Result<Vec<Run>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    read(&text).map_err(|fault| match fault {
        (0, fault) => anyhow!("{}: {fault}", path.display()),
        (line, fault) => anyhow!("{}, line {line}: {fault}", path.display()),
    })
}

/// Length and table of every ladder in a file.
pub(super) fn tables(path: &Path) -> Result<Vec<(u64, String)>> {
    Ok(in_file(path)?.iter().map(|run| (run.length, table(run))).collect())
}

/// Reads the path of the chart: clap calls this.
fn chart_path(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    let ending = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    ensure!(ending, "needed a name that ends in .svg");
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(directory.is_dir(), "needed a directory that is there, {} is not", directory.display());
    ensure!(!path.is_dir(), "needed a file, {} is none", path.display());
    Ok(path)
}

/// Text that stands for itself in a cell.
pub(super) fn cell(text: &str) -> String {
    ['\\', '|', '<']
        .iter()
        .fold(text.to_owned(), |text, letter| text.replace(*letter, &format!("\\{letter}")))
}

/// The rungs of a length in Markdown, after a line that says of what.
fn table(run: &Run) -> String {
    let device = run.device.describe();
    let on = if device.is_empty() { String::new() } else { format!(" ({})", cell(&device)) };
    let mut text = format!("Dot product of two vectors of {} f32{on}:\n\n", count(run.length));
    let heads = [
        "rung",
        "what",
        "device time",
        "wall time",
        "bytes/s",
        "share of copy",
        "error (relative to sum of \\|a b\\|)",
    ];
    text += &format!("| {} |\n|---|---|---:|---:|---:|---:|---:|\n", heads.join(" | "));
    for rung in &run.rungs {
        let (letter, name) = (cell(&rung.letter), cell(&rung.name));
        text += &match &rung.measured {
            Err(reason) => format!("| {letter} | {name} | {} | | | | |\n", cell(reason)),
            Ok(measured) => {
                let shown = |value: Option<f64>, show: fn(f64) -> String| value.map(show).unwrap_or_default();
                let cells = [
                    shown(measured.on_device, time_text),
                    time_text(measured.wall),
                    shown(measured.bytes, rate_text),
                    shown(measured.share, percent),
                    shown(
                        measured.error,
                        |error| if error == 0.0 { "0".into() } else { format!("{error:.2e}") },
                    ),
                ];
                format!("| {letter} | {name} | {} |\n", cells.join(" | "))
            }
        };
    }
    text
}
