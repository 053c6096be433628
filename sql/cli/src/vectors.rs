//! Files of vectors as tables: `id`, the number of the row, and `vector`.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use datafusion::arrow::array::{
    ArrayRef, FixedSizeBinaryArray, FixedSizeListArray, PrimitiveArray, RecordBatch, UInt64Array,
};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float16Type, Float32Type, Int8Type, Schema, SchemaRef, UInt8Type,
};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use nearfield::{ElementKind, Matrix};

use nearfield_cli::given::vectors::{Vectors, file_of};

/// Bytes of a batch of rows.
const BATCH_BYTES: usize = 4 << 20;
/// Batches that are read ahead.
const AHEAD: usize = 2;

/// The rows of a file.
#[derive(Debug)]
struct Rows {
    file: Arc<Vectors>,
    schema: SchemaRef,
}

/// The table of a file.
pub(crate) fn table(file: Vectors) -> anyhow::Result<Arc<dyn TableProvider>> {
    let dim = i32::try_from(file.dim()).ok();
    let dim = dim.with_context(|| format!("{}: needed a dim below 2^31", file.path().display()))?;
    let fields = vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("vector", type_of(file.kind(), dim), false),
    ];
    let schema = Arc::new(Schema::new(fields));
    let rows = Rows { file: Arc::new(file), schema: schema.clone() };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
}

/// The type of vectors: bits are binary values, as in the files of columns that they come from.
fn type_of(kind: ElementKind, dim: i32) -> DataType {
    match kind {
        ElementKind::Bits => DataType::FixedSizeBinary(dim),
        _ => DataType::FixedSizeList(element(kind), dim),
    }
}

fn element(kind: ElementKind) -> FieldRef {
    // Arrow has no bf16, and f32 holds its numbers.
    let kind = match kind {
        ElementKind::F16 => DataType::Float16,
        ElementKind::I8 => DataType::Int8,
        ElementKind::U8 => DataType::UInt8,
        _ => DataType::Float32,
    };
    // As in literals and casts.
    Field::new_list_field(kind, true).into()
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(self.schema.clone(), AHEAD);
        let (batches, file, schema) = (stream.tx(), self.file.clone(), self.schema.clone());
        stream.spawn_blocking(move || {
            for piece in file.pieces(BATCH_BYTES) {
                let (first, rows) = piece.map_err(|error| DataFusionError::External(error.into()))?;
                // An error says that nobody wants more.
                if batches.blocking_send(batch(&schema, first, rows)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}

fn batch(schema: &SchemaRef, first: usize, rows: Matrix) -> Result<RecordBatch> {
    let ids = UInt64Array::from_iter_values(first as u64..(first + rows.rows()) as u64);
    Ok(RecordBatch::try_new(schema.clone(), vec![Arc::new(ids), vectors(rows)?])?)
}

/// Rows as a column.
fn vectors(rows: Matrix) -> Result<ArrayRef> {
    let (dim, kind) = (rows.dim() as i32, rows.kind());
    let values: ArrayRef = match rows {
        Matrix::F32(values, _) => Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(values)),
        Matrix::F16(values, _) => Arc::new(PrimitiveArray::<Float16Type>::from_iter_values(values)),
        Matrix::I8(values, _) => Arc::new(PrimitiveArray::<Int8Type>::from_iter_values(values)),
        Matrix::U8(values, _) => Arc::new(PrimitiveArray::<UInt8Type>::from_iter_values(values)),
        Matrix::Bits(bytes, _) => {
            let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte.0).collect();
            return Ok(Arc::new(FixedSizeBinaryArray::try_new(dim, bytes.into(), None)?));
        }
        wide @ Matrix::BF16(..) => Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(wide.into_f32())),
    };
    Ok(Arc::new(FixedSizeListArray::try_new(element(kind), dim, values, None)?))
}

/// Lets statements name files of vectors as tables: `SELECT * FROM 'base.npy'`.
pub(crate) fn enable_tables(context: &SessionContext) {
    let catalogs = context.state_ref().read().catalog_list().clone();
    context.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, Arc::new(Files))));
}

/// Finds the files of names that no other table has.
#[derive(Debug)]
struct Files;

impl UrlTableFactory for Files {
    fn try_new<'a: 'c, 'b: 'c, 'c>(
        &'a self,
        name: &'b str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn TableProvider>>>> + Send + 'c>> {
        // Statements that name no file get the session's own error.
        let is_file = file_of(Path::new(name)).is_file();
        let open = move || is_file.then(|| table(Vectors::open(Path::new(name), None)?)).transpose();
        Box::pin(async move { open().map_err(|error| DataFusionError::External(error.into())) })
    }
}
