//! The rows that a statement answers: printed, or written to a file.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::io::{self, Write};
use std::mem::take;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
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

    /// Takes all rows and drops them.
    pub(crate) fn run(mut self) -> Result<()> {
        while self.next()?.is_some() {}
        Ok(())
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
                while let Some(batch) = self.next()? {
                    json.write(&batch)?;
                    out.write_all(&take(json.get_mut()))?;
                }
                return Ok(out.flush()?);
            }
        };
        let (mut batches, mut left, mut are_more) = (vec![], most, false);
        while !are_more && let Some(batch) = self.next()? {
            are_more = batch.num_rows() > left;
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            batches.push(shortened(&batch, SHOWN_ELEMENTS)?);
        }
        if batches.is_empty() {
            batches.push(shortened(&RecordBatch::new_empty(self.schema.clone()), SHOWN_ELEMENTS)?);
        }
        writeln!(out, "{}", pretty_format_batches_with_options(&batches, &format())?)?;
        out.flush()?;
        if are_more {
            let rows = output::counted(most, "row", "rows");
            output::note(&format!("the first {rows}; --show prints more, --out and --json give all"));
        }
        Ok(())
    }

    /// Writes all rows to a file, in the format of its ending, and returns their number.
    pub(crate) fn write(mut self, path: &Path) -> Result<usize> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase()).unwrap_or_default();
        let mut rows = 0;
        // Beside the error of the file, which has no place for those of a query.
        let mut failed = None;
        let written = write_file(path, |file| {
            let write = || -> Result<()> {
                match ending.to_str() {
                    Some("csv") => {
                        let mut csv = csv::Writer::new(file);
                        // The headers, even if no rows come. Lists are texts, as CSV has none.
                        csv.write(&shortened(&RecordBatch::new_empty(self.schema.clone()), usize::MAX)?)?;
                        while let Some(batch) = self.next()? {
                            rows += batch.num_rows();
                            csv.write(&shortened(&batch, usize::MAX)?)?;
                        }
                    }
                    Some("parquet") => {
                        let mut parquet = ArrowWriter::try_new(vec![], self.schema.clone(), None)?;
                        while let Some(batch) = self.next()? {
                            rows += batch.num_rows();
                            parquet.write(&batch)?;
                            file.write_all(&take(parquet.inner_mut()))?;
                        }
                        file.write_all(&parquet.into_inner()?)?;
                    }
                    _ => {
                        let mut json = json(file);
                        while let Some(batch) = self.next()? {
                            rows += batch.num_rows();
                            json.write(&batch)?;
                        }
                    }
                }
                Ok(())
            };
            write().map_err(|error| {
                failed = Some(error);
                io::Error::other("no rows")
            })
        });
        match failed {
            Some(error) => Err(error).with_context(|| format!("--out {}", path.display())),
            None => Ok(written.map(|()| rows).context("--out")?),
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
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) =
        (batch.schema().fields().iter().zip(batch.columns()))
            .map(|(field, column)| {
                let is_list = matches!(
                    field.data_type(),
                    DataType::FixedSizeList(..) | DataType::List(_) | DataType::LargeList(_)
                );
                Ok(match is_list {
                    true => (
                        Field::new(field.name(), DataType::Utf8, true),
                        Arc::new(texts(column, most)?) as ArrayRef,
                    ),
                    false => (field.as_ref().clone(), column.clone()),
                })
            })
            .collect::<Result<Vec<_>, ArrowError>>()?
            .into_iter()
            .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn texts(column: &ArrayRef, most: usize) -> Result<StringArray, ArrowError> {
    let value = |row: usize| match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        _ => column.as_list::<i32>().value(row),
    };
    let text = |row: usize| {
        if column.is_null(row) {
            return Ok(None);
        }
        let (list, format) = (value(row), format());
        let elements = ArrayFormatter::try_new(&list, &format)?;
        let mut text = String::from("[");
        for place in 0..list.len().min(most) {
            let comma = if place > 0 { ", " } else { "" };
            write!(text, "{comma}{}", elements.value(place))
                .map_err(|error| ArrowError::ExternalError(error.into()))?;
        }
        if list.len() > most {
            text.push_str(&format!(", … {} elements", list.len()));
        }
        text.push(']');
        Ok(Some(text))
    };
    (0..column.len()).map(text).collect()
}
