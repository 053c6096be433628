//! `nearfield search`: finds the rows of a file nearest to the queries of another.

mod args;
mod documents;
mod found;
mod known;
mod labels;
mod source;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nearfield::io::{Selection, read_selection};
use nearfield::{
    ElementKind, Filter, Index, Matrix, MatrixView, Neighbor, SearchOptions, SearchResult, Statistics,
};
use serde_json::json;

pub(crate) use args::Args;
use found::Found;
use known::Known;
use nearfield_cli::given::device;
use nearfield_cli::given::files::{self, Filled};
use nearfield_cli::recall::{self, Recall, Truth, Vectors};
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;
use source::Source;

/// Queries that are searched to find the probes of --recall.
const RECALL_SAMPLE: usize = 500;

pub(crate) fn run(args: &Args) -> Result<()> {
    // Wrong arguments are refused before anything is sent.
    check_outputs(args)?;
    let source = Source::open(args)?;
    let labels = args.labels.as_deref().map(|path| source.labels(path)).transpose()?;
    let allowed = args.filter.as_ref().map(read_selection).transpose().context("--filter")?;
    let of = (source.dim, source.kind == ElementKind::Bits);
    let query_file = files::open_queries(&args.queries, of, source.argument)?;
    if source.documents.is_some() {
        return documents::run(args, &source, labels.as_ref(), allowed.as_ref(), &query_file);
    }
    args.ensure_fit(query_file.rows())?;
    let truth_of = |rows: usize| -> Result<Option<Truth>> {
        args.truth.as_ref().map(|path| Truth::open(path, query_file.rows(), rows)).transpose()
    };
    let mut truth = source.rows.as_ref().map_or(Ok(None), |rows| truth_of(rows.rows()))?;
    let queries = query_file.read_all().context("--queries")?;
    let devices = args.places.open()?;

    let (index, filled) = source.index(args, &devices)?;
    if source.rows.is_none() {
        // The ids of a saved index are known only now.
        truth = truth_of(index.largest_id().map_or(0, |id| id as usize + 1))?;
    }
    let known = Known {
        words: ["row", "rows"],
        count: index.len(),
        largest: index.largest_id(),
        contains: &|id| index.contains(id),
    };
    known.say_what_is_missing(args, &source, query_file.rows());
    source.check_labels(labels.as_ref(), known.largest)?;
    let allowed_rows = allowed.as_ref().map(|allowed| known.allowed(allowed));
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
    let found = Found { hits: neighbors.iter().collect(), k, labels: labels.as_ref() };
    found.write(args)?;
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
    let ran = Ran {
        source: &source,
        index: &index,
        known: &known,
        probes,
        allowed_rows,
        filled,
        search,
        statistics,
        recall,
    };
    report(args, &ran, &files::describe(&query_file), &found)
}

/// Checks the files to write.
fn check_outputs(args: &Args) -> Result<()> {
    let [ids, distances] = [&args.ids, &args.distances].map(Option::as_deref);
    let outputs = [("--out", args.file()), ("--ids", ids), ("--distances", distances)];
    files::check_outputs(
        &[
            ("--rows", args.rows.as_deref()),
            ("--index-file", args.index_file.as_deref()),
            ("--queries", Some(&args.queries)),
            ("--tokens", args.tokens.as_deref()),
            ("--query-tokens", args.query_tokens.as_deref()),
            ("--row-ids", args.row_ids.as_deref()),
            ("--labels", args.labels.as_deref()),
            ("--filter", args.filter.as_deref()),
            ("--truth", args.truth.as_deref()),
        ],
        &outputs,
        args.force,
    )?;
    args.check()
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
    let options = args.radius.map_or(SearchOptions::new(args.k), SearchOptions::within);
    let mut options = options.progress(&progress);
    (options.probes, options.filter) = (probes, filter);
    index.search_with(queries, &options)
}

/// A search that ran.
struct Ran<'a> {
    source: &'a Source<'a>,
    index: &'a Index,
    known: &'a Known<'a>,
    probes: Option<usize>,
    /// The rows that the filter allows.
    allowed_rows: Option<usize>,
    filled: Filled,
    search: Duration,
    statistics: Statistics,
    /// Beside the recall, the neighbours a query has in the truth.
    recall: Option<(Recall, usize)>,
}

fn report(args: &Args, ran: &Ran<'_>, queries: &str, found: &Found<'_, Neighbor>) -> Result<()> {
    if args.streamed().is_some() {
        return Ok(());
    }
    let Ran { source, index, known, probes, allowed_rows, filled, search, statistics, recall } = ran;
    let (kind, dim, adapter) = (source.kind.name(), source.dim, index.device().adapter());
    let count = found.hits.len();
    let plan = match args.radius {
        Some(radius) => format!("all rows within {radius}"),
        None => index.plan(count, args.k, *probes)?,
    };
    let plan = plan + &known.of_filter(*allowed_rows);
    let rate = count as f64 / search.as_secs_f64().max(1e-9);
    let mut record = json!({
        "rows": index.len(), "queries": count, "dim": dim, "elements": kind,
        "metric": index.metric().name(), "k": found.k, "radius": args.radius.map(output::number), "probes": probes,
        "allowed_rows": allowed_rows,
        "device": device::to_json(adapter), "residency": index.residency().to_string(), "plan": plan,
        "load_seconds": filled.load.as_secs_f64(), "upload_seconds": filled.upload.as_secs_f64(),
        "search_seconds": search.as_secs_f64(), "queries_per_second": rate, "found": found.count(),
        "quantized": index.is_quantized(), "refined": statistics.refined,
        "searched_exhaustively": statistics.searched_exhaustively, "searched_flat": statistics.searched_flat,
        "searched_again": statistics.searched_again,
        "converted": source.rows.as_ref().and_then(|rows| rows.converted()), "out": args.out, "ids": args.ids, "distances": args.distances,
    });
    let mut lines = vec![
        ("rows", source.describe(index)),
        ("queries", queries.to_owned()),
        ("device", device::places(index.devices())),
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
