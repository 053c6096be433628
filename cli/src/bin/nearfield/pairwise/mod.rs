//! `nearfield graph`, `pairs` and `dedup`: every row of a file, or of an index, against every other.

pub(crate) mod dedup;
pub(crate) mod graph;
pub(crate) mod pairs;
mod table;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nearfield::io::write_file;
use nearfield::{ElementKind, Error, Flat, Index, Metric};

use nearfield_cli::given::arguments::{self, Threads};
use nearfield_cli::given::files;
use nearfield_cli::given::places::Places;
use nearfield_cli::terminal::output;
use table::Table;

/// The rows, where they are searched, and where the answer goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Given {
    /// File of the rows
    #[arg(long, value_name = "FILE", required_unless_present = "index_file")]
    rows: Option<PathBuf>,
    /// Index of the rows, saved by `nearfield build`
    #[arg(long, value_name = "INDEX.nf", conflicts_with_all = ["rows", "metric", "bits"])]
    index_file: Option<PathBuf>,
    /// Metric: cosine, l2sq, l2 or ip (the inner product, negated), and of bits hamming (with --bits the default) or jaccard
    #[arg(long, value_name = "METRIC", default_value = "cosine", default_value_if("bits", "true", "hamming"), value_parser = arguments::word::<Metric>)]
    metric: Metric,
    /// Bytes (u8, or binary columns) of the file are eight bits each, and bools are bits, eight of which make an element
    #[arg(long)]
    bits: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Write all that was found to this file: .csv, .parquet (of a graph also .npz), or - for csv on the standard output
    #[arg(long, value_name = "OUT", value_parser = out)]
    out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn out(text: &str) -> Result<PathBuf> {
    if text == files::STDOUT {
        return Ok(text.into());
    }
    let path = files::output_path(text, &[&Table::ENDINGS[..], &[MATRIX]].concat())?;
    Table::check(&path)?;
    Ok(path)
}

/// The ending of a sparse matrix, which a graph alone is.
const MATRIX: &str = "npz";

impl Given {
    /// The file of a sparse matrix, if one was asked for.
    fn matrix(&self) -> Option<&Path> {
        let is_matrix =
            |path: &&Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(MATRIX));
        self.out.as_deref().filter(is_matrix)
    }

    /// Refuses a sparse matrix.
    fn needs_table(&self) -> Result<()> {
        let Some(path) = self.matrix() else { return Ok(()) };
        let needed = Table::ENDINGS.map(|ending| format!(".{ending}")).join(", ");
        bail!("--out: needed a name that ends in {needed}, {} is for a graph", path.display())
    }

    /// Whether the answer takes the standard output.
    fn is_piped(&self) -> bool {
        self.out.as_deref() == Some(Path::new(files::STDOUT))
    }

    /// Checks the arguments, with other files that a command reads and writes, and brings the rows to their devices. Returns the time it took.
    fn open(&self, read: Option<Named<'_>>, written: Option<Named<'_>>) -> Result<(Index, Duration)> {
        if self.is_piped() && self.json {
            bail!("--out -: needed no --json beside it, given both");
        }
        let mut inputs = vec![("--rows", self.rows.as_deref()), ("--index-file", self.index_file.as_deref())];
        inputs.extend(read);
        let mut outputs = vec![("--out", self.out.as_deref().filter(|_| !self.is_piped()))];
        outputs.extend(written);
        files::check_outputs(&inputs, &outputs, self.force)?;
        let Places { distribution, residency, .. } = self.places;
        let start = Instant::now();
        if let Some(path) = &self.index_file {
            self.places.mapped(None)?;
            let devices = self.places.open()?;
            let loader = Index::loader(&devices[..]).distribution(distribution).residency(residency);
            let loaded = loader.load(path).map_err(|error| files::no_index(error, path));
            return Ok((loaded.context("--index-file")?, start.elapsed()));
        }
        let path = self.rows.as_ref().context("--rows: needed a file, or --index-file, given neither")?;
        files::check_bits(self.metric, self.bits)?;
        let rows = files::open_as(path, "--rows", Some(self.bits))?;
        let devices = self.places.open()?;
        let builder = Flat::builder(&devices[..], self.metric, rows.dim()).elements(rows.kind());
        let builder = builder.distribution(distribution);
        if let Some(file) = self.places.mapped(Some(rows.stored()))? {
            let index = builder.mapped(file).build().context("--residency mapped: --rows")?;
            return Ok((index.into(), start.elapsed()));
        }
        let mut index = builder.residency(residency).capacity(rows.rows()).build()?.into();
        files::fill(&mut index, &rows, None)?;
        Ok((index, start.elapsed()))
    }

    /// Writes a table of these columns where the user wants it. Without `--out` it is found all the same.
    fn write(&self, columns: &[&str], fill: impl FnOnce(&mut Table<'_>) -> io::Result<()>) -> Result<()> {
        let Some(path) = &self.out else { return Ok(fill(&mut Table::Nothing)?) };
        let write = |to: &mut (dyn Write + Send)| {
            let mut table = Table::start(to, Some(path), columns)?;
            fill(&mut table)?;
            table.finish()
        };
        if self.is_piped() { Ok(write(&mut io::stdout())?) } else { write_file(path, write).context("--out") }
    }

    /// Writes a table while the library visits what it finds: `visit` hands what writing gave to the function. The errors of a visitor are
    /// those of the library alone, so that of writing goes around it, and that of the library around writing.
    fn write_visited(
        &self,
        columns: &[&str],
        visit: impl FnOnce(&mut Table<'_>, Check<'_>) -> nearfield::Result<()>,
    ) -> Result<()> {
        let mut failed = None;
        let written = self.write(columns, |table| {
            let mut refused = None;
            let visited = visit(table, &mut |written| {
                written.map_err(|error| {
                    refused = Some(error);
                    Error::Interrupted
                })
            });
            if let (None, Err(error)) = (&refused, visited) {
                failed = Some(error);
                refused = Some(io::ErrorKind::Other.into());
            }
            refused.map_or(Ok(()), Err)
        });
        failed.map_or(written, |error| Err(error.into()))
    }

    /// Prints what was done, unless the standard output has the answer.
    fn report(
        &self,
        index: &Index,
        took: [Duration; 2],
        more: &[(&str, serde_json::Value, String)],
    ) -> Result<()> {
        if self.is_piped() {
            return Ok(());
        }
        let [load, compare] = took;
        let (rows, dim, kind) = (index.len(), index.dim(), index.elements());
        let path = self.rows.as_deref().or(self.index_file.as_deref()).unwrap_or(Path::new(""));
        let shown = dim * if kind == ElementKind::Bits { 8 } else { 1 };
        let mut lines = vec![
            ("rows", format!("{rows} x {shown} {kind}, {}", path.display())),
            ("device", nearfield_cli::given::device::places(index.devices())),
            ("metric", index.metric().to_string()),
            ("load", output::time(load)),
            ("compare", output::time(compare)),
        ];
        let mut record = serde_json::json!({
            "rows": rows, "dim": dim, "elements": kind.name(), "metric": index.metric().name(),
            "device": nearfield_cli::given::device::to_json(index.device().adapter()),
            "load_seconds": load.as_secs_f64(), "compare_seconds": compare.as_secs_f64(), "out": self.out,
        });
        for (name, value, text) in more {
            lines.push((name, text.clone()));
            record[*name] = value.clone();
        }
        lines.extend(self.out.iter().map(|path| ("wrote", path.display().to_string())));
        output::print(self.json, &record, &lines)
    }
}

/// A function that takes what writing gave.
type Check<'c> = &'c mut (dyn FnMut(io::Result<()>) -> nearfield::Result<()> + Send);

/// An argument and its file, if it is given.
type Named<'a> = (&'a str, Option<&'a Path>);
