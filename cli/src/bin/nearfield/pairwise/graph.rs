//! `nearfield graph`: the nearest other rows of every row.

use std::io;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use nearfield::io::write_csr;
use nearfield::{Neighbor, Neighbors, SearchOptions, Symmetry};
use serde_json::json;

use super::Given;
use super::table::Table;
use nearfield_cli::given::arguments;
use nearfield_cli::memory;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

const LONG: &str = "\
Find the k nearest other rows of every row: exact, nearest first, ties by the smaller id. A row is left out by its place, so duplicates \
of it are neighbours. Of an ivf index, lists are probed as in `nearfield search`.

--out writes a line for each neighbour: row, rank, id, distance. A .npz is a sparse matrix of distances in the form CSR, which \
scipy.sparse.load_npz reads; its rows and columns are places among the array `ids` beside it.

--json prints one object, in one line:
  rows, dim, elements             of the rows
  metric, device                  as in `nearfield search`
  k, edges                        neighbours wanted for each row, and edges that were found, or those of the matrix
  load_seconds, compare_seconds   times; with --stream the second is also that of writing
  out                             the written file, or null";

const EXAMPLES: &str = "\
Examples:
  nearfield graph --rows base.npy -k 15 --out graph.csv
  nearfield graph --rows base.npy -k 15 --symmetry union --out graph.npz
  nearfield graph --index-file large.nf --stream --out graph.parquet
  nearfield graph --index-file index.nf --recall 0.95 --out - | head";

/// Which edges a sparse matrix has.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Edges {
    /// From each row to its neighbours
    Directed,
    /// Both ways where one of two rows is a neighbour of the other
    Union,
    /// Both ways where each of two rows is a neighbour of the other
    Intersection,
}

impl From<Edges> for Symmetry {
    fn from(edges: Edges) -> Self {
        match edges {
            Edges::Directed => Self::Directed,
            Edges::Union => Self::Union,
            Edges::Intersection => Self::Intersection,
        }
    }
}

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
    /// Edges of a .npz [default: directed]
    #[arg(long, value_name = "EDGES")]
    symmetry: Option<Edges>,
    /// Find and write neighbours piece by piece, for a graph that is larger than memory; takes up to twice as long
    #[arg(long)]
    stream: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let is_matrix = args.given.matrix().is_some();
    ensure!(is_matrix || args.symmetry.is_none(), "--symmetry: needed --out of a .npz beside it");
    ensure!(!is_matrix || !args.stream, "--stream: needed --out of a table beside it, given a .npz");
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
    let (edges, compare) = if args.stream {
        let mut edges = 0;
        args.given.write_visited(&COLUMNS, |table, check| {
            index.visit_knn_graph(&options, &mut |rows, found| {
                edges += found.hits().len();
                check(fill(table, rows, &found))
            })
        })?;
        (edges, start.elapsed())
    } else {
        let length = size_of::<Neighbor>() / size_of::<f32>() * args.k.min(index.len());
        let hint = if is_matrix { "" } else { "; --stream writes them piece by piece" };
        memory::ensure_fit("-k", index.len(), "lists of neighbours", length)
            .map_err(|error| anyhow!("{error}{hint}"))?;
        let graph = index.knn_graph_with(&options)?;
        let compare = start.elapsed();
        match args.given.matrix() {
            Some(path) => {
                let csr = graph.to_csr(args.symmetry.map_or(Symmetry::Directed, Into::into))?;
                let written = write_csr(path, graph.ids(), &csr.indptr, &csr.indices, &csr.data);
                written.context("--out")?;
                (csr.indices.len(), compare)
            }
            None => {
                args.given.write(&COLUMNS, |table| fill(table, graph.ids(), graph.neighbors()))?;
                (graph.neighbors().hits().len(), compare)
            }
        }
    };
    drop(bar);
    let more = [
        ("k", json!(args.k), args.k.to_string()),
        ("edges", json!(edges), output::counted(edges, "edge", "edges")),
    ];
    args.given.report(&index, [load, compare], &more)
}

/// Columns of the table of a graph.
const COLUMNS: [&str; 4] = ["row", "rank", "id", "distance"];

fn fill(table: &mut Table<'_>, rows: &[u64], found: &Neighbors) -> io::Result<()> {
    let mut all = rows.iter().zip(found).flat_map(|(&row, hits)| (0..).zip(hits).map(move |hit| (row, hit)));
    all.try_for_each(|(row, (rank, hit))| table.add([row, rank, hit.id], hit.distance))
}
