//! `nearfield-bench exact`: exact search, from host queries to host results.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nearfield::{
    ElementKind, Flat, Metric, Neighbors, Plan, Quantization, Residency, Route, ScreenKernel, SearchOptions,
    SearchResult,
};
use serde_json::json;

use crate::allowed::{Allowed, Mask, found};
use crate::answers;
use crate::case::Case;
use crate::ceilings::{Unit, Work};
use crate::data::{BATCHES, Source, Stored, View, batches};
use crate::run::{Run, Suite};
use crate::times::Parts;
use crate::units::{milliseconds, rounded};
use nearfield_cli::terminal::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of queries, one case each; 1,1024, or as many as a file has
    #[arg(long = "batch", value_delimiter = ',', value_name = "Q,…", value_parser = nearfield_cli::given::arguments::count)]
    queries: Vec<usize>,
    /// Numbers of rows, one case each
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = nearfield_cli::given::arguments::count)]
    sizes: Vec<usize>,
    /// Neighbours per query, one case each
    #[arg(short, long, value_delimiter = ',', default_value = "10", value_name = "K,…", value_parser = nearfield_cli::given::arguments::count)]
    k: Vec<usize>,
    /// Metrics, one case each: l2sq, l2, cosine, ip
    #[arg(long, value_delimiter = ',', default_value = "cosine", value_name = "METRIC,…", value_parser = nearfield_cli::given::arguments::word::<Metric>)]
    metric: Vec<Metric>,
    /// Queries of a case whose answers are checked against f64: as many of each batch, at least one and at most all that are searched
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    verify: usize,
    /// 8-bit copy of the rows, which excludes most rows early, one case each: auto, none, int8
    #[arg(long, value_delimiter = ',', default_value = "auto", value_name = "QUANTIZATION,…", value_parser = nearfield_cli::given::arguments::word::<Quantization>)]
    quantization: Vec<Quantization>,
    /// How rows are stored: f32, f16, bf16, i8 or u8. Vectors are rounded to it, for integers after scaling each to the range of the type
    #[arg(long, default_value = "f32", value_name = "TYPE", value_parser = nearfield_cli::given::arguments::word::<ElementKind>)]
    elements: ElementKind,
    #[command(flatten)]
    allowed: Allowed,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench exact --count 1000000 --dim 768 --batch 1,1024 --metric cosine,l2sq
  nearfield-bench exact --rows base.npy --queries query.npy -k 100 --json
  nearfield-bench exact --count 1000000 --dim 768 --device all --distribution replicated
  nearfield-bench exact --count 1000000 --dim 768 --residency host --batch 1,1024,10000
  nearfield-bench exact --count 1000000 --sizes 500000,1000000 --memory 1GiB --report out
  nearfield-bench exact --rows base.fbin --queries query.fbin --residency mapped
  nearfield-bench exact --count 1000000 --dim 128 --sizes 1000,10000,100000,1000000 --report out
  nearfield-bench exact --count 1000000 --dim 768 --data embedding --elements i8 --batch 1,10000
  nearfield-bench exact --count 10000000 --dim 128 --elements bits --metric hamming --batch 1,10000
  nearfield-bench exact --count 1000000 --dim 128 --allowed 0.0001,0.01,0.1,0.5,1

`share` refers to the whole search, `scoring_share` to its scoring stage. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

const QUERIES: [usize; 2] = [1, 1024];

impl Suite for Args {
    fn takes_places(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Run) -> Result<()> {
        let file = self.source.rows_file.as_deref();
        let mapped = run.places.as_ref().map_or(Ok(None), |places| places.mapped(file))?;
        if let (Some(_), Some(size)) = (mapped, self.sizes.first()) {
            bail!(
                "--sizes: needed none with --residency mapped, which takes all rows of a file, given {size}"
            );
        }
        let counts = self.source.counts(&self.queries, &QUERIES)?;
        let (mut rows, mut queries) = self.source.both_at_least(&counts, BATCHES)?;
        if self.elements != ElementKind::F32 {
            rows.round_to(self.elements);
            queries.round_to(self.elements);
        }
        let (rows, queries) = (rows.view()?, queries.view()?);
        let sizes = self.source.sizes(&self.sizes, rows)?;
        let each = self.k.len() * counts.len() * self.allowed.parts.len().max(1);
        run.begin("exact", sizes.len() * self.metric.len() * self.quantization.len() * each)?;
        let mut is_first = true;
        for size in sizes {
            let masks = self.allowed.masks(size)?;
            for &metric in &self.metric {
                for &quantization in &self.quantization {
                    let rows = rows.slice(0..size);
                    // Nothing is built without time left.
                    let of = format!("{size} x {} {}, {}", rows.dim(), self.source.name(), metric.name());
                    if run.is_over(&of)? {
                        continue;
                    }
                    if is_first {
                        // The first upload also pays for compiling a kernel and for fresh staging memory.
                        tell_first(self, run, (metric, quantization), rows, (queries, &counts))?;
                        is_first = false;
                    }
                    let (index, [_, time]) =
                        filled((&self.source, self.elements), run, (metric, quantization), rows)?;
                    tell_upload(self, run, rows, time)?;
                    // Threads that still compile would slow down the device and the host.
                    index.warm_up()?;
                    for (mask, &k) in masks.iter().flat_map(|mask| self.k.iter().map(move |k| (mask, k))) {
                        for &count in &counts {
                            case(self, run, (&index, rows, mask.as_ref()), (queries, count), k)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// An index with all rows, and the times to make it and to fill it.
pub(super) fn filled(
    (source, elements): (&Source, ElementKind),
    run: &Run,
    (metric, quantization): (Metric, Quantization),
    rows: View<'_>,
) -> Result<(Flat, [Duration; 2])> {
    let stored = Stored::new(rows, elements)?;
    let started = Instant::now();
    let builder = Flat::builder(&run.devices, metric, rows.dim()).quantization(quantization);
    let mut builder = builder.elements(elements);
    let mut is_mapped = false;
    if let Some(places) = &run.places {
        builder = builder.distribution(places.distribution).residency(places.residency);
        if let Some(file) = places.mapped(source.rows_file.as_deref())? {
            (builder, is_mapped) = (builder.mapped(file), true);
        }
    }
    let mut index = builder.build()?;
    let made = started.elapsed();
    if is_mapped {
        return Ok((index, [Duration::ZERO, made]));
    }
    index
        .add(stored.vectors())
        .with_context(|| format!("--count: {} rows of dim {}", rows.rows(), rows.dim()))?;
    Ok((index, [made, started.elapsed() - made]))
}

fn case(
    args: &Args,
    run: &mut Run,
    (index, rows, mask): (&Flat, View<'_>, Option<&Mask>),
    (queries, count): (View<'_>, usize),
    k: usize,
) -> Result<()> {
    let plan = index.plan(count, k)?;
    let mut options = SearchOptions::new(k);
    options.filter = mask.map(Mask::filter);
    let identity = json!({
        "rows": index.len(), "dim": index.dim(), "queries": count, "k": k, "metric": index.metric().name(),
        "data": args.source.name_of(index.len()), "screened": index.is_quantized(), "scratch": run.scratch(),
        "places": run.of_places(index.residency(), plan.windows > 0), "allowed": mask.map(|mask| mask.part),
        "contiguous": mask.map(|_| args.allowed.contiguous),
        "elements": (args.elements != ElementKind::F32).then(|| args.elements.name()),
    });
    let Some(mut case) = run.start(identity)? else { return Ok(()) };
    let batches = batches(queries, count);
    let asked: Vec<Stored<'_>> =
        batches.iter().map(|&queries| Stored::new(queries, args.elements)).collect::<Result<_>>()?;
    // The first search compiles kernels and fills the pool.
    let (mut answers, mut verified) = (vec![], 0);
    let (mut scored, mut refined, mut searched_again, mut searched_exhaustively) = (0, 0, 0, 0);
    let checked = args.verify.div_ceil(batches.len()).min(count);
    for (&queries, asked) in batches.iter().zip(&asked) {
        let found = index.search_with(asked.vectors(), &options)?;
        let SearchResult { neighbors: answer, statistics, .. } = found;
        verify(index.metric(), (rows, mask), queries, &answer, k, checked)?;
        verified += checked;
        answers.push(answer);
        scored += statistics.scored;
        refined += statistics.refined;
        searched_again += statistics.searched_again;
        searched_exhaustively += statistics.searched_exhaustively;
    }
    let mut parts = Parts::default();
    let turn = |number: usize| (asked[number % asked.len()].vectors(), &answers[number % asked.len()]);
    let (wall, on_device) = run.time(
        1,
        |number| {
            let (queries, answer) = turn(number);
            answers::timed(answer, || Ok(index.search_with(queries, &options)?.neighbors))
        },
        |number| {
            let (queries, answer) = turn(number);
            let mut stages = None;
            answers::timed(answer, || {
                let found = index.search_with(queries, &options.clone().profile(true))?;
                stages = parts.add(&found.statistics.stages);
                Ok(found.neighbors)
            })?;
            Ok(stages)
        },
    )?;
    let found = parts.medians();
    // The least work under a filter is not that of the plan.
    let (work, scoring) = if mask.is_some() { (None, None) } else { work(index, &plan, count) };
    let scoring = scoring.and_then(|stage| Some(found.0.get(stage)?.0)).zip(work);
    let scoring_share = scoring.and_then(|(time, work)| Some(run.reached(&work, time)?.bound?.1));
    let survivors = refined as f64 / (count * batches.len()) as f64;
    let queries_per_s = count as f64 / wall.median.as_secs_f64();
    let mut details = vec![
        plan.to_string(),
        format!(
            "{verified} answers verified, {survivors:.1} rows a query survived, {searched_again} queries searched again, {searched_exhaustively} of them exhaustively",
        ),
    ];
    details.extend(found.texts());
    case.add(json!({
        "devices": index.devices().len(), "residency": index.residency().to_string(),
        "device_bytes": index.memory().at(Residency::Device), "queries_per_s": rounded(queries_per_s),
        "plan": plan.to_string(), "stages": found.to_json(), "scoring_share": scoring_share.map(rounded), "scored": scored,
        "refined": refined,
        "survivors_per_query": rounded(survivors), "searched_again": searched_again,
        "searched_exhaustively": searched_exhaustively,
    }));
    run.case(Case {
        wall,
        on_device,
        work,
        verified: json!(verified),
        rotated: batches.len(),
        remarks: vec![format!("{queries_per_s:.0} queries/s")],
        details,
        ..case
    })
}

/// The least work of a search, and the stage that does most of it.
fn work(index: &Flat, plan: &Plan, queries: usize) -> (Option<Work>, Option<&'static str>) {
    let (dim, rows) = (index.dim(), index.len() as f64);
    let (unit, stage) = match plan.route() {
        Route::Screened { kernel, .. } => match kernel {
            ScreenKernel::Scan => (Unit::Floats, Some("distance_scan")),
            ScreenKernel::Tile => (Unit::Floats, Some("distance_tile")),
            ScreenKernel::ScanI8 => (Unit::Integers, Some("screen_scan_i8")),
            // A row of bits has as many bytes as one of integers of its dim.
            ScreenKernel::ScanBits => (Unit::Integers, Some("screen_scan_i8")),
            ScreenKernel::TileI8 => (Unit::Integers, Some("collect_tile_i8")),
            ScreenKernel::TileBitsCoop => (Unit::Integers, Some("collect_tile_coop")),
            ScreenKernel::TileCoop => (Unit::Matrices, Some("collect_tile_coop")),
            _ => return (None, None),
        },
        Route::Host { is_screened: true } => (Unit::Integers, None),
        _ => (Unit::Floats, None),
    };
    let bytes = rows * unit.row_bytes(dim);
    let operations = 2.0 * rows * dim as f64 * queries as f64;
    (Some(Work { bytes, operations, unit, working_set: bytes }), stage)
}

/// Makes an index, fills it and searches it, and tells how long each step took: on a new device they wait for the compiler.
fn tell_first(
    args: &Args,
    run: &mut Run,
    (metric, quantization): (Metric, Quantization),
    rows: View<'_>,
    (queries, counts): (View<'_>, &[usize]),
) -> Result<()> {
    let (index, times) = filled((&args.source, args.elements), run, (metric, quantization), rows)?;
    let [made, filling] = times.map(milliseconds);
    let mut searches = vec![];
    for &count in counts {
        let asked = Stored::new(queries.slice(0..count), args.elements)?;
        let started = Instant::now();
        // The case that searches for them tells what is wrong.
        let Ok(_) = index.search(asked.vectors(), args.k[0]) else { break };
        searches.push((count, milliseconds(started.elapsed())));
    }
    let records = searches.iter().map(|(count, ms)| json!({ "queries": count, "ms": ms }));
    let line = json!({
        "record": "first", "suite": "exact", "rows": rows.rows(), "dim": rows.dim(), "index_ms": made,
        "rows_ms": filling, "searches": records.collect::<Vec<_>>(),
    });
    let told = searches.iter().map(|(count, ms)| format!(", {} {ms:.1} ms", output::queries(*count)));
    let told: String = told.collect();
    run.tell(line, &format!("exact     first index {made:.1} ms, its rows {filling:.1} ms{told}"))
}

fn tell_upload(args: &Args, run: &mut Run, rows: View<'_>, time: Duration) -> Result<()> {
    let (count, dim, ms) = (rows.rows(), rows.dim(), milliseconds(time));
    let rate = (rows.values().len() * args.elements.size()) as f64 / time.as_secs_f64();
    let line = json!({
        "record": "upload", "suite": "exact", "rows": count, "dim": dim, "ms": ms, "bytes_per_s": rounded(rate),
    });
    run.tell(line, &format!("exact     upload of {count} x {dim}: {ms:.1} ms, {:.2} GB/s", rate / 1e9))
}

/// Checks the first `count` answers against f64: the number of neighbours, their distances and order, and that no row is left
/// out that is certainly nearer than the last one.
fn verify(
    metric: Metric,
    (rows, mask): (View<'_>, Option<&Mask>),
    queries: View<'_>,
    answer: &Neighbors,
    k: usize,
    count: usize,
) -> Result<()> {
    for query in 0..count {
        let hits = answer.row(query);
        ensure!(hits.len() == k.min(found(mask, rows)), "query {query}: {} neighbours", hits.len());
        let is_allowed = |row| mask.is_none_or(|mask| mask.allows(row));
        answers::complete(metric, rows, queries.row(query), hits, None, is_allowed)
            .with_context(|| format!("query {query}"))?;
    }
    Ok(())
}
