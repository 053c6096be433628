//! `nearfield-bench reduce`: reductions of values on the device.

mod truth;

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use half::{bf16, f16};
use nearfield::{Element, ElementKind, MatrixView, Reduce, Reduced, Reduction, Stages};
use serde_json::json;

use crate::case::Case;
use crate::ceilings::{Unit, Work};
use crate::data::{self, asked_or};
use crate::gpu::{is_processor, rotation, total};
use crate::run::{Run, Suite};
use crate::units::rounded;
use nearfield_cli::given::arguments;
pub(crate) use truth::How;
use truth::{Truth, checked, truth};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Values per operand, one case each; 268,435,456, or 4,194,304 if the processor computes
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = arguments::count)]
    length: Vec<usize>,
    /// Operations, one case each, by the names that `nearfield reduce` has
    #[arg(long, value_delimiter = ',', default_value = "dot,sum,min,argmin", value_name = "NAME,…", value_parser = arguments::word::<Reduction>)]
    operation: Vec<Reduction>,
    /// Kinds of summation, one case each
    #[arg(long, value_delimiter = ',', default_value = "plain", value_name = "HOW,…")]
    summation: Vec<How>,
    /// Element types, f32, f16, bf16, i8 or u8, one case each
    #[arg(long, value_delimiter = ',', default_value = "f32", value_name = "TYPE,…", value_parser = arguments::word::<ElementKind>)]
    elements: Vec<ElementKind>,
    /// Reduce rows of this length (f32) instead of the whole, one case each
    #[arg(long, value_delimiter = ',', value_name = "N,…", conflicts_with = "elements", value_parser = arguments::count)]
    row_length: Vec<usize>,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench reduce
  nearfield-bench reduce --operation dot,sum --summation plain,compensated --elements f32,f16
  nearfield-bench reduce --operation sum,argmin --row-length 384

The values are on the device, results come to the host. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

/// Rows of a case that are checked.
const CHECKED: usize = 1000;

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        let usual = if is_processor(&run.device) { 1 << 22 } else { 1 << 28 };
        let lengths = asked_or(&self.length, &[usual], usual);
        let most = lengths.iter().copied().max().context("--length: needed at least one number")?;
        let least = lengths.iter().copied().min().unwrap_or(most);
        if let Some(long) = self.row_length.iter().find(|&&row_length| row_length > least) {
            bail!("--row-length: needed at most {least}, the length, given {long}");
        }
        let a = data::numbers("--length", most, 1)?;
        let b = data::numbers("--length", most, 2)?;
        let each = self.operation.len() * self.summation.len() * self.elements.len();
        run.begin("reduce", lengths.len() * each * self.row_length.len().max(1))?;
        let mut bench = Bench { args: self, run };
        for length in lengths {
            let (a, b) = (&a[..length], &b[..length]);
            for &row_length in &self.row_length {
                bench.rows(a, b, row_length)?;
            }
            let of_all: &[ElementKind] = if self.row_length.is_empty() { &self.elements } else { &[] };
            for &elements in of_all {
                match elements {
                    ElementKind::F32 => bench.whole(elements, a, b)?,
                    ElementKind::F16 => bench.narrow::<f16>(a, b)?,
                    ElementKind::BF16 => bench.narrow::<bf16>(a, b)?,
                    ElementKind::I8 => bench.narrow::<i8>(a, b)?,
                    ElementKind::U8 => bench.narrow::<u8>(a, b)?,
                    other => bail!("--elements: needed f32, f16, bf16, i8 or u8, given {other}"),
                }
            }
        }
        Ok(())
    }
}

struct Bench<'a> {
    args: &'a Args,
    run: &'a mut Run,
}

/// The operands of a reduction: element type, element count, and the length of a row where rows are reduced.
struct Shape {
    elements: ElementKind,
    element_bytes: usize,
    length: usize,
    row_length: Option<usize>,
}

impl Bench<'_> {
    /// [`whole`](Self::whole) for the nearest numbers of a type.
    fn narrow<T: Element>(&mut self, a: &[f32], b: &[f32]) -> Result<()> {
        let [a, b] = [a, b].map(|values| values.iter().map(|&value| T::nearest(value)).collect::<Vec<T>>());
        self.whole(T::KIND, &a, &b)
    }

    fn whole<T: Element>(&mut self, elements: ElementKind, a: &[T], b: &[T]) -> Result<()> {
        let device = self.run.device.clone();
        self.cases(
            &Shape { elements, element_bytes: size_of::<T>(), length: a.len(), row_length: None },
            || Ok([device.upload_vector(a)?, device.upload_vector(b)?]),
            |reduce, reduction, a, b| reduce.run(reduction, a, b.map(Into::into)),
            |reduction| Ok(vec![(0, truth(reduction, a, b)?)]),
        )
    }

    fn rows(&mut self, a: &[f32], b: &[f32], row_length: usize) -> Result<()> {
        let rows = a.len() / row_length;
        let length = rows * row_length;
        let (a, b) = (MatrixView::new(&a[..length], row_length)?, MatrixView::new(&b[..length], row_length)?);
        let device = self.run.device.clone();
        self.cases(
            &Shape { elements: ElementKind::F32, element_bytes: 4, length, row_length: Some(row_length) },
            || Ok([device.upload(a)?, device.upload(b)?]),
            |reduce, reduction, a, b| reduce.run_rows(reduction, a, b.map(Into::into)),
            |reduction| {
                let some = (0..rows).step_by(rows.div_ceil(CHECKED));
                some.map(|row| Ok((row, truth(reduction, a.row(row), b.row(row))?))).collect()
            },
        )
    }

    /// The cases of two operands: `truths` has the true results of some rows, by their places.
    fn cases<O>(
        &mut self,
        shape: &Shape,
        upload: impl Fn() -> Result<[O; 2]>,
        reduce: impl Fn(&Reduce<'_>, Reduction, &O, Option<&O>) -> nearfield::Result<Reduced>,
        truths: impl Fn(Reduction) -> Result<Vec<(usize, Truth)>>,
    ) -> Result<()> {
        let &Shape { elements, element_bytes, length, row_length } = shape;
        let device = self.run.device.clone();
        // Without time left there are no operands, as each case reports.
        let is_late = self.run.enter(&format!("{length} numbers")).is_some();
        let copies = if is_late { 0 } else { rotation(&device, (length * element_bytes) as u64) };
        let operands = (0..copies).map(|_| upload()).collect::<Result<Vec<_>>>()?;
        for &reduction in &self.args.operation {
            let mut known = vec![];
            for &how in &self.args.summation {
                let identity = json!({
                    "operation": reduction.name(), "elements": elements.name(), "summation": arguments::name(how),
                    "length": length, "row_length": row_length,
                });
                let Some(mut case) = self.run.start(identity)? else { continue };
                let of_copy = |number: usize, stages: Option<&Stages>| {
                    let prepared = device.reduce().summation(how.into());
                    let prepared = stages.map_or(prepared, |stages| prepared.stages(stages));
                    let [a, b] = &operands[number % copies];
                    anyhow::Ok(reduce(&prepared, reduction, a, (reduction == Reduction::Dot).then_some(b))?)
                };
                if known.is_empty() {
                    known = truths(reduction)?;
                }
                let first = of_copy(0, None)?;
                let error =
                    judged(&first, row_length.map_or(1, |row_length| length / row_length), &known, how)?;
                let repeats = |found: &Reduced| {
                    ensure!(*found == first, "{reduction}: two runs differ");
                    Ok(())
                };
                // The runs may be too few for every copy to have its turn.
                (1..copies).try_for_each(|number| repeats(&of_copy(number, None)?))?;
                let (wall, on_device) = self.run.time(
                    1,
                    |number| {
                        let started = Instant::now();
                        let result = of_copy(number, None)?;
                        let elapsed = started.elapsed();
                        repeats(&result)?;
                        Ok(elapsed)
                    },
                    |number| {
                        self.run.warm()?;
                        let stages = Stages::new();
                        repeats(&of_copy(number, Some(&stages))?)?;
                        Ok(total(&stages.take()))
                    },
                )?;
                let values = length * if reduction == Reduction::Dot { 2 } else { 1 };
                let bytes = (values * element_bytes) as f64;
                let share_of_copy = self.run.share_of_copy(bytes, on_device.unwrap_or(wall).median);
                case.add(json!({ "error": rounded(error), "share_of_copy": share_of_copy }));
                let working_set = bytes * copies as f64;
                self.run.case(Case {
                    wall,
                    on_device,
                    work: Some(Work { bytes, operations: values as f64, unit: Unit::Floats, working_set }),
                    verified: row_length.map_or(json!(true), |_| json!(known.len())),
                    rotated: copies,
                    remarks: vec![format!("error {error:.1e}")],
                    ..case
                })?;
            }
        }
        Ok(())
    }
}

/// The largest error of some results. Fails unless there is one for each row, and all are within their bounds.
fn judged(results: &Reduced, rows: usize, known: &[(usize, Truth)], how: How) -> Result<f64> {
    let results: Vec<f64> = match results {
        Reduced::Values(values) => values.iter().copied().map(f64::from).collect(),
        Reduced::Places(places) => places.iter().map(|&place| place as f64).collect(),
    };
    ensure!(results.len() == rows, "needed {rows} results, found {}", results.len());
    known.iter().try_fold(0.0f64, |most, &(row, truth)| Ok(most.max(checked(truth, how, results[row])?)))
}
