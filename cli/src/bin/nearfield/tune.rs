//! `nearfield tune`: times the forms of kernels on a device, and keeps which are faster.

use std::io::{Write, stdout};

use anyhow::{Result, ensure};
use nearfield::{Device, Flat, Index, Ivf, MatrixView, Metric, TunedKernel};
use serde_json::json;

use crate::build::Kind;
use nearfield_cli::given::arguments::{self, Threads};
use nearfield_cli::given::device::{self, Choice};
use nearfield_cli::memory;

const LONG: &str = "\
Time the kernels of searches in several forms: the general one takes the length of vectors from its parameters and uses as many \
registers as fit GPUs of this vendor; others are compiled for one dim, or use another number of registers. \
Searches use the faster forms from then on, in this and in later processes: a file in the directory for compiled kernels keeps \
the times, for this adapter, its driver and this version. Answers do not depend on it.

`warm_up` of an index does the same in programs, for kernels that were not timed yet. Only GPUs with timestamps are tuned, and \
only for the dims 64, 96, 100, 128, 256, 384, 512, 768, 1024, 1536 and 3072.

--json prints a line for each kernel:
  device                       {name, backend, driver, kind}
  kernel, variant              the kernel, and the values of its other constants
  form                         the other form: `for DIM`, or a number of registers
  dim, metric, index, queries  of the searches that it was timed in
  general_ms, specialised_ms   device time in a search, of the general form and of the other one
  is_specialised               whether searches use that from now on";

const EXAMPLES: &str = "\
Examples:
  nearfield tune --dim 768
  nearfield tune --dim 128,384,768 --metric cosine,l2sq --count 1000000
  nearfield tune --dim 768 --index ivf --json
  NEARFIELD_CACHE=~/kernels nearfield tune --dim 1024   # kept in another directory";

/// Centres of the rows that are searched.
const CENTRES: usize = 256;

#[derive(Debug, clap::Args)]
#[command(about = "Time the forms of kernels on this device, and use the faster ones", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Elements per vector, one index each
    #[arg(long, value_delimiter = ',', value_name = "DIM,…", value_parser = arguments::count, required = true)]
    dim: Vec<usize>,
    /// Metrics, one index each: l2sq, l2, cosine, ip
    #[arg(long, value_delimiter = ',', default_value = "cosine", value_name = "METRIC,…", value_parser = arguments::metric_of_numbers)]
    metric: Vec<Metric>,
    /// Kinds of index
    #[arg(long, value_enum, value_delimiter = ',', default_value = "flat", value_name = "INDEX,…")]
    index: Vec<Kind>,
    /// Generated rows that are searched. With fewer than some hundred thousand, kernels wait more than they read
    #[arg(long = "count", default_value_t = 200_000, value_name = "N", value_parser = arguments::count)]
    rows: usize,
    #[command(flatten)]
    device: Choice,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Print JSON lines instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let device = args.device.open()?;
    let adapter = device.adapter();
    ensure!(
        adapter.capabilities.timestamps,
        "needed a GPU with timestamps, given {adapter}: --device names another"
    );
    let mut out = stdout().lock();
    for &dim in &args.dim {
        memory::ensure_fit("--count", args.rows, &format!("vectors of dim {dim}"), dim)?;
        let rows = clustered(args.rows, dim)?;
        let rows = MatrixView::new(&rows, dim)?;
        for &metric in &args.metric {
            for &kind in &args.index {
                let timed = filled(&device, metric, kind, rows)?.tune()?;
                ensure!(
                    !timed.is_empty(),
                    "--dim: needed a dim that kernels are compiled for and four million elements, given {} rows of dim {dim}",
                    args.rows
                );
                print(&mut out, args.json, (&device, metric, kind), &timed)?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Rows around centres. Of uniform ones, screens would exclude fewer than of rows that people have.
pub(crate) fn clustered(rows: usize, dim: usize) -> Result<Vec<f32>> {
    let mut random = fastrand::Rng::with_seed(1);
    let centres: Vec<f32> = (0..CENTRES * dim).map(|_| 2.0 * random.f32() - 1.0).collect();
    let about = || format!("--count: {rows} vectors of dim {dim} do not fit the memory");
    let mut values = memory::with_room(rows.checked_mul(dim), about)?;
    for _ in 0..rows {
        let centre = &centres[random.usize(..CENTRES) * dim..][..dim];
        values.extend(centre.iter().map(|&x| x + random.f32() - 0.5));
    }
    Ok(values)
}

/// An index with all rows.
fn filled(device: &Device, metric: Metric, kind: Kind, rows: MatrixView<'_, f32>) -> Result<Index> {
    let dim = rows.dim();
    let mut index = match kind {
        Kind::Flat => Index::from(Flat::builder(device, metric, dim).capacity(rows.rows()).build()?),
        Kind::Ivf => Index::from(Ivf::builder(device, metric, dim).train(rows)?),
    };
    index.add(rows)?;
    Ok(index)
}

/// Prints the times of an index's kernels.
fn print(
    out: &mut impl Write,
    is_json: bool,
    (device, metric, kind): (&Device, Metric, Kind),
    timed: &[TunedKernel],
) -> Result<()> {
    let index = arguments::name(kind);
    if !is_json {
        let dim = timed.first().map_or(0, |one| one.dim);
        writeln!(out, "{}: {index}, {}, dim {dim}", device.adapter(), metric.name())?;
        writeln!(
            out,
            "{:<22} {:<26} {:>7} {:>12} {:>12} {:<12}  used",
            "kernel", "variant", "queries", "general", "other", "form"
        )?;
    }
    for TunedKernel { kernel, variant, form, dim, queries, general, specialised, is_specialised, .. } in timed
    {
        let [general, specialised] = [general, specialised].map(|time| time.as_secs_f64() * 1e3);
        if is_json {
            let line = json!({
                "device": device::to_json(device.adapter()), "kernel": kernel, "variant": variant, "form": form, "dim": dim,
                "metric": metric.name(), "index": index, "queries": queries, "general_ms": general,
                "specialised_ms": specialised, "is_specialised": is_specialised,
            });
            writeln!(out, "{line}")?;
        } else {
            let used = if *is_specialised { form } else { "general" };
            writeln!(
                out,
                "{kernel:<22} {variant:<26} {queries:>7} {general:>9.4} ms {specialised:>9.4} ms {form:<12}  {used}"
            )?;
        }
    }
    Ok(())
}
