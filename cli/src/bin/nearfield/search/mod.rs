//! `nearfield search`: finds the rows of a file nearest to the queries of another.

mod args;
mod found;
mod labels;
mod source;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nearfield::io::{Selection, read_selection};
use nearfield::{ElementKind, Filter, Index, Matrix, MatrixView, SearchOptions, SearchResult, Statistics};
use serde_json::json;

pub(crate) use args::Args;
use found::Found;
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
    say_what_is_missing(args, &source, &index, query_file.rows());
    let last = index.largest_id();
    if let (Some(labels), Some(last), None) = (&labels, last, &source.rows) {
        labels.check_until(last)?;
    }
    let allowed_rows = allowed.as_ref().map(|allowed| allowed_rows(allowed, &index));
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
    let ran =
        Ran { source: &source, index: &index, probes, allowed_rows, filled, search, statistics, recall };
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
    args.check()
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

/// The number of rows that a filter allows. Tells the user which part of it is of no row, and which rows it does not cover.
fn allowed_rows(allowed: &Selection, index: &Index) -> usize {
    let last = index.largest_id();
    // Looking up an id takes time, so an index whose ids are the row numbers compares with its last one.
    let are_numbers = last.is_none_or(|last| last + 1 == index.len() as u64);
    let is_known = |id: u64| if are_numbers { Some(id) <= last } else { index.contains(id) };
    let known = |ids: &mut dyn Iterator<Item = u64>| {
        ids.fold([0, 0], |[known, all], id| [known + usize::from(is_known(id)), all + 1])
    };
    let [known, all] = match allowed {
        Selection::Ids(ids) => known(&mut ids.iter().copied()),
        Selection::Mask { words, len } => {
            known(&mut (0..*len as u64).filter(|id| words[(id / 64) as usize] >> (id % 64) & 1 == 1))
        }
        _ => [0, 0],
    };
    if known < all {
        output::note(&format!("--filter: {} of {all} ids are those of no row", all - known));
    }
    if let (&Selection::Mask { len, .. }, Some(last)) = (allowed, last)
        && last >= len as u64
    {
        let rest = format!("rows with ids from {len} to {last} are left out");
        output::note(&format!("--filter: the mask has {len} elements, so {rest}"));
    }
    known
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
    probes: Option<usize>,
    /// The rows that the filter allows.
    allowed_rows: Option<usize>,
    filled: Filled,
    search: Duration,
    statistics: Statistics,
    /// Beside the recall, the neighbours a query has in the truth.
    recall: Option<(Recall, usize)>,
}

fn report(args: &Args, ran: &Ran<'_>, queries: &str, found: &Found<'_>) -> Result<()> {
    let Ran { source, index, probes, allowed_rows, filled, search, statistics, recall } = ran;
    let (kind, dim, adapter) = (source.kind.name(), source.dim, index.device().adapter());
    let count = found.neighbors.queries();
    let plan = match args.radius {
        Some(radius) => format!("all rows within {radius}"),
        None => index.plan(count, args.k, *probes)?,
    };
    let filter = allowed_rows.map_or_else(String::new, |allowed| {
        format!("; the filter allows {allowed} of {}", output::counted(index.len(), "row", "rows"))
    });
    let plan = plan + &filter;
    let rate = count as f64 / search.as_secs_f64().max(1e-9);
    let mut record = json!({
        "rows": index.len(), "queries": count, "dim": dim, "elements": kind,
        "metric": index.metric().name(), "k": found.k, "radius": args.radius.map(output::number), "probes": probes,
        "allowed_rows": allowed_rows,
        "device": device::to_json(adapter), "residency": index.residency().to_string(), "plan": plan,
        "load_seconds": filled.load.as_secs_f64(), "upload_seconds": filled.upload.as_secs_f64(),
        "search_seconds": search.as_secs_f64(), "queries_per_second": rate, "found": found.neighbors.hits().len(),
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
