//! `nearfield-bench generate`: makes vectors and writes them to files.

pub(crate) mod recipe;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use half::f16;
use nearfield::io::{NpyValue, VectorWriter};
use nearfield::{Element, ElementKind};
use serde_json::{Value, json};

use nearfield_cli::given::arguments::Threads;
use nearfield_cli::given::{arguments, files};
use nearfield_cli::memory;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;
use recipe::{PIECE, Part, Recipe, Set};

/// Bytes made before they are written, because a set may be larger than the memory.
const BLOCK_BYTES: usize = 128 << 20;
/// Queries that are made by default.
const QUERIES: usize = 1000;
const ENDINGS: &[&str] = &["npy", "fbin", "f16bin"];

const LONG: &str = "\
Make vectors from a recipe and a seed, and write them to files.

The same recipe, sizes and seed give the same bytes on every machine and with any number of threads. Queries follow the \
recipe of the rows with another seed. Vectors are written as they are made, so a set may be larger than the memory. A file \
appears under its name when it is complete, and an unfinished one leaves nothing behind.

--json prints one object, in one line:
  data, rows, queries, dim, seed  as requested
  elements                        f32 or f16, of each file
  seconds                         making and writing, in total
  files                           {rows, queries}: those that were written";

const EXAMPLES: &str = "\
Examples:
  nearfield-bench generate --data uniform --count 1000 --dim 96 --out-rows b.npy --out-queries q.npy
  nearfield-bench generate --data integer --count 100000 --dim 128 --seed 7 --out-rows base.fbin
  nearfield-bench generate --data low-rank --count 1000000 --dim 768 --out-rows base.f16bin

True neighbours of these files:
  nearfield-bench truth --rows b.npy --queries q.npy -k 100 --out truth.npz";

#[derive(Debug, clap::Args)]
#[command(about = "Make vectors from a recipe and a seed, and write them to files", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Recipe of the vectors
    #[arg(long, value_enum, value_name = "RECIPE")]
    data: Recipe,
    /// Number of rows
    #[arg(long = "count", value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    rows: usize,
    /// Dimension of a vector
    #[arg(long, value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    dim: usize,
    /// Number of queries; by default 1000
    #[arg(long = "query-count", value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    queries: Option<usize>,
    /// Seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// File for the rows, .npy, .fbin or .f16bin
    #[arg(long, value_name = "FILE", value_parser = |text: &str| files::output_path(text, ENDINGS), required_unless_present = "out_queries")]
    out_rows: Option<PathBuf>,
    /// File for the queries, .npy, .fbin or .f16bin
    #[arg(long, value_name = "FILE", value_parser = |text: &str| files::output_path(text, ENDINGS))]
    out_queries: Option<PathBuf>,
    /// Element type, f32 or f16; by default f16 for .f16bin, else f32
    #[arg(long, value_name = "TYPE", value_parser = arguments::word::<ElementKind>)]
    elements: Option<ElementKind>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    threads: Threads,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A file to write.
struct Output<'a> {
    argument: &'static str,
    label: &'static str,
    path: &'a Path,
    part: Part,
    count: usize,
    kind: ElementKind,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.threads.run(|| run_here(args))
}

fn run_here(args: &Args) -> Result<()> {
    files::refuse_overwriting(
        &[],
        &[("--out-rows", args.out_rows.as_deref()), ("--out-queries", args.out_queries.as_deref())],
    )?;
    ensure!(
        args.queries.is_none() || args.out_queries.is_some(),
        "--query-count: needed --out-queries, given --out-rows alone"
    );
    let queries = args.queries.unwrap_or(QUERIES);
    let mut outputs = vec![];
    for (argument, label, path, part, count) in [
        ("--out-rows", "rows", &args.out_rows, Part::Rows, args.rows),
        ("--out-queries", "queries", &args.out_queries, Part::Queries, queries),
    ] {
        let Some(path) = path else { continue };
        files::refuse_existing(argument, path, args.force)?;
        outputs.push(Output { argument, label, path, part, count, kind: args.kind(argument, path)? });
    }
    let set = Set::new(args.data, args.rows, args.dim, args.seed)?;
    let start = Instant::now();
    for output in &outputs {
        match output.kind {
            ElementKind::F32 => {
                output.write(&set, 0f32, |first, values| set.fill(output.part, first, values))
            }
            ElementKind::F16 => {
                output.write(&set, f16::ZERO, |first, values| set.fill_f16(output.part, first, values))
            }
            other => unreachable!("no format has elements of {other:?}"),
        }?;
    }
    let seconds = start.elapsed();
    let of = |value: fn(&Output<'_>) -> Value| {
        outputs.iter().map(|one| (one.label.to_owned(), value(one))).collect::<serde_json::Map<_, _>>()
    };
    let record = json!({
        "data": arguments::name(args.data), "rows": args.rows, "queries": queries, "dim": args.dim,
        "seed": args.seed, "elements": of(|one| json!(one.kind.name())),
        "seconds": seconds.as_secs_f64(), "files": of(|one| json!(one.path)),
    });
    let mut lines = vec![("data", format!("{}, seed {}", arguments::name(args.data), args.seed))];
    lines.extend(outputs.iter().map(|one| {
        let (kind, path) = (one.kind, one.path.display());
        (one.label, format!("{} x {} {kind}, {path}", one.count, args.dim))
    }));
    lines.push(("time", output::time(seconds)));
    output::print(args.json, &record, &lines)
}

impl Args {
    /// The element type of a file.
    fn kind(&self, argument: &str, path: &Path) -> Result<ElementKind> {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let kind = match (ending.to_str(), self.elements) {
            (Some("f16bin"), Some(ElementKind::F32)) => {
                bail!("--elements: needed f16 for {argument} .f16bin, given f32")
            }
            (Some("fbin"), Some(ElementKind::F16)) => {
                bail!("--elements: needed f32 for {argument} .fbin, given f16")
            }
            (_, Some(other)) if !matches!(other, ElementKind::F32 | ElementKind::F16) => {
                bail!("--elements: needed f32 or f16, given {other}")
            }
            (Some("f16bin"), _) | (_, Some(ElementKind::F16)) => ElementKind::F16,
            _ => ElementKind::F32,
        };
        ensure!(
            kind == ElementKind::F32 || self.data.fits_f16(),
            "--data: needed a recipe whose numbers f16 holds for {argument}, given {}",
            arguments::name(self.data)
        );
        Ok(kind)
    }
}

impl Output<'_> {
    /// Writes all vectors, which `fill` makes block after block.
    fn write<T: Element + NpyValue>(&self, set: &Set, zero: T, fill: impl Fn(usize, &mut [T])) -> Result<()> {
        let dim = set.dim();
        // Whole pieces, so that the bytes do not depend on the size of a block.
        let pieces = (BLOCK_BYTES / (PIECE * dim * size_of::<T>())).max(1);
        let block = (pieces * PIECE).min(self.count);
        let mut values = memory::filled(block.checked_mul(dim), zero, || {
            format!("--dim: no memory for {block} vectors of dim {dim}")
        })?;
        let bar = bar(self.label, self.count);
        let mut writer = VectorWriter::create(self.path, [self.count, dim]).context(self.argument)?;
        for first in (0..self.count).step_by(block) {
            let values = &mut values[..block.min(self.count - first) * dim];
            fill(first, values);
            writer.write(values).context(self.argument)?;
            bar.set_position((first + values.len() / dim) as u64);
        }
        writer.finish().context(self.argument)
    }
}
