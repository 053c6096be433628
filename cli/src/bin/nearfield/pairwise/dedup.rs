//! `nearfield dedup`: which of the rows that lie near each other to keep.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use nearfield::io::{read_row_ids, write_npy};
use nearfield::{DuplicateOptions, Keep};
use serde_json::json;

use super::Given;
use nearfield_cli::given::{arguments, files};
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

const LONG: &str = "\
Find near duplicates, the rows nearer to each other than a threshold, and which of them to keep. Nothing is removed.

By default a row goes if any row before it is near, whether that one is kept or not. With --keep group, the first row of each group is \
kept; rows of a group are connected by steps within the threshold.

--out writes a line for each row that goes: id, near (the nearest row before it), distance.

--json prints one object, in one line:
  rows, dim, elements             of the rows
  metric, device                  as in `nearfield search`
  threshold, groups               the threshold, and the number of groups
  kept, removed                   numbers of rows
  load_seconds, compare_seconds   times
  out, kept_file                  the written files, or null";

const EXAMPLES: &str = "\
Examples:
  nearfield dedup --rows base.npy --threshold 0.05 --out removed.csv --kept kept.npy
  nearfield dedup --index-file index.nf --threshold 0.1 --order by-quality.npy --keep group";

/// Which rows are kept.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rule {
    /// Rows that have no near row before them
    Earliest,
    /// The first row of each group
    Group,
}

#[derive(Debug, clap::Args)]
#[command(about = "Find near duplicates, and which rows to keep", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) given: Given,
    /// Distance below which rows are near
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = arguments::radius)]
    threshold: f32,
    /// Which rows are kept
    #[arg(long, value_name = "RULE", default_value = "earliest")]
    keep: Rule,
    /// Ids of all rows, those to keep first: a .npy of whole numbers; by default ascending ids
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// Write the ids of the rows that are kept, i64 [rows, 1], to this npy
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    kept: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.given.needs_table()?;
    let order = args.order.as_ref().map(read_row_ids).transpose().context("--order")?;
    let (index, load) =
        args.given.open(Some(("--order", args.order.as_deref())), Some(("--kept", args.kept.as_deref())))?;
    let bar = bar("compare", index.len());
    let progress = |done: usize| bar.set_position(done as u64);
    let keep = match args.keep {
        Rule::Earliest => Keep::Earliest,
        Rule::Group => Keep::OneOfGroup,
    };
    let mut options = DuplicateOptions::new(args.threshold).keep(keep).progress(&progress);
    options.order = order.as_deref();
    let start = Instant::now();
    let found = index.duplicates(&options)?;
    let compare = start.elapsed();
    drop(bar);
    args.given.write(&["id", "near", "distance"], |table| {
        for one in &found.removed {
            table.add([one.id, one.near], one.distance)?;
        }
        Ok(())
    })?;
    if let Some(path) = &args.kept {
        let ids: Vec<i64> = found.kept.iter().map(|&id| id as i64).collect();
        write_npy(path, [ids.len(), 1], &ids).context("--kept")?;
    }
    let [groups, kept, removed] = [found.groups.len(), found.kept.len(), found.removed.len()];
    let more = [
        ("threshold", output::number(args.threshold), args.threshold.to_string()),
        ("groups", json!(groups), output::counted(groups, "group", "groups")),
        ("kept", json!(kept), output::counted(kept, "row", "rows")),
        ("removed", json!(removed), output::counted(removed, "row", "rows")),
        (
            "kept_file",
            json!(args.kept),
            args.kept.as_ref().map_or("none".into(), |path| path.display().to_string()),
        ),
    ];
    args.given.report(&index, [load, compare], &more)
}
