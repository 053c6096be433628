//! `nearfield reduce`: sums, norms, extremes, standard deviations and other reductions of the rows of a file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nearfield::io::write_npy;
use nearfield::{Device, MatrixView, Norm, Reduce, Summation};
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

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// The sum
    Sum,
    /// The sum of squares
    SumSquares,
    /// The mean
    Mean,
    /// The sum of magnitudes
    NormL1,
    /// The root of the sum of squares
    NormL2,
    /// The largest magnitude
    NormMax,
    /// The standard deviation of a population: squares are divided by the count
    Std,
    /// The smallest value
    Min,
    /// The largest value
    Max,
    /// The index of the smallest value
    Argmin,
    /// The index of the largest value
    Argmax,
    /// The dot product with the same row of --with
    Dot,
}

impl Operation {
    /// Those whose sums can be compensated.
    const SUMS: [Self; 6] = [Self::Sum, Self::SumSquares, Self::Mean, Self::NormL1, Self::NormL2, Self::Dot];
}

#[derive(Debug, clap::Args)]
#[command(about = "Sums, norms, extremes, standard deviations and dot products of the rows of a file", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Reduction
    #[arg(long, value_enum, value_name = "OPERATION")]
    operation: Operation,
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
    threads: Threads,
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
    let given = arguments::name(args.operation);
    match (args.operation == Operation::Dot, args.with.is_some()) {
        (true, false) => bail!("--operation: needed --with FILE for dot, given none"),
        (false, true) => bail!("--with: needed --operation dot, given {given}"),
        _ => {}
    }
    let sums: Vec<String> = Operation::SUMS.map(arguments::name).into();
    ensure!(
        !args.compensated || Operation::SUMS.contains(&args.operation),
        "--compensated: needed --operation {}, given {given}",
        sums.join(", ")
    );
    Ok(())
}

/// The results of a reduction.
enum Results {
    Values(Vec<f32>),
    Places(Vec<u64>),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.threads.run(|| run_here(args))
}

fn run_here(args: &Args) -> Result<()> {
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
    let results = match (args.whole, &others) {
        (false, Some(others)) => {
            Results::Values(reduce.dot_rows(view, MatrixView::new(others, file.dim())?)?)
        }
        (true, Some(others)) => Results::Values(vec![reduce.dot(&rows, others)?]),
        (false, None) => of_rows(&reduce, args.operation, view)?,
        (true, None) => of_all(&reduce, args.operation, &rows)?,
    };
    let took = start.elapsed();
    if let Some(path) = &args.out {
        results.write(path).context("--out")?;
    }
    report(args, &file, &device, &results, took)
}

impl Results {
    fn write(&self, path: &Path) -> nearfield::Result<()> {
        match self {
            Self::Values(values) => write_npy(path, [values.len(), 1], values),
            Self::Places(places) => {
                let places: Vec<i64> = places.iter().map(|&place| place as i64).collect();
                write_npy(path, [places.len(), 1], &places)
            }
        }
    }

    /// The first results as JSON and as text.
    fn first(&self, count: usize) -> Vec<(Value, String)> {
        match self {
            // A JSON number has the digits of an f64.
            Self::Values(values) => {
                let both = |&value: &f32| (output::number(value), value.to_string());
                values.iter().take(count).map(both).collect()
            }
            Self::Places(places) => {
                places.iter().take(count).map(|place| (json!(place), place.to_string())).collect()
            }
        }
    }
}

fn report(args: &Args, file: &Vectors, device: &Device, results: &Results, took: Duration) -> Result<()> {
    let (adapter, name) = (device.adapter(), arguments::name(args.operation));
    let first = results.first(if args.whole { 1 } else { args.show });
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
        (name.as_str(), texts.join(", ") + more),
    ];
    lines.extend(args.out.iter().map(|path| ("wrote", path.display().to_string())));
    output::print(args.json, &record, &lines)
}

fn of_rows(reduce: &Reduce<'_>, operation: Operation, rows: MatrixView<'_, f32>) -> Result<Results> {
    Ok(Results::Values(match operation {
        Operation::Sum => reduce.sum_rows(rows)?,
        Operation::SumSquares => reduce.sum_squares_rows(rows)?,
        Operation::Mean => reduce.mean_rows(rows)?,
        Operation::NormL1 => reduce.norm_rows(rows, Norm::L1)?,
        Operation::NormL2 => reduce.norm_rows(rows, Norm::L2)?,
        Operation::NormMax => reduce.norm_rows(rows, Norm::Max)?,
        Operation::Std => reduce.standard_deviation_rows(rows)?,
        Operation::Min => reduce.min_rows(rows)?,
        Operation::Max => reduce.max_rows(rows)?,
        Operation::Argmin => return Ok(Results::Places(reduce.argmin_rows(rows)?)),
        Operation::Argmax => return Ok(Results::Places(reduce.argmax_rows(rows)?)),
        Operation::Dot => anyhow::bail!("--with: needed for --operation dot"),
    }))
}

fn of_all(reduce: &Reduce<'_>, operation: Operation, values: &[f32]) -> Result<Results> {
    let value = match operation {
        Operation::Sum => reduce.sum(values)?,
        Operation::SumSquares => reduce.sum_squares(values)?,
        Operation::Mean => reduce.mean(values)?,
        Operation::NormL1 => reduce.norm(values, Norm::L1)?,
        Operation::NormL2 => reduce.norm(values, Norm::L2)?,
        Operation::NormMax => reduce.norm(values, Norm::Max)?,
        Operation::Std => reduce.standard_deviation(values)?,
        Operation::Min => reduce.min(values)?,
        Operation::Max => reduce.max(values)?,
        Operation::Argmin => return Ok(Results::Places(vec![reduce.argmin(values)?])),
        Operation::Argmax => return Ok(Results::Places(vec![reduce.argmax(values)?])),
        Operation::Dot => anyhow::bail!("--with: needed for --operation dot"),
    };
    Ok(Results::Values(vec![value]))
}
