//! The rows that a statement answers: printed, or written to a file.

use std::future::poll_fn;
use std::io::{self, Write};
use std::mem::take;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use datafusion::arrow::array::{ArrayRef, AsArray, ListLikeArray, RecordBatch, StringArray};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{LineDelimited, Writer, WriterBuilder};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use nearfield::io::write_file;
use tokio::runtime::Runtime;

use crate::words::in_words;
use nearfield_cli::terminal::output;

/// Endings of the files of `--out`.
pub(crate) const ENDINGS: &[&str] = &["csv", "jsonl", "ndjson", "json", "parquet"];
/// Elements of a list that a table shows. A longer list is shortened.
const SHOWN_ELEMENTS: usize = 8;

/// How rows are printed.
pub(crate) enum Shown {
    /// A table of the first rows.
    Table(usize),
    /// All, an object a line.
    Json,
}

/// The rows of a statement, as they come.
pub(crate) struct Rows<'a> {
    runtime: &'a Runtime,
    stream: SendableRecordBatchStream,
    schema: SchemaRef,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(runtime: &'a Runtime, stream: SendableRecordBatchStream, schema: Schema) -> Self {
        Self { runtime, stream, schema: schema.into() }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.runtime.block_on(poll_fn(|context| self.stream.as_mut().poll_next(context)));
        next.transpose().map_err(in_words)
    }

    /// Takes all rows, and counts them.
    fn each(&mut self, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<usize> {
        let mut rows = 0;
        while let Some(batch) = self.next()? {
            rows += batch.num_rows();
            take(batch)?;
        }
        Ok(rows)
    }

    /// Takes all rows and drops them.
    pub(crate) fn run(mut self) -> Result<()> {
        self.each(|_| Ok(())).map(drop)
    }

    pub(crate) fn print(mut self, shown: Shown) -> Result<()> {
        // A statement like CREATE TABLE answers nothing.
        if self.schema.fields().is_empty() {
            return self.run();
        }
        let mut out = io::stdout().lock();
        let most = match shown {
            Shown::Table(most) => most,
            Shown::Json => {
                let mut json = json(vec![]);
                self.each(|batch| {
                    json.write(&batch)?;
                    Ok(out.write_all(&take(json.get_mut()))?)
                })?;
                return Ok(out.flush()?);
            }
        };
        let (mut batches, mut left, mut are_more) = (vec![self.none()?], most, false);
        while !are_more && let Some(batch) = self.next()? {
            are_more = batch.num_rows() > left;
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            batches.push(shortened(&batch, SHOWN_ELEMENTS)?);
        }
        writeln!(out, "{}", pretty_format_batches_with_options(&batches, &format())?)?;
        out.flush()?;
        if are_more {
            let rows = output::counted(most, "row", "rows");
            output::note(&format!("the first {rows}; --show prints more, --out and --json give all"));
        }
        Ok(())
    }

    /// The columns without rows.
    fn none(&self) -> Result<RecordBatch, ArrowError> {
        shortened(&RecordBatch::new_empty(self.schema.clone()), usize::MAX)
    }

    /// Writes all rows to a file, in the format of its ending, and returns their number.
    pub(crate) fn write(mut self, path: &Path) -> Result<usize> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase()).unwrap_or_default();
        // Beside the error of the file, which has no place for those of a query.
        let mut rows = Ok(0);
        let written = write_file(path, |file| {
            rows = self.write_to(file, ending.to_str());
            rows.as_ref().map(|_| ()).map_err(|_| io::Error::other("no rows"))
        });
        let rows = rows.with_context(|| format!("--out {}", path.display()))?;
        written.map(|()| rows).context("--out")
    }

    fn write_to(&mut self, file: &mut dyn Write, ending: Option<&str>) -> Result<usize> {
        match ending {
            Some("csv") => {
                let mut csv = csv::Writer::new(file);
                // The headers, even if no rows come. Lists are texts, as CSV has none.
                csv.write(&self.none()?)?;
                self.each(|batch| Ok(csv.write(&shortened(&batch, usize::MAX)?)?))
            }
            Some("parquet") => {
                let mut parquet = ArrowWriter::try_new(vec![], self.schema.clone(), None)?;
                let rows = self.each(|batch| {
                    parquet.write(&batch)?;
                    Ok(file.write_all(&take(parquet.inner_mut()))?)
                })?;
                file.write_all(&parquet.into_inner()?)?;
                Ok(rows)
            }
            _ => {
                let mut json = json(file);
                self.each(|batch| Ok(json.write(&batch)?))
            }
        }
    }
}

fn json<W: Write>(out: W) -> Writer<W, LineDelimited> {
    WriterBuilder::new().with_explicit_nulls(true).build(out)
}

fn format() -> FormatOptions<'static> {
    FormatOptions::new().with_null("NULL")
}

/// A batch whose lists are texts of their first elements.
fn shortened(batch: &RecordBatch, most: usize) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (vec![], vec![]);
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let texts: Option<ArrayRef> = match field.data_type() {
            DataType::FixedSizeList(..) => Some(Arc::new(texts(column.as_fixed_size_list(), most)?)),
            DataType::List(_) => Some(Arc::new(texts(column.as_list::<i32>(), most)?)),
            DataType::LargeList(_) => Some(Arc::new(texts(column.as_list::<i64>(), most)?)),
            _ => None,
        };
        fields.push(match texts {
            Some(_) => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
            None => field.clone(),
        });
        columns.push(texts.unwrap_or_else(|| column.clone()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn texts(lists: &dyn ListLikeArray, most: usize) -> Result<StringArray, ArrowError> {
    let format = format();
    let elements = ArrayFormatter::try_new(lists.values(), &format)?;
    let text = |row: usize| {
        let range = lists.element_range(row);
        let shown: Vec<String> =
            range.clone().take(most).map(|place| elements.value(place).to_string()).collect();
        let rest = if range.len() > most { format!(", … {} elements", range.len()) } else { String::new() };
        lists.is_valid(row).then(|| format!("[{}{rest}]", shown.join(", ")))
    };
    Ok((0..lists.len()).map(text).collect())
}
