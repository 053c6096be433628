//! `nearfield-bench verify`: compares the distances that a device reports with f64.

mod worst;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use nearfield::{Device, Error, Flat, Matrix, MatrixView, Neighbors, Output};
use serde_json::json;

use nearfield_cli::given::arguments::Threads;
use nearfield_cli::given::device::{self, Choice};
use nearfield_cli::given::files::{self, Comparison};
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::terminal::output;
use worst::{Compared, Worst};

const LONG: &str = "\
Compare the distances that a device reports with f64, and print the largest error.

The distances of all results of a search are compared first. Then the device computes all pairs of a sample of rows and queries, \
spread evenly over the files, and these are compared too. The true distances are computed by definition, in f64 on the processor. \
The exit code is 1 if an error exceeds the promised bound.

--json prints one object, in one line:
  rows, queries, dim, metric, k  the compared vectors
  device                         {name, backend, driver, kind}
  search                         for the results, an object of
    compared, exceeded           numbers of compared distances, and of errors above the bound
    largest                      {query, row, reported, exact, error, bound} of the largest error;
                                 what is not finite is the text inf, -inf or NaN
    nearest_bound                the same of the largest error / bound
  pairs                          the same for the pairs; null if the device does not compute them,
                                 or --sample is 0";

const EXAMPLES: &str = "\
Examples:
  nearfield-bench verify --rows base.npy --queries query.npy --metric cosine
  nearfield-bench verify --rows base.npy --queries query.npy --device host --sample 1000 --json";

#[derive(Debug, clap::Args)]
#[command(about = "Compare the distances that a device reports with f64", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    of: Comparison,
    /// Rows and queries of the sample that is compared pair by pair; 0 for none
    #[arg(long, value_name = "N", default_value_t = 256)]
    sample: usize,
    #[command(flatten)]
    device: Choice,
    #[command(flatten)]
    threads: Threads,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.threads.run(|| run_here(args))
}

fn run_here(args: &Args) -> Result<()> {
    let [rows, query_file] = args.of.open()?;
    let dim = rows.dim();
    let queries = query_file.read_all().context("--queries")?;
    let device = args.device.open()?;
    let builder = Flat::builder(&device, args.of.metric, dim).elements(rows.kind()).capacity(rows.rows());
    let mut index = builder.build()?.into();
    files::fill(&mut index, &rows, None)?;
    let found = index
        .search(&queries, args.of.k)
        .map_err(|error| files::blame(error, "--queries", &query_file, 0))?;
    drop(index);
    let queries = queries.into_f32();
    let queries = MatrixView::new(&queries, dim)?;
    let search = of_results(args, &rows, queries, &found)?;
    let pairs = of_pairs(args, &device, &rows, queries)?;
    print(args, &device, [&rows, &query_file], (&search, pairs.as_ref()))?;
    let exceeded = [Some(&search), pairs.as_ref()].into_iter().flatten().find_map(Worst::fault);
    exceeded.map_or(Ok(()), |fault| bail!(fault))
}

/// Compares the results of a search, piece by piece of the rows.
fn of_results(args: &Args, rows: &Vectors, queries: MatrixView<'_, f32>, found: &Neighbors) -> Result<Worst> {
    let wanted = args.of.k.min(rows.rows());
    let mut by_row: BTreeMap<u64, Vec<(usize, f32)>> = BTreeMap::new();
    for (query, hits) in found.iter().enumerate() {
        ensure!(hits.len() == wanted, "query {query}: needed {wanted} results, found {}", hits.len());
        hits.iter().for_each(|hit| by_row.entry(hit.id).or_default().push((query, hit.distance)));
    }
    let mut worst = Worst::new(args.of.metric);
    for piece in rows.pieces(files::PIECE_BYTES) {
        let (first, piece): (usize, Matrix) = piece.context("--rows")?;
        let piece = piece.into_f32();
        let piece = MatrixView::new(&piece, rows.dim())?;
        let numbers = first as u64..(first + piece.rows()) as u64;
        let pairs: Vec<Compared<'_>> = (by_row.range(numbers))
            .flat_map(|(&row, hits)| {
                hits.iter().map(move |&(query, reported)| (query, row as usize, reported))
            })
            .map(|(query, row, reported)| {
                ([query, row], reported, [queries.row(query), piece.row(row - first)])
            })
            .collect();
        worst.add(&pairs);
    }
    let compared = found.hits().len() as u64;
    ensure!(worst.compared == compared, "needed ids below {}, found others", rows.rows());
    Ok(worst)
}

/// Up to `most` of 0..count, spread evenly.
fn spread(count: usize, most: usize) -> impl Iterator<Item = usize> + Clone {
    let taken = most.min(count);
    (0..taken).map(move |number| (number as u128 * count as u128 / taken as u128) as usize)
}

/// Compares the pairs of a sample. Nothing if the device does not compute them.
fn of_pairs(
    args: &Args,
    device: &Device,
    rows: &Vectors,
    queries: MatrixView<'_, f32>,
) -> Result<Option<Worst>> {
    let row_numbers = spread(rows.rows(), args.sample);
    let query_numbers = spread(queries.rows(), args.sample);
    let mut sample: Vec<f32> = vec![];
    for row in row_numbers.clone() {
        sample.extend(rows.read(row..row + 1).context("--rows")?.into_f32());
    }
    let wanted: Vec<f32> = query_numbers.clone().flat_map(|query| queries.row(query)).copied().collect();
    if sample.is_empty() || wanted.is_empty() {
        return Ok(None);
    }
    let (sample, wanted) = (MatrixView::new(&sample, rows.dim())?, MatrixView::new(&wanted, rows.dim())?);
    let (there, asked) = (device.upload(sample)?, device.upload(wanted)?);
    let distances = match device.distances(&asked, &there, args.of.metric, Output::Distance) {
        Err(Error::Unsupported { .. }) => return Ok(None),
        distances => device.read(&distances?)?,
    };
    let mut worst = Worst::new(args.of.metric);
    for ((place, query), reported) in query_numbers.enumerate().zip(distances.chunks_exact(sample.rows())) {
        let pairs: Vec<Compared<'_>> = (row_numbers.clone().enumerate().zip(reported))
            .map(|((number, row), &reported)| {
                ([query, row], reported, [wanted.row(place), sample.row(number)])
            })
            .collect();
        worst.add(&pairs);
    }
    Ok(Some(worst))
}

fn print(
    args: &Args,
    device: &Device,
    [rows, queries]: [&Vectors; 2],
    (search, pairs): (&Worst, Option<&Worst>),
) -> Result<()> {
    let (metric, k) = (args.of.metric, args.of.k);
    let record = json!({
        "rows": rows.rows(), "queries": queries.rows(), "dim": rows.dim(), "metric": metric.name(), "k": k,
        "device": device::to_json(device.adapter()), "search": search.to_json(), "pairs": pairs.map(Worst::to_json),
    });
    let mut lines = vec![
        ("rows", files::describe(rows)),
        ("queries", files::describe(queries)),
        ("device", device.describe()),
        ("metric", metric.to_string()),
        ("results", search.describe()),
    ];
    match (pairs, args.sample) {
        (Some(pairs), _) => lines.push(("pairs", pairs.describe())),
        (None, 0) => {}
        (None, _) => {
            let reason = "not compared: there are none, or this device does not compute them";
            lines.push(("pairs", reason.to_owned()));
        }
    }
    output::print(args.json, &record, &lines)
}
