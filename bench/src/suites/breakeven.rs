//! `nearfield-bench breakeven`: how much work makes a GPU faster than the processor.

use anyhow::{Context, Result, ensure};
use nearfield::{AdapterKind, Device, Flat, Metric, Neighbors, SearchOptions};
use serde_json::json;

use crate::answers;
use crate::case::Case;
use crate::data::{BATCHES, Source, View, asked_or, batches};
use crate::run::{Run, Suite};
use crate::units::milliseconds;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of rows, one case each; 1000,10000,100000, or as many as there are
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = nearfield_cli::given::arguments::count)]
    sizes: Vec<usize>,
    /// Numbers of queries, one case each; 1,8,64,512, or as many as a file has
    #[arg(long = "batch", value_delimiter = ',', value_name = "Q,…", value_parser = nearfield_cli::given::arguments::count)]
    queries: Vec<usize>,
    /// Neighbours per query
    #[arg(short, long, default_value_t = 10, value_parser = nearfield_cli::given::arguments::count)]
    k: usize,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine", value_parser = nearfield_cli::given::arguments::metric_of_numbers)]
    metric: Metric,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench breakeven
  nearfield-bench breakeven --dim 768 --count 300000 --sizes 3000,30000,300000 --batch 1,4,16,64

The answers of both have the same ids, except for rows whose distances differ by less than the promised bound. `copy` names where \
an index with a copy on the host (FlatBuilder::keep_host_copy) would search. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

const SIZES: [usize; 3] = [1000, 10_000, 100_000];
const QUERIES: [usize; 4] = [1, 8, 64, 512];

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        ensure!(
            run.device.adapter().kind != AdapterKind::Host,
            "--device: needed a GPU to compare the processor with, given {}",
            run.device.describe()
        );
        let counts = self.source.counts(&self.queries, &QUERIES)?;
        let (rows, queries) = self.source.both_at_least(&counts, BATCHES)?;
        let (rows, queries) = (rows.view()?, queries.view()?);
        let sizes = self.source.sizes(&asked_or(&self.sizes, &SIZES, rows.rows()), rows)?;
        run.begin("breakeven", sizes.len() * counts.len())?;
        for size in sizes {
            if run.is_over(&format!("{size} x {} {}", rows.dim(), self.source.name()))? {
                continue;
            }
            let engines = Engines::new(self, &run.device, rows.slice(0..size))?;
            for &count in &counts {
                engines.case(self, run, &batches(queries, count))?;
            }
        }
        Ok(())
    }
}

struct Engines<'r> {
    rows: View<'r>,
    gpu: Flat,
    host: Flat,
    both: Flat,
}

impl<'r> Engines<'r> {
    fn new(args: &Args, device: &Device, rows: View<'r>) -> Result<Self> {
        let index = |device: &Device, keep: bool| -> Result<Flat> {
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

    fn case(&self, args: &Args, run: &mut Run, batches: &[View<'_>]) -> Result<()> {
        let (size, dim, count) = (self.rows.rows(), self.rows.dim(), batches[0].rows());
        let identity = json!({
            "rows": size, "dim": dim, "queries": count, "k": args.k, "metric": args.metric.name(),
            "data": args.source.name_of(size), "scratch": run.scratch(),
        });
        let Some(mut case) = run.start(identity)? else { return Ok(()) };
        let answers = |index: &Flat| {
            batches
                .iter()
                .map(|&queries| index.search(queries, args.k))
                .collect::<nearfield::Result<Vec<_>>>()
        };
        let (on_gpu, on_host) = (answers(&self.gpu)?, answers(&self.host)?);
        for (&queries, both) in batches.iter().zip(on_gpu.iter().zip(&on_host)) {
            compare(args, self.rows, queries, both.into())?;
        }
        let time = |index: &Flat, answers: &[Neighbors]| {
            let once = |number: usize| {
                let place = number % batches.len();
                answers::timed(&answers[place], || index.search(batches[place], args.k))
            };
            run.time(2, once, |_| Ok(None)).map(|(times, _)| times)
        };
        let (gpu, host) = (time(&self.gpu, &on_gpu)?, time(&self.host, &on_host)?);
        // The index learns from some searches which engine is faster.
        let mut is_copy_taken = false;
        for &queries in batches.iter().cycle().take(16) {
            is_copy_taken = self.both.search_with(queries, &SearchOptions::new(args.k))?.statistics.on_host;
        }
        let quicker = if gpu.median < host.median { "GPU" } else { "host" };
        let copy = if is_copy_taken { "host" } else { "GPU" };
        case.add(json!({
            "host_ms": milliseconds(host.median), "host_ms_least": milliseconds(host.least),
            "host_ms_most": milliseconds(host.most), "quicker": quicker, "copy": copy,
        }));
        run.case(Case {
            wall: gpu,
            verified: json!(true),
            rotated: batches.len(),
            remarks: vec![
                format!("on the host {:.3} ms: {quicker} is quicker", milliseconds(host.median)),
                format!("with a copy: {copy}"),
            ],
            ..case
        })
    }
}

/// Checks both answers, and that their distances differ by no more than the sum of their promised bounds.
fn compare(args: &Args, rows: View<'_>, queries: View<'_>, answers: [&Neighbors; 2]) -> Result<()> {
    for (answers, engine) in answers.into_iter().zip(["on the GPU", "on the host"]) {
        answers::checked(args.metric, rows, queries, args.k, answers.iter()).context(engine)?;
    }
    let [one, other] = answers;
    for (query, (one, other)) in one.iter().zip(other.iter()).enumerate() {
        ensure!(one.len() == other.len(), "query {query}: {} and {} rows", one.len(), other.len());
        for (one, other) in one.iter().zip(other) {
            let [a, b] = [one, other].map(|hit| f64::from(hit.distance));
            let bounds = [one, other]
                .map(|hit| args.metric.error_bound(queries.row(query), rows.row(hit.id as usize)));
            let bound: f64 = bounds.iter().sum();
            ensure!(
                (a - b).abs() <= bound,
                "query {query}: distances {a} on the GPU and {b} on the host, more than {bound} apart"
            );
        }
    }
    Ok(())
}
