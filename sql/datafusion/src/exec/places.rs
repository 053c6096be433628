//! The physical operator over the queries of a table: it adds to each the place in its files.
//!
//! Queries of several partitions arrive in any order, another in each task of a cluster. By their places all tasks number them alike.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::exec::operator::{operator, properties};
use crate::exec::pieces::{PIECE, ROW, in_order, piece};

/// Adds the place of each row in the files of its table.
#[derive(Debug)]
pub(crate) struct KnnPlacesExec {
    input: Arc<dyn ExecutionPlan>,
    files: Arc<[String]>,
    properties: Arc<PlanProperties>,
}

impl KnnPlacesExec {
    /// The columns that it adds, behind those of its input.
    pub(crate) const COLUMNS: usize = 2;

    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, files: Arc<[String]>) -> Result<Self> {
        let input = in_order(input)?;
        let own: [_; Self::COLUMNS] =
            [PIECE, ROW].map(|name| Arc::new(Field::new(name, DataType::UInt64, false)));
        let fields: Vec<_> = input.schema().fields().iter().cloned().chain(own).collect();
        let properties = properties(Arc::new(Schema::new(fields)), &input, EmissionType::Incremental);
        Ok(Self { input, files, properties })
    }

    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }
}

impl DisplayAs for KnnPlacesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnnPlacesExec: files={}", self.files.len())
    }
}

impl ExecutionPlan for KnnPlacesExec {
    operator! { KnnPlacesExec; input = |this, input| Self::new(input, this.files.clone()) }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let piece = piece(&self.input, partition, &self.files);
        let (schema, mut before) = (self.schema(), 0);
        let placed = self.input.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let first: u64 = before;
            before += batch.num_rows() as u64;
            let pieces: ArrayRef = Arc::new(UInt64Array::from_value(piece, batch.num_rows()));
            let rows: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..before));
            let columns = batch.columns().iter().cloned().chain([pieces, rows]).collect();
            Ok(RecordBatch::try_new(schema.clone(), columns)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), placed)))
    }
}
