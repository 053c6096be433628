//! The columns of saved indexes, and the table that they belong to: all operators over them use these.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Float32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, TryStreamExt, stream};
use nearfield::{Index, Metric};
use serde::{Deserialize, Serialize};

use crate::metric::by_name;
use crate::options::NearfieldOptions;
use crate::resident;

/// The columns that a saved index can answer with.
pub(crate) const ID: &str = "id";
pub(crate) const FILE: &str = "file";
pub(crate) const VECTOR: &str = "vector";

/// The metric and the size of a table of saved indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Indexed {
    #[serde(with = "by_name")]
    pub(crate) metric: Metric,
    /// Elements of a row.
    pub(crate) dim: usize,
    /// Rows of all files together, when the table was made.
    pub(crate) rows: usize,
}

impl Indexed {
    /// The index of a file, which may have been written anew since the table was made.
    pub(crate) fn open(&self, path: &str, options: &NearfieldOptions) -> Result<Arc<Index>> {
        let index = resident::index(Path::new(path), options)?;
        let (metric, dim) = (index.metric(), index.dim());
        if (metric, dim) != (self.metric, self.dim) {
            return exec_err!(
                "{path}: needed metric {} and {} elements as when the table was made, given {metric} and {dim}",
                self.metric,
                self.dim
            );
        }
        Ok(index)
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let id = Arc::new(Field::new(ID, DataType::UInt64, false));
        Arc::new(Schema::new(vec![id, vector_field(self.dim)]))
    }
}

/// A column of rows.
pub(crate) fn vector_field(dim: usize) -> FieldRef {
    let element = Arc::new(Field::new_list_field(DataType::Float32, false));
    Arc::new(Field::new(VECTOR, DataType::FixedSizeList(element, dim as i32), false))
}

/// Rows as a column.
pub(crate) fn vector_column(rows: Vec<f32>, dim: usize) -> Result<ArrayRef> {
    let element = Arc::new(Field::new_list_field(DataType::Float32, false));
    let rows = Arc::new(Float32Array::from(rows));
    Ok(Arc::new(FixedSizeListArray::try_new(element, dim as i32, rows, None)?))
}

/// The paths that a partition of the input names.
pub(crate) fn paths(input: SendableRecordBatchStream) -> impl Stream<Item = Result<String>> {
    let paths = |batch: RecordBatch| {
        let paths = batch.column(0).as_string::<i32>().iter().flatten();
        let paths: Vec<Result<String>> = paths.map(|path| Ok(path.to_owned())).collect();
        stream::iter(paths)
    };
    input.map_ok(paths).try_flatten()
}
