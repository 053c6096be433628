//! `nearfield reduce`: sums, norms, extremes, standard deviations and other reductions of the rows of a file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nearfield::io::write_npy;
use nearfield::{Device, MatrixView, Reduced, Reduction, Summation, ValueRows, Values};
use serde_json::{Value, json};

use nearfield_cli::given::arguments::{self, Threads};
use nearfield_cli::given::device::{self, Choice};
use nearfield_cli::given::files;
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::terminal::output;

const LONG: &str = "\
Reduce every row of a file to a number, or with --whole all of its values to one number.

Sums are in f32 with an error of some units in the last place of the sum of magnitudes; --compensated adds as if in twice the \
precision, for operations that add. `min`, `max`, `argmin` and `argmax` ignore NaN, and ties go to the smaller index; argmin and argmax are indices within a row, \
or within all values with --whole. `std` is that of a population, as numpy's by default, accurate also far from 0, and NaN beside a NaN or an infinity. The rows must fit the \
memory.

--json prints one object, in one line:
  rows, dim, operation     as requested
  device                   {name, backend, driver, kind}
  results                  the first results (--show), or the only one; what is not finite is the text inf, -inf or NaN
  seconds                  reducing, without reading the files
  out                      the written file, or null";

const EXAMPLES: &str = "\
Examples:
  nearfield reduce --rows base.npy --operation norm-l2 --out norms.npy
  nearfield reduce --rows base.npy --operation mean --whole
  nearfield reduce --rows a.npy --with b.npy --operation dot --compensated --out products.npy";

#[derive(Debug, clap::Args)]
#[command(about = "Sums, norms, extremes, standard deviations and dot products of the rows of a file", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Reduction: sum, sum-squares, mean, norm-l1 (the sum of magnitudes), norm-l2 (the root of the sum of squares), norm-max (the largest
    /// magnitude), std, min, max, argmin, argmax, or dot with the same row of --with
    #[arg(long, value_name = "OPERATION", value_parser = arguments::word::<Reduction>)]
    operation: Reduction,
    /// File of the other rows of `dot`, of the same shape and element type
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Reduce all values to one
    #[arg(long)]
    whole: bool,
    /// Add as if in twice the precision, and round once: sum, sum-squares, mean, norm-l1, norm-l2 and dot
    #[arg(long)]
    compensated: bool,
    #[command(flatten)]
    device: Choice,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Results that are printed
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "whole")]
    show: usize,
    /// Write the results, f32 or i64 [rows, 1], to this npy
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Refuses options that do not concern the operation.
fn check_operation(args: &Args) -> Result<()> {
    let given = args.operation;
    match (given == Reduction::Dot, args.with.is_some()) {
        (true, false) => bail!("--operation: needed --with FILE for dot, given none"),
        (false, true) => bail!("--with: needed --operation dot, given {given}"),
        _ => {}
    }
    let sums = || Reduction::ALL.into_iter().filter(|one| one.is_summed()).map(Reduction::name);
    ensure!(
        !args.compensated || given.is_summed(),
        "--compensated: needed --operation {}, given {given}",
        sums().collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let inputs = [("--rows", Some(args.rows.as_path())), ("--with", args.with.as_deref())];
    files::check_outputs(&inputs, &[("--out", args.out.as_deref())], args.force)?;
    check_operation(args)?;
    let file = files::open(&args.rows, "--rows")?;
    let rows = file.read_all().context("--rows")?.into_f32();
    let view = MatrixView::new(&rows, file.dim())?;
    let others = match &args.with {
        None => None,
        Some(path) => {
            let others = files::open(path, "--with")?;
            let (needed, given) = ([file.rows(), file.dim()], [others.rows(), others.dim()]);
            ensure!(needed == given, "--with: needed {needed:?}, as --rows has, given {given:?}");
            Some(others.read_all().context("--with")?.into_f32())
        }
    };
    let device = args.device.open()?;
    let summation = if args.compensated { Summation::Compensated } else { Summation::Plain };
    let reduce = device.reduce().summation(summation);
    let start = Instant::now();
    let results = match args.whole {
        true => reduce.run(args.operation, &rows, others.as_deref().map(Values::from))?,
        false => {
            let others = others.as_deref().map(|others| MatrixView::new(others, file.dim())).transpose()?;
            reduce.run_rows(args.operation, view, others.map(ValueRows::from))?
        }
    };
    let took = start.elapsed();
    if let Some(path) = &args.out {
        write(&results, path).context("--out")?;
    }
    report(args, &file, &device, &results, took)
}

fn write(results: &Reduced, path: &Path) -> nearfield::Result<()> {
    match results {
        Reduced::Values(values) => write_npy(path, [values.len(), 1], values),
        Reduced::Places(places) => {
            let places: Vec<i64> = places.iter().map(|&place| place as i64).collect();
            write_npy(path, [places.len(), 1], &places)
        }
    }
}

/// The first results as JSON and as text.
fn first(results: &Reduced, count: usize) -> Vec<(Value, String)> {
    match results {
        // A JSON number has the digits of an f64.
        Reduced::Values(values) => {
            let both = |&value: &f32| (output::number(value), value.to_string());
            values.iter().take(count).map(both).collect()
        }
        Reduced::Places(places) => {
            places.iter().take(count).map(|place| (json!(place), place.to_string())).collect()
        }
    }
}

fn report(args: &Args, file: &Vectors, device: &Device, results: &Reduced, took: Duration) -> Result<()> {
    let (adapter, name) = (device.adapter(), args.operation.name());
    let first = first(results, if args.whole { 1 } else { args.show });
    let values: Vec<&Value> = first.iter().map(|(value, _)| value).collect();
    let record = json!({
        "rows": file.rows(), "dim": file.dim(), "operation": name, "device": device::to_json(adapter),
        "results": values, "seconds": took.as_secs_f64(), "out": args.out,
    });
    let texts: Vec<&str> = first.iter().map(|(_, text)| text.as_str()).collect();
    let more = if !args.whole && file.rows() > texts.len() { ", …" } else { "" };
    let mut lines = vec![
        ("rows", files::describe(file)),
        ("device", device::place(device)),
        ("time", output::time(took)),
        (name, texts.join(", ") + more),
    ];
    lines.extend(args.out.iter().map(|path| ("wrote", path.display().to_string())));
    output::print(args.json, &record, &lines)
}
