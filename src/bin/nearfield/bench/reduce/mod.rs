//! `nearfield bench reduce`: reductions of numbers on the device, and the ladder of the dot product.

mod sweep;
mod truth;

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Args as ClapArgs, ValueEnum};
use half::f16;
use nearfield::kernels::reduce::Operation;
use nearfield::ladder::RUNGS;
use nearfield::{Device, DeviceMatrix, DeviceVector, Error, MatrixView, Norm, Stages, Summation};
use serde_json::{Value, json};

use super::ceilings::{Ceilings, Warmer, is_processor};
use super::{Times, WARM_UP, data, milliseconds, needs_kernels, rounded};
use crate::device::Choice;
use truth::{Truth, checked, truth};

/// Arguments of `nearfield bench reduce`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// Numbers an operand, a case each; 268,435,456, or 4,194,304 where the processor computes
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    length: Vec<usize>,
    /// Times every rung of the ladder of the dot product instead
    #[arg(long, conflicts_with_all = ["operation", "summation", "elements", "row_length", "sweep"])]
    ladder: bool,
    /// What to compute, a case each
    #[arg(long, value_delimiter = ',', default_value = "dot,sum,min,argmin", value_name = "NAME,…")]
    operation: Vec<Name>,
    /// How to add, a case each
    #[arg(long, value_delimiter = ',', default_value = "plain", value_name = "HOW,…")]
    summation: Vec<How>,
    /// Element types, a case each
    #[arg(long, value_delimiter = ',', default_value = "f32", value_name = "TYPE,…")]
    elements: Vec<Elements>,
    /// Reduces rows of so many numbers each (f32) instead of the whole
    #[arg(long, value_name = "N", conflicts_with = "elements")]
    row_length: Option<usize>,
    /// Times the first pass alone in every layout of the work instead
    #[arg(long, conflicts_with_all = ["summation", "elements", "row_length"])]
    sweep: bool,
    /// Timed runs of a case, at least 3
    #[arg(long, default_value_t = 20)]
    runs: usize,
    #[command(flatten)]
    device: Choice,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  nearfield bench reduce
  nearfield bench reduce --ladder --length 1048576,268435456 --json
  nearfield bench reduce --operation dot,sum --summation plain,compensated --elements f32,f16
  nearfield bench reduce --operation sum,argmin --row-length 384

The numbers are on the device; times are from the call to the result on the host, and on the device by its timestamps. \
Every case checks its result against f64 before it is timed; a wrong one ends the run with exit code 1. Of rows a \
thousand are checked. A sweep times the first pass alone and checks nothing.

JSON lines, one object each; times in milliseconds, rates per second, errors relative to the sum of magnitudes:
  {\"record\":\"device\", date, adapter, backend, driver, kind, version, copy_bytes_per_s, flops_per_s, latency_ms}
  {\"record\":\"case\", suite, case, elements, summation, length, row_length, FIGURES}
  {\"record\":\"rung\", suite, rung, name, length, FIGURES}
  {\"record\":\"rung\", suite, rung, name, length, not_run}
  {\"record\":\"sweep\", suite, case, length, workgroup, coarsening, turns, ms, bytes_per_s, share_of_copy}
where FIGURES are runs, ms, ms_least, ms_most, device_ms, bytes_per_s, share_of_copy, error, verified; without timestamps \
device_ms is null, and the rates are those of ms";

/// The operations by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Dot,
    Sum,
    SumSquares,
    Mean,
    L1,
    L2,
    MaxNorm,
    Min,
    Max,
    Argmin,
    Argmax,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    Plain,
    Compensated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Elements {
    F32,
    F16,
}

impl Name {
    fn operation(self) -> Operation {
        match self {
            Self::Dot => Operation::Dot,
            Self::Sum | Self::Mean => Operation::Sum,
            Self::SumSquares | Self::L2 => Operation::SumSquares,
            Self::L1 => Operation::SumAbs,
            Self::MaxNorm => Operation::MaxAbs,
            Self::Min => Operation::Min,
            Self::Max => Operation::Max,
            Self::Argmin => Operation::ArgMin,
            Self::Argmax => Operation::ArgMax,
        }
    }

    fn operands(self) -> usize {
        if self == Self::Dot { 2 } else { 1 }
    }

    fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs the suite.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    if args.ladder || args.sweep {
        needs_kernels(&device, "bench reduce --ladder and --sweep")?;
    }
    let usual = if is_processor(&device) { 1 << 22 } else { 1 << 28 };
    let lengths = if args.length.is_empty() { vec![usual] } else { args.length.clone() };
    let most = lengths.iter().copied().max().context("--length: needed at least one number")?;
    ensure!(lengths.iter().all(|&length| length > 0), "--length: needed at least 1, given 0");
    ensure!(args.row_length != Some(0), "--row-length: needed at least 1, given 0");
    let a = data::numbers("--length", most, 1)?;
    let b = data::numbers("--length", most, 2)?;
    let ceilings = Ceilings::measure(&device)?;
    ceilings.report(&device, args.json)?;
    let bench = Bench { args, device: &device, ceilings, a: &a, b: &b };
    for length in lengths {
        if args.ladder {
            bench.ladder(length)?;
        } else if args.sweep {
            bench.sweep(length)?;
        } else if let Some(row_length) = args.row_length {
            bench.rows(length, row_length)?;
        } else {
            bench.cases(length)?;
        }
    }
    Ok(())
}

struct Bench<'a> {
    args: &'a Args,
    device: &'a Device,
    ceilings: Ceilings,
    a: &'a [f32],
    b: &'a [f32],
}

/// What one case took.
#[derive(Debug)]
struct Figures {
    wall: Times,
    on_device: Option<Duration>,
    runs: usize,
    error: f64,
}

impl Bench<'_> {
    fn ladder(&self, length: usize) -> anyhow::Result<()> {
        let (a, b) = (&self.a[..length], &self.b[..length]);
        let mut truth = truth(Name::Dot, a, b)?;
        // The workgroups of some rungs add to one total, one after another.
        truth.additions += length as f64 / 256.0;
        let (a, b) = (self.device.upload_vector(a)?, self.device.upload_vector(b)?);
        for rung in RUNGS {
            let line = json!({
                "record": "rung", "suite": "reduce", "rung": rung.letter, "name": rung.name, "length": length,
            });
            let title = format!("{:<9} {:<27}", rung.letter, rung.name);
            match rung.dot(self.device, &a, &b, None) {
                Err(Error::Unsupported { needed, .. }) => {
                    self.not_run(line, &title, &needed)?;
                    continue;
                }
                first => {
                    first?;
                }
            }
            let figures = self.figures(truth, |stages| Ok(rung.dot(self.device, &a, &b, stages)?.into()))?;
            self.report(line, &title, length, 8, &figures)?;
        }
        Ok(())
    }

    fn cases(&self, length: usize) -> anyhow::Result<()> {
        for &elements in &self.args.elements {
            match elements {
                Elements::F32 => self.cases_of(elements, &self.a[..length], &self.b[..length])?,
                Elements::F16 => {
                    let narrow =
                        |values: &[f32]| values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
                    self.cases_of(elements, &narrow(&self.a[..length]), &narrow(&self.b[..length]))?;
                }
            }
        }
        Ok(())
    }

    fn cases_of<T: nearfield::Element>(&self, elements: Elements, a: &[T], b: &[T]) -> anyhow::Result<()> {
        let (left, right) = (self.device.upload_vector(a)?, self.device.upload_vector(b)?);
        for &name in &self.args.operation {
            let truth = truth(name, a, b)?;
            for &how in &self.args.summation {
                let figures =
                    self.figures(truth, |stages| whole(self.device, name, how, &left, &right, stages))?;
                let line = json!({
                    "record": "case", "suite": "reduce", "case": name.text(),
                    "elements": format!("{elements:?}").to_lowercase(),
                    "summation": format!("{how:?}").to_lowercase(), "length": a.len(),
                });
                let title = format!("{:<12} {elements:?} {how:?}", name.text());
                self.report(line, &title, a.len(), size_of::<T>() * name.operands(), &figures)?;
            }
        }
        Ok(())
    }

    fn rows(&self, length: usize, row_length: usize) -> anyhow::Result<()> {
        let rows = length / row_length;
        ensure!(rows > 0, "--row-length: needed at most {length}, the length, given {row_length}");
        let part = rows * row_length;
        let view = |values| MatrixView::new(values, row_length);
        let (a, b) = (view(&self.a[..part])?, view(&self.b[..part])?);
        let (left, right) = (self.device.upload(a)?, self.device.upload(b)?);
        for &name in &self.args.operation {
            for &how in &self.args.summation {
                let first = of_rows(self.device, name, how, &left, &right, None)?;
                ensure!(first.len() == rows, "{}: {} results for {rows} rows", name.text(), first.len());
                let mut error = 0.0f64;
                for row in (0..rows).step_by(rows.div_ceil(1000)) {
                    error = error.max(checked(truth(name, a.row(row), b.row(row))?, first.get(row))?);
                }
                let mut figures =
                    self.timed(|stages| of_rows(self.device, name, how, &left, &right, stages).map(|_| ()))?;
                let again = of_rows(self.device, name, how, &left, &right, None)?;
                ensure!(again == first, "{}: two runs differ", name.text());
                figures.error = error;
                let line = json!({
                    "record": "case", "suite": "reduce", "case": format!("{} of rows", name.text()), "elements": "f32",
                    "summation": format!("{how:?}").to_lowercase(), "length": part, "row_length": row_length,
                });
                let title = format!("{:<12} {how:?}, rows of {row_length}", name.text());
                self.report(line, &title, part, 4 * name.operands(), &figures)?;
            }
        }
        Ok(())
    }

    /// Checks the first result, warms up, and times.
    fn figures(
        &self,
        truth: Truth,
        run: impl Fn(Option<&Stages>) -> anyhow::Result<f64>,
    ) -> anyhow::Result<Figures> {
        let error = checked(truth, run(None)?)?;
        let figures = self.timed(|stages| {
            // Atomic additions give other bits every time, so that each result is held against the truth.
            checked(truth, run(stages)?).map(|_| ())
        })?;
        Ok(Figures { error, ..figures })
    }

    fn timed(&self, run: impl Fn(Option<&Stages>) -> anyhow::Result<()>) -> anyhow::Result<Figures> {
        let started = Instant::now();
        while started.elapsed() < WARM_UP {
            run(None)?;
        }
        let one = Times::of(1, || elapsed(|| run(None)))?.median;
        // The lowest rungs take seconds: fewer runs of those.
        let runs = (5.0 / one.as_secs_f64()).clamp(3.0, self.args.runs.max(3) as f64) as usize;
        let wall = Times::of(runs, || elapsed(|| run(None)))?;
        let (warmer, mut times) = (Warmer::new(self.device)?, vec![]);
        for _ in 0..runs {
            warmer.warm(self.device)?;
            let stages = Stages::new();
            run(Some(&stages))?;
            times.extend(stages.take().into_iter().map(|stage| stage.time).reduce(|a, b| a + b));
        }
        times.sort_unstable();
        Ok(Figures { wall, on_device: times.get(times.len() / 2).copied(), runs, error: 0.0 })
    }

    fn report(
        &self,
        mut line: Value,
        title: &str,
        length: usize,
        element_bytes: usize,
        figures: &Figures,
    ) -> anyhow::Result<()> {
        let wall = figures.wall;
        let time = figures.on_device.unwrap_or(wall.median);
        let rate = (length * element_bytes) as f64 / time.as_secs_f64();
        let share = rate / self.ceilings.copy_bytes;
        if !self.args.json {
            writeln!(
                stdout(),
                "{title:<37} {length:>11}: {:>9.3} ms, on the device {:>9.3} ms, {:>8.2} GB/s, {:>5.1} % of a copy, error {:.1e}",
                milliseconds(wall.median),
                milliseconds(time),
                rate / 1e9,
                100.0 * share,
                figures.error,
            )?;
            return Ok(());
        }
        for (key, value) in [
            ("runs", json!(figures.runs)),
            ("ms", json!(milliseconds(wall.median))),
            ("ms_least", json!(milliseconds(wall.least))),
            ("ms_most", json!(milliseconds(wall.most))),
            ("device_ms", json!(figures.on_device.map(milliseconds))),
            ("bytes_per_s", json!(rounded(rate))),
            ("share_of_copy", json!(rounded(share))),
            ("error", json!(rounded(figures.error))),
            ("verified", json!(true)),
        ] {
            line[key] = value;
        }
        writeln!(stdout(), "{line}")?;
        Ok(())
    }

    fn not_run(&self, mut line: Value, title: &str, needed: &str) -> anyhow::Result<()> {
        if self.args.json {
            line["not_run"] = json!(format!("needs {needed}"));
            writeln!(stdout(), "{line}")?;
        } else {
            writeln!(stdout(), "{title} not run: needs {needed}")?;
        }
        Ok(())
    }
}

fn elapsed(run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    run()?;
    Ok(started.elapsed())
}

fn whole(
    device: &Device,
    name: Name,
    how: How,
    a: &DeviceVector,
    b: &DeviceVector,
    stages: Option<&Stages>,
) -> anyhow::Result<f64> {
    let reduce = prepared(device, how, stages);
    Ok(match name {
        Name::Dot => reduce.dot(a, b)?.into(),
        Name::Sum => reduce.sum(a)?.into(),
        Name::SumSquares => reduce.sum_squares(a)?.into(),
        Name::Mean => reduce.mean(a)?.into(),
        Name::L1 => reduce.norm(a, Norm::L1)?.into(),
        Name::L2 => reduce.norm(a, Norm::L2)?.into(),
        Name::MaxNorm => reduce.norm(a, Norm::Max)?.into(),
        Name::Min => reduce.min(a)?.into(),
        Name::Max => reduce.max(a)?.into(),
        Name::Argmin => reduce.argmin(a)? as f64,
        Name::Argmax => reduce.argmax(a)? as f64,
    })
}

/// Results of rows as they come: converting them would be timed, too.
#[derive(Debug, PartialEq)]
enum OfRows {
    Numbers(Vec<f32>),
    Places(Vec<u64>),
}

impl OfRows {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Places(places) => places.len(),
        }
    }

    fn get(&self, row: usize) -> f64 {
        match self {
            Self::Numbers(numbers) => numbers[row].into(),
            Self::Places(places) => places[row] as f64,
        }
    }
}

fn of_rows(
    device: &Device,
    name: Name,
    how: How,
    a: &DeviceMatrix,
    b: &DeviceMatrix,
    stages: Option<&Stages>,
) -> anyhow::Result<OfRows> {
    let reduce = prepared(device, how, stages);
    Ok(OfRows::Numbers(match name {
        Name::Dot => reduce.dot_rows(a, b)?,
        Name::Sum => reduce.sum_rows(a)?,
        Name::SumSquares => reduce.sum_squares_rows(a)?,
        Name::Mean => reduce.mean_rows(a)?,
        Name::L1 => reduce.norm_rows(a, Norm::L1)?,
        Name::L2 => reduce.norm_rows(a, Norm::L2)?,
        Name::MaxNorm => reduce.norm_rows(a, Norm::Max)?,
        Name::Min => reduce.min_rows(a)?,
        Name::Max => reduce.max_rows(a)?,
        Name::Argmin => return Ok(OfRows::Places(reduce.argmin_rows(a)?)),
        Name::Argmax => return Ok(OfRows::Places(reduce.argmax_rows(a)?)),
    }))
}

fn prepared<'d>(device: &'d Device, how: How, stages: Option<&'d Stages>) -> nearfield::Reduce<'d> {
    let reduce = device.reduce().summation(match how {
        How::Plain => Summation::Plain,
        How::Compensated => Summation::Compensated,
    });
    stages.map_or(reduce, |stages| reduce.stages(stages))
}
