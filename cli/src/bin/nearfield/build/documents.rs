//! `nearfield build --tokens`: builds an index of documents of several token vectors each.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nearfield::ElementKind;
use serde_json::json;

use super::Args;
use nearfield_cli::given::{device, documents, files};
use nearfield_cli::terminal::output;

pub(super) fn run(args: &Args, offsets: &Path) -> Result<()> {
    let is_of_bits = args.elements == Some(ElementKind::Bits);
    ensure!(!is_of_bits, "--elements: needed a type of numbers for documents, given bits");
    let rows = files::open(&args.rows, "--rows")?;
    let offsets = documents::offsets(offsets, ("--tokens", "document"), rows.rows())?;
    let ids = args.row_ids.as_deref();
    let ids = ids.map(|ids| files::row_ids(ids, offsets.len() - 1, "document")).transpose()?;
    let most = rows.rows();
    if let Some(lists) = args.lists {
        ensure!(lists <= most, "--lists: needed 1 to {most}, the number of tokens, given {lists}");
    }
    let devices = args.places.open()?;
    let (mut index, filled) =
        documents::index((&args.places, &devices), (&rows, &offsets), ids.as_deref(), args.stored(&rows))?;
    let start = Instant::now();
    if let Some(lists) = args.lists {
        index.build_lists(lists).context("--lists")?;
    }
    let train = start.elapsed();
    let start = Instant::now();
    index.save(&args.out).context("--out")?;
    let save = start.elapsed();
    let bytes = fs::metadata(&args.out).with_context(|| format!("--out {}", args.out.display()))?.len();
    let record = json!({
        "documents": index.len(), "tokens": index.tokens(), "dim": index.dim(), "elements": index.elements().name(),
        "index": "multivector", "lists": args.lists, "device": device::to_json(devices[0].adapter()),
        "load_seconds": filled.load.as_secs_f64(), "add_seconds": filled.upload.as_secs_f64(),
        "train_seconds": args.lists.map_or(0.0, |_| train.as_secs_f64()), "save_seconds": save.as_secs_f64(),
        "out": args.out, "bytes": bytes,
    });
    let of_lists = args.lists.map(|lists| format!(", {} of tokens", output::counted(lists, "list", "lists")));
    let documents = output::counted(index.len(), "document", "documents");
    let mut lines = vec![
        ("documents", format!("{documents}: {}", files::describe(&rows))),
        ("device", device::places(&devices)),
        ("index", format!("multivector{}", of_lists.unwrap_or_default())),
        ("load", output::time(filled.load)),
        ("add", output::time(filled.upload)),
        ("save", output::time(save)),
        ("wrote", format!("{}, {}", args.out.display(), output::bytes(bytes))),
    ];
    if args.lists.is_some() {
        lines.insert(5, ("train", output::time(train)));
    }
    output::print(args.json, &record, &lines)
}
