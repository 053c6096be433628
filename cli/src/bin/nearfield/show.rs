//! `nearfield show`: what a saved index holds.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nearfield::SavedIndex;
use serde_json::json;

use nearfield_cli::given::files;
use nearfield_cli::terminal::output;

const LONG: &str = "\
Show what a saved index holds, without loading it: its kind, rows, metric, lists and the bytes of each part. No device is needed.

--json prints one object, in one line:
  index               flat or ivf
  rows, dim           counts
  elements            f32 or f16, how rows are stored
  metric, screen      as built
  next                id of the next row that is added without one
  lists               {count, empty, smallest, median, mean, largest}: numbers of rows; null for flat
  bytes               of the file
  device_bytes        about what the index takes on a GPU
  parts               {name: bytes} of the file";

const EXAMPLES: &str = "\
Examples:
  nearfield show index.nf
  nearfield show index.nf --json | jq .lists.largest";

#[derive(Debug, clap::Args)]
#[command(about = "Show what a saved index holds", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Index, saved by `nearfield build`
    #[arg(value_name = "INDEX.nf")]
    index_file: PathBuf,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The numbers of rows of the lists.
struct Sizes {
    count: usize,
    empty: usize,
    smallest: u64,
    median: u64,
    mean: f64,
    largest: u64,
}

impl Sizes {
    fn of(mut sizes: Vec<u64>) -> Option<Self> {
        sizes.sort_unstable();
        let (&smallest, &largest) = (sizes.first()?, sizes.last()?);
        Some(Self {
            count: sizes.len(),
            empty: sizes.iter().take_while(|&&size| size == 0).count(),
            smallest,
            median: sizes[sizes.len() / 2],
            mean: sizes.iter().sum::<u64>() as f64 / sizes.len() as f64,
            largest,
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = &args.index_file;
    let about = SavedIndex::read(path).map_err(|error| files::no_index(error, path))?;
    let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let lists = SavedIndex::list_sizes(path)?.and_then(Sizes::of);
    let (index, kind) = (if lists.is_some() { "ivf" } else { "flat" }, about.elements.name());
    let parts: serde_json::Map<_, _> =
        about.parts.iter().map(|(name, bytes)| (name.clone(), json!(bytes))).collect();
    let record = json!({
        "index": index, "rows": about.rows, "dim": about.dim, "elements": kind, "metric": about.metric.name(),
        "screen": about.screen.name(), "next": about.next,
        "lists": lists.as_ref().map(|of| json!({
            "count": of.count, "empty": of.empty, "smallest": of.smallest, "median": of.median, "mean": of.mean,
            "largest": of.largest,
        })),
        "bytes": bytes, "device_bytes": about.device_bytes(), "parts": parts,
    });
    let mut lines = vec![
        ("index", format!("{index}, {}", path.display())),
        ("rows", format!("{} x {} {kind}", about.rows, about.dim)),
        ("metric", about.metric.to_string()),
        ("screen", about.screen.name().to_owned()),
        ("next id", about.next.to_string()),
    ];
    if let Some(of) = &lists {
        let rows =
            format!("{} to {} rows, median {}, mean {:.1}", of.smallest, of.largest, of.median, of.mean);
        lines.push(("lists", format!("{} of {rows}; {} empty", of.count, of.empty)));
    }
    lines.push(("on a GPU", format!("about {}", output::bytes(about.device_bytes()))));
    lines.push(("file", output::bytes(bytes)));
    lines.extend(about.parts.iter().map(|(name, bytes)| ("", format!("{name}: {}", output::bytes(*bytes)))));
    output::print(args.json, &record, &lines)
}
