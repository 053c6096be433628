//! `nearfield-bench report`: the figures of runs as an HTML page, as Markdown tables, or one chart as an SVG file.

mod ceilings;
mod chart;
mod columns;
mod device;
mod document;
mod fields;
mod html;
mod markdown;
mod overview;
mod peers;
mod serve;
mod suites;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args as ClapArgs, ValueEnum};

use super::lines::{Line, read};
use chart::Chart;
use device::DeviceLines;
use document::Page;
pub(super) use fields::describe;
use nearfield_cli::given::files;

#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// JSON lines of `nearfield-bench`; several runs make one report
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format of the report
    #[arg(long, value_enum, default_value_t = Format::Html, conflicts_with = "chart")]
    format: Format,
    /// Write only this chart, as SVG; an unknown name lists the charts there are
    #[arg(long, value_name = "NAME")]
    chart: Option<String>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A page with tables and charts that needs no other file and no network
    Html,
    /// Tables to paste into documents
    Markdown,
}

const HELP: &str = "\
Examples:
  nearfield-bench exact --json > exact.jsonl
  nearfield-bench report exact.jsonl --output exact.html
  nearfield-bench report exact.jsonl --format markdown
  nearfield-bench reduce --ladder --json > ladder.jsonl
  nearfield-bench report ladder.jsonl --chart ladder --output ladder.svg

Each device has its own page of tables and charts. When a case was measured more than once, the newest counts. A bar chart \
from several devices has one group of bars for each.";

pub(super) fn run(args: &Args) -> Result<()> {
    let inputs: Vec<(&str, Option<&Path>)> =
        args.files.iter().map(|file| ("FILE", Some(file.as_path()))).collect();
    files::check_outputs(&inputs, &[("--output", args.output.as_deref())], args.force)?;
    let mut lines = vec![];
    for file in &args.files {
        lines.extend(read(file).context("FILE")?);
    }
    let pages = pages(&lines);
    let text = match (&args.chart, args.format) {
        (Some(name), _) => chart(&pages, name).context("--chart")?,
        (None, Format::Html) => html::render(&pages)?,
        (None, Format::Markdown) => markdown::render(&pages),
    };
    match &args.output {
        Some(path) => fs::write(path, text).with_context(|| format!("--output: {}", path.display())),
        None => Ok(stdout().write_all(text.as_bytes())?),
    }
}

/// A page for each device, at least one.
fn pages(lines: &[Line]) -> Vec<Page> {
    DeviceLines::group(lines).iter().map(page).collect()
}

fn page(device: &DeviceLines<'_>) -> Page {
    let mut sections = vec![
        suites::exact(device),
        suites::ivf(device),
        serve::section(device),
        peers::section(device),
        suites::reductions(device),
        suites::selection(device),
        suites::distance(device),
        suites::breakeven(device),
        ceilings::section(device),
        suites::others(device),
    ];
    sections.retain(|section| !section.blocks.is_empty());
    Page { sections, ..overview::page(device) }
}

/// The chart of a name as an SVG file. Bar charts of several devices are joined.
fn chart(pages: &[Page], name: &str) -> Result<String> {
    let all = || pages.iter().flat_map(Page::figures);
    let found: Vec<_> = all().filter(|figure| figure.name == name).collect();
    let Some(first) = found.first() else {
        let mut names: Vec<&str> = all().map(|figure| figure.name).collect();
        names.sort_unstable();
        names.dedup();
        bail!("needed one of {}, given {name}", names.join(", "));
    };
    let mut groups = vec![];
    for figure in &found {
        match &figure.chart {
            Chart::Bars(bars) => groups.extend(bars.iter().cloned()),
            Chart::Lines(_) => ensure!(found.len() == 1, "{name}: needed lines of one device, found several"),
        }
    }
    if groups.is_empty() {
        first.chart.file(&first.caption, &first.note)
    } else {
        Chart::Bars(groups).file(&first.caption, &first.note)
    }
}

const PAGE: &str = "index.html";

/// Reads the name of a directory for a page. clap calls this, so that a wrong name costs no run.
pub(super) fn directory(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    ensure!(!text.is_empty(), "needed a directory, its name is empty");
    ensure!(path.is_dir() || !path.exists(), "needed a directory, {} is none", path.display());
    let page = path.join(PAGE);
    ensure!(
        !page.exists() || is_ours(&page),
        "needed a directory without a page of others, {} is there",
        page.display()
    );
    Ok(path)
}

fn is_ours(page: &Path) -> bool {
    fs::read_to_string(page).is_ok_and(|text| text.contains(html::GENERATOR))
}

/// Removes our own page from a directory, before its lines change.
pub(super) fn remove(directory: &Path) -> Result<()> {
    let page = directory.join(PAGE);
    if is_ours(&page) {
        fs::remove_file(&page)?;
    }
    Ok(())
}

/// Writes the page of some lines to `index.html` in a directory and returns its path. Creates the directory if needed.
pub(super) fn write(directory: &Path, lines: &[Line]) -> Result<PathBuf> {
    let html = html::render(&pages(lines))?;
    self::directory(&directory.to_string_lossy())?;
    let page = directory.join(PAGE);
    let written = fs::create_dir_all(directory).and_then(|()| fs::write(&page, html));
    written.with_context(|| page.display().to_string())?;
    Ok(page)
}
