//! Tables of ids and a distance, written as csv or Parquet while they are found.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;

/// A file, or the standard output, that is being written.
type To<'w> = &'w mut (dyn Write + Send);

/// A table of the columns `names`: whole numbers, and last a distance.
pub(super) enum Table<'w> {
    Csv(Box<csv::Writer<To<'w>>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<columnar::Columns<'w>>),
    /// Nobody wants it.
    Nothing,
}

impl<'w> Table<'w> {
    /// The endings of the files.
    pub(super) const ENDINGS: [&'static str; 2] = ["csv", "parquet"];

    /// Refuses a file that this program cannot write.
    pub(super) fn check(_path: &Path) -> Result<()> {
        #[cfg(not(feature = "parquet"))]
        if is_parquet(_path) {
            anyhow::bail!(nearfield_cli::given::vectors::WITHOUT_COLUMNS);
        }
        Ok(())
    }

    /// Starts a table in the format of the path's ending. Without a path it is csv.
    pub(super) fn start(to: To<'w>, _path: Option<&Path>, names: &[&str]) -> io::Result<Self> {
        #[cfg(feature = "parquet")]
        if _path.is_some_and(is_parquet) {
            return Ok(Self::Parquet(Box::new(columnar::Columns::start(to, names)?)));
        }
        let mut table = csv::Writer::from_writer(to);
        table.write_record(names).map_err(io_error)?;
        Ok(Self::Csv(Box::new(table)))
    }

    /// Adds a row.
    pub(super) fn add<const N: usize>(&mut self, ids: [u64; N], distance: f32) -> io::Result<()> {
        match self {
            Self::Csv(table) => {
                let numbers = ids.iter().map(u64::to_string).chain([distance.to_string()]);
                table.write_record(numbers).map_err(io_error)
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.add(&ids, distance),
            Self::Nothing => Ok(()),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(mut table) => table.flush(),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.finish(),
            Self::Nothing => Ok(()),
        }
    }
}

/// The error of writing itself, by which a reader that left is known.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
}

/// Parquet files: columns of u64, and last one of f32.
#[cfg(feature = "parquet")]
mod columnar {
    use std::io;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float32Array, RecordBatch, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::WriterProperties;

    use super::To;

    /// Rows of a batch.
    const BATCH_ROWS: usize = 1 << 16;

    pub(in super::super) struct Columns<'w> {
        writer: ArrowWriter<To<'w>>,
        schema: SchemaRef,
        ids: Vec<Vec<u64>>,
        distances: Vec<f32>,
    }

    impl<'w> Columns<'w> {
        pub(super) fn start(to: To<'w>, names: &[&str]) -> io::Result<Self> {
            let (distance, ids) = names.split_last().unwrap_or((&"distance", &[]));
            let of_ids = ids.iter().map(|name| Field::new(*name, DataType::UInt64, false));
            let fields: Vec<Field> =
                of_ids.chain([Field::new(*distance, DataType::Float32, false)]).collect();
            let schema = Arc::new(Schema::new(fields));
            let properties =
                WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
            let writer = ArrowWriter::try_new(to, schema.clone(), Some(properties))?;
            Ok(Self { writer, schema, ids: vec![vec![]; ids.len()], distances: vec![] })
        }

        pub(super) fn add(&mut self, ids: &[u64], distance: f32) -> io::Result<()> {
            self.ids.iter_mut().zip(ids).for_each(|(column, &id)| column.push(id));
            self.distances.push(distance);
            if self.distances.len() < BATCH_ROWS { Ok(()) } else { self.write() }
        }

        fn write(&mut self) -> io::Result<()> {
            let ids = self.ids.iter_mut().map(|column| UInt64Array::from(std::mem::take(column)));
            let mut columns: Vec<ArrayRef> = ids.map(|column| Arc::new(column) as ArrayRef).collect();
            columns.push(Arc::new(Float32Array::from(std::mem::take(&mut self.distances))));
            let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(io::Error::other)?;
            Ok(self.writer.write(&batch)?)
        }

        pub(super) fn finish(mut self) -> io::Result<()> {
            self.write()?;
            self.writer.close()?;
            Ok(())
        }
    }
}
