//! `nearfield-bench report`: the figures of runs as an HTML page or as Markdown tables.

mod page;
mod render;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::lines::{Line, read};
use nearfield_cli::given::files;
use page::pages;

#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// JSON lines of `nearfield-bench`; several runs make one report
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print tables to paste into documents instead of a page
    #[arg(long)]
    markdown: bool,
    /// Write to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

const HELP: &str = "\
Examples:
  nearfield-bench exact --json > exact.jsonl
  nearfield-bench report exact.jsonl --out exact.html
  nearfield-bench report exact.jsonl --markdown

Each device has its own tables, and bars for each suite. When a case was measured more than once, the newest counts.";

pub(super) fn run(args: &Args) -> Result<()> {
    let inputs: Vec<_> = args.files.iter().map(|file| ("FILE", Some(file.as_path()))).collect();
    files::check_outputs(&inputs, &[("--out", args.out.as_deref())], args.force)?;
    let mut lines = vec![];
    for file in &args.files {
        lines.extend(read(file).context("FILE")?);
    }
    let pages = pages(&lines);
    let text = if args.markdown { render::markdown(&pages) } else { render::html(&pages) };
    match &args.out {
        Some(path) => fs::write(path, text).with_context(|| format!("--out: {}", path.display())),
        None => Ok(stdout().write_all(text.as_bytes())?),
    }
}

pub(super) const PAGE: &str = "index.html";

/// Reads the name of a directory for a page. clap calls this, so that a wrong name costs no run.
pub(super) fn directory(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    ensure!(!text.is_empty(), "needed a directory, its name is empty");
    ensure!(path.is_dir() || !path.exists(), "needed a directory, {} is none", path.display());
    let page = path.join(PAGE);
    let is_free = !page.exists() || is_ours(&page);
    ensure!(is_free, "needed a directory without a page of others, {} is there", page.display());
    Ok(path)
}

fn is_ours(page: &Path) -> bool {
    fs::read_to_string(page).is_ok_and(|text| text.contains(render::GENERATOR))
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
    self::directory(&directory.to_string_lossy())?;
    let page = directory.join(PAGE);
    let written = fs::create_dir_all(directory).and_then(|()| fs::write(&page, render::html(&pages(lines))));
    written.with_context(|| page.display().to_string())?;
    Ok(page)
}
