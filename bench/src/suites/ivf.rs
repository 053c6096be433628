//! `nearfield-bench ivf`: building an `Ivf`, and its recall and queries per second over probes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield::{
    Device, DeviceMatrix, Flat, Ivf, Metric, Neighbors, Quantization, SearchOptions, SearchResult, Vectors,
};
use serde_json::json;

use crate::answers;
use crate::case::Case;
use crate::ceilings::{Unit, Work};
use crate::data::{Source, View, asked_or, batches, lists};
use crate::run::{Run, Suite};
use crate::times::Parts;
use crate::units::{milliseconds, rounded};
use nearfield_cli::recall::{self, TrueHit};
use nearfield_cli::terminal::output::counted;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Lists; by default about four times the square root of the rows
    #[arg(long, value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    lists: Option<usize>,
    /// Lists that a query probes, one case each; 1,4,16,64, or as many as there are lists
    #[arg(long, value_delimiter = ',', value_name = "P,…", value_parser = nearfield_cli::given::arguments::count)]
    probes: Vec<usize>,
    /// Numbers of queries, one case each; 1,1024, or as many as a file has
    #[arg(long = "batch", value_delimiter = ',', value_name = "Q,…", value_parser = nearfield_cli::given::arguments::count)]
    queries: Vec<usize>,
    /// Neighbours per query
    #[arg(short, long, default_value_t = 10, value_parser = nearfield_cli::given::arguments::count)]
    k: usize,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine", value_parser = nearfield_cli::given::arguments::metric_of_numbers)]
    metric: Metric,
    /// Iterations of k-means
    #[arg(long, default_value_t = ITERATIONS)]
    iterations: usize,
    /// 8-bit copy of the rows, which excludes most rows early: auto, none, int8
    #[arg(long, default_value = "auto", value_name = "QUANTIZATION", value_parser = nearfield_cli::given::arguments::word::<Quantization>)]
    quantization: Quantization,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench ivf --count 1000000 --dim 768 --lists 4096 --probes 1,4,16,64 --batch 1,100,10000
  nearfield-bench ivf --rows base.npy --queries query.npy --metric l2sq --json

With all lists probed, the answers have to equal those of `Flat` bit for bit. Every case is timed with queries on the host, and with \
queries on the device. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

const QUERIES: [usize; 2] = [1, 1024];
const PROBES: [usize; 4] = [1, 4, 16, 64];
/// The default iterations of k-means.
const ITERATIONS: usize = 10;
/// The fewest queries for recall, if there are as many.
const LEAST_QUERIES: usize = 200;
/// A build that takes less time is repeated.
const AGAIN: Duration = Duration::from_secs(3);
/// The most bytes of a matrix on the device.
const PIECE_BYTES: usize = 1 << 30;

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        let counts = self.source.counts(&self.queries, &QUERIES)?;
        let (rows, queries) = self.source.both_at_least(&counts, LEAST_QUERIES)?;
        let (rows, queries) = (rows.view()?, queries.view()?);
        let lists = lists(self.lists, &self.probes, rows.rows())?;
        let probes = asked_or(&self.probes, &PROBES, lists);
        run.begin("ivf", counts.len() * probes.len())?;
        let in_lists = counted(lists, "list", "lists");
        let of = format!("{} x {} {}, {in_lists}", rows.rows(), rows.dim(), self.source.name());
        if run.is_over(&of)? {
            return Ok(());
        }
        let device = run.device.clone();
        let mut exact =
            Flat::builder(&device, self.metric, rows.dim()).quantization(self.quantization).build()?;
        exact.add(rows)?;
        let truth = exact.search(queries, self.k)?;
        drop(exact);
        if run.is_over(&of)? {
            return Ok(());
        }
        let index = built(self, run, rows, lists)?;
        let distances = answers::checked(self.metric, rows, queries, self.k, truth.iter())?;
        let few = queries.slice(0..queries.rows().min(100));
        let all = index.search_with(few, &SearchOptions::new(self.k).probes(lists))?.neighbors;
        let is_exact = (0..few.rows()).all(|query| all.row(query) == truth.row(query));
        ensure!(is_exact, "with all lists probed the answers are not those of an exact search");
        for &count in &counts {
            let hosts = batches(queries, count);
            let there =
                hosts.iter().map(|&queries| device.upload(queries)).collect::<nearfield::Result<Vec<_>>>()?;
            for &probes in &probes {
                case(self, run, &index, (rows, queries), (&hosts, &there), &distances, probes)?;
            }
        }
        Ok(())
    }
}

/// The index with all rows.
fn built(args: &Args, run: &mut Run, rows: View<'_>, lists: usize) -> Result<Ivf> {
    let device: &Device = &run.device;
    let piece = (PIECE_BYTES / (4 * rows.dim())).max(1);
    let started = Instant::now();
    let pieces = (0..rows.rows())
        .step_by(piece)
        .map(|start| device.upload(rows.slice(start..rows.rows().min(start + piece))))
        .collect::<nearfield::Result<Vec<DeviceMatrix>>>()?;
    let upload = started.elapsed();
    let ends = Mutex::new(vec![]);
    let ends_of = || ends.lock().unwrap_or_else(PoisonError::into_inner);
    let note = |_: usize, _: f64| ends_of().push(Instant::now());
    let build = || -> Result<(Ivf, Duration, Duration)> {
        ends_of().clear();
        let started = Instant::now();
        let builder = Ivf::builder(device, args.metric, rows.dim())
            .lists(lists)
            .quantization(args.quantization)
            .capacity(rows.rows() + 16 * lists)
            // All iterations are timed, whatever they gain.
            .kmeans(|means| means.iterations(args.iterations).tolerance(0.0).progress(&note));
        let mut index = builder.train_device(&pieces.iter().collect::<Vec<_>>())?;
        let trained = started.elapsed();
        for piece in &pieces {
            index.add(piece)?;
        }
        Ok((index, trained, started.elapsed() - trained))
    };
    let (mut index, mut train, mut add) = build()?;
    // The first build also compiles kernels, which matters only if it is short.
    if train + add < AGAIN {
        drop(index);
        (index, train, add) = build()?;
    }
    let sizes = index.list_sizes();
    let largest = sizes.iter().max().copied().unwrap_or(0);
    let empty = sizes.iter().filter(|&&size| size == 0).count();
    let [upload, train, add] = [upload, train, add].map(milliseconds);
    let ends = ends_of();
    // The first iteration comes after the rows to train on were gathered, and the first centroids chosen.
    let iteration = match ends.as_slice() {
        [first, .., last] => Some(milliseconds((*last - *first) / (ends.len() - 1) as u32)),
        _ => None,
    };
    let (count, dim, metric, ran) = (rows.rows(), rows.dim(), args.metric, ends.len());
    let line = json!({
        "record": "build", "suite": "ivf", "rows": count, "dim": dim, "lists": lists, "iterations": args.iterations,
        "iterations_run": ran, "metric": metric.name(), "data": args.source.name(), "upload_ms": upload, "train_ms": train,
        "iteration_ms": iteration, "add_ms": add, "largest_list": largest, "empty_lists": empty,
    });
    let in_lists = counted(lists, "list", "lists");
    let each = iteration.map_or(String::new(), |each| format!(" of {each:.1} ms"));
    let iterations = counted(ran, "iteration", "iterations") + &each;
    let text = format!(
        "ivf       {count} x {dim}, {in_lists}, {metric}: upload {upload:.1} ms, train {train:.1} ms in {iterations}, \
         add {add:.1} ms; largest list {largest}, {empty} empty",
    );
    run.tell(line, &text)?;
    Ok(index)
}

fn case(
    args: &Args,
    run: &mut Run,
    index: &Ivf,
    (rows, all): (View<'_>, View<'_>),
    (hosts, there): (&[View<'_>], &[DeviceMatrix]),
    truth: &[Vec<TrueHit>],
    probes: usize,
) -> Result<()> {
    let (count, batches) = (hosts[0].rows(), hosts.len());
    let identity = json!({
        "rows": index.len(), "dim": index.dim(), "lists": index.lists(), "iterations": args.iterations, "probes": probes,
        "queries": count, "k": args.k, "metric": index.metric().name(), "data": args.source.name(),
        "screened": index.is_quantized(), "scratch": run.scratch(),
    });
    let Some(mut case) = run.start(identity)? else { return Ok(()) };
    let options = SearchOptions::new(args.k).probes(probes);
    let (mut answers, mut scored, mut survivors, mut searched_again) = (vec![], 0, 0, 0);
    for &queries in hosts {
        let SearchResult { neighbors: answer, statistics, .. } = index.search_with(queries, &options)?;
        answers.push(answer);
        scored += statistics.scored;
        survivors += statistics.refined;
        searched_again += statistics.searched_again;
    }
    // Recall over few queries would be chance.
    let (timed, judged) = (count * batches, all.rows().min(LEAST_QUERIES.max(count * batches)));
    let others = index.search_with(all.slice(timed..judged), &options)?.neighbors;
    let hits = answers.iter().chain([&others]).flat_map(Neighbors::iter);
    let hits = answers::checked(args.metric, rows, all.slice(0..judged), args.k, hits)?;
    let found = recall::between(args.metric, &hits, truth).context("needed true neighbours, found none")?;
    let timed = |queries: Vectors<'_>, place: usize| {
        answers::timed(&answers[place], || Ok(index.search_with(queries, &options)?.neighbors))
    };
    // Queries on the host and on the device each have half of the time.
    let mut parts = Parts::default();
    let (wall, _) =
        run.time(2, |number| timed(hosts[number % batches].into(), number % batches), |_| Ok(None))?;
    let (resident, on_device) = run.time(
        2,
        |number| timed((&there[number % batches]).into(), number % batches),
        |number| {
            let (mut stages, place) = (None, number % batches);
            answers::timed(&answers[place], || {
                let found = index.search_with(&there[place], &options.clone().profile(true))?;
                stages = parts.add(&found.statistics.stages);
                Ok(found.neighbors)
            })?;
            Ok(stages)
        },
    )?;
    let stages = parts.medians();
    let each = |number: u64| number as f64 / (count * batches) as f64;
    let rate = |time: Duration| count as f64 / time.as_secs_f64();
    let (queries_per_s, resident_per_s) = (rate(wall.median), rate(resident.median));
    let (scored, survivors) = (each(scored), each(survivors));
    let mut details = vec![format!(
        "{scored:.0} rows a query looked at, {survivors:.1} survived, {searched_again} queries searched again",
    )];
    details.extend(stages.texts());
    case.add(json!({
            "recall": rounded(found.by_distance), "recall_by_id": rounded(found.by_id), "queries_per_s": rounded(queries_per_s),
            "device_queries_ms": milliseconds(resident.median), "device_queries_per_s": rounded(resident_per_s),
            "stages": stages.to_json(), "scored_per_query": rounded(scored), "survivors_per_query": rounded(survivors),
            "searched_again": searched_again,
    }));
    run.case(Case {
        wall,
        on_device,
        // The least work of several queries depends on the lists they share.
        work: (count == 1).then(|| work(index, scored)),
        verified: json!(judged),
        rotated: batches,
        remarks: vec![
            format!("{queries_per_s:.0} queries/s"),
            format!("recall {:.4} ({:.4} by id)", found.by_distance, found.by_id),
            format!(
                "from queries on the device {:.3} ms, {resident_per_s:.0} queries/s",
                milliseconds(resident.median)
            ),
        ],
        details,
        ..case
    })
}

/// The least work of a search that scores this number of rows for one query.
fn work(index: &Ivf, scored: f64) -> Work {
    let dim = index.dim();
    let unit = if index.is_quantized() { Unit::Integers } else { Unit::Floats };
    let bytes = scored * unit.row_bytes(dim);
    // A few queries take turns, so their lists stay in a cache.
    Work { bytes, operations: 2.0 * scored * dim as f64, unit, working_set: 4.0 * bytes }
}
