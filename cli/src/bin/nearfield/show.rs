//! `nearfield show`: what a saved index holds.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nearfield::{SavedIndex, SavedLog};
use serde_json::{Value, json};

use nearfield_cli::given::files;
use nearfield_cli::terminal::output;

const LONG: &str = "\
Show what a saved index holds, without loading it: its kind, rows or documents, metric, lists and the bytes of each part. No device is needed.

--json prints one object, in one line:
  index               flat, ivf or multivector
  rows, dim           counts; the rows of a multivector are the tokens of its documents
  documents, tokens   counts; null for flat and ivf
  elements            f32, f16, bf16, i8, u8 or bits, how rows are stored
  quantises           whether rows of other types are quantised when they are added (build --store)
  metric, quantization  as built
  next                id of the next row that is added without one
  lists               {count, empty, smallest, median, mean, largest}: numbers of rows; null without lists. A file of documents has count alone
  bytes               of the file
  log                 {path, bytes, added, updated, removed, unfinished} of the changes beside the file, not in the counts above; null if there are none
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

/// The numbers of rows of lists, as JSON and in words; none without lists.
fn lists(mut sizes: Vec<u64>) -> Option<(Value, String)> {
    sizes.sort_unstable();
    let (&smallest, &largest) = (sizes.first()?, sizes.last()?);
    let (count, median) = (sizes.len(), sizes[sizes.len() / 2]);
    let empty = sizes.iter().take_while(|&&size| size == 0).count();
    let mean = sizes.iter().sum::<u64>() as f64 / count as f64;
    let text =
        format!("{count} of {smallest} to {largest} rows, median {median}, mean {mean:.1}; {empty} empty");
    let record = json!({
        "count": count, "empty": empty, "smallest": smallest, "median": median, "mean": mean, "largest": largest,
    });
    Some((record, text))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = &args.index_file;
    let about = SavedIndex::read(path).map_err(|error| files::no_index(error, path))?;
    let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let index = match (about.documents, about.lists) {
        (Some(_), _) => "multivector",
        (None, Some(_)) => "ivf",
        (None, None) => "flat",
    };
    let lists = match SavedIndex::list_sizes(path)? {
        Some(sizes) => lists(sizes),
        None => about.lists.map(|count| (json!({ "count": count }), format!("{count} of tokens"))),
    };
    let log = SavedIndex::log(path)?;
    let of_log = log.as_ref().map(|log| {
        json!({
            "path": log.path, "bytes": log.bytes, "added": log.added, "updated": log.updated, "removed": log.removed,
            "unfinished": log.unfinished,
        })
    });
    let kind = about.elements.name();
    let parts: serde_json::Map<_, _> =
        about.parts.iter().map(|(name, bytes)| (name.clone(), json!(bytes))).collect();
    let record = json!({
        "index": index, "rows": about.rows, "documents": about.documents, "tokens": about.documents.map(|_| about.rows), "dim": about.dim, "elements": kind, "quantises": about.quantizes, "metric": about.metric.name(),
        "quantization": about.quantization.name(), "next": about.next,
        "lists": lists.as_ref().map(|(record, _)| record),
        "bytes": bytes, "device_bytes": about.device_bytes(), "parts": parts, "log": of_log,
    });
    let mut lines = vec![
        ("index", format!("{index}, {}", path.display())),
        (
            if about.documents.is_some() { "tokens" } else { "rows" },
            format!(
                "{} x {} {kind}{}",
                about.rows,
                about.dim,
                if about.quantizes { ", quantised" } else { "" }
            ),
        ),
        ("metric", about.metric.to_string()),
        ("quantization", about.quantization.name().to_owned()),
        ("next id", about.next.to_string()),
    ];
    if let Some(documents) = about.documents {
        lines.insert(1, ("documents", documents.to_string()));
    }
    lines.extend(lists.map(|(_, text)| ("lists", text)));
    lines.push(("on a GPU", format!("about {}", output::bytes(about.device_bytes()))));
    lines.push(("file", output::bytes(bytes)));
    lines.extend(about.parts.iter().map(|(name, bytes)| ("", format!("{name}: {}", output::bytes(*bytes)))));
    lines.extend(log.map(|log| {
        let unfinished = match log.unfinished {
            0 => String::new(),
            bytes => format!("; {} of an unfinished change", output::bytes(bytes)),
        };
        let SavedLog { added, updated, removed, .. } = log;
        let rows = format!("{added} rows added, {updated} updated, {removed} removed");
        ("log", format!("{}: {rows}, not in the counts above{unfinished}", output::bytes(log.bytes)))
    }));
    output::print(args.json, &record, &lines)
}
