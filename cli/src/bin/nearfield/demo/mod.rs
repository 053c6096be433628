//! `nearfield demo`: searches real data that the program contains, checks the answers, and takes questions.

mod packages;

use std::io::{Write, stdout};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nearfield::io::VectorFile;
use nearfield::{ElementKind, Flat, MatrixView, Metric, Neighbors};

use nearfield_cli::given::device::{self, Choice};
use nearfield_cli::terminal::output;
use packages::{Packages, closest};

static ROWS: &[u8] = include_bytes!("../../../../data/base.f16.npy");
static ROW_NAMES: &str = include_str!("../../../../data/names.txt");
static ROW_DESCRIPTIONS: &str = include_str!("../../../../data/descriptions.txt");
static QUERIES: &[u8] = include_bytes!("../../../../data/query.f16.npy");
static QUERY_NAMES: &str = include_str!("../../../../data/query-names.txt");
static QUERY_DESCRIPTIONS: &str = include_str!("../../../../data/query-descriptions.txt");
static TRUTH: &[u8] = include_bytes!("../../../../data/groundtruth-normalised-cosine.npz");

/// Queries with neighbours that anyone can judge: an archiver, an aligner of gene sequences, a debugger.
const SHOWN: [&str; 3] = ["7zip", "mafft", "lldb-13"];
const SHOWN_NEIGHBORS: usize = 5;
/// The letters of a description that are shown.
const LETTERS: usize = 70;
const K: usize = 10;
const RUNS: usize = 5;
/// Neighbours closer to each other than this may swap, because truth and results are rounded to f32.
const TIE: f32 = 1e-6;

const LONG: &str = "\
Search real data that comes with the program, and check the answers.

The rows are the descriptions of 4000 Debian packages, as vectors of 384 f16 values (all-MiniLM-L6-v2); the queries are 200 \
more. Packages whose descriptions mean alike lie near each other. The exit code is 0 only if the 10 nearest rows of every query \
are the true ones.";

const EXAMPLES: &str = "\
Examples:
  nearfield demo
  nearfield demo --query gimp
  nearfield demo --device host";

/// What to try next.
const NEXT: [&str; 2] = [
    "nearfield search --rows base.npy --queries query.npy --metric cosine -k 10",
    "nearfield build --rows base.npy --metric cosine --index ivf --out index.nf",
];

#[derive(Debug, clap::Args)]
#[command(about = "Search real data that comes with the program, and check the answers", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Package to find the nearest ones of; several times for several
    #[arg(long, value_name = "NAME")]
    query: Vec<String>,
    #[command(flatten)]
    device: Choice,
}

/// The index, and the packages that can be asked for.
struct Demo<'p> {
    index: Flat,
    rows: &'p Packages,
    queries: &'p Packages,
}

/// A package to find the nearest ones of.
struct Asked<'p> {
    packages: &'p Packages,
    place: usize,
    /// Its own row, if it has one.
    row: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let rows = Packages::read(ROWS, ROW_NAMES, ROW_DESCRIPTIONS).context("the rows in the program")?;
    let queries =
        Packages::read(QUERIES, QUERY_NAMES, QUERY_DESCRIPTIONS).context("the queries in the program")?;
    let shown = SHOWN.map(str::to_owned);
    let names: &[String] = if args.query.is_empty() { &shown } else { &args.query };
    // A wrong name is refused before anything is printed.
    let asked: Vec<_> = names.iter().map(|name| asked(&rows, &queries, name)).collect::<Result<_>>()?;

    let device = args.device.open()?;
    let mut out = stdout().lock();
    writeln!(out, "{}", device::sentence(&device))?;
    let mut index = Flat::builder(&device, Metric::Cosine, rows.dim).elements(ElementKind::F16).build()?;
    index.add(MatrixView::new(&rows.values, rows.dim)?)?;
    writeln!(
        out,
        "The data are the descriptions of {} Debian packages, which a model has turned into {} numbers each.\n\
         A distance of 0 means that two descriptions say the same; at 0.8 they have nothing in common (1 - cosine).",
        rows.names.len(),
        rows.dim
    )?;
    let demo = Demo { index, rows: &rows, queries: &queries };
    demo.check(&mut out)?;
    asked.iter().try_for_each(|one| demo.answer(&mut out, one))?;
    writeln!(out, "\nNext, with vectors of your own (npy, csv, jsonl, safetensors and others):")?;
    NEXT.iter().try_for_each(|command| writeln!(out, "  {command}"))?;
    Ok(out.flush()?)
}

/// The package of a name, or an error with the names that are most like it.
fn asked<'p>(rows: &'p Packages, queries: &'p Packages, name: &str) -> Result<Asked<'p>> {
    if let Some(place) = queries.find(name) {
        return Ok(Asked { packages: queries, place, row: None });
    }
    let place = rows.find(name).with_context(|| {
        let near = closest(name, queries.names.iter().chain(&rows.names).copied()).join(", ");
        format!("--query: needed the name of a package in the data, given {name}: the closest are {near}")
    })?;
    Ok(Asked { packages: rows, place, row: Some(place as u64) })
}

impl Demo<'_> {
    /// Searches for all queries, and fails unless the true neighbours are found.
    fn check(&self, out: &mut impl Write) -> Result<()> {
        let asked = MatrixView::new(&self.queries.values, self.queries.dim)?;
        // Compiles the kernels too, so it is not timed.
        let found = self.index.search(asked, K)?;
        let right = right_answers(&found).context("the truth in the program")?;
        let (count, all) = (self.queries.names.len(), self.queries.names.len() * K);
        let recall = right as f64 / all as f64;
        writeln!(
            out,
            "\nrecall@{K} {recall:.4}: {right} of the {all} true neighbours of {count} queries were found."
        )?;
        ensure!(
            right == all,
            "recall@{K}: needed all {all} true neighbours, found {right}: this device computes wrongly"
        );
        let timed = |_| {
            let start = Instant::now();
            self.index.search(asked, K).map(|_| start.elapsed())
        };
        let mut times = (0..RUNS).map(timed).collect::<nearfield::Result<Vec<_>>>()?;
        times.sort_unstable();
        let median = times[RUNS / 2];
        let speed = output::rate(count as f64 / median.as_secs_f64().max(1e-9));
        let together = output::time(median);
        writeln!(
            out,
            "All {count} at once take {together}, the median of {RUNS} runs: {speed} queries a second."
        )?;
        Ok(())
    }

    /// Prints the packages nearest to one.
    fn answer(&self, out: &mut impl Write, &Asked { packages, place, row }: &Asked<'_>) -> Result<()> {
        let (name, description) = (packages.names[place], packages.descriptions[place]);
        writeln!(out, "\nNearest to {name} ({description}):")?;
        let query = MatrixView::new(packages.vector(place), packages.dim)?;
        let found = self.index.search(query, SHOWN_NEIGHBORS + 1)?;
        let others = found.row(0).iter().filter(|hit| Some(hit.id) != row).take(SHOWN_NEIGHBORS);
        let others: Vec<_> = others.map(|hit| (hit.distance, hit.id as usize)).collect();
        let width = others.iter().map(|&(_, id)| self.rows.names[id].len()).max().unwrap_or(0);
        for (distance, id) in others {
            let description: String = self.rows.descriptions[id].chars().take(LETTERS).collect();
            writeln!(out, "  {distance:.4}  {:<width$}  {description}", self.rows.names[id])?;
        }
        Ok(())
    }
}

/// The number of results that are true neighbours, or as near as the last true one.
fn right_answers(found: &Neighbors) -> Result<usize> {
    let read = |member: &str| VectorFile::from_bytes(format!("truth.npz:{member}"), TRUTH)?.read_all();
    // The ids are so small that f32 holds them.
    let (ids, distances) = (read("ids")?, read("distances")?);
    let width = ids.dim();
    let (ids, distances) = (ids.into_f32(), distances.into_f32());
    ensure!(
        ids.len() == found.queries() * width && distances.len() == ids.len() && width >= K,
        "needed one shape"
    );
    let rows = found.iter().zip(ids.chunks_exact(width).zip(distances.chunks_exact(width)));
    let right = rows.map(|(hits, (ids, distances))| {
        let limit = distances[K - 1] + TIE;
        let true_one = |id: u64| ids[..K].iter().any(|&one| one as u64 == id);
        hits.iter().take(K).filter(|hit| true_one(hit.id) || hit.distance <= limit).count()
    });
    Ok(right.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn every_package_has_one_line_and_the_next_commands_are_commands() -> Result<()> {
        for (npy, names, descriptions) in
            [(ROWS, ROW_NAMES, ROW_DESCRIPTIONS), (QUERIES, QUERY_NAMES, QUERY_DESCRIPTIONS)]
        {
            let packages = Packages::read(npy, names, descriptions)?;
            assert_eq!(packages.names.len(), descriptions.lines().count());
            assert!(packages.descriptions.iter().all(|text| !text.trim().is_empty()));
        }
        for command in NEXT {
            crate::Cli::try_parse_from(command.split(' '))?;
        }
        Ok(())
    }
}
