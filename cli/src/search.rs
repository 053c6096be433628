//! `nearfield search`: finds the rows of a file nearest to the queries of another.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nearfield::io::VectorFile;
use nearfield::{
    Device, ElementKind, Flat, Index, Matrix, Metric, Neighbors, SavedIndex, Screen, SearchOptions,
    Statistics,
};
use serde_json::json;

use crate::device::{self, Choice};
use crate::files::{self, Filled};
use crate::output;
use crate::progress::Bar;
use crate::recall::{Recall, Truth};

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

/// Arguments of `nearfield search`.
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
    #[arg(long, value_name = "METRIC", default_value = "l2sq", value_parser = crate::arguments::metric)]
    metric: Metric,
    /// Copy of the rows in 8-bit integers, which excludes most rows without changing the answers: auto, none or i8
    #[arg(long, value_name = "SCREEN", default_value = "auto", value_parser = crate::arguments::screen)]
    screen: Screen,
    #[command(flatten)]
    device: Choice,
    /// Write ids, i64 [queries, k], to this npy, padded with -1
    #[arg(long, value_name = "OUT.npy", value_parser = files::output_path)]
    ids: Option<PathBuf>,
    /// Write distances, f32 [queries, k], to this npy, padded with NaN
    #[arg(long, value_name = "OUT.npy", value_parser = files::output_path)]
    distances: Option<PathBuf>,
    /// True ids (.npy, .npz with a member ids, .ivecs, .ibin, .bin): print recall@k
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The rows to search.
enum Source<'a> {
    Rows(VectorFile),
    Saved(&'a Path, SavedIndex),
}

impl<'a> Source<'a> {
    fn open(args: &'a Args) -> Result<Self> {
        match (&args.rows, &args.index_file) {
            (_, Some(path)) => Ok(Self::Saved(path, SavedIndex::read(path).context("--index-file")?)),
            (Some(path), None) => Ok(Self::Rows(VectorFile::open(path).context("--rows")?)),
            (None, None) => Err(anyhow!("--rows: needed a file, or --index-file, given neither")),
        }
    }

    fn argument(&self) -> &'static str {
        match self {
            Self::Rows(_) => "--rows",
            Self::Saved(..) => "--index-file",
        }
    }

    fn dim(&self) -> usize {
        match self {
            Self::Rows(file) => file.dim(),
            Self::Saved(_, about) => about.dim,
        }
    }

    fn kind(&self) -> ElementKind {
        match self {
            Self::Rows(file) => file.kind(),
            Self::Saved(_, about) => about.elements,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Rows(file) => file.path(),
            Self::Saved(path, _) => path,
        }
    }

    /// Checks that the index has this number of lists.
    fn check_probes(&self, probes: Option<usize>) -> Result<()> {
        let (Self::Saved(path, about), Some(probes)) = (self, probes) else { return Ok(()) };
        let lists = about
            .lists
            .with_context(|| format!("--probes: needed an ivf index, {} is flat", path.display()))?;
        ensure!(probes <= lists, "--probes: needed 1 to {lists}, the number of lists, given {probes}");
        Ok(())
    }

    /// Brings the index to the device, and returns the time it took.
    fn index(&self, args: &Args, device: &Device) -> Result<(Index, Filled)> {
        match self {
            Self::Rows(rows) => {
                let builder = Flat::builder(device, args.metric, rows.dim()).elements(rows.kind());
                let mut index = builder.capacity(rows.rows()).screen(args.screen).build()?.into();
                let filled = files::fill(&mut index, rows)?;
                Ok((index, filled))
            }
            Self::Saved(path, _) => {
                let start = Instant::now();
                let index = Index::load(device, path).context("--index-file")?;
                Ok((index, Filled { load: start.elapsed(), upload: Duration::ZERO }))
            }
        }
    }
}

/// The outcome of a search.
struct Outcome {
    found: Neighbors,
    statistics: Statistics,
    filled: Filled,
    search: Duration,
    recall: Option<Recall>,
}

/// Searches, writes the results, and prints a summary.
pub(crate) fn run(args: &Args) -> Result<()> {
    // Wrong arguments are refused before anything is sent.
    files::refuse_overwriting(
        &[
            ("--rows", args.rows.as_deref()),
            ("--index-file", args.index_file.as_deref()),
            ("--queries", Some(&args.queries)),
            ("--truth", args.truth.as_deref()),
        ],
        &[("--ids", args.ids.as_deref()), ("--distances", args.distances.as_deref())],
    )?;
    let source = Source::open(args)?;
    source.check_probes(args.probes)?;
    let query_file = files::open_queries(&args.queries, source.dim(), source.argument())?;
    let truth_of = |path: &PathBuf, rows| Truth::open(path, query_file.rows(), rows);
    let mut truth = match (&args.truth, &source) {
        (Some(path), Source::Rows(rows)) => Some(truth_of(path, rows.rows())?),
        _ => None,
    };
    let queries = query_file.read_all().context("--queries")?;
    let device = args.device.open()?;

    let (index, filled) = source.index(args, &device)?;
    if let (Some(path), Source::Saved(..)) = (&args.truth, &source) {
        // The ids of a saved index are known only now.
        truth = Some(truth_of(path, index.ids().last().map_or(0, |id| id as usize + 1))?);
    }
    let (found, statistics, search) =
        search(&index, &queries, args).map_err(|error| files::blame(error, "--queries", &query_file, 0))?;
    if let Some(path) = &args.ids {
        files::write_ids(path, &found, args.k)?;
    }
    if let Some(path) = &args.distances {
        files::write_distances(path, &found, args.k)?;
    }
    let row = |id: u64| match &source {
        Source::Rows(rows) => Ok(rows.read(id as usize..id as usize + 1).context("--rows")?.into_f32()),
        Source::Saved(..) => index.get(&[id]).context("--truth"),
    };
    let recall = truth
        .as_ref()
        .map(|truth| truth.score(&found, args.k, index.metric(), &row, &queries))
        .transpose()?;
    let outcome = Outcome { found, statistics, filled, search, recall };
    if args.json {
        print_json(args, &index, &source, &outcome)
    } else {
        print_text(args, &index, (&source, &query_file), &outcome, truth.as_ref().map(Truth::width))
    }
}

fn search(
    index: &Index,
    queries: &Matrix,
    args: &Args,
) -> nearfield::Result<(Neighbors, Statistics, Duration)> {
    let bar = Bar::new("search", queries.rows());
    let progress = |done: usize| bar.set(done);
    let mut options = SearchOptions::new(args.k).progress(&progress);
    options.probes = args.probes;
    let start = Instant::now();
    let found = index.search_with(queries, &options)?;
    Ok((found.neighbors, found.statistics, start.elapsed()))
}

impl Outcome {
    fn queries_per_second(&self) -> f64 {
        self.found.queries() as f64 / self.search.as_secs_f64().max(1e-9)
    }
}

fn print_text(
    args: &Args,
    index: &Index,
    (source, queries): (&Source<'_>, &VectorFile),
    outcome: &Outcome,
    truth_width: Option<usize>,
) -> Result<()> {
    let mut out = stdout().lock();
    let (kind, dim) = (files::kind_name(source.kind()), source.dim());
    writeln!(out, "rows       {} x {dim} {kind}, {}", index.len(), source.path().display())?;
    let kind = files::kind_name(queries.kind());
    writeln!(out, "queries    {} x {dim} {kind}, {}", queries.rows(), queries.path().display())?;
    writeln!(out, "device     {}", index.device().adapter())?;
    writeln!(out, "metric     {}", index.metric())?;
    writeln!(out, "plan       {}", index.plan(outcome.found.queries(), args.k, args.probes)?)?;
    writeln!(out, "load       {}", output::time(outcome.filled.load))?;
    writeln!(out, "upload     {}", output::time(outcome.filled.upload))?;
    let search = output::time(outcome.search);
    writeln!(out, "search     {search}, {} queries a second", output::rate(outcome.queries_per_second()))?;
    writeln!(out, "again      {} queries were searched again", outcome.statistics.searched_again)?;
    for path in [&args.ids, &args.distances].into_iter().flatten() {
        writeln!(out, "wrote      {}", path.display())?;
    }
    if let (Some(recall), Some(width)) = (&outcome.recall, truth_width) {
        let part = |part: Option<f64>| part.map_or("nothing to find".to_owned(), |part| format!("{part:.6}"));
        let (by_id, by_distance) = (part(recall.by_id), part(recall.by_distance));
        let origin = recall.origin.name();
        writeln!(out, "recall@{:<3} {by_id} by id, {by_distance} by distance ({origin})", recall.at)?;
        if recall.at < args.k {
            writeln!(out, "           the truth has {width} columns, fewer than k = {}", args.k)?;
        }
    }
    Ok(out.flush()?)
}

fn print_json(args: &Args, index: &Index, source: &Source<'_>, outcome: &Outcome) -> Result<()> {
    let mut record = json!({
        "rows": index.len(),
        "queries": outcome.found.queries(),
        "dim": source.dim(),
        "elements": files::kind_name(source.kind()),
        "metric": index.metric().name(),
        "k": args.k,
        "device": device::to_json(index.device().adapter()),
        "plan": index.plan(outcome.found.queries(), args.k, args.probes)?,
        "load_seconds": outcome.filled.load.as_secs_f64(),
        "upload_seconds": outcome.filled.upload.as_secs_f64(),
        "search_seconds": outcome.search.as_secs_f64(),
        "queries_per_second": outcome.queries_per_second(),
        "screened": index.is_screened(),
        "searched_exhaustively": outcome.statistics.searched_exhaustively,
        "rescored": outcome.statistics.rescored,
        "searched_again": outcome.statistics.searched_again,
        "ids": args.ids,
        "distances": args.distances,
    });
    if let Some(recall) = &outcome.recall {
        record["recall_at"] = json!(recall.at);
        record["recall_by_id"] = json!(recall.by_id);
        record["recall_by_distance"] = json!(recall.by_distance);
        record["truth_distances"] = json!(recall.origin.name());
    }
    let mut out = stdout().lock();
    writeln!(out, "{record}")?;
    Ok(out.flush()?)
}
