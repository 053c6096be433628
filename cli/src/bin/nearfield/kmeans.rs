//! `nearfield kmeans`: clusters the rows of a file.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use nearfield::io::write_npy;
use nearfield::{Error, KMeans, Metric};
use serde_json::json;

use nearfield_cli::given::arguments::{self, Threads};
use nearfield_cli::given::device::{self, Choice};
use nearfield_cli::given::files;
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

const LONG: &str = "\
Cluster the rows of a file by k-means: find centroids, and the nearest centroid of every row.

Every row is assigned to its exact nearest centroid, and the same seed gives the same centroids on one device. l2sq and l2 minimise \
the sum of squared L2 distances; cosine and ip are spherical: only the direction of a row counts, and centroids have length 1. The rows \
must fit the memory.

--json prints one object, in one line:
  rows, dim, clusters      counts
  metric                   between rows and centroids: l2sq or cosine
  device                   {name, backend, driver, kind}
  trained_on               rows of the training sample
  iterations               iterations that ran
  inertia                  sum of the distances of all rows to their nearest centroid
  sizes                    [smallest, mean, largest] number of rows of a centroid
  seconds                  training and assigning
  centroids, assignments   the written files, or null";

const EXAMPLES: &str = "\
Examples:
  nearfield kmeans --rows base.npy --clusters 100 --centroids c.npy --assignments a.npy
  nearfield kmeans --rows base.npy --clusters 4096 --metric l2sq --iterations 25 --centroids c.npy";

#[derive(Debug, clap::Args)]
#[command(about = "Cluster the rows of a file by k-means", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Number of clusters
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    clusters: usize,
    /// Metric: cosine, l2sq, l2 or ip
    #[arg(long, value_name = "METRIC", default_value = "cosine", value_parser = arguments::metric_of_numbers)]
    metric: Metric,
    /// Most iterations; fewer if the inertia settles
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = arguments::count)]
    iterations: usize,
    /// Rows of the training sample per cluster; all rows if there are no more
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = arguments::count)]
    rows_a_cluster: usize,
    /// Seed of all choices
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: Choice,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Write the centroids, f32 [clusters, dim], to this npy
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    centroids: Option<PathBuf>,
    /// Write the number of every row's centroid, i64 [rows, 1], to this npy
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    assignments: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let outputs =
        [("--centroids", args.centroids.as_deref()), ("--assignments", args.assignments.as_deref())];
    files::check_outputs(&[("--rows", Some(&args.rows))], &outputs, args.force)?;
    let file = files::open(&args.rows, "--rows")?;
    let rows = file.read_all().context("--rows")?;
    let device = args.device.open()?;
    let bar = bar("train", args.iterations);
    let progress = |iteration: usize, _: f64| bar.set_position(iteration as u64);
    let means = KMeans::new(args.metric, args.clusters).iterations(args.iterations).seed(args.seed);
    let start = Instant::now();
    let clusters = means
        .rows_per_cluster(args.rows_a_cluster)
        .progress(&progress)
        .train(&device, &rows)
        .map_err(|error| blame(error, &file))?;
    let took = start.elapsed();
    drop(bar);
    let mut sizes = vec![0usize; clusters.count()];
    clusters.assignments.iter().for_each(|&list| sizes[list as usize] += 1);
    let least = sizes.iter().copied().min().unwrap_or(0);
    let most = sizes.iter().copied().max().unwrap_or(0);
    let mean = rows.rows() as f64 / clusters.count() as f64;
    if let Some(path) = &args.centroids {
        write_npy(path, [clusters.count(), clusters.dim], &clusters.centroids).context("--centroids")?;
    }
    if let Some(path) = &args.assignments {
        let numbers: Vec<i64> = clusters.assignments.iter().map(|&list| list.into()).collect();
        write_npy(path, [numbers.len(), 1], &numbers).context("--assignments")?;
    }

    let adapter = device.adapter();
    let (iterations, trained_on) = (clusters.history.len(), clusters.trained_on.len());
    let record = json!({
        "rows": rows.rows(), "dim": clusters.dim, "clusters": clusters.count(), "metric": clusters.metric.name(),
        "device": device::to_json(adapter), "trained_on": trained_on, "iterations": iterations,
        "inertia": clusters.inertia, "sizes": [json!(least), json!(mean), json!(most)],
        "seconds": took.as_secs_f64(), "centroids": args.centroids, "assignments": args.assignments,
    });
    let a_row = clusters.inertia / rows.rows().max(1) as f64;
    let mut lines = vec![
        ("rows", files::describe(&file)),
        ("device", device::place(&device)),
        ("clusters", format!("{}, of {least} to {most} rows, {mean:.1} on average", clusters.count())),
        (
            "trained",
            format!("on {trained_on} rows, {}", output::counted(iterations, "iteration", "iterations")),
        ),
        ("inertia", format!("{:.6}, {a_row:.6} a row ({})", clusters.inertia, clusters.metric)),
        ("time", output::time(took)),
    ];
    let written = [&args.centroids, &args.assignments];
    lines.extend(written.into_iter().flatten().map(|path| ("wrote", path.display().to_string())));
    output::print(args.json, &record, &lines)
}

/// An error of the library, in the words of this command.
fn blame(error: Error, file: &Vectors) -> anyhow::Error {
    match error {
        Error::Argument { argument: argument @ ("clusters" | "rows"), needed, given } => {
            anyhow!("--{argument}: needed {needed}, given {given}")
        }
        other => files::blame(other, "--rows", file, 0),
    }
}
