//! `nearfield pairs`: the pairs of rows within a radius.

use std::time::Instant;

use anyhow::Result;
use nearfield::SearchOptions;
use serde_json::json;

use super::Given;
use nearfield_cli::given::arguments;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

const LONG: &str = "\
Find all pairs of rows nearer than a radius, each once, in the order of both ids. Of an ivf index, all rows are compared. Without --out \
pairs are counted, and none of them is kept.

--out writes a line for each pair while they are found: a, b, distance.

--json prints one object, in one line:
  rows, dim, elements             of the rows
  metric, device                  as in `nearfield search`
  radius, pairs                   the radius, and the number of pairs
  load_seconds, compare_seconds   times; the second with that of writing
  out                             the written file, or null";

const EXAMPLES: &str = "\
Examples:
  nearfield pairs --rows base.npy --radius 0.1 --out pairs.csv
  nearfield pairs --rows base.npy --radius 0.1 --out pairs.parquet
  nearfield pairs --rows ubinary.npy --bits --radius 20";

#[derive(Debug, clap::Args)]
#[command(about = "Find the pairs of rows within a radius", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) given: Given,
    /// Distance that those of pairs are below
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = arguments::radius)]
    radius: f32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.given.needs_table()?;
    let (index, load) = args.given.open(None, None)?;
    let bar = bar("compare", index.len());
    let progress = |done: usize| bar.set_position(done as u64);
    let options = SearchOptions::within(args.radius).progress(&progress);
    let start = Instant::now();
    let mut count = 0;
    args.given.write_visited(&["a", "b", "distance"], |table, check| {
        index.visit_pairs(&options, &mut |pairs| {
            count += pairs.len();
            check(pairs.iter().try_for_each(|pair| table.add([pair.a, pair.b], pair.distance)))
        })
    })?;
    let compare = start.elapsed();
    drop(bar);
    let more = [
        ("radius", output::number(args.radius), args.radius.to_string()),
        ("pairs", json!(count), output::counted(count, "pair", "pairs")),
    ];
    args.given.report(&index, [load, compare], &more)
}
