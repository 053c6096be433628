//! `nearfield add`, `update`, `remove`, `merge` and `checkpoint`: changes of a saved index.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use nearfield::io::read_row_ids;
use nearfield::{AddOptions, Device, Durable, Index, Matrix, Metric};
use serde_json::json;

use nearfield_cli::given::arguments::Threads;
use nearfield_cli::given::files;
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

/// What all these commands do and print.
macro_rules! long {
    ($what:literal) => {
        concat!(
            $what,
            "\n\n\
The change goes to a log beside the index, INDEX.nf.log, and is on the disk when the command ends. After a crash it is there as a whole or not at all. \
Commands and programs that read the index read its log as well. A log that has become longer than the file, and than 64 MiB, is folded into it; \
`nearfield checkpoint` does that at once. One program changes an index at a time. The host loads the index; rows of a call are in memory together.

--json prints one object, in one line:
  rows            of the index after the change
  changed         rows that were added, replaced or removed
  load_seconds    loading the index, with its log
  change_seconds  reading the rows or ids, changing the index, and writing to the disk
  index, bytes    the file and its size
  log_bytes       of the log"
        )
    };
}

const EXAMPLES: &str = "\
Examples:
  nearfield add index.nf --rows new.npy
  nearfield add index.nf --rows new.npy --row-ids ids.npy
  nearfield update index.nf --rows changed.npy --row-ids 17,40
  nearfield remove index.nf --row-ids 3,5,8
  nearfield merge index.nf other.nf
  nearfield checkpoint index.nf";

#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Index of rows, saved by `nearfield build`
    #[arg(value_name = "INDEX.nf")]
    path: PathBuf,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(about = "Add the rows of a file to a saved index", long_about = long!("Add the rows of a file to a saved index. Their ids are the next insertion numbers, unless --row-ids gives others."), after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) index: Target,
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Ids of the rows: a .npy of whole numbers, one each, or numbers with commas between them
    #[arg(long, value_name = "IDS")]
    row_ids: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(about = "Replace rows of a saved index", long_about = long!("Replace the rows with these ids by those of a file, in their order."), after_help = EXAMPLES)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) index: Target,
    /// File of the new rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Ids of the rows: a .npy of whole numbers, one each, or numbers with commas between them
    #[arg(long, value_name = "IDS")]
    row_ids: String,
}

#[derive(Debug, clap::Args)]
#[command(about = "Remove rows of a saved index", long_about = long!("Remove the rows with these ids."), after_help = EXAMPLES)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) index: Target,
    /// Ids of the rows: a .npy of whole numbers, or numbers with commas between them
    #[arg(long, value_name = "IDS")]
    row_ids: String,
}

#[derive(Debug, clap::Args)]
#[command(about = "Add the rows of another saved index", long_about = long!("Add the rows of another saved index, under the ids that they have there."), after_help = EXAMPLES)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) index: Target,
    /// The other index
    #[arg(value_name = "OTHER.nf")]
    other: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(about = "Fold the log of a saved index into its file", long_about = long!("Write the file of a saved index anew, with all changes of its log, and empty the log. The disk needs room for both files meanwhile."), after_help = EXAMPLES)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    pub(crate) index: Target,
}

pub(crate) fn add(args: &AddArgs) -> Result<()> {
    changed(&args.index, |index| {
        let (file, rows) = rows(index, &args.rows)?;
        let ids = args.row_ids.as_deref().map(|ids| ids_for(ids, rows.rows())).transpose()?;
        let bar = bar("add", rows.rows());
        let progress = |done| bar.set_position(done as u64);
        let mut options = AddOptions::new().progress(&progress);
        options.ids = ids.as_deref();
        index.add_with(&rows, &options).map_err(|error| files::blame(error, "--rows", &file, 0))?;
        Ok(rows.rows())
    })
}

pub(crate) fn update(args: &UpdateArgs) -> Result<()> {
    changed(&args.index, |index| {
        let (file, rows) = rows(index, &args.rows)?;
        let ids = ids_for(&args.row_ids, rows.rows())?;
        index.update(&ids, &rows).map_err(|error| files::blame(error, "--rows", &file, 0))?;
        Ok(rows.rows())
    })
}

pub(crate) fn remove(args: &RemoveArgs) -> Result<()> {
    changed(&args.index, |index| {
        let before = index.len();
        index.remove(&ids(&args.row_ids)?).context("--row-ids")?;
        Ok(before - index.len())
    })
}

pub(crate) fn merge(args: &MergeArgs) -> Result<()> {
    changed(&args.index, |index| {
        let other =
            Index::load(&Device::host(), &args.other).map_err(|error| files::no_index(error, &args.other))?;
        index.merge(&other).with_context(|| args.other.display().to_string())?;
        Ok(other.len())
    })
}

pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<()> {
    changed(&args.index, |index| {
        index.checkpoint()?;
        Ok(0)
    })
}

/// Opens an index, changes it, and tells what came about.
fn changed(target: &Target, change: impl FnOnce(&mut Durable<Index>) -> Result<usize>) -> Result<()> {
    let path = &target.path;
    let start = Instant::now();
    let mut index = Index::open(&Device::host(), path).map_err(|error| files::no_index(error, path))?;
    let load = start.elapsed();
    if index.cut_bytes() > 0 {
        let cut = output::bytes(index.cut_bytes());
        output::note(&format!("cut {cut} of a change that was never finished and not synced"));
    }
    let start = Instant::now();
    let changed = change(&mut index)?;
    index.sync()?;
    let took = start.elapsed();
    if let Some(error) = index.checkpoint_error() {
        output::note(&format!("the log could not be folded into the file, which is as it was: {error}"));
    }
    let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let record = json!({
        "rows": index.len(), "changed": changed, "load_seconds": load.as_secs_f64(), "change_seconds": took.as_secs_f64(),
        "index": path, "bytes": bytes, "log_bytes": index.log_bytes(),
    });
    let lines = [
        ("rows", format!("{}, {changed} changed", index.len())),
        ("load", output::time(load)),
        ("change", output::time(took)),
        (
            "index",
            format!("{}, {}, log {}", path.display(), output::bytes(bytes), output::bytes(index.log_bytes())),
        ),
    ];
    output::print(target.json, &record, &lines)
}

/// The rows of a file, as the index stores them.
fn rows(index: &Index, path: &Path) -> Result<(Vectors, Matrix)> {
    let bits = Metric::OF_BITS.contains(&index.metric());
    let file = files::open_as(path, "--rows", Some(bits))?;
    let (dim, given) = (index.dim(), file.dim());
    ensure!(given == dim, "--rows: needed dim {dim}, as the index has, given dim {given}");
    let all = file.read_all().context("--rows")?;
    let all = if index.quantizes() { all } else { files::stored(all, index.elements(), 0)? };
    Ok((file, all))
}

/// The ids of an argument: of a file, or numbers with commas between them.
fn ids(given: &str) -> Result<Vec<u64>> {
    let numbers: Result<Vec<u64>, _> = given.split(',').map(|number| number.trim().parse()).collect();
    match numbers {
        Ok(numbers) => Ok(numbers),
        Err(_) if Path::new(given).exists() => read_row_ids(given).context("--row-ids"),
        Err(_) => {
            Err(anyhow!("--row-ids: needed a .npy of whole numbers, or numbers like 3,5,8, given {given}"))
        }
    }
}

/// The same, one for each of `count` rows.
fn ids_for(given: &str, count: usize) -> Result<Vec<u64>> {
    let ids = ids(given)?;
    ensure!(ids.len() == count, "--row-ids: needed {count} ids, one a row, given {}", ids.len());
    Ok(ids)
}
