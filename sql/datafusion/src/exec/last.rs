//! The physical operator above those beside the rows: it joins what all partitions found.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::types::{Float32Type, Float64Type, UInt64Type};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::found::gather;
use crate::exec::operator::operator;
use crate::metric::of_score;
use crate::plan::node::{QUERY_INDEX, RANK, own_fields};

/// Columns of the input that are not payload: the query, what is measured, and the two that order equal distances.
const OWN: usize = 4;

/// Joins what all partitions found: the k nearest of each query, query by query, nearest first.
#[derive(Debug)]
pub(crate) struct KnnFinalExec {
    input: Arc<dyn ExecutionPlan>,
    k: usize,
    properties: Arc<PlanProperties>,
}

impl KnnFinalExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, k: usize) -> Result<Self> {
        let input_schema = input.schema();
        let Some(payload) = input_schema.fields().len().checked_sub(OWN) else {
            return internal_err!("KnnFinalExec: needed an input of KnnPartialExec");
        };
        let measured = input_schema.field(payload + 1);
        let own = own_fields((measured.name(), measured.data_type().clone()));
        let fields = input_schema.fields()[..payload].iter().cloned().chain(own);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let order = [QUERY_INDEX, RANK].map(|name| Column::new_with_schema(name, &schema));
        let [query, rank] = order;
        let order = [query?, rank?].map(|column| PhysicalSortExpr::new_default(Arc::new(column)));
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, [order]),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Ok(Self { input, k, properties })
    }

    pub(crate) fn k(&self) -> usize {
        self.k
    }
}

impl DisplayAs for KnnFinalExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnnFinalExec: k={}", self.k)
    }
}

impl ExecutionPlan for KnnFinalExec {
    operator! { KnnFinalExec; input = |this, input| Self::new(input, this.k) }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context.clone())?;
        let (schema, k) = (self.schema(), self.k);
        let reservation = MemoryConsumer::new("KnnFinalExec").register(context.memory_pool());
        let output = schema.clone();
        let work = async move {
            let mut batches: Vec<RecordBatch> = vec![];
            while let Some(batch) = input.next().await {
                let batch = batch?;
                reservation.try_grow(batch.get_array_memory_size() + batch.num_rows() * size_of::<Pair>())?;
                batches.push(batch);
            }
            let pairs = nearest(&batches, k);
            let batch_size = context.session_config().batch_size().max(1);
            let starts: Vec<usize> = (0..pairs.len()).step_by(batch_size).collect();
            Ok::<_, DataFusionError>(stream::iter(starts).map(move |start| {
                // Held until the last batch is made.
                let _ = &reservation;
                rows(&batches, &pairs[start..pairs.len().min(start + batch_size)], &output)
            }))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(work).try_flatten())))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        // Of one query: that of a table's is not known.
        statistics.num_rows = Precision::Inexact(self.k);
        Ok(Arc::new(statistics))
    }
}

/// A row of the answer.
struct Pair {
    query: u64,
    distance: f64,
    /// The piece of the table, and the place in it.
    row: (u64, u64),
    place: (usize, usize),
    rank: u64,
}

/// The k nearest of each query, in their order.
fn nearest(batches: &[RecordBatch], k: usize) -> Vec<Pair> {
    let mut pairs = vec![];
    for (number, batch) in batches.iter().enumerate() {
        let own = &batch.columns()[batch.num_columns() - OWN..];
        let [query, piece, row] = [0, 2, 3].map(|column| own[column].as_primitive::<UInt64Type>());
        let distances: Vec<f64> = match own[1].as_primitive_opt::<Float32Type>() {
            Some(scores) => scores.values().iter().map(|&score| of_score(score)).collect(),
            None => own[1].as_primitive::<Float64Type>().values().to_vec(),
        };
        pairs.extend((0..batch.num_rows()).map(|place| Pair {
            query: query.value(place),
            distance: distances[place],
            row: (piece.value(place), row.value(place)),
            place: (number, place),
            rank: 0,
        }));
    }
    pairs.sort_unstable_by(|a, b| {
        a.query.cmp(&b.query).then(a.distance.total_cmp(&b.distance)).then(a.row.cmp(&b.row))
    });
    let (mut query, mut rank) = (None, 0);
    for pair in &mut pairs {
        rank = if query == Some(pair.query) { rank + 1 } else { 0 };
        (query, pair.rank) = (Some(pair.query), rank);
    }
    pairs.retain(|pair| pair.rank < k as u64);
    pairs
}

fn rows(batches: &[RecordBatch], pairs: &[Pair], schema: &SchemaRef) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    let places: Vec<(usize, usize)> = pairs.iter().map(|pair| pair.place).collect();
    let gathered = gather(&batches, &places)?;
    let payload = gathered.num_columns() - OWN;
    let mut columns: Vec<ArrayRef> = gathered.columns()[..payload].to_vec();
    let ranks: UInt64Array = pairs.iter().map(|pair| Some(pair.rank)).collect();
    columns.extend([gathered.column(payload).clone(), Arc::new(ranks), gathered.column(payload + 1).clone()]);
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
