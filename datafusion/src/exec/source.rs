//! Where the queries of a search come from, and in which order they count.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};

use crate::exec::found::columns_of;
use crate::exec::pieces::files_of;
use crate::exec::places::KnnPlacesExec;
use crate::plan::node::Wanted;
use crate::search::queries::Queries;

/// Where queries come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Given(Arc<Queries>),
    Table { plan: Arc<dyn ExecutionPlan>, column: String, order: QueryOrder },
}

/// The order by which queries of a table are numbered. Every task of a cluster numbers them for itself, and all must agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum QueryOrder {
    /// That of a single partition, on one machine alone.
    Arrival,
    /// That of their files: by the columns of [`KnnPlacesExec`].
    Places,
    /// That of their values: nothing tells more where several partitions arrive in any order.
    Values,
}

impl Source {
    /// The queries of a table, on one machine.
    pub(crate) fn of_table(plan: Arc<dyn ExecutionPlan>, column: String) -> Result<Self> {
        let files = files_of(&plan);
        if !files.is_empty() {
            let plan = Arc::new(KnnPlacesExec::new(plan, files.into())?);
            return Ok(Self::Table { plan, column, order: QueryOrder::Places });
        }
        let order = match plan.output_partitioning().partition_count() {
            1 => QueryOrder::Arrival,
            _ => QueryOrder::Values,
        };
        Ok(Self::Table { plan, column, order })
    }
}

/// The queries, and the columns of theirs that the answer has.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) queries: Arc<Queries>,
    pub(crate) columns: RecordBatch,
    /// Their share of the pool's memory.
    _reservation: Option<MemoryReservation>,
}

impl Collected {
    /// Gathers all queries.
    pub(crate) async fn new(
        source: &Source,
        wanted: &Wanted,
        context: Arc<TaskContext>,
    ) -> Result<Arc<Self>> {
        let (queries, columns, reservation) = match source {
            Source::Given(queries) => {
                (queries.clone(), RecordBatch::new_empty(Arc::new(Schema::empty())), None)
            }
            Source::Table { plan, column, order } => {
                let batches = collect(plan.clone(), context.clone()).await?;
                let all = in_order(concat_batches(&plan.schema(), &batches)?, *order)?;
                let vectors = all.column(all.schema().index_of(column)?).clone();
                let queries = Queries::of_column(&vectors, &format!("column {column:?} of the queries"))?;
                let columns = columns_of(&all, &wanted.kept_of_queries)?;
                let reservation = MemoryConsumer::new("queries of a search").register(context.memory_pool());
                reservation.try_grow(queries.bytes() + columns.get_array_memory_size())?;
                (Arc::new(queries), columns, Some(reservation))
            }
        };
        Ok(Arc::new(Self { queries, columns, _reservation: reservation }))
    }
}

fn in_order(all: RecordBatch, order: QueryOrder) -> Result<RecordBatch> {
    let by = match order {
        QueryOrder::Arrival => return Ok(all),
        QueryOrder::Places => &all.columns()[all.num_columns() - KnnPlacesExec::COLUMNS..],
        QueryOrder::Values => all.columns(),
    };
    let fields = by.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let keys = RowConverter::new(fields)?.convert_columns(by)?;
    let mut places: Vec<u32> = (0..all.num_rows() as u32).collect();
    places.sort_unstable_by(|&a, &b| keys.row(a as usize).cmp(&keys.row(b as usize)));
    Ok(take_record_batch(&all, &UInt32Array::from(places))?)
}
