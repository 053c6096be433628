//! `nearfield bench ivf`: building an `Ivf`, and recall against queries a second over probes.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args as ClapArgs;
use nearfield::{
    Device, DeviceMatrix, Flat, Ivf, MatrixView, Metric, Neighbors, Queries, Screen, SearchOptions,
    Statistics,
};
use serde_json::json;

use super::ceilings::Ceilings;
use super::data::Source;
use super::{Times, WARM_UP, milliseconds, rounded};
use crate::device::Choice;

/// Arguments of `nearfield bench ivf`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Lists; by default about four times the square root of the rows
    #[arg(long, value_parser = crate::search::count)]
    lists: Option<usize>,
    /// Lists that a query probes, a case each
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64", value_name = "P,…")]
    probes: Vec<usize>,
    /// Numbers of queries, a case each
    #[arg(long, value_delimiter = ',', default_value = "1,1024", value_name = "Q,…")]
    queries: Vec<usize>,
    /// Neighbours wanted
    #[arg(short, long, default_value_t = 10)]
    k: usize,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Iterations of k-means
    #[arg(long, default_value_t = 10)]
    iterations: usize,
    /// Timed runs of a case
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Whether to keep a copy of the rows in 8-bit integers: auto, none, i8
    #[arg(long, default_value = "auto", value_name = "SCREEN", value_parser = crate::search::screen)]
    screen: Screen,
    #[command(flatten)]
    device: Choice,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  nearfield bench ivf --rows 1000000 --dim 768 --data low-rank --lists 4096 --probes 1,4,16,64 --queries 1,100,10000
  nearfield bench ivf --rows-file base.npy --queries-file query.npy --metric l2sq --json

Recall is held against the exact answers of `Flat`, and with as many probes as lists the answers have to be those, bit for bit; if they
are not, the run ends with exit code 1. Every case is timed twice: with queries in the host's memory, and with queries that lie on
the device before; results come to the host both times. Rows are uploaded before the build is timed.

JSON lines, one object each; times in milliseconds, rates per second:
  {\"record\":\"device\", date, adapter, backend, driver, kind, version, copy_bytes_per_s, flops_per_s, latency_ms}
  {\"record\":\"build\", rows, dim, lists, metric, upload_ms, train_ms, add_ms, largest_list, empty_lists}
  {\"record\":\"case\", suite, rows, dim, lists, probes, queries, k, metric, screened, data, runs, recall, ms, ms_least, ms_most,
   queries_per_s, device_queries_ms, device_queries_per_s, scored_per_query, survivors_per_query, searched_again,
   stages: {NAME: {ms, passes}}}";

/// Rows of a matrix on the device at most.
const PIECE_BYTES: usize = 1 << 30;

/// Runs the suite.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    let most = args.queries.iter().copied().max().context("--queries: needed at least one number")?;
    ensure!(args.queries.iter().all(|&count| count > 0), "--queries: needed numbers of at least 1");
    ensure!(args.k > 0, "--k: needed at least 1, given 0");
    let rows = args.source.rows()?;
    let queries = args.source.queries(most)?;
    let (rows, queries) = (rows.view()?, queries.view()?);
    ensure!(
        queries.rows() >= most,
        "--queries: needed at most {}, as the file has, given {most}",
        queries.rows()
    );
    ensure!(
        queries.dim() == rows.dim(),
        "--queries-file: needed dim {}, as the rows have, given {}",
        rows.dim(),
        queries.dim()
    );
    let lists = args.lists.unwrap_or_else(|| Ivf::recommend(rows.rows()));
    ensure!(
        args.probes.iter().all(|&probes| (1..=lists).contains(&probes)),
        "--probes: needed 1 to {lists}, the number of lists"
    );
    let ceilings = Ceilings::measure(&device)?;
    ceilings.report(&device, args.json)?;
    let mut exact = Flat::builder(&device, args.metric, rows.dim()).screen(args.screen).build()?;
    exact.add(rows)?;
    let truth = exact.search(queries, args.k)?;
    drop(exact);
    let index = built(args, &device, rows, lists)?;
    let few = queries.slice(0..queries.rows().min(100));
    let all = index.search(few, args.k, lists)?;
    let is_exact = (0..few.rows()).all(|query| all.row(query) == truth.row(query));
    ensure!(is_exact, "with all lists probed the answers are not those of an exact search");
    for &count in &args.queries {
        let queries = queries.slice(0..count);
        let there = device.upload(queries)?;
        for &probes in &args.probes {
            case(args, &index, (queries, &there), &truth, probes)?;
        }
    }
    Ok(())
}

/// The index with all rows, built twice: the first time compiles kernels.
fn built(args: &Args, device: &Device, rows: MatrixView<'_, f32>, lists: usize) -> anyhow::Result<Ivf> {
    let piece = (PIECE_BYTES / (4 * rows.dim())).max(1);
    let started = Instant::now();
    let pieces = (0..rows.rows())
        .step_by(piece)
        .map(|start| device.upload(rows.slice(start..rows.rows().min(start + piece))))
        .collect::<nearfield::Result<Vec<DeviceMatrix>>>()?;
    let upload = started.elapsed();
    let build = || -> anyhow::Result<(Ivf, Duration, Duration)> {
        let started = Instant::now();
        let builder = Ivf::builder(device, args.metric, rows.dim())
            .lists(lists)
            .screen(args.screen)
            .capacity(rows.rows() + 16 * lists)
            .kmeans(|means| means.iterations(args.iterations));
        let mut index = builder.train_device(&pieces.iter().collect::<Vec<_>>())?;
        let trained = started.elapsed();
        for piece in &pieces {
            index.add_device(piece)?;
        }
        Ok((index, trained, started.elapsed() - trained))
    };
    drop(build()?);
    let (index, train, add) = build()?;
    let sizes = index.list_sizes();
    let largest = sizes.iter().max().copied().unwrap_or(0);
    let empty = sizes.iter().filter(|&&size| size == 0).count();
    let [upload, train, add] = [upload, train, add].map(milliseconds);
    if args.json {
        let line = json!({
            "record": "build", "rows": rows.rows(), "dim": rows.dim(), "lists": lists, "metric": args.metric.name(),
            "upload_ms": upload, "train_ms": train, "add_ms": add, "largest_list": largest, "empty_lists": empty,
        });
        writeln!(stdout(), "{line}")?;
    } else {
        writeln!(
            stdout(),
            "{} x {}, {lists} lists, {}: upload {upload:.1} ms, train {train:.1} ms, add {add:.1} ms; largest list {largest}, {empty} empty",
            rows.rows(),
            rows.dim(),
            args.metric,
        )?;
    }
    Ok(index)
}

fn case(
    args: &Args,
    index: &Ivf,
    (queries, there): (MatrixView<'_, f32>, &DeviceMatrix),
    truth: &Neighbors,
    probes: usize,
) -> anyhow::Result<()> {
    let options = SearchOptions::new(args.k).probes(probes);
    let (answer, statistics) = index.search_with(queries, &options)?;
    let wall = |queries: Queries<'_>| {
        // Cards lower their clocks while the host does something else; searches bring them up again.
        let started = Instant::now();
        while started.elapsed() < WARM_UP {
            index.search(queries, args.k, probes)?;
        }
        Times::of(args.runs, || {
            let started = Instant::now();
            let found = index.search(queries, args.k, probes)?;
            let elapsed = started.elapsed();
            ensure!(found == answer, "a timed search differs from the first one");
            Ok(elapsed)
        })
    };
    let (host, resident) = (wall(queries.into())?, wall(there.into())?);
    let mut stages: BTreeMap<&'static str, Vec<(Duration, u32)>> = BTreeMap::new();
    for _ in 0..args.runs.min(5) {
        let (_, statistics) = index.search_with(there, &options.clone().profile(true))?;
        for stage in statistics.stages {
            stages.entry(stage.stage).or_default().push((stage.time, stage.passes));
        }
    }
    let median = |mut times: Vec<(Duration, u32)>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let stages = stages.into_iter().map(|(stage, times)| (stage, median(times))).collect();
    let recall = recall(&answer, truth, queries.rows());
    let case = Case { index, queries: queries.rows(), probes, recall, host, resident, stages };
    case.report(args, &statistics)
}

/// The share of the true neighbours that were found.
fn recall(answer: &Neighbors, truth: &Neighbors, queries: usize) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for query in 0..queries {
        let ids: std::collections::HashSet<u64> = answer.row(query).iter().map(|hit| hit.id).collect();
        wanted += truth.row(query).len();
        found += truth.row(query).iter().filter(|hit| ids.contains(&hit.id)).count();
    }
    found as f64 / wanted.max(1) as f64
}

struct Case<'a> {
    index: &'a Ivf,
    queries: usize,
    probes: usize,
    recall: f64,
    host: Times,
    resident: Times,
    stages: BTreeMap<&'static str, (Duration, u32)>,
}

impl Case<'_> {
    fn report(&self, args: &Args, statistics: &Statistics) -> anyhow::Result<()> {
        let each = |count: u64| count as f64 / self.queries as f64;
        let rate = |times: &Times| self.queries as f64 / times.median.as_secs_f64();
        if args.json {
            let stages: serde_json::Map<String, serde_json::Value> = self
                .stages
                .iter()
                .map(|(stage, (time, passes))| {
                    ((*stage).to_owned(), json!({"ms": milliseconds(*time), "passes": passes}))
                })
                .collect();
            let line = json!({
                "record": "case", "suite": "ivf", "rows": self.index.len(), "dim": self.index.dim(),
                "lists": self.index.lists(), "probes": self.probes, "queries": self.queries, "k": args.k,
                "metric": self.index.metric().name(), "screened": self.index.is_screened(),
                "data": args.source.name(), "runs": args.runs, "recall": rounded(self.recall),
                "ms": milliseconds(self.host.median), "ms_least": milliseconds(self.host.least),
                "ms_most": milliseconds(self.host.most), "queries_per_s": rounded(rate(&self.host)),
                "device_queries_ms": milliseconds(self.resident.median),
                "device_queries_per_s": rounded(rate(&self.resident)),
                "scored_per_query": rounded(each(statistics.scored)),
                "survivors_per_query": rounded(each(statistics.rescored)),
                "searched_again": statistics.searched_again, "stages": stages,
            });
            writeln!(stdout(), "{line}")?;
            return Ok(());
        }
        writeln!(
            stdout(),
            "\n{} queries, {} probes, k = {}: recall {:.4}, {:.3} ms ({:.3} .. {:.3}), {:.0} queries/s; queries on the device {:.3} ms, {:.0} queries/s",
            self.queries,
            self.probes,
            args.k,
            self.recall,
            milliseconds(self.host.median),
            milliseconds(self.host.least),
            milliseconds(self.host.most),
            rate(&self.host),
            milliseconds(self.resident.median),
            rate(&self.resident),
        )?;
        writeln!(
            stdout(),
            "  {:.0} rows a query looked at, {:.1} survived, {} queries searched again",
            each(statistics.scored),
            each(statistics.rescored),
            statistics.searched_again,
        )?;
        for (stage, (time, passes)) in &self.stages {
            writeln!(stdout(), "  {stage:<14} {:>10.3} ms in {passes} passes", milliseconds(*time))?;
        }
        Ok(())
    }
}
