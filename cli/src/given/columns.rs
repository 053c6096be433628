//! Columns of vectors in Parquet and Arrow files.
//!
//! Commands read rows at positions and more than once, which files of compressed columns are not made for. So a column is copied, batch by batch, to
//! a temporary file of one of the library's formats.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use arrow::array::types::{Float16Type, Float32Type, Int8Type, UInt8Type};
use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch, UInt8Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::compute::kernels::cmp::distinct;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use nearfield::io::VectorFile;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tempfile::TempDir;

use crate::terminal::interrupt;

/// Rows of a batch of a Parquet file. Arrow files have batches of their own.
const BATCH_ROWS: usize = 2048;
/// How an Arrow file starts. Without it, batches follow each other as in a stream.
const ARROW_FILE: &[u8] = b"ARROW1";

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A column that was copied.
pub(super) struct Column {
    pub(super) copy: VectorFile,
    /// `FILE.parquet:COLUMN`.
    pub(super) name: PathBuf,
    pub(super) converted: Option<String>,
    /// The directory of the copy, which goes with the file.
    pub(super) directory: TempDir,
}

/// Opens a column of a file: the one of this name, or the only one of vectors. `bits` says whether they are bits; else their type does.
pub(super) fn open(path: &Path, column: Option<&str>, bits: Option<bool>) -> Result<Column> {
    let file = path.display();
    let schema = batches(path, None).with_context(|| file.to_string())?.0;
    let column = choose(&schema, column, bits == Some(true)).with_context(|| file.to_string())?;
    let field = schema.field(column);
    let name = format!("{file}:{}", field.name());
    ensure!(
        bits != Some(false) || !is_binary(field),
        "{name}: needed lists of numbers, or --bits, which `search` and `build` have for bytes of eight bits, found {}",
        field.data_type()
    );
    let directory = interrupt::temporary_directory()?;
    let copy = copy(path, column, field, directory.path()).context(name.clone())?;
    let copy = if bits.unwrap_or(is_binary(field)) { copy.of_bits()? } else { copy };
    let converted = match element(field) {
        Some(DataType::Float64) => Some("float64 rounded to float32".to_owned()),
        Some(DataType::Float16 | DataType::Float32 | DataType::Int8 | DataType::UInt8) | None => None,
        Some(other) => Some(format!("{} to float32", other.to_string().to_lowercase())),
    };
    Ok(Column { copy, name: name.into(), converted, directory })
}

/// The columns of a file, and its rows: those of all columns or of one.
fn batches(path: &Path, column: Option<usize>) -> Result<(SchemaRef, Batches)> {
    let mut file = File::open(path)?;
    ensure!(file.metadata()?.is_file(), "needed a regular file");
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS);
        let schema = builder.schema().clone();
        let mask = column.map_or(ProjectionMask::all(), |column| {
            ProjectionMask::roots(builder.parquet_schema(), [column])
        });
        return Ok((schema, Box::new(builder.with_projection(mask).build()?)));
    }
    let mut start = vec![];
    (&file).take(ARROW_FILE.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    let columns = column.map(|column| vec![column]);
    Ok(if start == ARROW_FILE {
        let reader = FileReader::try_new_buffered(file, columns)?;
        (reader.schema(), Box::new(reader))
    } else {
        let reader = StreamReader::try_new_buffered(file, columns)?;
        (reader.schema(), Box::new(reader))
    })
}

/// Whether a column has binary values: bytes that are no numbers.
fn is_binary(field: &Field) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(field.data_type(), Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// The type of the elements of a column of vectors; none for another column.
fn element(field: &Field) -> Option<&DataType> {
    match field.data_type() {
        DataType::FixedSizeList(element, _) | DataType::List(element) | DataType::LargeList(element) => {
            Some(element.data_type()).filter(|element| element.is_floating() || element.is_integer())
        }
        _ if is_binary(field) => Some(&DataType::UInt8),
        _ => None,
    }
}

/// The position of a column: by its name, or the only one that fits. Where rows are bits it has bytes. Else it has lists of floats, or of
/// integers if none has floats, or binary values if none has lists.
fn choose(schema: &Schema, name: Option<&str>, of_bits: bool) -> Result<usize> {
    let fits =
        |field: &Field| element(field).is_some_and(|element| !of_bits || matches!(element, DataType::UInt8));
    let needed = if of_bits { "binary values or lists of uint8" } else { "lists of numbers" };
    let columns = || {
        let texts: Vec<String> =
            schema.fields().iter().map(|field| format!("{} ({})", field.name(), field.data_type())).collect();
        if texts.is_empty() { "no columns".to_owned() } else { format!("columns {}", texts.join(", ")) }
    };
    let of = |fits: &dyn Fn(&Field) -> bool| -> Vec<usize> {
        let all = schema.fields().iter().enumerate();
        all.filter(|(_, field)| fits(field)).map(|(column, _)| column).collect()
    };
    if let Some(name) = name {
        let named = of(&|field| field.name() == name);
        ensure!(!named.is_empty(), "needed a column {name}, found {}", columns());
        ensure!(named.len() == 1, "needed one column {name}, found {}", named.len());
        let field = schema.field(named[0]);
        let kind = field.data_type();
        ensure!(fits(field), "{name}: needed a column of {needed}, found {kind}");
        return Ok(named[0]);
    }
    let floats = of(&|field| fits(field) && element(field).is_some_and(DataType::is_floating));
    let lists = of(&|field| fits(field) && (of_bits || !is_binary(field)));
    let mut by_preference = [floats, lists, of(&fits)].into_iter();
    match by_preference.find(|fitting| !fitting.is_empty()).as_deref() {
        Some([column]) => Ok(*column),
        _ => bail!("needed one column of {needed}, or FILE:COLUMN to name one, found {}", columns()),
    }
}

/// Copies a column to a file in a directory.
fn copy(path: &Path, column: usize, field: &Field, directory: &Path) -> Result<VectorFile> {
    let copy = directory.join(match element(field) {
        Some(DataType::Float16) => "vectors.f16bin",
        Some(DataType::Int8) => "vectors.i8bin",
        Some(DataType::UInt8) => "vectors.u8bin",
        _ => "vectors.fbin",
    });
    let mut out = BufWriter::new(File::create(&copy)?);
    // The numbers of rows and elements, known in the end.
    out.write_all(&[0; 8])?;
    let dim = match field.data_type() {
        DataType::FixedSizeList(_, dim) | DataType::FixedSizeBinary(dim) => usize::try_from(*dim).ok(),
        _ => None,
    };
    let mut block = Block { dim, rows: 0, bytes: vec![] };
    let (_, batches) = batches(path, Some(column))?;
    for batch in batches {
        block.take(batch?.column(0))?;
        out.write_all(&block.bytes)?;
    }
    let dim = block.dim.context("needed the dim of the vectors, found no rows that tell it")?;
    ensure!(dim > 0, "needed vectors of at least 1 element, found empty ones");
    let mut file = out.into_inner().map_err(|error| anyhow!(error.into_error()))?;
    file.seek(SeekFrom::Start(0))?;
    for count in [block.rows, dim] {
        let count = u32::try_from(count)
            .ok()
            .with_context(|| format!("needed fewer than 2^32 rows, found {count}"))?;
        file.write_all(&count.to_le_bytes())?;
    }
    Ok(VectorFile::open(copy)?)
}

/// Vectors on their way to a file.
struct Block {
    /// Elements of each vector, as the first one has. None before it.
    dim: Option<usize>,
    /// Those that came so far.
    rows: usize,
    /// The elements of the last ones, little endian.
    bytes: Vec<u8>,
}

impl Block {
    /// Takes the vectors of a batch.
    fn take(&mut self, column: &ArrayRef) -> Result<()> {
        let first = self.rows;
        if let Some(row) = first_null(column) {
            bail!("needed a vector in each row, row {} is NULL", first + row);
        }
        let elements = match column.data_type() {
            DataType::FixedSizeList(..) => column.as_fixed_size_list().values().clone(),
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                self.elements(lists.offsets(), lists.values())?
            }
            DataType::LargeList(_) => {
                let lists = column.as_list::<i64>();
                self.elements(lists.offsets(), lists.values())?
            }
            _ => {
                let binary = cast(column, &DataType::LargeBinary)?;
                let (offsets, bytes, _) = binary.as_binary::<i64>().clone().into_parts();
                self.elements(&offsets, &UInt8Array::new(bytes.into(), None))?
            }
        };
        let dim = self.dim.unwrap_or(0).max(1);
        if let Some(place) = first_null(&elements) {
            bail!("needed numbers, element {} of row {} is NULL", place % dim, first + place / dim);
        }
        self.bytes.clear();
        if let Some(values) = elements.as_primitive_opt::<Float16Type>() {
            self.bytes.extend(values.values().iter().flat_map(|value| value.to_le_bytes()));
        } else if let Some(values) = elements.as_primitive_opt::<Int8Type>() {
            self.bytes.extend(values.values().iter().map(|&value| value as u8));
        } else if let Some(values) = elements.as_primitive_opt::<UInt8Type>() {
            self.bytes.extend_from_slice(values.values());
        } else {
            let values = cast(&elements, &DataType::Float32)?;
            if let Some((place, needed)) = first_misfit(&elements, &values)? {
                let found = arrow::util::display::array_value_to_string(&elements, place)?;
                bail!("row {}: needed {needed}, found {found}", first + place / dim);
            }
            let values = values.as_primitive::<Float32Type>().values();
            self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        self.rows += column.len();
        Ok(())
    }

    /// The elements of vectors between offsets, which all have the length of the first.
    fn elements<O: OffsetSizeTrait>(
        &mut self,
        offsets: &OffsetBuffer<O>,
        values: &dyn Array,
    ) -> Result<ArrayRef> {
        for (row, ends) in (self.rows..).zip(offsets.windows(2)) {
            let length = (ends[1] - ends[0]).as_usize();
            let dim = *self.dim.get_or_insert(length);
            ensure!(
                length == dim,
                "needed {dim} elements in each row, as row 0 has, found {length} in row {row}"
            );
        }
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        Ok(values.slice(first.as_usize(), (last - first).as_usize()))
    }
}

fn first_null(array: &ArrayRef) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    nulls.iter().position(|is_valid| !is_valid)
}

/// The first number that f32 does not hold, and what it should have been: integers exactly, floats within its range.
fn first_misfit(elements: &ArrayRef, values: &ArrayRef) -> Result<Option<(usize, &'static str)>> {
    match elements.data_type() {
        DataType::Float32 => Ok(None),
        kind if kind.is_integer() => {
            // What f32 rounds up to more than the integers hold becomes NULL.
            let back = cast(values, kind)?;
            let place = distinct(&back, elements)?.values().set_indices().next();
            Ok(place.map(|place| (place, "integers that float32 holds exactly")))
        }
        _ => {
            let wide = cast(elements, &DataType::Float64)?;
            let wide = wide.as_primitive::<arrow::array::types::Float64Type>().values();
            let narrow = values.as_primitive::<Float32Type>().values();
            let place =
                wide.iter().zip(narrow).position(|(wide, narrow)| wide.is_finite() && narrow.is_infinite());
            Ok(place.map(|place| (place, "float64 numbers that do not exceed the largest float32")))
        }
    }
}
