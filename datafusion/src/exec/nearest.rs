//! The physical operator below `ORDER BY` a distance with a `LIMIT`: it passes on the rows that can be among the first.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::found::gather;
use crate::exec::metrics::KnnMetrics;
use crate::search::block::Work;

/// Rows that are held beyond those that can be among the first, before they are taken away.
const SPARE: usize = 8192;

/// Which rows can be among the first.
#[derive(Debug, Clone)]
pub(crate) struct Narrowing {
    /// The first key of the sort.
    pub(crate) by: PhysicalSortExpr,
    pub(crate) k: usize,
    /// Whether duplicates are taken away above: then k counts the values of the key, and not the rows.
    pub(crate) is_distinct: bool,
}

#[derive(Debug, Clone)]
enum Use {
    Narrows(Narrowing),
    /// Passes everything on, and `EXPLAIN` says why.
    Not(String),
}

/// Passes on the rows of each partition whose key is no larger than the k-th smallest.
#[derive(Debug)]
pub(crate) struct KnnNearestExec {
    input: Arc<dyn ExecutionPlan>,
    what: Use,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl KnnNearestExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, narrowing: Narrowing) -> Result<Self> {
        if narrowing.k == 0 {
            return internal_err!("KnnNearestExec: needed k from 1");
        }
        let properties = PlanProperties::clone(input.properties()).with_emission_type(EmissionType::Final);
        let (what, metrics) = (Use::Narrows(narrowing), ExecutionPlanMetricsSet::new());
        Ok(Self { input, what, metrics, properties: Arc::new(properties) })
    }

    pub(crate) fn not_used(input: Arc<dyn ExecutionPlan>, why: String) -> Self {
        let properties = input.properties().clone();
        Self { input, what: Use::Not(why), metrics: ExecutionPlanMetricsSet::new(), properties }
    }

    /// What it narrows by, or why it does not.
    pub(crate) fn narrowing(&self) -> std::result::Result<&Narrowing, &str> {
        match &self.what {
            Use::Narrows(narrowing) => Ok(narrowing),
            Use::Not(why) => Err(why),
        }
    }
}

impl DisplayAs for KnnNearestExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Use::Narrows(Narrowing { by, k, is_distinct }) => {
                write!(f, "KnnNearestExec: k={k}, distinct={is_distinct}, by={by}")
            }
            Use::Not(why) => write!(f, "KnnNearestExec: not used, {why}"),
        }
    }
}

impl ExecutionPlan for KnnNearestExec {
    fn name(&self) -> &str {
        "KnnNearestExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.what {
            Use::Narrows(narrowing) => f(&narrowing.by.expr),
            Use::Not(_) => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty(), &self.what) {
            (Some(input), true, Use::Narrows(narrowing)) => {
                Ok(Arc::new(Self::new(input, narrowing.clone())?))
            }
            (Some(input), true, Use::Not(why)) => Ok(Arc::new(Self::not_used(input, why.clone()))),
            _ => internal_err!("KnnNearestExec: needed one child"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context.clone())?;
        let Use::Narrows(narrowing) = &self.what else { return Ok(input) };
        let reservation = MemoryConsumer::new("KnnNearestExec").register(context.memory_pool());
        let metrics = KnnMetrics::new(&self.metrics, partition, "host");
        let mut nearest = Nearest::new(narrowing.clone(), &self.input, reservation)?;
        let work = async move {
            while let Some(batch) = input.next().await {
                let batch = batch?;
                let timer = metrics.time.timer();
                nearest.push(&batch)?;
                timer.done();
                let rows = batch.num_rows();
                metrics.note(rows, Work { rescored: rows, ..Work::default() });
            }
            nearest.compact()?;
            // The reservation goes with the last batch.
            let Nearest { held, reservation, .. } = nearest;
            Ok::<_, DataFusionError>(stream::iter(held.into_iter().map(move |(batch, _)| {
                let _ = &reservation;
                Ok(batch)
            })))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(work).try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows of a partition that can be among the first so far.
struct Nearest {
    narrowing: Narrowing,
    converter: RowConverter,
    /// The k smallest keys, or the k smallest values of keys, in ascending order.
    smallest: Vec<OwnedRow>,
    /// Rows with their keys, in the order in which they came.
    held: Vec<(RecordBatch, Vec<OwnedRow>)>,
    rows: usize,
    reservation: MemoryReservation,
}

impl Nearest {
    fn new(
        narrowing: Narrowing,
        input: &Arc<dyn ExecutionPlan>,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let by = &narrowing.by;
        let field = SortField::new_with_options(by.expr.data_type(&input.schema())?, by.options);
        let converter = RowConverter::new(vec![field])?;
        Ok(Self { narrowing, converter, smallest: vec![], held: vec![], rows: 0, reservation })
    }

    /// The key that a row must not exceed, once there are k.
    fn threshold(&self) -> Option<&OwnedRow> {
        self.smallest.last().filter(|_| self.smallest.len() >= self.narrowing.k)
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let key = self.narrowing.by.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let keys = self.converter.convert_columns(&[key])?;
        let mut near: Vec<usize> = match self.threshold() {
            Some(threshold) => {
                (0..batch.num_rows()).filter(|&row| keys.row(row) <= threshold.row()).collect()
            }
            None => (0..batch.num_rows()).collect(),
        };
        if near.is_empty() {
            return Ok(());
        }
        self.note(near.iter().map(|&row| keys.row(row)).collect());
        if let Some(threshold) = self.threshold() {
            near.retain(|&row| keys.row(row) <= threshold.row());
        }
        let places: Vec<(usize, usize)> = near.iter().map(|&row| (0, row)).collect();
        let rows = gather(&[batch], &places)?;
        self.reservation.try_grow(rows.get_array_memory_size())?;
        self.rows += near.len();
        self.held.push((rows, near.into_iter().map(|row| keys.row(row).owned()).collect()));
        if self.rows > self.narrowing.k.saturating_mul(4).saturating_add(SPARE) {
            self.compact()?;
        }
        Ok(())
    }

    /// Takes new keys among the smallest.
    fn note(&mut self, mut keys: Vec<datafusion::arrow::row::Row<'_>>) {
        let k = self.narrowing.k;
        keys.sort_unstable();
        if self.narrowing.is_distinct {
            keys.dedup();
        }
        keys.truncate(k);
        self.smallest.extend(keys.into_iter().map(|key| key.owned()));
        self.smallest.sort_unstable();
        if self.narrowing.is_distinct {
            self.smallest.dedup();
        }
        self.smallest.truncate(k);
    }

    /// Takes away the rows that cannot be among the first any more.
    fn compact(&mut self) -> Result<()> {
        let Some(threshold) = self.threshold().cloned() else { return Ok(()) };
        let mut kept = vec![];
        for (batch, keys) in std::mem::take(&mut self.held) {
            let near: Vec<usize> = (0..keys.len()).filter(|&row| keys[row] <= threshold).collect();
            if near.len() == keys.len() {
                kept.push((batch, keys));
            } else if !near.is_empty() {
                let places: Vec<(usize, usize)> = near.iter().map(|&row| (0, row)).collect();
                let keys = near.iter().map(|&row| keys[row].clone()).collect();
                kept.push((gather(&[&batch], &places)?, keys));
            }
        }
        self.rows = kept.iter().map(|(_, keys)| keys.len()).sum();
        self.reservation.try_resize(kept.iter().map(|(batch, _)| batch.get_array_memory_size()).sum())?;
        self.held = kept;
        Ok(())
    }
}
