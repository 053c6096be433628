//! The source below a search of saved indexes: the paths of their files.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

/// Tells the source from other tables with one column of texts.
const MARK: (&str, &str) = ("nearfield", "paths of indexes");

/// A source that names the paths of each partition: what [`paths_of`] reads. A cluster makes one for each of its tasks.
pub fn source_of_paths(partitions: &[Vec<String>]) -> Result<Arc<dyn ExecutionPlan>> {
    let mark = HashMap::from([(MARK.0.to_owned(), MARK.1.to_owned())]);
    let schema = Schema::new_with_metadata(vec![Field::new("path", DataType::Utf8, false)], mark);
    let schema = Arc::new(schema);
    let batch = |paths: &Vec<String>| {
        let paths: ArrayRef = Arc::new(StringArray::from_iter_values(paths));
        Ok(vec![RecordBatch::try_new(schema.clone(), vec![paths])?])
    };
    let partitions = partitions.iter().map(batch).collect::<Result<Vec<_>>>()?;
    Ok(MemorySourceConfig::try_new_exec(&partitions, schema, None)?)
}

/// The paths of the saved indexes that each partition of a plan names, if it is the source below a search of such. A cluster sends each
/// path to the machine that has its index in memory.
pub fn paths_of(plan: &dyn ExecutionPlan) -> Option<Vec<Vec<String>>> {
    let source: &dyn Any = plan.downcast_ref::<DataSourceExec>()?.data_source().as_ref();
    let source = source.downcast_ref::<MemorySourceConfig>()?;
    let schema = source.original_schema();
    if schema.metadata().get(MARK.0).is_none_or(|mark| mark != MARK.1) {
        return None;
    }
    let paths = |batch: &RecordBatch| -> Vec<String> {
        batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect()
    };
    Some(source.partitions().iter().map(|batches| batches.iter().flat_map(paths).collect()).collect())
}
