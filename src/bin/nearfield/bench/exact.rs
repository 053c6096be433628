//! `nearfield bench exact`: exact search, from host queries to host results.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args as ClapArgs;
use nearfield::{
    Device, Flat, MatrixView, Metric, Neighbors, Nominator, Plan, Route, Screen, SearchOptions, Statistics,
};
use serde_json::json;

use super::ceilings::Ceilings;
use super::data::Source;
use super::{Times, WARM_UP, milliseconds, rounded};
use crate::device::Choice;

/// Arguments of `nearfield bench exact`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of queries, a case each
    #[arg(long, value_delimiter = ',', default_value = "1,1024", value_name = "Q,…")]
    queries: Vec<usize>,
    /// Neighbours wanted
    #[arg(short, long, default_value_t = 10)]
    k: usize,
    /// Metrics, a case each: l2sq, l2, cosine, ip
    #[arg(long, value_delimiter = ',', default_value = "cosine", value_name = "METRIC,…")]
    metric: Vec<Metric>,
    /// Timed runs of a case
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Queries a case whose answers are checked against f64 on the host, at least 1
    #[arg(long, default_value_t = 4, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    verify: usize,
    /// Whether to keep a copy of the rows in 8-bit integers, by which most are excluded: auto, none, i8
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
  nearfield bench exact --rows 1000000 --dim 768 --queries 1,1024 --metric cosine,l2sq
  nearfield bench exact --rows-file base.npy --queries-file query.npy -k 100 --json

Every case checks its answers before it is timed; a wrong one ends the run with exit code 1.

JSON lines, one object each; times in milliseconds, rates per second:
  {\"record\":\"device\", date, adapter, backend, driver, kind, version, copy_bytes_per_s, flops_per_s, latency_ms}
  {\"record\":\"upload\", rows, dim, ms, bytes_per_s}
  {\"record\":\"case\", suite, rows, dim, queries, k, metric, plan, runs, ms, ms_least, ms_most, queries_per_s,
   screened, data, verified, rescored, survivors_per_query, searched_again, searched_exhaustively,
   stages: {NAME: {ms, passes}},
   scan_bytes_per_s and scan_share_of_copy, or tile_flops_per_s and tile_share_of_flops}
On the host engine stages are not timed, and flops_per_s and latency_ms are null.
Operations of integers and of cooperative matrices are compared with multiply-adds in f32, too: more than 100 % is possible.";

/// Runs the suite.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    let most = args.queries.iter().copied().max().context("--queries: needed at least one number")?;
    ensure!(args.queries.iter().all(|&count| count > 0), "--queries: needed numbers of at least 1");
    ensure!(args.k > 0, "--k: needed at least 1, given 0");
    let rows = args.source.rows()?;
    let queries = args.source.queries(most)?;
    let (row_view, query_view) = (rows.view()?, queries.view()?);
    ensure!(
        query_view.rows() >= most,
        "--queries: needed at most {}, as the file has, given {most}",
        query_view.rows()
    );

    ensure!(
        query_view.dim() == row_view.dim(),
        "--queries-file: needed dim {}, as the rows have, given {}",
        row_view.dim(),
        query_view.dim()
    );
    let ceilings = Ceilings::measure(&device)?;
    ceilings.report(&device, args.json)?;
    for (number, &metric) in args.metric.iter().enumerate() {
        if number == 0 {
            // The first upload also pays for compiling a kernel and for fresh staging memory.
            filled(&device, metric, args.screen, row_view)?;
        }
        let (index, time) = filled(&device, metric, args.screen, row_view)?;
        if number == 0 {
            report_upload(args, row_view, time)?;
        }
        for &count in &args.queries {
            case(args, &index, row_view, query_view.slice(0..count), &ceilings)?;
        }
    }
    Ok(())
}

/// An index with all rows, and how long it took to fill.
fn filled(
    device: &Device,
    metric: Metric,
    screen: Screen,
    rows: MatrixView<'_, f32>,
) -> anyhow::Result<(Flat, Duration)> {
    let mut index = Flat::builder(device, metric, rows.dim()).screen(screen).build()?;
    let started = Instant::now();
    index.add(rows)?;
    Ok((index, started.elapsed()))
}

fn case(
    args: &Args,
    index: &Flat,
    rows: MatrixView<'_, f32>,
    queries: MatrixView<'_, f32>,
    ceilings: &Ceilings,
) -> anyhow::Result<()> {
    // The first search compiles kernels and fills the pool; its answer is the one that is checked.
    let (answer, statistics) = index.search_with(queries, &SearchOptions::new(args.k))?;
    let verified = args.verify.min(queries.rows());
    verify(index.metric(), rows, queries, &answer, args.k, verified)?;
    let again = index.search(queries, args.k)?;
    ensure!(answer == again, "two searches for the same queries differ");

    // Cards lower their clocks while the host checks answers; searches bring them up again.
    let started = Instant::now();
    while started.elapsed() < WARM_UP {
        index.search(queries, args.k)?;
    }
    let wall = Times::of(args.runs, || {
        let started = Instant::now();
        let found = index.search(queries, args.k)?;
        let elapsed = started.elapsed();
        ensure!(found == answer, "a timed search differs from the first one");
        Ok(elapsed)
    })?;
    let mut stages: BTreeMap<&'static str, Vec<(Duration, u32)>> = BTreeMap::new();
    for _ in 0..args.runs.min(5) {
        let (_, statistics) = index.search_with(queries, &SearchOptions::new(args.k).profile(true))?;
        for stage in statistics.stages {
            stages.entry(stage.stage).or_default().push((stage.time, stage.passes));
        }
    }
    let stages: BTreeMap<&'static str, (Duration, u32)> = stages
        .into_iter()
        .map(|(stage, mut times)| {
            times.sort_unstable();
            (stage, times[times.len() / 2])
        })
        .collect();
    let plan = index.plan(queries.rows(), args.k)?;
    let case = Case { index, queries: queries.rows(), k: args.k, plan, wall, stages, verified };
    case.report(args, ceilings, &statistics)
}

struct Case<'a> {
    index: &'a Flat,
    queries: usize,
    k: usize,
    plan: Plan,
    wall: Times,
    stages: BTreeMap<&'static str, (Duration, u32)>,
    verified: usize,
}

impl Case<'_> {
    /// Bytes a second of the scan and operations a second of the tile, with their shares of the ceilings.
    fn rates(&self, ceilings: &Ceilings) -> Vec<(&'static str, f64)> {
        let Route::Nominate { kernel, .. } = self.plan.route else { return vec![] };
        let dim = self.index.dim();
        let rows = self.index.len() as f64;
        let operations = |stride: usize| 2.0 * rows * stride as f64 * self.queries as f64;
        // (stage, bytes read) of a scan, (stage, operations) of a tile; queries share a pass over the rows.
        let scan = |row_bytes: usize, at_once: usize| {
            rows * row_bytes as f64 * self.queries.div_ceil(at_once) as f64
        };
        let (stage, bytes, operations) = match kernel {
            Nominator::Scan => ("distance_scan", Some(scan(dim.next_multiple_of(4) * 4, 4)), None),
            Nominator::ScanI8 => ("screen_scan_i8", Some(scan(dim.next_multiple_of(32), 8)), None),
            Nominator::Tile => ("distance_tile", None, Some(operations(dim.next_multiple_of(4)))),
            Nominator::TileI8 => ("screen_tile_i8", None, Some(operations(dim.next_multiple_of(32)))),
            Nominator::TileCoop => ("screen_tile_coop", None, Some(operations(dim.next_multiple_of(32)))),
            _ => return vec![],
        };
        let Some((time, _)) = self.stages.get(stage) else { return vec![] };
        let seconds = time.as_secs_f64();
        let mut rates = vec![];
        if let Some(bytes) = bytes {
            let rate = bytes / seconds;
            rates.extend([("scan_bytes_per_s", rate), ("scan_share_of_copy", rate / ceilings.copy_bytes)]);
        }
        if let Some(operations) = operations {
            let rate = operations / seconds;
            rates.push(("tile_flops_per_s", rate));
            rates.extend(ceilings.kernels.map(|of| ("tile_share_of_flops", rate / of.flops)));
        }
        rates
    }

    fn report(&self, args: &Args, ceilings: &Ceilings, statistics: &Statistics) -> anyhow::Result<()> {
        let survivors = statistics.rescored as f64 / self.queries as f64;
        let queries_per_second = self.queries as f64 / self.wall.median.as_secs_f64();
        if args.json {
            let stages: serde_json::Map<String, serde_json::Value> = self
                .stages
                .iter()
                .map(|(stage, (time, passes))| {
                    ((*stage).to_owned(), json!({"ms": milliseconds(*time), "passes": passes}))
                })
                .collect();
            let mut line = json!({
                "record": "case", "suite": "exact", "rows": self.index.len(), "dim": self.index.dim(),
                "queries": self.queries, "k": self.k, "metric": self.index.metric().name(),
                "plan": self.plan.to_string(), "runs": args.runs, "ms": milliseconds(self.wall.median),
                "ms_least": milliseconds(self.wall.least), "ms_most": milliseconds(self.wall.most),
                "queries_per_s": rounded(queries_per_second), "verified": self.verified,
                "screened": self.index.is_screened(), "data": args.source.name(),
                "rescored": statistics.rescored, "survivors_per_query": rounded(survivors),
                "searched_again": statistics.searched_again,
                "searched_exhaustively": statistics.searched_exhaustively, "stages": stages,
            });
            for (name, rate) in self.rates(ceilings) {
                line[name] = json!(rounded(rate));
            }
            writeln!(stdout(), "{line}")?;
            return Ok(());
        }
        writeln!(
            stdout(),
            "\n{} x {}, {} queries, k = {}, {}: {:.3} ms ({:.3} .. {:.3}), {:.0} queries/s",
            self.index.len(),
            self.index.dim(),
            self.queries,
            self.k,
            self.index.metric(),
            milliseconds(self.wall.median),
            milliseconds(self.wall.least),
            milliseconds(self.wall.most),
            queries_per_second,
        )?;
        writeln!(stdout(), "  {}", self.plan)?;
        writeln!(
            stdout(),
            "  {} answers verified, {survivors:.1} rows a query survived, {} queries searched again, {} of them exhaustively",
            self.verified,
            statistics.searched_again,
            statistics.searched_exhaustively,
        )?;
        for (stage, (time, passes)) in &self.stages {
            writeln!(stdout(), "  {stage:<14} {:>10.3} ms in {passes} passes", milliseconds(*time))?;
        }
        for (name, rate) in self.rates(ceilings) {
            match name.contains("_share_") {
                true => writeln!(stdout(), "  {name:<22} {:.1} %", 100.0 * rate)?,
                false => writeln!(stdout(), "  {name:<22} {rate:.3e}")?,
            }
        }
        Ok(())
    }
}

fn report_upload(args: &Args, rows: MatrixView<'_, f32>, time: Duration) -> anyhow::Result<()> {
    let rate = (rows.values().len() * 4) as f64 / time.as_secs_f64();
    if args.json {
        let line = json!({
            "record": "upload", "rows": rows.rows(), "dim": rows.dim(), "ms": milliseconds(time),
            "bytes_per_s": rounded(rate),
        });
        writeln!(stdout(), "{line}")?;
        return Ok(());
    }
    writeln!(stdout(), "upload: {:.1} ms, {:.2} GB/s", milliseconds(time), rate / 1e9)?;
    Ok(())
}

/// Checks the first `count` answers against f64: as many neighbours as there should be, each with its distance, and no
/// row left out that is nearer than the last one for certain.
fn verify(
    metric: Metric,
    rows: MatrixView<'_, f32>,
    queries: MatrixView<'_, f32>,
    answer: &Neighbors,
    k: usize,
    count: usize,
) -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for query in 0..count {
        let vector = queries.row(query);
        let mut exact = vec![0.0f64; rows.rows()];
        let piece = rows.rows().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            for (number, piece_of) in exact.chunks_mut(piece).enumerate() {
                scope.spawn(move || {
                    for (place, distance) in piece_of.iter_mut().enumerate() {
                        *distance = metric.exact(vector, rows.row(number * piece + place));
                    }
                });
            }
        });
        let hits = answer.row(query);
        ensure!(hits.len() == k.min(rows.rows()), "query {query}: {} neighbours", hits.len());
        let mut last = f64::NEG_INFINITY;
        let mut slack = 0.0f64;
        for hit in hits {
            let id = hit.id as usize;
            let bound = metric.error_bound(vector, rows.row(id));
            let off = (f64::from(hit.distance) - exact[id]).abs();
            if off > bound {
                bail!("query {query}: row {id} reported at {}, is at {}", hit.distance, exact[id]);
            }
            slack = slack.max(bound);
            last = last.max(exact[id]);
            exact[id] = f64::INFINITY;
        }
        let nearest_left = exact.iter().copied().fold(f64::INFINITY, f64::min);
        ensure!(nearest_left >= last - 2.0 * slack, "query {query}: a row at {nearest_left} was left out");
    }
    Ok(())
}
