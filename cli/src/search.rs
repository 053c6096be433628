//! `nearfield search`: finds the rows of a file nearest to the queries of another.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield::io::VectorFile;
use nearfield::{
    Device, ElementKind, Flat, Index, Matrix, MatrixView, Metric, Neighbor, Neighbors, SavedIndex, Screen,
    SearchOptions, Statistics,
};
use serde_json::json;

use crate::device::{self, Choice};
use crate::files::{self, Filled};
use crate::output;
use crate::progress::bar;
use crate::recall::{Found, Recall, Truth, Vectors};

const LONG: &str = "\
Find the rows of a file, or of a saved index, that are nearest to each query of another file.

Files are .npy, .npz (FILE.npz:MEMBER names a member), .fvecs, .bvecs, .fbin, .f16bin, .u8bin and .i8bin. \
Rows are sent to the device piece by piece, so a file may be larger than the memory; f16 rows stay f16. The id of a row is its \
number in the file. --index-file searches an index that `nearfield build` saved. The search time includes compiling the kernels.

--json prints one object, in one line:
  rows, queries, dim  counts
  elements            f32 or f16, how rows are stored
  metric, k           as requested
  device              {name, backend, driver, kind}
  plan                how the search ran, as text
  load_seconds        reading the rows, or reading and sending the index
  upload_seconds      sending them to the device
  search_seconds      searching all queries
  queries_per_second  queries / search_seconds
  rescored            nominated rows whose reported distance was computed, over all queries
  screened            whether a copy of the rows in 8-bit integers was kept
  searched_again      queries with too many nominated rows, which were searched another way
  searched_exhaustively  those of them for which every row was computed
  searched_flat       queries for which all rows were searched, because their lists would have taken no less time
  ids, distances      the written files, or null
and with --truth:
  recall_at           compared neighbours: k, or the truth's columns if these are fewer
  recall_by_id        part of the true ids that was found, or null for an empty truth
  recall_by_distance  part of the results no farther than the last true one + 1e-3, or null
  truth_distances     source of the true distances: \"file\"; \"file, negated\" for inner
                      products that are larger for nearer rows; or \"recomputed\" from the
                      true ids, if the file has none or those of another metric";

const EXAMPLES: &str = "\
Examples:
  nearfield search --rows base.npy --queries query.npy --k 100 --metric cosine --ids ids.npy
  nearfield search --rows sift.fvecs --queries sift_query.fvecs --truth sift_groundtruth.ivecs
  nearfield search --rows base.npz:train --queries base.npz:test --device radeon --json
  nearfield search --index-file index.nf --queries query.npy -k 10 --probes 16";

#[derive(Debug, clap::Args)]
#[command(about = "Find the rows of a file, or of an index, nearest to the queries of another file", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows to search
    #[arg(long, value_name = "FILE", required_unless_present = "index_file")]
    rows: Option<PathBuf>,
    /// Index to search, saved by `nearfield build`
    #[arg(long, value_name = "INDEX.nf", conflicts_with_all = ["rows", "metric", "screen"])]
    index_file: Option<PathBuf>,
    /// Lists of an ivf index that a query probes; by default a 64th of them
    #[arg(long, value_name = "N", value_parser = crate::arguments::count, conflicts_with = "rows")]
    probes: Option<usize>,
    /// File of the queries
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Neighbours per query
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = crate::arguments::count)]
    k: usize,
    /// Metric: l2sq, l2, cosine or ip (the inner product, negated)
    #[arg(long, value_name = "METRIC", default_value = "l2sq")]
    metric: Metric,
    /// Copy of the rows in 8-bit integers, which excludes most rows without changing the answers: auto, none or i8
    #[arg(long, value_name = "SCREEN", default_value = "auto")]
    screen: Screen,
    #[command(flatten)]
    device: Choice,
    /// Write ids, i64 [queries, k], to this npy, padded with -1
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    ids: Option<PathBuf>,
    /// Write distances, f32 [queries, k], to this npy, padded with NaN
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    distances: Option<PathBuf>,
    /// True ids (.npy, .npz with a member ids, .ivecs, .ibin, .bin): print recall@k
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The rows to search: those of a file, or of a saved index.
struct Source<'a> {
    argument: &'static str,
    path: &'a Path,
    dim: usize,
    kind: ElementKind,
    /// None for a saved index.
    rows: Option<VectorFile>,
}

impl<'a> Source<'a> {
    fn open(args: &'a Args) -> Result<Self> {
        if let Some(path) = &args.index_file {
            let about = SavedIndex::read(path).context("--index-file")?;
            if let Some(probes) = args.probes {
                let flat = || format!("--probes: needed an ivf index, {} is flat", path.display());
                let lists = about.lists.with_context(flat)?;
                let needed = format!("--probes: needed 1 to {lists}, the number of lists");
                ensure!(probes <= lists, "{needed}, given {probes}");
            }
            return Ok(Self {
                argument: "--index-file",
                path,
                dim: about.dim,
                kind: about.elements,
                rows: None,
            });
        }
        let path = args.rows.as_ref().context("--rows: needed a file, or --index-file, given neither")?;
        let rows = VectorFile::open(path).context("--rows")?;
        Ok(Self { argument: "--rows", path, dim: rows.dim(), kind: rows.kind(), rows: Some(rows) })
    }

    /// Brings the index to the device, and returns the time it took.
    fn index(&self, args: &Args, device: &Device) -> Result<(Index, Filled)> {
        if let Some(rows) = &self.rows {
            let builder = Flat::builder(device, args.metric, rows.dim()).elements(rows.kind());
            let mut index = builder.capacity(rows.rows()).screen(args.screen).build()?.into();
            let filled = files::fill(&mut index, rows)?;
            return Ok((index, filled));
        }
        let start = Instant::now();
        let index = Index::load(device, self.path).context("--index-file")?;
        Ok((index, Filled { load: start.elapsed(), upload: Duration::ZERO }))
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Wrong arguments are refused before anything is sent.
    let (ids, distances) = (args.ids.as_deref(), args.distances.as_deref());
    files::refuse_overwriting(
        &[
            ("--rows", args.rows.as_deref()),
            ("--index-file", args.index_file.as_deref()),
            ("--queries", Some(&args.queries)),
            ("--truth", args.truth.as_deref()),
        ],
        &[("--ids", ids), ("--distances", distances)],
    )?;
    let source = Source::open(args)?;
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
    let (found, statistics, search) =
        search(&index, &queries, args).map_err(|error| files::blame(error, "--queries", &query_file, 0))?;
    let id = |hit: &Neighbor| i64::try_from(hit.id).unwrap_or(-1);
    files::write_neighbors("--ids", ids, (&found, args.k), -1, id)?;
    files::write_neighbors("--distances", distances, (&found, args.k), f32::NAN, |hit| hit.distance)?;
    let row = |id: u64| match &source.rows {
        Some(rows) => Ok(rows.read(id as usize..id as usize + 1).context("--rows")?.into_f32()),
        None => index.get(&[id]).context("--truth"),
    };
    let wide = queries.into_f32();
    let queries = MatrixView::new(&wide, source.dim)?;
    let vectors = Vectors { metric: index.metric(), queries, row: &row };
    let recall = truth.as_ref().map(|truth| truth.score(&found, args.k, &vectors)).transpose()?;

    let (kind, dim, adapter) = (files::kind_name(source.kind), source.dim, index.device().adapter());
    let plan = index.plan(found.queries(), args.k, args.probes)?;
    let rate = found.queries() as f64 / search.as_secs_f64().max(1e-9);
    let mut record = json!({
        "rows": index.len(), "queries": found.queries(), "dim": dim, "elements": kind,
        "metric": index.metric().name(), "k": args.k, "device": device::to_json(adapter), "plan": plan,
        "load_seconds": filled.load.as_secs_f64(), "upload_seconds": filled.upload.as_secs_f64(),
        "search_seconds": search.as_secs_f64(), "queries_per_second": rate, "screened": index.is_screened(),
        "searched_exhaustively": statistics.searched_exhaustively, "rescored": statistics.rescored,
        "searched_flat": statistics.searched_flat,
        "searched_again": statistics.searched_again, "ids": ids, "distances": distances,
    });
    let mut lines = vec![
        ("rows", format!("{} x {dim} {kind}, {}", index.len(), source.path.display())),
        ("queries", files::describe(&query_file)),
        ("device", adapter.to_string()),
        ("metric", index.metric().to_string()),
        ("plan", plan),
        ("load", output::time(filled.load)),
        ("upload", output::time(filled.upload)),
        ("search", format!("{}, {} queries a second", output::time(search), output::rate(rate))),
        ("again", format!("{} queries were searched again", statistics.searched_again)),
    ];
    lines.extend([ids, distances].into_iter().flatten().map(|path| ("wrote", path.display().to_string())));
    let at = recall.as_ref().map(|recall| format!("recall@{}", recall.at)).unwrap_or_default();
    if let (Some(Recall { at: columns, found, origin }), Some(truth)) = (recall, &truth) {
        record["recall_at"] = json!(columns);
        record["recall_by_id"] = json!(found.map(|found| found.by_id));
        record["recall_by_distance"] = json!(found.map(|found| found.by_distance));
        record["truth_distances"] = json!(origin);
        let text = match found {
            Some(Found { by_id, by_distance }) => format!("{by_id:.6} by id, {by_distance:.6} by distance"),
            None => "nothing to find".to_owned(),
        };
        lines.push((&at, format!("{text} ({origin})")));
        if columns < args.k {
            let width = truth.width();
            lines.push(("", format!("the truth has {width} columns, fewer than k = {}", args.k)));
        }
    }
    output::print(args.json, &record, &lines)
}

fn search(
    index: &Index,
    queries: &Matrix,
    args: &Args,
) -> nearfield::Result<(Neighbors, Statistics, Duration)> {
    let bar = bar("search", queries.rows());
    let progress = |done: usize| bar.set_position(done as u64);
    let mut options = SearchOptions::new(args.k).progress(&progress);
    options.probes = args.probes;
    let start = Instant::now();
    let found = index.search_with(queries, &options)?;
    Ok((found.neighbors, found.statistics, start.elapsed()))
}
