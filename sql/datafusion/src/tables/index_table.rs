//! `CREATE EXTERNAL TABLE ... STORED AS NEARFIELD`: saved indexes as a table, whose rows stay in memory.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::datasource::{TableType, source_as_provider};
use datafusion::logical_expr::{CreateExternalTable, Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use nearfield::{Index, Metric};

use crate::error::in_file;
use crate::exec::index_scan::IndexScanExec;
use crate::exec::indexed::Indexed;
use crate::tables::index_files::{index_files, paths_of_partitions};

/// The metric of a table's indexes, if it is one of saved indexes.
pub(crate) fn metric_of(table: &LogicalPlan) -> Option<Metric> {
    let LogicalPlan::TableScan(scan) = table else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let table: &dyn Any = provider.as_ref();
    Some(table.downcast_ref::<IndexTable>()?.indexed.metric)
}

/// Makes tables of saved indexes.
#[derive(Debug)]
pub(crate) struct IndexTables;

#[async_trait]
impl TableProviderFactory for IndexTables {
    async fn create(&self, _: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let has_others = !command.options.is_empty() || !command.table_partition_cols.is_empty();
        if has_others || command.unbounded || !command.schema.fields().is_empty() {
            return plan_err!(
                "{}: needed a LOCATION alone: neither columns, which are id and vector, nor OPTIONS, PARTITIONED BY or UNBOUNDED",
                command.name
            );
        }
        Ok(Arc::new(IndexTable::open(&command.locations.join(","))?))
    }
}

/// Saved indexes as a table with the columns `id` (`UInt64`) and `vector` (`FixedSizeList` of `Float32`).
///
/// `knn` and `knn_join` search the indexes themselves, by their own metric, and so does `ORDER BY` a distance with a `LIMIT`. An index
/// stays in memory for later queries: see `nearfield.resident_bytes`. Rows come file by file, and by id in each.
#[derive(Debug, Clone)]
pub struct IndexTable {
    pub(crate) files: Vec<String>,
    pub(crate) indexed: Indexed,
}

impl IndexTable {
    /// Whether a path is that of a saved index, by its ending `.nf`, or a folder of such files.
    pub fn is_at(path: &Path) -> bool {
        let is_index = |path: &Path| path.extension().is_some_and(|extension| extension == "nf");
        let entries = || path.read_dir().into_iter().flatten().flatten();
        is_index(path) || entries().any(|entry| is_index(&entry.path()))
    }

    /// A table of a file, of a folder, whose files that end in `.nf` it has, or of several of either between commas. Reads what the files
    /// say of themselves; rows are loaded by the first query.
    ///
    /// Errors if a file is no saved index, or has another metric or dim than the first.
    pub fn open(location: &str) -> Result<Self> {
        let files = index_files(location)?;
        let mut indexed: Option<Indexed> = None;
        for file in &files {
            let saved = Index::describe(file).map_err(|error| in_file(file, error))?;
            let own = Indexed { metric: saved.metric, dim: saved.dim, rows: saved.rows };
            let first = indexed.get_or_insert_with(|| Indexed { rows: 0, ..own.clone() });
            if (own.metric, own.dim) != (first.metric, first.dim) {
                return plan_err!(
                    "{file}: needed metric {} and {} elements as the first index has, given {} and {}",
                    first.metric,
                    first.dim,
                    own.metric,
                    own.dim
                );
            }
            first.rows += own.rows;
        }
        match indexed {
            Some(indexed) => Ok(Self { files, indexed }),
            None => plan_err!("needed files of saved indexes, given {location:?}"),
        }
    }
}

#[async_trait]
impl TableProvider for IndexTable {
    fn schema(&self) -> SchemaRef {
        self.indexed.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| vec![0, 1]);
        let paths = paths_of_partitions(&self.files, session)?;
        // Batches are read when they are asked for: a limit above ends the reading.
        Ok(Arc::new(IndexScanExec::new(paths, self.indexed.clone(), projection, None)?))
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        // Files may be written anew after the table was made.
        statistics.num_rows = Precision::Inexact(self.indexed.rows);
        Some(statistics)
    }
}
