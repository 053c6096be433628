//! `nearfield build`: builds an index of the rows of a file, and saves it.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nearfield::io::VectorFile;
use nearfield::{Device, Error, Flat, Index, Ivf, Matrix, Metric, Screen};
use serde_json::json;

use crate::device::{self, Choice};
use crate::progress::bar;
use crate::{arguments, files, output};

/// Training rows per list, as in the library.
const ROWS_A_LIST: usize = 64;

const LONG: &str = "\
Build an index of the rows of a file, and save it to a file that `nearfield search --index-file` reads.

Rows are read piece by piece, so a file may be larger than the memory. The id of a row is its number in the file. The index is a \
safetensors file, described in docs/files.md, which appears under its name when it is complete.

--json prints one object, in one line:
  rows, dim, elements      of the file
  index, lists, metric     as requested; lists is null for flat
  device                   {name, backend, driver, kind}
  load_seconds             reading the rows
  train_seconds            reading the training rows and training the centroids; 0 for flat
  add_seconds              sending the rows to the device and into their lists
  save_seconds             writing the index
  out, bytes               the written file, and its size";

const EXAMPLES: &str = "\
Examples:
  nearfield build --rows base.npy --index flat --metric cosine --out index.nf
  nearfield build --rows base.npy --index ivf --lists 4096 --out index.nf
  nearfield search --index-file index.nf --queries query.npy -k 10 --probes 16";

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// Exact: every search compares all rows
    Flat,
    /// Approximate: a search compares the rows of the nearest lists
    Ivf,
}

#[derive(Debug, clap::Args)]
#[command(about = "Build an index of the rows of a file, and save it", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Kind of index
    #[arg(long, value_enum, value_name = "INDEX", default_value = "flat")]
    index: Kind,
    /// Lists of an ivf index; by default about four times the square root of the number of rows
    #[arg(long, value_name = "N", value_parser = crate::arguments::count)]
    lists: Option<usize>,
    /// Metric: l2sq, l2, cosine or ip (the inner product, negated)
    #[arg(long, value_name = "METRIC", default_value = "l2sq")]
    metric: Metric,
    /// Copy of the rows in 8-bit integers, which excludes most rows without changing the answers: auto, none or i8
    #[arg(long, value_name = "SCREEN", default_value = "auto")]
    screen: Screen,
    #[command(flatten)]
    device: Choice,
    /// File for the index
    #[arg(long, value_name = "OUT.nf", value_parser = |text: &str| files::output_path(text, &["nf"]))]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    files::refuse_overwriting(&[("--rows", Some(&args.rows))], &[("--out", Some(&args.out))])?;
    files::refuse_existing("--out", &args.out, args.force)?;
    let rows = VectorFile::open(&args.rows).context("--rows")?;
    let lists = match (args.index, args.lists) {
        (Kind::Flat, None) => None,
        (Kind::Flat, Some(lists)) => anyhow::bail!("--lists: needed --index ivf, given {lists} for flat"),
        (Kind::Ivf, lists) => Some(lists.unwrap_or_else(|| Ivf::recommend(rows.rows()))),
    };
    if let Some(lists) = lists {
        let most = rows.rows();
        ensure!(
            most > 0,
            "--rows: needed at least one row for an ivf index, {} has none",
            rows.path().display()
        );
        ensure!(lists <= most, "--lists: needed 1 to {most}, the number of rows, given {lists}");
    }
    let device = args.device.open()?;
    let start = Instant::now();
    let mut index = match lists {
        None => {
            let builder = Flat::builder(&device, args.metric, rows.dim()).elements(rows.kind());
            Index::from(builder.capacity(rows.rows()).screen(args.screen).build()?)
        }
        Some(lists) => train(args, &device, &rows, lists)?.into(),
    };
    let train = if lists.is_some() { start.elapsed() } else { Default::default() };
    let filled = files::fill(&mut index, &rows)?;
    let start = Instant::now();
    index.save(&args.out).context("--out")?;
    let save = start.elapsed();
    let bytes = fs::metadata(&args.out).with_context(|| format!("--out {}", args.out.display()))?.len();

    let kind = files::kind_name(rows.kind());
    let record = json!({
        "rows": index.len(), "dim": rows.dim(), "elements": kind, "index": arguments::name(args.index),
        "lists": lists, "metric": args.metric.name(), "device": device::to_json(device.adapter()),
        "load_seconds": filled.load.as_secs_f64(), "train_seconds": train.as_secs_f64(),
        "add_seconds": filled.upload.as_secs_f64(), "save_seconds": save.as_secs_f64(), "out": args.out, "bytes": bytes,
    });
    let of_lists =
        lists.map(|lists| format!(", {}", output::counted(lists, "list", "lists"))).unwrap_or_default();
    let mut lines = vec![
        ("rows", files::describe(&rows)),
        ("device", device.adapter().to_string()),
        ("metric", args.metric.to_string()),
        ("index", arguments::name(args.index) + &of_lists),
        ("load", output::time(filled.load)),
        ("add", output::time(filled.upload)),
        ("save", output::time(save)),
        ("wrote", format!("{}, {}", args.out.display(), output::bytes(bytes))),
    ];
    if lists.is_some() {
        lines.insert(4, ("train", output::time(train)));
    }
    output::print(args.json, &record, &lines)
}

/// Trains an index without rows on a sample of the file.
fn train(args: &Args, device: &Device, rows: &VectorFile, lists: usize) -> Result<Ivf> {
    let wanted = lists.saturating_mul(ROWS_A_LIST).min(rows.rows());
    let sample = sample(rows, wanted)?;
    let bar = bar("train", ITERATIONS);
    let progress = |iteration: usize, _: f64| bar.set_position(iteration as u64);
    let builder = Ivf::builder(device, args.metric, rows.dim())
        .lists(lists)
        .elements(rows.kind())
        .capacity(rows.rows())
        .screen(args.screen)
        .kmeans(|means| means.iterations(ITERATIONS).progress(&progress));
    let trained = builder.train(&sample);
    // Errors name a row by its number in the file, not in the sample.
    let number = |row: u64| sampled(rows, wanted, row as usize) as u64;
    trained.map_err(|error| {
        let error = match error {
            Error::NotFinite { argument, row } => Error::NotFinite { argument, row: number(row) },
            Error::NormOutOfRange { argument, row } => Error::NormOutOfRange { argument, row: number(row) },
            other => other,
        };
        files::blame(error, "--rows", rows, 0)
    })
}

/// The number in the file of a row of a sample of `wanted` rows.
fn sampled(file: &VectorFile, wanted: usize, number: usize) -> usize {
    (number as u128 * file.rows() as u128 / wanted as u128) as usize
}

/// Rounds of k-means, as in the library.
const ITERATIONS: usize = 10;

/// Reads `wanted` rows, spread over the file, in one pass.
fn sample(file: &VectorFile, wanted: usize) -> Result<Matrix> {
    let bar = bar("sample", file.rows());
    let (mut wide, mut half) = (vec![], vec![]);
    let mut numbers = (0..wanted).map(|number| sampled(file, wanted, number)).peekable();
    for piece in file.pieces(files::PIECE_BYTES) {
        let (first, rows) = piece.context("--rows")?;
        let (end, dim) = (first + rows.rows(), rows.dim());
        while let Some(number) = numbers.next_if(|&number| number < end) {
            let range = (number - first) * dim..(number - first + 1) * dim;
            match &rows {
                Matrix::F32(values, _) => wide.extend_from_slice(&values[range]),
                Matrix::F16(values, _) => half.extend_from_slice(&values[range]),
            }
        }
        bar.set_position(end as u64);
    }
    Ok(if half.is_empty() { Matrix::F32(wide, file.dim()) } else { Matrix::F16(half, file.dim()) })
}
