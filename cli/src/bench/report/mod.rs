//! `nearfield bench report`: the figures of runs as a page that needs no other file.

mod axis;
mod bars;
mod breakeven;
mod cases;
mod ceilings;
mod exact;
mod fields;
mod figures;
mod ivf;
mod kernels;
mod page;
mod palette;
mod part;
mod peers;
mod plot;
mod roofline;
mod stages;
mod summary;

use std::fs::{self, File};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;

use super::lines::{Line, read};
use page::{GENERATOR, escaped, paragraph};
use part::Part;

/// Arguments of `nearfield bench report`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// JSON lines of `nearfield bench --json` or of `nearfield bench peers`; those of several runs make one page
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Directory to write index.html to; it is made, and a page of ours that is there is replaced
    #[arg(long, value_name = "DIR", value_parser = directory)]
    out: PathBuf,
}

const HELP: &str = "\
Example:
  nearfield bench exact --json > exact.jsonl
  nearfield bench report exact.jsonl --out page       # page/index.html

The page has its charts and its looks in itself: it opens from a disk, prints, and asks no network for \
anything. Figures of several devices stand one after the other, never in one chart.";

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Result<()> {
    let mut lines = vec![];
    for file in &args.files {
        lines.extend(read(file).context("FILE")?);
    }
    let page = write(&args.out, &lines).context("--out")?;
    writeln!(stdout(), "{}", page.display())?;
    Ok(())
}

/// Reads the name of a directory to write a page to: clap calls this, so that a run is not lost for a wrong name.
pub(super) fn directory(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    ensure!(!text.is_empty(), "needed a directory, its name is empty");
    ensure!(path.is_dir() || !path.exists(), "needed a directory, {} is none", path.display());
    let page = path.join(PAGE);
    let is_ours = !page.exists() || fs::read_to_string(&page).is_ok_and(|text| text.contains(GENERATOR));
    ensure!(is_ours, "needed a directory without a page of others, {} is there", page.display());
    Ok(path)
}

const PAGE: &str = "index.html";

/// Takes a page of ours away, as its lines are about to be others.
pub(super) fn remove(directory: &Path) -> Result<()> {
    let page = directory.join(PAGE);
    let is_ours = fs::read_to_string(&page).is_ok_and(|text| text.contains(GENERATOR));
    if is_ours {
        fs::remove_file(&page)?;
    }
    Ok(())
}

/// Writes the page of some lines to `index.html` in a directory, whole or not at all, and says where it is. The directory is
/// made where it is not there.
pub(super) fn write(dir: &Path, lines: &[Line]) -> Result<PathBuf> {
    let html = html(lines)?;
    directory(&dir.to_string_lossy())?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let (page, draft) = (dir.join(PAGE), dir.join(format!(".{PAGE}.{}", std::process::id())));
    let written = File::create(&draft)
        .and_then(|mut file| file.write_all(html.as_bytes()))
        .and_then(|()| fs::rename(&draft, &page));
    if written.is_err() {
        // The error tells of the page, not of what is left of it.
        fs::remove_file(&draft).ok();
    }
    written.with_context(|| page.display().to_string())?;
    Ok(page)
}

/// A section of the page: the name of its anchor, its heading, and what makes its HTML, which is empty where there is nothing
/// to show.
type Section = (&'static str, &'static str, fn(&Part<'_>) -> Result<String>);

const SECTIONS: [Section; 10] = [
    ("ceilings", "What the device can do", ceilings::html),
    ("roofline", "Roofline", roofline::html),
    ("exact", "Exact search", exact::html),
    ("ivf", "Search in lists", ivf::html),
    ("reduce", "Reductions", kernels::reductions),
    ("select", "Selection", kernels::selections),
    ("distance", "Distance matrix", kernels::distances),
    ("breakeven", "Break-even of GPU and host", breakeven::html),
    ("peers", "Other libraries", peers::html),
    ("cases", "All cases", cases::html),
];

fn html(lines: &[Line]) -> Result<String> {
    let parts = Part::all(lines);
    let mut body = String::new();
    for (number, part) in parts.iter().enumerate() {
        body += &article(part, number + 1)?;
    }
    let title = match &parts[..] {
        [part] => title(part),
        _ => format!("nearfield on {} devices", parts.len()),
    };
    if parts.len() > 1 {
        let link =
            |(number, part)| format!("<a href=\"#device-{}\">{}</a>", number + 1, escaped(&title_of(part)));
        let links: String = parts.iter().enumerate().map(link).collect();
        body = format!("<nav>{links}</nav>\n{body}");
    }
    Ok(page::page(&title, &body))
}

fn title_of(part: &Part<'_>) -> String {
    part.text("adapter").unwrap_or("an unnamed device").to_owned()
}

fn title(part: &Part<'_>) -> String {
    format!("nearfield on {}", title_of(part))
}

/// All about one device.
fn article(part: &Part<'_>, number: usize) -> Result<String> {
    let mut sections = vec![];
    for (name, heading, make) in SECTIONS {
        let html = make(part)?;
        if !html.is_empty() {
            sections.push((format!("{name}-{number}"), heading, html));
        }
    }
    let links: String =
        sections.iter().map(|(name, heading, _)| format!("<a href=\"#{name}\">{heading}</a> ")).collect();
    let mut html = format!("<article id=\"device-{number}\">\n<h1>{}</h1>\n", escaped(&title(part)));
    html += &summary::facts(part);
    html += &summary::html(part);
    if sections.len() > 2 {
        html += &format!("<nav>{links}</nav>\n");
    }
    for (name, heading, section) in sections {
        html += &format!("<section id=\"{name}\">\n<h2>{heading}</h2>\n{section}</section>\n");
    }
    Ok(html + "</article>\n")
}

/// The command that gives the lines of a suite again.
fn again(part: &Part<'_>, suite: &str) -> String {
    let commands = part.of("suite", suite).into_iter().filter_map(|line| line.text("command"));
    let mut html: Vec<String> =
        commands.map(|command| format!("<code>{}</code>", escaped(command))).collect();
    html.dedup();
    if html.is_empty() {
        String::new()
    } else {
        format!("<p class=\"again\">Again: {}</p>\n", html.join("; "))
    }
}

/// What a section shows, its parts, and the command for it; nothing where the parts are empty.
fn section(part: &Part<'_>, suite: &str, lead: &str, parts: &[String]) -> String {
    let parts = parts.concat();
    if parts.is_empty() {
        return parts;
    }
    paragraph(lead) + &parts + &again(part, suite)
}
