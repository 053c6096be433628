//! `nearfield demo`: searches real data that the program contains.

use std::io::{Write, stdout};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use half::f16;
use nearfield::io::VectorFile;
use nearfield::{ElementKind, Flat, Matrix, MatrixView, Metric, Neighbors};

use crate::device::Choice;
use crate::output;

static ROWS: &[u8] = include_bytes!("../../examples/data/base.f16.npy");
static ROW_NAMES: &str = include_str!("../../examples/data/names.txt");
static QUERIES: &[u8] = include_bytes!("../../examples/data/query.f16.npy");
static QUERY_NAMES: &str = include_str!("../../examples/data/query-names.txt");
static TRUTH: &[u8] = include_bytes!("../../examples/data/groundtruth-normalised-cosine.npz");

/// Queries with neighbours that anyone can judge: an archiver, an aligner of gene sequences, a debugger.
const SHOWN: [&str; 3] = ["7zip", "mafft", "lldb-13"];
const SHOWN_NEIGHBORS: usize = 5;
const K: usize = 10;
const RUNS: usize = 5;
/// Neighbours closer to each other than this may swap, because truth and results are rounded to f32.
const TIE: f32 = 1e-6;

const LONG: &str = "\
Search real data that comes with the program, and check the answers.

The rows are the descriptions of 4000 Debian packages, as vectors of 384 f16 values (all-MiniLM-L6-v2); the queries are 200 \
more. The exit code is 0 only if the 10 nearest rows of every query are the true ones.";

const EXAMPLES: &str = "\
Examples:
  nearfield demo
  nearfield demo --device host
  nearfield demo --device llvmpipe";

#[derive(Debug, clap::Args)]
#[command(about = "Search real data that comes with the program, and check the answers", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    device: Choice,
}

/// Vectors with their names.
struct Named {
    values: Vec<f16>,
    dim: usize,
    names: Vec<&'static str>,
}

fn named(npy: &'static [u8], names: &'static str) -> Result<Named> {
    let Matrix::F16(values, dim) = VectorFile::from_bytes("vectors.npy", npy)?.read_all()? else {
        anyhow::bail!("needed elements of f16");
    };
    let names: Vec<_> = names.lines().collect();
    ensure!(names.len() * dim == values.len(), "needed a name for each vector, found {}", names.len());
    Ok(Named { values, dim, names })
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let device = args.device.open()?;
    let mut out = stdout().lock();
    writeln!(out, "device  {}", device.adapter())?;
    writeln!(out, "        {}", device.reason())?;

    let rows = named(ROWS, ROW_NAMES).context("the rows in the program")?;
    let queries = named(QUERIES, QUERY_NAMES).context("the queries in the program")?;
    let mut index = Flat::builder(&device, Metric::Cosine, rows.dim).elements(ElementKind::F16).build()?;
    index.add(MatrixView::new(&rows.values, rows.dim)?)?;
    let asked = MatrixView::new(&queries.values, queries.dim)?;
    let (count, dim) = (rows.names.len(), rows.dim);
    writeln!(out, "data    descriptions of {count} Debian packages, as vectors of {dim} f16 numbers")?;

    // Compiles the kernels too, so it is not timed.
    let found = index.search(asked, K)?;
    for name in SHOWN {
        let query = queries.names.iter().position(|one| *one == name).context("the names in the program")?;
        writeln!(out, "\nnearest to {name}, by cosine distance")?;
        for hit in found.row(query).iter().take(SHOWN_NEIGHBORS) {
            let name = rows.names.get(hit.id as usize).copied().unwrap_or("(no such row)");
            writeln!(out, "  {:.4}  {name}", hit.distance)?;
        }
    }

    let right = right_answers(&found).context("the truth in the program")?;
    let (count, all) = (queries.names.len(), queries.names.len() * K);
    let recall = right as f64 / all as f64;
    writeln!(out, "\nrecall@{K}  {recall:.4}: {right} of the {all} true neighbours of {count} queries")?;
    let timed = |_| {
        let start = Instant::now();
        index.search(asked, K).map(|_| start.elapsed())
    };
    let mut times = (0..RUNS).map(timed).collect::<nearfield::Result<Vec<_>>>()?;
    times.sort_unstable();
    let median = times[RUNS / 2];
    let speed = output::rate(count as f64 / median.as_secs_f64().max(1e-9));
    let together = format!("all {count} at once in {}", output::time(median));
    writeln!(out, "speed      {speed} queries a second: {together}, median of {RUNS} runs")?;
    out.flush()?;
    ensure!(
        right == all,
        "recall@{K}: needed all {all} true neighbours, found {right}: this device computes wrongly"
    );
    Ok(())
}

/// The number of results that are true neighbours, or as near as the last true one.
fn right_answers(found: &Neighbors) -> Result<usize> {
    let read = |member: &str| VectorFile::from_bytes(format!("truth.npz:{member}"), TRUTH)?.read_all();
    // The ids are so small that f32 holds them.
    let (ids, distances) = (read("ids")?, read("distances")?);
    let width = ids.dim();
    let (ids, distances) = (ids.into_f32(), distances.into_f32());
    ensure!(
        ids.len() == found.queries() * width && distances.len() == ids.len() && width >= K,
        "needed one shape"
    );
    let rows = found.iter().zip(ids.chunks_exact(width).zip(distances.chunks_exact(width)));
    let right = rows.map(|(hits, (ids, distances))| {
        let limit = distances[K - 1] + TIE;
        let true_one = |id: u64| ids[..K].iter().any(|&one| one as u64 == id);
        hits.iter().take(K).filter(|hit| true_one(hit.id) || hit.distance <= limit).count()
    });
    Ok(right.sum())
}
