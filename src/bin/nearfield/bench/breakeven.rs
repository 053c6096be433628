//! `nearfield bench breakeven`: from how much work on a GPU is ahead of the processor.

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args as ClapArgs;
use nearfield::{Device, Flat, MatrixView, Metric, Neighbors, SearchOptions};
use serde_json::json;

use super::data::Source;
use super::{Times, WARM_UP, milliseconds};
use crate::device::{Choice, to_json};

/// Arguments of `nearfield bench breakeven`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of rows, a case each; the first so many of those there are
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000", value_name = "N,…")]
    sizes: Vec<usize>,
    /// Numbers of queries, a case each
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,512", value_name = "Q,…")]
    queries: Vec<usize>,
    /// Neighbours wanted
    #[arg(short, long, default_value_t = 10)]
    k: usize,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Timed runs of a case
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
  nearfield bench breakeven
  nearfield bench breakeven --device gpu --dim 768 --rows 300000 --sizes 3000,30000,300000 --queries 1,4,16,64

Exact search of the same rows on a GPU and on the host engine of this processor, from queries in the host's memory to results there. The
answers of both are held against each other: the same ids, but for rows whose distances differ by less than is promised. `copy` is
where an index on the GPU that keeps a copy on the host (FlatBuilder::keep_host_copy) would search.

JSON lines, one object each; times in milliseconds:
  {\"record\":\"device\", name, backend, driver, kind, threads}
  {\"record\":\"case\", suite, rows, dim, queries, k, metric, gpu_ms, host_ms, quicker, copy}";

/// Runs the suite.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    ensure!(
        device.adapter().kind != nearfield::AdapterKind::Host,
        "device: needed a GPU to compare the processor with, {}",
        device.describe()
    );
    ensure!(args.k > 0, "--k: needed at least 1, given 0");
    ensure!(args.queries.iter().all(|&count| count > 0), "--queries: needed numbers of at least 1");
    ensure!(args.sizes.iter().all(|&count| count > 0), "--sizes: needed numbers of at least 1");
    let most = args.queries.iter().copied().max().unwrap_or(1);
    let (rows, queries) = (args.source.rows()?, args.source.queries(most)?);
    let (rows, queries) = (rows.view()?, queries.view()?);
    ensure!(
        queries.dim() == rows.dim(),
        "--queries-file: needed dim {}, given {}",
        rows.dim(),
        queries.dim()
    );
    ensure!(queries.rows() >= most, "--queries: needed at most {}, given {most}", queries.rows());
    let most_rows = args.sizes.iter().copied().max().unwrap_or(1);
    ensure!(
        most_rows <= rows.rows(),
        "--sizes: needed at most {}, as there are rows, given {most_rows}",
        rows.rows()
    );
    let mut out = stdout().lock();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if args.json {
        let mut line = to_json(device.adapter());
        line["record"] = json!("device");
        line["threads"] = json!(threads);
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{}, and the host engine on {threads} threads", device.adapter())?;
        writeln!(out, "{} of dim {}, k = {}, times in ms", args.metric, rows.dim(), args.k)?;
        writeln!(out, "{:>10} {:>8} {:>10} {:>10}  {:<8} copy", "rows", "queries", "GPU", "host", "quicker")?;
    }
    for &size in &args.sizes {
        let engines = Engines::new(args, &device, rows.slice(0..size))?;
        for &count in &args.queries {
            let case = engines.case(args, queries.slice(0..count))?;
            let quicker = if case.gpu < case.host { "GPU" } else { "host" };
            let copy = if case.is_copy_taken { "host" } else { "GPU" };
            let (gpu, host) = (milliseconds(case.gpu), milliseconds(case.host));
            if args.json {
                let line = json!({
                    "record": "case", "suite": "breakeven", "rows": size, "dim": rows.dim(), "queries": count, "k": args.k,
                    "metric": args.metric.name(), "gpu_ms": gpu, "host_ms": host, "quicker": quicker, "copy": copy,
                });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{size:>10} {count:>8} {gpu:>10.3} {host:>10.3}  {quicker:<8} {copy}")?;
            }
            out.flush()?;
        }
    }
    Ok(())
}

/// The same rows everywhere.
struct Engines<'r> {
    rows: MatrixView<'r, f32>,
    gpu: Flat,
    host: Flat,
    both: Flat,
}

struct Case {
    gpu: Duration,
    host: Duration,
    /// Whether an index with a copy on the host searches there.
    is_copy_taken: bool,
}

impl<'r> Engines<'r> {
    fn new(args: &Args, device: &Device, rows: MatrixView<'r, f32>) -> anyhow::Result<Self> {
        let index = |device: &Device, keep: bool| -> anyhow::Result<Flat> {
            let builder = Flat::builder(device, args.metric, rows.dim());
            let mut index = builder.capacity(rows.rows()).keep_host_copy(keep).build()?;
            index.add(rows)?;
            Ok(index)
        };
        Ok(Self {
            rows,
            gpu: index(device, false)?,
            host: index(&Device::host(), false)?,
            both: index(device, true)?,
        })
    }

    fn case(&self, args: &Args, queries: MatrixView<'_, f32>) -> anyhow::Result<Case> {
        let (on_gpu, on_host) = (self.gpu.search(queries, args.k)?, self.host.search(queries, args.k)?);
        compare(self.rows, queries, [(&self.gpu, &on_gpu), (&self.host, &on_host)])?;
        let time = |index: &Flat| -> anyhow::Result<Duration> {
            let started = Instant::now();
            while started.elapsed() < WARM_UP {
                index.search(queries, args.k)?;
            }
            let times = Times::of(args.runs, || {
                let started = Instant::now();
                index.search(queries, args.k)?;
                Ok(started.elapsed())
            })?;
            Ok(times.median)
        };
        let (_, statistics) = self.both.search_with(queries, &SearchOptions::new(args.k))?;
        Ok(Case { gpu: time(&self.gpu)?, host: time(&self.host)?, is_copy_taken: statistics.on_host })
    }
}

/// The distances of both answers differ by no more than is promised of each.
fn compare(
    rows: MatrixView<'_, f32>,
    queries: MatrixView<'_, f32>,
    answers: [(&Flat, &Neighbors); 2],
) -> anyhow::Result<()> {
    let [(index, one), (_, other)] = answers;
    for (query, (one, other)) in one.iter().zip(other.iter()).enumerate() {
        ensure!(one.len() == other.len(), "query {query}: {} and {} rows", one.len(), other.len());
        for (one, other) in one.iter().zip(other) {
            let [a, b] = [one, other].map(|hit| f64::from(hit.distance));
            let bounds = [one, other]
                .map(|hit| index.metric().error_bound(queries.row(query), rows.row(hit.id as usize)));
            let bound: f64 = bounds.iter().sum();
            ensure!(
                (a - b).abs() <= bound,
                "query {query}: distances {a} on the GPU and {b} on the host, more than {bound} apart"
            );
        }
    }
    Ok(())
}
