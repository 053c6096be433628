//! `nearfield bench tables`: tables of figures in Markdown documents, made from JSON lines and never typed.

mod columns;
mod document;
mod facts;
mod grid;
mod kinds;
mod peers;
mod request;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;

use super::counted;
use document::Piece;
use request::Request;

/// Arguments of `nearfield bench tables`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// Markdown documents whose tables are filled, each whole or not at all
    #[arg(value_name = "DOC", required = true)]
    documents: Vec<PathBuf>,
    /// Write nothing; fail where a document is out of date
    #[arg(long)]
    check: bool,
}

const HELP: &str = "\
Example:
  nearfield bench tables docs/performance.md
  nearfield bench tables --check docs/*.md

What stands between two such lines of a document is replaced by a table; everything else is kept, byte for byte:
  <!-- table KIND FILE [FILE…] [KEY=VALUE[,VALUE…]…] -->
  <!-- end of table -->

FILE has lines of `nearfield bench --json`, its path is relative to the document. KIND:
  device                    what was measured on, and its ceilings; columns=device,ceilings,upload chooses
  commands                  the commands that give the lines again; suite=… chooses
  exact ivf builds select reduce reduce-rows distance breakeven
                            cases of a suite
  peers-exact peers-ivf peers-select peers-reduce peers-distance
                            the same, beside what other libraries take for the same things
  ivf-flat                  cases of lists beside exact search of the same rows
  ladder                    rungs of the ladder of reductions, as `bench draw --table` prints them

KEY:
  a field of what a case is of, such as dim=768 queries=1,1024: only these cases
  columns=…   these columns in this order; else those that have something to say: what is the same in all rows is left out
  sort=…      rows by these fields; else in the order of the lines
  across=…    a field whose values have columns of their own
";

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Result<()> {
    // Nothing is written before everything is known to be right.
    let filled = args.documents.iter().map(|path| Filled::new(path)).collect::<Result<Vec<_>>>()?;
    if args.check {
        for Filled { path, stale, .. } in &filled {
            if let Some((line, kind)) = stale.first() {
                bail!(
                    "{}: out of date at line {line} (table {kind}): needed `nearfield bench tables {}`",
                    path.display(),
                    path.display()
                );
            }
        }
    }
    let mut out = stdout().lock();
    for Filled { path, text, tables, stale } in &filled {
        if !stale.is_empty() {
            replace(path, text).with_context(|| path.display().to_string())?;
        }
        let tables = counted(*tables, "table", "tables");
        writeln!(out, "{}: {tables}, {} changed", path.display(), stale.len())?;
    }
    Ok(())
}

/// A document with its tables as they should be.
struct Filled<'p> {
    path: &'p Path,
    text: String,
    tables: usize,
    /// Line and kind of tables that were different.
    stale: Vec<(usize, &'static str)>,
}

impl<'p> Filled<'p> {
    fn new(path: &'p Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let mut filled = Self { path, text: String::new(), tables: 0, stale: vec![] };
        let at = |line: usize| move || format!("{}, line {line}", path.display());
        for piece in document::pieces(&text).map_err(|(line, fault)| fault.context(at(line)()))? {
            match piece {
                Piece::Kept(text) => filled.text += text,
                Piece::Table { line, request, old, ending } => {
                    let request = Request::read(request, directory).with_context(at(line))?;
                    let table = kinds::table(&request).with_context(at(line))?;
                    let table = format!("\n{}\n\n", table.trim_end()).replace('\n', ending);
                    if table != old {
                        filled.stale.push((line, request.kind));
                    }
                    filled.text += &table;
                    filled.tables += 1;
                }
            }
        }
        ensure!(filled.tables > 0, "{}: needed a line `<!-- table … -->`, found none", path.display());
        Ok(filled)
    }
}

/// Puts a text in the place of a file. Whoever reads it meanwhile has the old one or the new one.
fn replace(path: &Path, text: &str) -> Result<()> {
    // A link stays one.
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut name = path.file_name().context("needed a file")?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = fs::File::create_new(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_permissions(permissions)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // The error to report is the one that led here.
        fs::remove_file(&temporary).ok();
    }
    Ok(written?)
}
