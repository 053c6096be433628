//! `nearfield search` among documents of several token vectors each, by MaxSim.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nearfield::io::Selection;
use nearfield::{DocumentScore, MaxSimOptions, MultiVector, Ranking, TokenVectors};
use serde_json::json;

use super::args::Args;
use super::found::Found;
use super::known::Known;
use super::labels::Labels;
use super::source::Source;
use nearfield_cli::given::files::{self, Filled};
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::given::{device, documents};
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

pub(super) fn run(
    args: &Args,
    source: &Source<'_>,
    labels: Option<&Labels>,
    allowed: Option<&Selection>,
    query_file: &Vectors,
) -> Result<()> {
    let offsets = args.query_tokens.as_deref();
    let offsets = offsets
        .map(|path| documents::offsets(path, ("--query-tokens", "query"), query_file.rows()))
        .transpose()?;
    // Without offsets all tokens are those of one query.
    let count = offsets.as_ref().map_or(query_file.rows().min(1), |offsets| offsets.len() - 1);
    args.ensure_fit(count)?;
    let tokens = query_file.read_all().context("--queries")?;
    let queries = match &offsets {
        Some(offsets) => TokenVectors::new(&tokens, offsets)?,
        None => TokenVectors::from(&tokens),
    };
    let devices = args.places.open()?;

    let (index, filled) = source.documents(&args.places, &devices)?;
    let known = Known {
        words: ["document", "documents"],
        count: index.len(),
        largest: index.ids()?.last().copied(),
        contains: &|id| index.contains(id),
    };
    known.say_what_is_missing(args, source, count);
    source.check_labels(labels, known.largest)?;
    let allowed_documents = allowed.map(|allowed| known.allowed(allowed));
    let bar = bar("search", count);
    let progress = |done: usize| bar.set_position(done as u64);
    let mut options = MaxSimOptions::new(args.k).progress(&progress);
    (options.probes, options.filter) = (args.probes, allowed.map(Selection::filter));
    let start = Instant::now();
    let ranking = index.search_with(&queries, &options);
    let ranking = ranking.map_err(|error| files::blame(error, "--queries", query_file, 0))?;
    let search = start.elapsed();
    let found = Found { hits: ranking.iter().collect(), k: Some(args.k), labels };
    found.write(args)?;

    let plan = match args.probes {
        Some(probes) => {
            let (tokens, lists) = (options.candidates_per_token, index.lists());
            format!(
                "documents of the {tokens} tokens nearest to each of a query's, in {probes} of {lists} lists"
            )
        }
        None => "all documents".to_owned(),
    };
    let plan = plan + &known.of_filter(allowed_documents);
    let of_queries = format!("{}: {}", output::queries(count), files::describe(query_file));
    let ran = Ran { source, index: &index, allowed_documents, plan, filled, search, ranking: &ranking };
    let devices = device::places(&devices);
    report(args, ran, [of_queries, devices], query_file.rows(), &found)
}

/// A search that ran.
struct Ran<'a> {
    source: &'a Source<'a>,
    index: &'a MultiVector,
    /// The documents that the filter allows.
    allowed_documents: Option<usize>,
    plan: String,
    filled: Filled,
    search: Duration,
    ranking: &'a Ranking,
}

fn report(
    args: &Args,
    ran: Ran<'_>,
    [queries, devices]: [String; 2],
    query_tokens: usize,
    found: &Found<'_, DocumentScore>,
) -> Result<()> {
    if args.streamed().is_some() {
        return Ok(());
    }
    let Ran { source, index, allowed_documents, plan, filled, search, ranking } = ran;
    let (count, statistics) = (ranking.queries(), ranking.statistics());
    let rate = count as f64 / search.as_secs_f64().max(1e-9);
    let record = json!({
        "documents": index.len(), "tokens": index.tokens(), "queries": count, "query_tokens": query_tokens,
        "dim": index.dim(), "elements": index.elements().name(), "k": args.k, "probes": args.probes,
        "allowed_documents": allowed_documents, "device": device::to_json(index.device().adapter()), "plan": plan,
        "load_seconds": filled.load.as_secs_f64(), "upload_seconds": filled.upload.as_secs_f64(),
        "search_seconds": search.as_secs_f64(), "queries_per_second": rate, "found": found.count(),
        "bounded": statistics.bounded, "computed": statistics.computed,
        "converted": source.rows.as_ref().and_then(|rows| rows.converted()), "out": args.out, "ids": args.ids, "scores": args.distances,
    });
    let documents = output::counted(index.len(), "document", "documents");
    let tokens = source.rows.as_ref().map_or_else(
        || format!("{} x {} {}, {}", index.tokens(), index.dim(), index.elements(), source.path.display()),
        files::describe,
    );
    let mut lines = vec![
        ("documents", format!("{documents}: {tokens}")),
        ("queries", queries),
        ("device", devices),
        ("metric", "MaxSim: larger scores are nearer".to_owned()),
        ("plan", plan),
        ("load", output::time(filled.load)),
        ("upload", output::time(filled.upload)),
        ("search", format!("{}, {} queries a second", output::time(search), output::rate(rate))),
    ];
    let written = [&args.out, &args.ids, &args.distances];
    lines.extend(written.into_iter().flatten().map(|path| ("wrote", path.display().to_string())));
    let first = found.lines(args.show);
    lines.extend(first.iter().map(|(name, text)| (name.as_str(), text.clone())));
    output::print(args.json, &record, &lines)
}
