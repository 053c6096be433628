//! The physical operator of every row of a table against every other. One task has all rows: what is near to a row may lie anywhere.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::error::external;
use crate::exec::metrics::KnnMetrics;
use crate::exec::operator::operator;
use crate::exec::source::{Collected, QueryOrder, check_vectors};
use crate::exec::work::{StopOnDrop, blocking};
use crate::options::NearfieldOptions;
use crate::plan::node::{QUERY_INDEX, RANK};
use crate::plan::pairwise::{Compared, Side, Sought};
use crate::search::block::Work;
use crate::search::graph::nearest;
use crate::search::pairwise::{Comparison, Edge};

/// Batches that wait for whoever reads the answer.
const BATCHES_AHEAD: usize = 2;

/// Compares every row of its input with every other, and answers batch by batch.
#[derive(Debug)]
pub(crate) struct PairwiseExec {
    input: Arc<dyn ExecutionPlan>,
    order: QueryOrder,
    compared: Compared,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl PairwiseExec {
    /// Over an input whose rows are numbered in this order.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, order: QueryOrder, compared: Compared) -> Result<Self> {
        check_vectors(&input.schema(), &compared.column)?;
        let schema = Arc::new(Schema::new(compared.fields(&input.schema())?));
        let [first, second] = match compared.sought {
            Sought::Nearest { .. } => [QUERY_INDEX, RANK],
            Sought::Within { .. } => ["a_index", "b_index"],
        }
        .map(|name| Column::new_with_schema(name, &schema));
        let sorted = [first?, second?].map(|column| PhysicalSortExpr::new_default(Arc::new(column)));
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, [sorted]),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Ok(Self { input, order, compared, metrics: ExecutionPlanMetricsSet::new(), properties })
    }

    pub(crate) fn order(&self) -> QueryOrder {
        self.order
    }

    pub(crate) fn compared(&self) -> &Compared {
        &self.compared
    }
}

impl DisplayAs for PairwiseExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PairwiseExec: {}", self.compared)
    }
}

impl ExecutionPlan for PairwiseExec {
    operator! { PairwiseExec; input = |this, input| Self::new(input, this.order, this.compared.clone()), with_metrics }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("PairwiseExec: needed partition 0, given {partition}");
        }
        let options = NearfieldOptions::of(context.session_config().options());
        let metrics = KnnMetrics::new(&self.metrics, partition, &options.device);
        let (input, order, compared) = (self.input.clone(), self.order, self.compared.clone());
        let schema = self.schema();
        let mut stream = RecordBatchReceiverStream::builder(schema.clone(), BATCHES_AHEAD);
        let sender = stream.tx();
        stream.spawn(async move {
            // Ends the work when nobody reads the stream any more.
            let stop = StopOnDrop::default();
            let names: Vec<String> = (input.schema().fields().iter().map(|field| field.name().clone()))
                .filter(|name| compared.keeps(name))
                .collect();
            let what = format!("column {:?}", compared.column);
            let rows = Collected::of_table(input, &compared.column, order, &what, &names, context.clone());
            let rows = rows.await?;
            let reservation = MemoryConsumer::new("PairwiseExec").register(context.memory_pool());
            // The same in f32, and their index.
            reservation.try_grow(2 * rows.queries.count() * rows.queries.dim() * size_of::<f32>())?;
            let most = context.session_config().batch_size().max(1);
            let answer = Answer { rows, compared, schema, reservation };
            let flag = stop.flag();
            blocking(move || {
                let timer = metrics.time.timer();
                let work = answer.send(&options, flag, most, |batch| {
                    sender
                        .blocking_send(Ok(batch))
                        .map_err(|_| exec_datafusion_err!("nobody reads the answer"))
                })?;
                timer.done();
                metrics.note(answer.rows.queries.count(), work);
                Ok(())
            })
            .await
        });
        Ok(stream.build())
    }
}

/// The rows, and what the answer has of them.
struct Answer {
    rows: Arc<Collected>,
    compared: Compared,
    schema: SchemaRef,
    /// The memory of the comparison.
    reservation: MemoryReservation,
}

impl Answer {
    /// Compares the rows, and sends the answer in batches of no more than `most` rows.
    fn send(
        &self,
        options: &NearfieldOptions,
        stop: Arc<AtomicBool>,
        most: usize,
        mut send: impl FnMut(RecordBatch) -> Result<()> + Send,
    ) -> Result<Work> {
        let comparison = Comparison {
            rows: self.rows.queries.clone(),
            metric: self.compared.metric,
            device: options.open().map_err(external)?,
            stop,
            reservation: self.reservation.new_empty(),
        };
        let mut waiting: Vec<Edge> = vec![];
        let mut take = |edges: &[Edge]| {
            for edges in edges.chunks(most) {
                let (now, later) = edges.split_at(edges.len().min(most - waiting.len()));
                waiting.extend(now);
                if waiting.len() == most {
                    send(self.batch(&waiting)?)?;
                    waiting.clear();
                }
                waiting.extend(later);
            }
            Ok(())
        };
        let work = match self.compared.sought {
            Sought::Nearest { k } => nearest(&comparison, k, &mut take)?,
            Sought::Within { radius } => comparison.within(radius.0, &mut take)?,
        };
        if !waiting.is_empty() {
            send(self.batch(&waiting)?)?;
        }
        Ok(work)
    }

    fn batch(&self, edges: &[Edge]) -> Result<RecordBatch> {
        let numbers = self.rows.queries.numbers();
        let rows: Vec<u64> = edges.iter().map(|edge| numbers[edge.row]).collect();
        let others: Vec<u64> = edges.iter().map(|edge| numbers[edge.other]).collect();
        let mut columns: Vec<ArrayRef> = vec![];
        for (names, (side, _)) in self.compared.kept.iter().zip(self.compared.sought.sides()) {
            let numbers = if side == Side::Row { &rows } else { &others };
            columns.extend(self.rows.columns_of(names, numbers)?);
        }
        let second = match self.compared.sought {
            Sought::Nearest { .. } => edges.iter().map(|edge| edge.rank).collect(),
            Sought::Within { .. } => others,
        };
        columns.push(Arc::new(UInt64Array::from(rows)));
        columns.push(Arc::new(UInt64Array::from(second)));
        columns.push(Arc::new(Float64Array::from_iter_values(edges.iter().map(|edge| edge.distance))));
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}
