//! `nearfield-bench reduce`: reductions of values on the device, and the ladder of the dot product.

mod truth;

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use half::f16;
use nearfield::internals::ladder::RUNGS;
use nearfield::{
    Device, DeviceMatrix, DeviceVector, ElementKind, Error, MatrixView, Norm, Reduce, Stages, Summation,
};
use serde_json::{Value, json};

use crate::case::Case;
use crate::ceilings::Warmer;
use crate::data;
use crate::gpu::{is_processor, needs_kernels, rotation, total};
use crate::run::{Run, Suite};
use crate::times::Times;
use crate::units::rounded;
use crate::work::{Unit, Work};
use nearfield_cli::given::arguments;
pub(crate) use truth::{How, Name};
use truth::{Truth, checked, truth};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Values per operand, one case each; 268,435,456, or 4,194,304 if the processor computes
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = nearfield_cli::given::arguments::count)]
    length: Vec<usize>,
    /// Time every rung of the ladder of the dot product instead
    #[arg(long, conflicts_with_all = ["operation", "summation", "elements", "row_length"])]
    ladder: bool,
    /// Operations, one case each
    #[arg(long, value_delimiter = ',', default_value = "dot,sum,min,argmin", value_name = "NAME,…")]
    operation: Vec<Name>,
    /// Kinds of summation, one case each
    #[arg(long, value_delimiter = ',', default_value = "plain", value_name = "HOW,…")]
    summation: Vec<How>,
    /// Element types, f32 or f16, one case each
    #[arg(long, value_delimiter = ',', default_value = "f32", value_name = "TYPE,…", value_parser = arguments::word::<ElementKind>)]
    elements: Vec<ElementKind>,
    /// Reduce rows of this length (f32) instead of the whole, one case each
    #[arg(long, value_delimiter = ',', value_name = "N,…", conflicts_with = "elements", value_parser = nearfield_cli::given::arguments::count)]
    row_length: Vec<usize>,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench reduce
  nearfield-bench reduce --ladder --length 1048576,268435456 --json
  nearfield-bench reduce --operation dot,sum --summation plain,compensated --elements f32,f16
  nearfield-bench reduce --operation sum,argmin --row-length 384

The values are on the device, results come to the host. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        if self.ladder {
            needs_kernels(&run.device, "bench reduce --ladder")?;
        }
        let usual = if is_processor(&run.device) { 1 << 22 } else { 1 << 28 };
        let lengths = if self.length.is_empty() { vec![usual] } else { self.length.clone() };
        let most = lengths.iter().copied().max().context("--length: needed at least one number")?;
        let least = lengths.iter().copied().min().unwrap_or(most);
        if let Some(long) = self.row_length.iter().find(|&&row_length| row_length > least) {
            bail!("--row-length: needed at most {least}, the length, given {long}");
        }
        let a = data::numbers("--length", most, 1)?;
        let b = data::numbers("--length", most, 2)?;
        let cases = self.operation.len() * self.summation.len() * self.elements.len();
        let each = if self.ladder { RUNGS.len() } else { cases * self.row_length.len().max(1) };
        run.begin("reduce", lengths.len() * each)?;
        let device = run.device.clone();
        let warmer = Warmer::of(&device)?;
        let mut bench = Bench { args: self, run, device: &device, warmer, a: &a, b: &b };
        for length in lengths {
            if self.ladder {
                bench.ladder(length)?;
            } else if self.row_length.is_empty() {
                bench.cases(length)?;
            } else {
                for &row_length in &self.row_length {
                    bench.rows(length, row_length)?;
                }
            }
        }
        Ok(())
    }
}

/// Sequential additions whose errors a rung with atomic additions may have. Errors of either sign cancel, so this is far below
/// their number.
const ATOMIC_ADDITIONS: f64 = 2000.0;

struct Bench<'a> {
    args: &'a Args,
    run: &'a mut Run,
    device: &'a Device,
    warmer: Option<Warmer>,
    a: &'a [f32],
    b: &'a [f32],
}

/// The identity of a reduction of the whole, or of rows.
fn identity(
    (name, how, elements): (Name, How, ElementKind),
    length: usize,
    row_length: Option<usize>,
) -> Value {
    json!({
        "operation": arguments::name(name), "elements": elements.name(), "summation": arguments::name(how),
        "length": length, "row_length": row_length,
    })
}

impl Bench<'_> {
    fn ladder(&mut self, length: usize) -> Result<()> {
        let (a, b) = (&self.a[..length], &self.b[..length]);
        let mut truth = truth(Name::Dot, a, b)?;
        // The workgroups of some rungs add to one total in turn.
        truth.additions += (length as f64 / 256.0).min(ATOMIC_ADDITIONS);
        let device = self.device;
        let operands = self.copies(&format!("ladder of {length}"), 4 * length, || {
            Ok((device.upload_vector(a)?, device.upload_vector(b)?))
        })?;
        for rung in RUNGS {
            let identity = json!({ "rung": rung.letter, "name": rung.name, "length": length });
            let Some(case) = self.run.start(identity)? else { continue };
            let Some((a, b)) = operands.first() else { continue };
            if let Err(Error::Unsupported { needed, .. }) = rung.dot(device, a, b, None) {
                self.run.leave_out(case, &format!("needs {needed}"))?;
                continue;
            }
            self.figures(case, (8 * length, operands.len()), (truth, How::Plain), |number, stages| {
                let (a, b) = &operands[number % operands.len()];
                Ok(rung.dot(device, a, b, stages)?.into())
            })?;
        }
        Ok(())
    }

    fn cases(&mut self, length: usize) -> Result<()> {
        let (a, b) = (&self.a[..length], &self.b[..length]);
        for &elements in &self.args.elements {
            match elements {
                ElementKind::F32 => self.cases_of(elements, a, b)?,
                _ => {
                    let narrow =
                        |values: &[f32]| values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
                    self.cases_of(elements, &narrow(a), &narrow(b))?;
                }
            }
        }
        Ok(())
    }

    fn cases_of<T: nearfield::Element>(&mut self, elements: ElementKind, a: &[T], b: &[T]) -> Result<()> {
        let device = self.device;
        let operands = self.copies(&format!("{} numbers", a.len()), size_of_val(a), || {
            Ok((device.upload_vector(a)?, device.upload_vector(b)?))
        })?;
        for &name in &self.args.operation {
            let mut known = None;
            for &how in &self.args.summation {
                let identity = identity((name, how, elements), a.len(), None);
                let Some(case) = self.run.start(identity)? else { continue };
                let bytes = size_of_val(a) * name.operands();
                let truth = match known {
                    Some(truth) => truth,
                    None => *known.insert(truth(name, a, b)?),
                };
                self.figures(case, (bytes, operands.len()), (truth, how), |number, stages| {
                    let (left, right) = &operands[number % operands.len()];
                    whole(&prepared(device, how, stages), name, left, right)
                })?;
            }
        }
        Ok(())
    }

    fn rows(&mut self, length: usize, row_length: usize) -> Result<()> {
        let rows = length / row_length;
        let part = rows * row_length;
        let view = |values| MatrixView::new(values, row_length);
        let (a, b) = (view(&self.a[..part])?, view(&self.b[..part])?);
        let device = self.device;
        let of = format!("{part} numbers in rows of {row_length}");
        let operands = self.copies(&of, 4 * part, || Ok((device.upload(a)?, device.upload(b)?)))?;
        let some = || (0..rows).step_by(rows.div_ceil(1000));
        for &name in &self.args.operation {
            let mut known = vec![];
            for &how in &self.args.summation {
                let identity = identity((name, how, ElementKind::F32), part, Some(row_length));
                let Some(case) = self.run.start(identity)? else { continue };
                let of_copy = |number: usize, stages: Option<&Stages>| {
                    let (left, right) = &operands[number % operands.len()];
                    of_rows(&prepared(device, how, stages), name, left, right)
                };
                let first = of_copy(0, None)?;
                let (numbers, places) = &first;
                let results: usize = numbers.len() + places.len();
                ensure!(results == rows, "{}: {results} results for {rows} rows", arguments::name(name));
                if known.is_empty() {
                    known =
                        some().map(|row| truth(name, a.row(row), b.row(row))).collect::<Result<_, _>>()?;
                }
                let mut error = 0.0f64;
                for (row, &truth) in some().zip(&known) {
                    let result = numbers.get(row).map_or_else(|| places[row] as f64, |&number| number.into());
                    error = error.max(checked(truth, how, result)?);
                }
                let is_same = |found| {
                    ensure!(found == first, "{}: two runs differ", arguments::name(name));
                    Ok(())
                };
                // The runs may be too few for every copy to have its turn.
                for number in 1..operands.len() {
                    is_same(of_copy(number, None)?)?;
                }
                let times = self.timed(of_copy, is_same)?;
                let bytes = 4 * part * name.operands();
                self.tell(case, (bytes, operands.len()), times, error, json!(known.len()))?;
            }
        }
        Ok(())
    }

    /// Enough copies of some operands that no cache holds them all. None without time left, which their cases report.
    fn copies<T>(&mut self, of: &str, bytes: usize, make: impl Fn() -> Result<T>) -> Result<Vec<T>> {
        if self.run.enter(of).is_some() {
            return Ok(vec![]);
        }
        (0..rotation(self.device, bytes as u64)).map(|_| make()).collect()
    }

    /// Checks the first result, times the case, and reports it.
    fn figures(
        &mut self,
        case: Case,
        of: (usize, usize),
        (truth, how): (Truth, How),
        run: impl Fn(usize, Option<&Stages>) -> Result<f64>,
    ) -> Result<()> {
        let error = checked(truth, how, run(0, None)?)?;
        // Atomic additions give other bits every time, so each result is checked against the truth.
        let times = self.timed(run, |result| checked(truth, how, result).map(|_| ()))?;
        self.tell(case, of, times, error, json!(true))
    }

    /// Times runs, and checks each result after its time is taken.
    fn timed<T>(
        &self,
        run: impl Fn(usize, Option<&Stages>) -> Result<T>,
        check: impl Fn(T) -> Result<()>,
    ) -> Result<(Times, Option<Times>)> {
        self.run.time(
            1,
            |number| {
                let started = Instant::now();
                let result = run(number, None)?;
                let elapsed = started.elapsed();
                check(result)?;
                Ok(elapsed)
            },
            |number| {
                let Some(warmer) = &self.warmer else { return Ok(None) };
                warmer.warm(self.device)?;
                let stages = Stages::new();
                check(run(number, Some(&stages))?)?;
                Ok(total(&stages.take()))
            },
        )
    }

    /// Reports a case that reads these bytes, from copies that take turns.
    fn tell(
        &mut self,
        mut case: Case,
        (bytes, rotated): (usize, usize),
        (wall, on_device): (Times, Option<Times>),
        error: f64,
        verified: Value,
    ) -> Result<()> {
        let elements = if case.fields["elements"] == "f16" { bytes / 2 } else { bytes / 4 };
        let bytes = bytes as f64;
        let share_of_copy = self.run.share_of_copy(bytes, on_device.unwrap_or(wall).median);
        case.add(json!({ "error": rounded(error), "share_of_copy": share_of_copy }));
        let operations = elements as f64;
        self.run.case(Case {
            wall,
            on_device,
            work: Some(Work { bytes, operations, unit: Unit::Floats, working_set: bytes * rotated as f64 }),
            verified,
            rotated,
            remarks: vec![format!("error {error:.1e}")],
            ..case
        })
    }
}

fn whole(reduce: &Reduce<'_>, name: Name, a: &DeviceVector, b: &DeviceVector) -> Result<f64> {
    Ok(match name {
        Name::Dot => reduce.dot(a, b)?.into(),
        Name::Sum => reduce.sum(a)?.into(),
        Name::SumSquares => reduce.sum_squares(a)?.into(),
        Name::Mean => reduce.mean(a)?.into(),
        Name::L1 => reduce.norm(a, Norm::L1)?.into(),
        Name::L2 => reduce.norm(a, Norm::L2)?.into(),
        Name::MaxNorm => reduce.norm(a, Norm::Max)?.into(),
        Name::Std => reduce.standard_deviation(a)?.into(),
        Name::Min => reduce.min(a)?.into(),
        Name::Max => reduce.max(a)?.into(),
        Name::Argmin => reduce.argmin(a)? as f64,
        Name::Argmax => reduce.argmax(a)? as f64,
    })
}

/// Results of rows as they come, numbers or places, because converting them would be timed too.
type OfRows = (Vec<f32>, Vec<u64>);

fn of_rows(reduce: &Reduce<'_>, name: Name, a: &DeviceMatrix, b: &DeviceMatrix) -> Result<OfRows> {
    let numbers = match name {
        Name::Dot => reduce.dot_rows(a, b)?,
        Name::Sum => reduce.sum_rows(a)?,
        Name::SumSquares => reduce.sum_squares_rows(a)?,
        Name::Mean => reduce.mean_rows(a)?,
        Name::L1 => reduce.norm_rows(a, Norm::L1)?,
        Name::L2 => reduce.norm_rows(a, Norm::L2)?,
        Name::MaxNorm => reduce.norm_rows(a, Norm::Max)?,
        Name::Std => reduce.standard_deviation_rows(a)?,
        Name::Min => reduce.min_rows(a)?,
        Name::Max => reduce.max_rows(a)?,
        Name::Argmin => return Ok((vec![], reduce.argmin_rows(a)?)),
        Name::Argmax => return Ok((vec![], reduce.argmax_rows(a)?)),
    };
    Ok((numbers, vec![]))
}

fn prepared<'d>(device: &'d Device, how: How, stages: Option<&'d Stages>) -> Reduce<'d> {
    let reduce = device.reduce().summation(match how {
        How::Plain => Summation::Plain,
        How::Compensated => Summation::Compensated,
    });
    stages.map_or(reduce, |stages| reduce.stages(stages))
}
