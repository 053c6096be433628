//! `nearfield search`: finds the rows of a file nearest to the queries of another.

mod found;
mod source;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nearfield::io::{Selection, read_selection};
use nearfield::{
    Filter, Index, Matrix, MatrixView, Metric, Screen, SearchOptions, SearchResult, Statistics, WithinOptions,
};
use serde_json::json;

use crate::device::{self, Choice};
use crate::files::{self, Filled};
use crate::progress::bar;
use crate::recall::{self, Recall, Truth, Vectors};
use crate::{arguments, output};
use found::Found;
use source::Source;

const LONG: &str = "\
Find the rows of a file, or of a saved index, that are nearest to each query of another file.

Rows are sent to the device piece by piece, so a file may be larger than the memory; f16 rows stay f16. The id of a row is its \
number in the file, from 0, unless --row-ids gives others. --index-file searches an index that `nearfield build` saved. The search \
time includes compiling the kernels.

Files of vectors are .npy, .npz (FILE.npz:MEMBER names a member), .fvecs, .bvecs, .fbin, .f16bin, .u8bin and .i8bin.

The first answers are printed: for each query the ids and distances of its nearest rows, nearest first. --out writes all of them. \
Distances of l2sq are squared; those of cosine are 1 - cosine; those of ip are negated, so that smaller is nearer in every metric.

--json prints one object, in one line:
  rows, queries, dim  counts
  elements            f32 or f16, how rows are stored
  metric, k           as requested; k is null with --radius
  radius, probes      as requested or found for --recall, or null
  device              {name, backend, driver, kind}
  plan                how the search ran, as text
  load_seconds        reading the rows, or reading and sending the index
  upload_seconds      sending them to the device
  search_seconds      searching all queries
  queries_per_second  queries / search_seconds
  found               rows found, over all queries
  rescored            nominated rows whose reported distance was computed, over all queries
  screened            whether a copy of the rows in 8-bit integers was kept
  searched_again      queries with too many nominated rows, which were searched another way
  searched_exhaustively  those of them for which every row was computed
  searched_flat       queries for which all rows were searched, because their lists would have taken no less time
  out, ids, distances the written files, or null
and with --truth:
  recall_at           compared neighbours: k, or the truth's columns if these are fewer
  recall_by_id        part of the true ids that was found, or null for an empty truth
  recall_by_distance  part of the results no farther than the last true one + 1e-3, or null
  truth_distances     source of the true distances: \"file\"; \"file, negated\" for inner
                      products that are larger for nearer rows; or \"recomputed\" from the
                      true ids, if the file has none or those of another metric";

const EXAMPLES: &str = "\
Examples:
  nearfield search --rows base.npy --queries query.npy -k 100 --out found.csv
  nearfield search --rows base.npy --labels names.txt --queries query.npy --radius 0.3
  nearfield search --rows sift.fvecs --queries query.fvecs --metric l2sq --truth groundtruth.ivecs
  nearfield search --rows a.npz:train --queries a.npz:test --filter allowed.npy --device radeon
  nearfield search --index-file index.nf --queries query.npy --recall 0.95";

#[derive(Debug, clap::Args)]
#[command(about = "Find the rows of a file, or of an index, nearest to the queries of another file", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows to search
    #[arg(long, value_name = "FILE", required_unless_present = "index_file")]
    rows: Option<PathBuf>,
    /// Index to search, saved by `nearfield build`
    #[arg(long, value_name = "INDEX.nf", conflicts_with_all = ["rows", "metric", "screen"])]
    index_file: Option<PathBuf>,
    /// File of the queries
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Neighbours per query
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = arguments::count)]
    k: usize,
    /// Find all rows within this distance instead of the k nearest
    #[arg(long, value_name = "R", allow_negative_numbers = true, conflicts_with_all = ["k", "truth", "ids", "distances"])]
    radius: Option<f32>,
    /// Metric: cosine, l2sq, l2 or ip (the inner product, negated)
    #[arg(long, value_name = "METRIC", default_value = "cosine")]
    metric: Metric,
    /// Ids of the rows instead of their numbers: a .npy of whole numbers, one a row
    #[arg(long, value_name = "FILE", conflicts_with_all = ["index_file", "truth"])]
    row_ids: Option<PathBuf>,
    /// Names of the rows, a line each: line i, from 0, is for the row with id i, or for row i of --row-ids
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Search only some rows: a .npy of their ids (whole numbers), or a mask (bool, one a row: element i is for id i)
    #[arg(long, value_name = "FILE")]
    filter: Option<PathBuf>,
    /// Lists of an ivf index that a query probes; by default a 64th of them
    #[arg(long, value_name = "N", value_parser = arguments::count, conflicts_with = "rows")]
    probes: Option<usize>,
    /// Probe as many lists of an ivf index as find this part of the neighbours, from 0 to 1: measured on up to 500 of the queries
    #[arg(long, value_name = "PART", conflicts_with_all = ["rows", "probes", "radius"])]
    recall: Option<f64>,
    /// Copy of the rows in 8-bit integers, which excludes most rows without changing the answers: auto, none or i8
    #[arg(long, value_name = "SCREEN", default_value = "auto")]
    screen: Screen,
    #[command(flatten)]
    device: Choice,
    /// Threads of the host engine; by default one for each processor
    #[arg(long, value_name = "N", value_parser = arguments::threads)]
    threads: Option<usize>,
    /// Queries whose nearest rows are printed
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "json")]
    show: usize,
    /// Write all that was found: a line a neighbour (.csv), a line a query (.jsonl), or arrays ids and distances (.npz)
    #[arg(long, value_name = "OUT", value_parser = |text: &str| files::output_path(text, found::ENDINGS))]
    out: Option<PathBuf>,
    /// Write ids, i64 [queries, k], to this npy, padded with -1
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    ids: Option<PathBuf>,
    /// Write distances, f32 [queries, k], to this npy, padded with NaN
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    distances: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// True ids (.npy, .npz with a member ids, .ivecs, .ibin, .bin): print recall@k
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Queries that are searched to find the probes of --recall.
const RECALL_SAMPLE: usize = 500;

pub(crate) fn run(args: &Args) -> Result<()> {
    arguments::with_threads(args.threads, || run_here(args))
}

fn run_here(args: &Args) -> Result<()> {
    // Wrong arguments are refused before anything is sent.
    check_outputs(args)?;
    let source = Source::open(args)?;
    let labels = args.labels.as_deref().map(|path| source.labels(path)).transpose()?;
    let allowed = args.filter.as_ref().map(read_selection).transpose().context("--filter")?;
    let query_file = files::open_queries(&args.queries, source.dim, source.argument)?;
    let truth_of = |rows: usize| -> Result<Option<Truth>> {
        args.truth.as_ref().map(|path| Truth::open(path, query_file.rows(), rows)).transpose()
    };
    let mut truth = source.rows.as_ref().map_or(Ok(None), |rows| truth_of(rows.rows()))?;
    let queries = query_file.read_all().context("--queries")?;
    let device = args.device.open()?;

    let (index, filled) = source.index(args, &device)?;
    if source.rows.is_none() {
        // The ids of a saved index are known only now.
        truth = truth_of(index.ids().last().map_or(0, |id| id as usize + 1))?;
    }
    say_what_is_missing(args, &source, &index, query_file.rows());
    let blame = |error| files::blame(error, "--queries", &query_file, 0);
    let probes = match (args.recall, &index) {
        (Some(recall), Index::Ivf(index)) => {
            let sample = query_file.read(0..query_file.rows().min(RECALL_SAMPLE)).context("--queries")?;
            Some(index.probes_for_recall(&sample, args.k, recall).map_err(blame)?)
        }
        _ => args.probes,
    };
    let start = Instant::now();
    let filter = allowed.as_ref().map(Selection::filter);
    let SearchResult { neighbors, statistics, .. } =
        search(args, &index, &queries, probes, filter).map_err(blame)?;
    let search = start.elapsed();
    let k = args.radius.is_none().then_some(args.k);
    let found = Found { neighbors: &neighbors, k, labels: labels.as_ref() };
    found.write(args.out.as_deref(), args.ids.as_deref(), args.distances.as_deref())?;
    let row = |id: u64| match &source.rows {
        Some(rows) => Ok(rows.read(id as usize..id as usize + 1).context("--rows")?.into_f32()),
        None => index.get(&[id]).context("--truth"),
    };
    let recall = truth.as_ref().map(|truth| -> Result<_> {
        let wide = queries.into_f32();
        let queries = MatrixView::new(&wide, source.dim)?;
        let recall =
            truth.score(&neighbors, args.k, &Vectors { metric: index.metric(), queries, row: &row })?;
        Ok((recall, truth.width()))
    });
    let recall = recall.transpose()?;
    let ran = Ran { source: &source, index: &index, probes, filled, search, statistics, recall };
    report(args, &ran, &files::describe(&query_file), &found)
}

/// Checks the files to write.
fn check_outputs(args: &Args) -> Result<()> {
    let outputs = [("--out", &args.out), ("--ids", &args.ids), ("--distances", &args.distances)];
    let outputs = outputs.map(|(argument, path)| (argument, path.as_deref()));
    files::check_outputs(
        &[
            ("--rows", args.rows.as_deref()),
            ("--index-file", args.index_file.as_deref()),
            ("--queries", Some(&args.queries)),
            ("--row-ids", args.row_ids.as_deref()),
            ("--labels", args.labels.as_deref()),
            ("--filter", args.filter.as_deref()),
            ("--truth", args.truth.as_deref()),
        ],
        &outputs,
        args.force,
    )?;
    found::check(args.out.as_deref(), args.radius)
}

/// Tells the user why answers are shorter than asked for.
fn say_what_is_missing(args: &Args, source: &Source<'_>, index: &Index, queries: usize) {
    if index.is_empty() {
        output::note(&format!(
            "{} {} has no rows, so nothing is found",
            source.argument,
            source.path.display()
        ));
    } else if args.radius.is_none() && args.k > index.len() {
        let rows = output::counted(index.len(), "row", "rows");
        output::note(&format!("-k {} is more than the {rows} there are, so answers are shorter", args.k));
    }
    if queries == 0 {
        output::note(&format!("--queries {} has no queries", args.queries.display()));
    }
}

fn search(
    args: &Args,
    index: &Index,
    queries: &Matrix,
    probes: Option<usize>,
    filter: Option<Filter<'_>>,
) -> nearfield::Result<SearchResult> {
    let bar = bar("search", queries.rows());
    let progress = |done: usize| bar.set_position(done as u64);
    if let Some(radius) = args.radius {
        let mut options = WithinOptions::new().progress(&progress);
        options.filter = filter;
        return index.search_within_with(queries, radius, &options);
    }
    let mut options = SearchOptions::new(args.k).progress(&progress);
    (options.probes, options.filter) = (probes, filter);
    index.search_with(queries, &options)
}

/// A search that ran.
struct Ran<'a> {
    source: &'a Source<'a>,
    index: &'a Index,
    probes: Option<usize>,
    filled: Filled,
    search: Duration,
    statistics: Statistics,
    /// Beside the recall, the neighbours a query has in the truth.
    recall: Option<(Recall, usize)>,
}

fn report(args: &Args, ran: &Ran<'_>, queries: &str, found: &Found<'_>) -> Result<()> {
    let Ran { source, index, probes, filled, search, statistics, recall } = ran;
    let (kind, dim, adapter) = (files::kind_name(source.kind), source.dim, index.device().adapter());
    let count = found.neighbors.queries();
    let plan = match args.radius {
        Some(radius) => format!("all rows within {radius}"),
        None => index.plan(count, args.k, *probes)?,
    };
    let rate = count as f64 / search.as_secs_f64().max(1e-9);
    let mut record = json!({
        "rows": index.len(), "queries": count, "dim": dim, "elements": kind,
        "metric": index.metric().name(), "k": found.k, "radius": args.radius, "probes": probes,
        "device": device::to_json(adapter), "plan": plan,
        "load_seconds": filled.load.as_secs_f64(), "upload_seconds": filled.upload.as_secs_f64(),
        "search_seconds": search.as_secs_f64(), "queries_per_second": rate, "found": found.neighbors.hits().len(),
        "screened": index.is_screened(), "rescored": statistics.rescored,
        "searched_exhaustively": statistics.searched_exhaustively, "searched_flat": statistics.searched_flat,
        "searched_again": statistics.searched_again,
        "out": args.out, "ids": args.ids, "distances": args.distances,
    });
    let mut lines = vec![
        ("rows", format!("{} x {dim} {kind}, {}", index.len(), source.path.display())),
        ("queries", queries.to_owned()),
        ("device", adapter.to_string()),
        ("metric", index.metric().to_string()),
        ("plan", plan),
        ("load", output::time(filled.load)),
        ("upload", output::time(filled.upload)),
        ("search", format!("{}, {} queries a second", output::time(*search), output::rate(rate))),
    ];
    if statistics.searched_again > 0 {
        lines.push((
            "again",
            format!("{} searched again", output::queries(statistics.searched_again as usize)),
        ));
    }
    let written = [&args.out, &args.ids, &args.distances];
    lines.extend(written.into_iter().flatten().map(|path| ("wrote", path.display().to_string())));
    let at = recall.as_ref().map(|(recall, _)| format!("recall@{}", recall.at)).unwrap_or_default();
    if let Some((Recall { at: columns, found, origin }, width)) = recall {
        record["recall_at"] = json!(columns);
        record["recall_by_id"] = json!(found.map(|found| found.by_id));
        record["recall_by_distance"] = json!(found.map(|found| found.by_distance));
        record["truth_distances"] = json!(origin);
        let text = match found {
            Some(recall::Found { by_id, by_distance }) => {
                format!("{by_id:.6} by id, {by_distance:.6} by distance")
            }
            None => "nothing to find".to_owned(),
        };
        lines.push((&at, format!("{text} ({origin})")));
        if *columns < args.k {
            lines.push(("", format!("the truth has {width} columns, fewer than k = {}", args.k)));
        }
    }
    let first = found.lines(args.show);
    lines.extend(first.iter().map(|(name, text)| (name.as_str(), text.clone())));
    output::print(args.json, &record, &lines)
}
