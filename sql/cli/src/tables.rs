//! Files under the names of `--table`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use datafusion::datasource::file_format::options::ArrowReadOptions;
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext};
use nearfield_datafusion::IndexTable;

use crate::vectors;
use crate::words::in_words;
use nearfield_cli::given::files;

/// Letters of a path that stands for several files.
const PATTERN: [char; 3] = ['*', '?', '['];

/// Endings of files that DataFusion reads. Others hold vectors.
const READ_BY_DATAFUSION: [&str; 9] =
    ["parquet", "csv", "tsv", "jsonl", "ndjson", "json", "arrow", "ipc", "feather"];

/// A file with the name of a table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    name: String,
    pub(crate) file: PathBuf,
}

/// Reads `NAME=FILE`.
pub(crate) fn table(text: &str) -> Result<Table> {
    const NEEDED: &str = "needed NAME=FILE, like base=base.parquet";
    let (name, file) = text.split_once('=').context(NEEDED)?;
    let is_plain = |letter: char| letter.is_alphanumeric() || letter == '_';
    ensure!(!file.is_empty() && !name.is_empty(), NEEDED);
    ensure!(
        name.chars().all(is_plain) && !name.starts_with(|first: char| first.is_numeric()),
        "needed a name of letters, digits and _, not {name:?}"
    );
    Ok(Table { name: name.to_owned(), file: file.into() })
}

impl Table {
    /// Gives the file its name. Statements may write the name in any case.
    pub(crate) async fn register(&self, context: &SessionContext) -> Result<()> {
        let about = || format!("--table {}={}", self.name, self.file.display());
        let name = self.name.to_lowercase();
        ensure!(
            !context.table_exist(&*name)?,
            "--table {}: needed each name once, given it twice",
            self.name
        );
        let ending = self.file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let (dotted, lower) = (format!(".{ending}"), ending.to_lowercase());
        let path = self.file.to_str().with_context(|| format!("{}: needed a path in UTF-8", about()))?;
        if lower == "nf" || IndexTable::is_at(&self.file) {
            let table = IndexTable::open(path).map_err(in_words).with_context(about)?;
            context.register_table(name, Arc::new(table))?;
            return Ok(());
        }
        if !self.file.is_dir() && !READ_BY_DATAFUSION.contains(&&*lower) {
            let vectors = files::open_as(&self.file, "--table", None).with_context(about)?;
            context.register_table(name, vectors::table(vectors)?)?;
            return Ok(());
        }
        ensure!(path.contains(PATTERN) || self.file.exists(), "{}: needed a file, there is none", about());
        let csv = |delimiter| CsvReadOptions::new().delimiter(delimiter).file_extension(&dotted);
        let registered = match &*lower {
            _ if self.file.is_dir() => {
                context.register_parquet(&*name, path, ParquetReadOptions::default()).await
            }
            "parquet" => {
                let options = ParquetReadOptions { file_extension: &dotted, ..Default::default() };
                context.register_parquet(&*name, path, options).await
            }
            "csv" => context.register_csv(&*name, path, csv(b',')).await,
            "tsv" => context.register_csv(&*name, path, csv(b'\t')).await,
            "arrow" | "ipc" | "feather" => {
                let options = ArrowReadOptions { file_extension: &dotted, ..Default::default() };
                context.register_arrow(&*name, path, options).await
            }
            _ => {
                let options = JsonReadOptions { file_extension: &dotted, ..Default::default() };
                context.register_json(&*name, path, options).await
            }
        };
        registered.map_err(in_words).with_context(about)
    }
}
