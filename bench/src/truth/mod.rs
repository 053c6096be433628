//! `nearfield-bench truth`: finds the true neighbours in f64 on the processor.

mod nearest;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use nearfield::io::{Ids, write_truth};
use nearfield::{Error, Matrix};
use serde_json::json;

use nearest::{Block, Nearest};
use nearfield_cli::given::arguments::Threads;
use nearfield_cli::given::files::{self, Comparison};
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::memory;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

/// Bytes of rows read at a time. In f64 they take twice as much, and f16 rows four times.
const PIECE_BYTES: usize = 32 << 20;
const ENDINGS: &[&str] = &["npz", "npy", "ibin", "bin"];

const LONG: &str = "\
Find the true neighbours of each query, by comparing it with every row in f64.

No device is used, so the result is independent of the searches it judges. Every distance is computed by its definition from \
f64 sums over the elements in order. Its error is at most about dim * 2^-52, relative to the squared distance, to |q||x| for ip, \
or to 1 for cosine. Rows closer to each other than that may swap. Equal distances go to the smaller id. If all sums are whole \
numbers below 2^53, as with vectors of small integers, squared distances, inner products and ties are exact.

Rows are read piece by piece, so a file may be larger than the memory; queries and neighbours have to fit. The same files give \
the same bytes on every machine and with any number of threads. With fewer than k rows, ids are padded with -1 and distances with \
NaN, as `nearfield search` does.

--out takes one of these endings:
  .npz   ids (i64) and distances (f32, smaller is nearer), [queries, k]
  .npy   ids (i64) alone
  .ibin  ids (i32) alone
  .bin   u32 queries, u32 k, all ids (i32), all distances (f32): the truth of big-ann-benchmarks
`nearfield search --truth` reads each of them.

--json prints one object, in one line:
  rows, queries, dim, metric, k  the compared vectors, and neighbours per query
  seconds                        in total
  pairs_per_second               queries * rows / seconds
  out                            the written file";

const EXAMPLES: &str = "\
Examples:
  nearfield-bench truth --rows base.npy --queries query.npy --metric cosine -k 100 --out truth.npz
  nearfield search --rows base.npy --queries query.npy --metric cosine -k 100 --truth truth.npz";

#[derive(Debug, clap::Args)]
#[command(about = "Find the true neighbours of each query, in f64 on the host", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    of: Comparison,
    /// File for the neighbours, .npz, .npy, .ibin or .bin
    #[arg(long, value_name = "FILE", value_parser = |text: &str| files::output_path(text, ENDINGS))]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
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
    let inputs = [("--rows", Some(args.of.rows.as_path())), ("--queries", Some(&args.of.queries))];
    files::check_outputs(&inputs, &[("--out", Some(&args.out))], args.force)?;
    let [rows, query_file] = args.of.open()?;
    let start = Instant::now();
    let (ids, distances) = neighbors(args, &rows, &query_file)?;
    write_truth(&args.out, &ids, &distances).context("--out")?;
    print(args, [&rows, &query_file], start)
}

/// The neighbours of all queries: ids and distances, short rows padded.
fn neighbors(args: &Args, rows: &Vectors, query_file: &Vectors) -> Result<(Ids, Vec<f32>)> {
    let (count, k) = (query_file.rows(), args.of.k);
    memory::ensure_fit(
        "--k",
        k,
        &format!("neighbours for each of {}", output::queries(count)),
        count.saturating_mul(7),
    )?;
    let about = || format!("--k: needed memory for {count} x {k} neighbours, there is not that much");
    let mut ids = memory::filled(count.checked_mul(k), -1, about)?;
    let mut distances = memory::filled(count.checked_mul(k), f32::NAN, about)?;
    let queries = query_file.read_all().context("--queries")?;
    let queries = Block::new(&queries, |row| not_finite(row, "queries", query_file, 0))?;
    let mut nearest = Nearest::new(args.of.metric, &queries, k);
    let bar = bar("truth", rows.rows());
    for piece in rows.pieces(PIECE_BYTES) {
        let (first, piece): (usize, Matrix) = piece.context("--rows")?;
        let block = Block::new(&piece, |row| not_finite(row, "rows", rows, first as u64))?;
        // The next piece needs the memory.
        drop(piece);
        nearest.compare(&block, first as u64);
        bar.set_position((first + block.rows()) as u64);
    }
    for (query, hits) in nearest.finish().enumerate() {
        for (place, (distance, id)) in (query * k..).zip(hits) {
            ids[place] = i64::try_from(id).context("--rows: needed fewer than 2^63 rows")?;
            distances[place] = distance as f32;
        }
    }
    Ok((Ids { values: ids, rows: count, width: k }, distances))
}

/// The error for a vector that has no distances.
fn not_finite(row: usize, argument: &'static str, file: &Vectors, first: u64) -> anyhow::Error {
    files::blame(Error::NotFinite { argument, row: row as u64 }, &format!("--{argument}"), file, first)
}

fn print(args: &Args, [rows, queries]: [&Vectors; 2], start: Instant) -> Result<()> {
    let (metric, k, seconds) = (args.of.metric, args.of.k, start.elapsed());
    let rate = rows.rows() as f64 * queries.rows() as f64 / seconds.as_secs_f64().max(1e-9);
    let record = json!({
        "rows": rows.rows(), "queries": queries.rows(), "dim": rows.dim(), "metric": metric.name(), "k": k,
        "seconds": seconds.as_secs_f64(), "pairs_per_second": rate, "out": args.out,
    });
    let lines = [
        ("rows", files::describe(rows)),
        ("queries", files::describe(queries)),
        ("metric", metric.to_string()),
        ("time", format!("{}, {rate:.3e} pairs a second", output::time(seconds))),
        ("wrote", format!("{}, k = {k}", args.out.display())),
    ];
    output::print(args.json, &record, &lines)
}
