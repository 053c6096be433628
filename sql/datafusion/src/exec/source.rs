//! Where the queries of a search come from, and in which order they count.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};

use crate::exec::found::{columns_of, gather};
use crate::exec::pieces::files_of;
use crate::exec::places::KnnPlacesExec;
use crate::exec::whole::wrapped;
use crate::exec::work::blocking;
use crate::plan::node::{name_of_query, named_fields};
use crate::search::queries::Queries;
use crate::vectors::{holds_documents, holds_vectors};

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

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(queries) => write!(f, "queries={}", queries.count()),
            Self::Table { column, .. } => write!(f, "queries={column}"),
        }
    }
}

impl Source {
    /// The inputs of an operator that reads rows, or paths of indexes, and these queries.
    pub(crate) fn children<'a>(
        &'a self,
        rows: &'a Arc<dyn ExecutionPlan>,
    ) -> Vec<&'a Arc<dyn ExecutionPlan>> {
        match self {
            Self::Given(_) => vec![rows],
            Self::Table { plan, .. } => vec![rows, plan],
        }
    }

    /// Every task needs all queries of a table: an engine that divides an operator divides no input that has to be one partition.
    pub(crate) fn distributions(&self) -> Vec<Distribution> {
        match self {
            Self::Given(_) => vec![Distribution::UnspecifiedDistribution],
            Self::Table { .. } => vec![Distribution::UnspecifiedDistribution, Distribution::SinglePartition],
        }
    }

    /// The rows and the queries of new inputs.
    pub(crate) fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<(Arc<dyn ExecutionPlan>, Self)> {
        let mut children = children.into_iter();
        match (children.next(), children.next(), self) {
            (Some(rows), None, Self::Given(_)) => Ok((rows, self.clone())),
            (Some(rows), Some(plan), &Self::Table { ref column, order, .. }) => {
                Ok((rows, Self::Table { plan, column: column.clone(), order }))
            }
            _ => internal_err!("a search needs an input for rows, and one for queries of a table"),
        }
    }

    /// The columns of the queries that the answer has.
    pub(crate) fn fields(&self, kept: &[String]) -> Result<Vec<FieldRef>> {
        match self {
            Self::Given(_) => Ok(vec![]),
            Self::Table { plan, column, .. } => {
                check_vectors(&plan.schema(), column)?;
                named_fields(&plan.schema(), kept, name_of_query)
            }
        }
    }

    /// The queries of a table, on one machine.
    pub(crate) fn of_table(plan: Arc<dyn ExecutionPlan>, column: String) -> Result<Self> {
        let (plan, order) = numbered(plan)?;
        Ok(Self::Table { plan, column, order })
    }
}

/// The rows of a table so that they can be numbered, on one machine, and in which order.
pub(crate) fn numbered(plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, QueryOrder)> {
    let files = files_of(&plan);
    if !files.is_empty() {
        return Ok((Arc::new(KnnPlacesExec::new(plan, files.into())?), QueryOrder::Places));
    }
    Ok(match plan.output_partitioning().partition_count() {
        1 => (wrapped(plan)?, QueryOrder::Arrival),
        _ => (plan, QueryOrder::Values),
    })
}

/// The queries, and the columns of theirs that the answer has.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) queries: Arc<Queries>,
    columns: RecordBatch,
    /// Their share of the pool's memory.
    _reservation: Option<MemoryReservation>,
}

impl Collected {
    /// Gathers all queries.
    pub(crate) async fn new(
        source: &Source,
        kept: &[String],
        context: Arc<TaskContext>,
    ) -> Result<Arc<Self>> {
        match source {
            Source::Given(queries) => Ok(Arc::new(Self {
                queries: queries.clone(),
                columns: RecordBatch::new_empty(Arc::new(Schema::empty())),
                _reservation: None,
            })),
            Source::Table { plan, column, order } => {
                let argument = format!("column {column:?} of the queries");
                Self::of_table(plan.clone(), column, *order, &argument, kept, context).await
            }
        }
    }

    /// Gathers all rows of a table, and numbers them in this order. `argument` names their vectors in errors.
    pub(crate) async fn of_table(
        plan: Arc<dyn ExecutionPlan>,
        column: &str,
        order: QueryOrder,
        argument: &str,
        kept: &[String],
        context: Arc<TaskContext>,
    ) -> Result<Arc<Self>> {
        let batches = collect(plan.clone(), context.clone()).await?;
        let [column, argument] = [column, argument].map(str::to_owned);
        let kept = kept.to_vec();
        // Millions of rows take seconds to be put in order.
        blocking(move || {
            let all = in_order(&plan.schema(), &batches, order)?;
            let vectors = all.column(all.schema().index_of(&column)?).clone();
            let queries = Arc::new(Queries::of_column(&vectors, &argument)?);
            let columns = columns_of(&all, &kept)?;
            let reservation = MemoryConsumer::new("queries of a search").register(context.memory_pool());
            reservation.try_grow(queries.bytes() + columns.get_array_memory_size())?;
            Ok(Arc::new(Self { queries, columns, _reservation: Some(reservation) }))
        })
        .await
    }

    /// The columns of the queries of these numbers.
    pub(crate) fn columns(&self, numbers: &[u64]) -> Result<Vec<ArrayRef>> {
        taken(&self.columns, numbers)
    }

    /// Some of these columns.
    pub(crate) fn columns_of(&self, names: &[String], numbers: &[u64]) -> Result<Vec<ArrayRef>> {
        taken(&columns_of(&self.columns, names)?, numbers)
    }
}

/// The columns of the rows of these numbers. There may be none.
fn taken(columns: &RecordBatch, numbers: &[u64]) -> Result<Vec<ArrayRef>> {
    if columns.num_columns() == 0 {
        return Ok(vec![]);
    }
    let places: UInt32Array = numbers.iter().map(|&number| number as u32).collect();
    Ok(take_record_batch(columns, &places)?.columns().to_vec())
}

/// Checks that a column of this name has vectors.
pub(crate) fn check_vectors(schema: &Schema, column: &str) -> Result<()> {
    check(schema, column, holds_vectors, "lists of f16, f32, f64, i8 or u8, or Binary")
}

/// Checks that a column of this name has documents.
pub(crate) fn check_documents(schema: &Schema, column: &str) -> Result<()> {
    check(
        schema,
        column,
        holds_documents,
        "lists of token vectors, which are lists of f16, f32, f64, i8 or u8",
    )
}

fn check(schema: &Schema, column: &str, holds: fn(&DataType) -> bool, needed: &str) -> Result<()> {
    let given = schema.field_with_name(column)?.data_type();
    match holds(given) {
        true => Ok(()),
        false => {
            plan_err!("column {column:?}: needed {needed}, given {given}: a CAST in a view converts others")
        }
    }
}

/// All batches as one, in this order. An error if lists have more elements than their offsets can count.
fn in_order(schema: &SchemaRef, batches: &[RecordBatch], order: QueryOrder) -> Result<RecordBatch> {
    let rows = |(number, batch): (usize, &RecordBatch)| (0..batch.num_rows()).map(move |row| (number, row));
    let all = match batches {
        [] => RecordBatch::new_empty(schema.clone()),
        [batch] => batch.clone(),
        // Concatenation would panic where offsets overflow.
        _ => gather(
            &batches.iter().collect::<Vec<_>>(),
            &batches.iter().enumerate().flat_map(rows).collect::<Vec<_>>(),
        )?,
    };
    let by = match order {
        QueryOrder::Arrival => return Ok(all),
        QueryOrder::Places => &all.columns()[all.num_columns() - KnnPlacesExec::COLUMNS..],
        QueryOrder::Values => all.columns(),
    };
    let fields = by.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let keys = RowConverter::new(fields)?.convert_columns(by)?;
    let mut places: Vec<u32> = (0..all.num_rows() as u32).collect();
    if places.is_sorted_by_key(|&place| keys.row(place as usize)) {
        return Ok(all);
    }
    places.sort_unstable_by_key(|&place| keys.row(place as usize));
    Ok(take_record_batch(&all, &UInt32Array::from(places))?)
}
