//! `nearfield graph`: the nearest other rows of every row.

use std::time::Instant;

use anyhow::{Result, bail};
use nearfield::SearchOptions;
use serde_json::json;

use super::Given;
use nearfield_cli::given::arguments;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

const LONG: &str = "\
Find the k nearest other rows of every row: exact, nearest first, ties by the smaller id. A row is left out by its place, so duplicates \
of it are neighbours. Of an ivf index, lists are probed as in `nearfield search`.

--out writes a line for each neighbour: row, rank, id, distance.

--json prints one object, in one line:
  rows, dim, elements             of the rows
  metric, device                  as in `nearfield search`
  k, edges                        neighbours wanted for each row, and found for all
  load_seconds, compare_seconds   times
  out                             the written file, or null";

const EXAMPLES: &str = "\
Examples:
  nearfield graph --rows base.npy -k 15 --out graph.csv
  nearfield graph --index-file index.nf --recall 0.95 --out - | head";

#[derive(Debug, clap::Args)]
#[command(about = "Find the nearest other rows of every row", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) given: Given,
    /// Neighbours of each row
    #[arg(short, long, value_name = "N", default_value = "15", value_parser = arguments::count)]
    k: usize,
    /// Lists of an ivf index that are probed for a row; by default a 64th of them
    #[arg(long, value_name = "N", value_parser = arguments::count, conflicts_with = "rows")]
    probes: Option<usize>,
    /// Probe as many lists of an ivf index as find this part of the neighbours, from 0 to 1
    #[arg(long, value_name = "PART", allow_negative_numbers = true, value_parser = arguments::part, conflicts_with_all = ["rows", "probes"])]
    recall: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (index, load) = args.given.open(None, None)?;
    let of_lists = [("--probes", args.probes.is_some()), ("--recall", args.recall.is_some())];
    if let (None, Some((argument, _))) = (index.lists(), of_lists.iter().find(|(_, given)| *given)) {
        bail!("{argument}: needed an ivf index, given a flat one");
    }
    let bar = bar("compare", index.len());
    let progress = |done: usize| bar.set_position(done as u64);
    let mut options = SearchOptions::new(args.k).iterative_scan(true).progress(&progress);
    (options.probes, options.recall) = (args.probes, args.recall);
    let start = Instant::now();
    let graph = index.knn_graph_with(&options)?;
    let compare = start.elapsed();
    drop(bar);
    args.given.write(&["row", "rank", "id", "distance"], |table| {
        for (row, hits) in graph.ids().iter().zip(graph.neighbors()) {
            for (rank, hit) in hits.iter().enumerate() {
                let record =
                    [row.to_string(), rank.to_string(), hit.id.to_string(), hit.distance.to_string()];
                table.write_record(record)?;
            }
        }
        Ok(())
    })?;
    let edges = graph.neighbors().hits().len();
    let more = [
        ("k", json!(args.k), args.k.to_string()),
        ("edges", json!(edges), output::counted(edges, "edge", "edges")),
    ];
    args.given.report(&index, [load, compare], &more)
}
