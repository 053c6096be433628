//! The physical operator below `ORDER BY` a distance with a `LIMIT`: it passes on the rows that can be among the first.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::types::{Float32Type, Float64Type};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{OwnedRow, Row, RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, future};

use crate::exec::metrics::KnnMetrics;
use crate::exec::operator::operator;
use crate::search::block::Work;

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

/// Passes on the rows of each partition whose key is no larger than the k-th smallest so far.
///
/// It holds k keys and no rows. Of n rows in random order it passes on about k times the logarithm of n / k.
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
        let properties = input.properties().clone();
        let (what, metrics) = (Use::Narrows(narrowing), ExecutionPlanMetricsSet::new());
        Ok(Self { input, what, metrics, properties })
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
    operator! { KnnNearestExec; input = |this, input| match &this.what {
        Use::Narrows(narrowing) => Self::new(input, narrowing.clone()),
        Use::Not(why) => Ok(Self::not_used(input, why.clone())),
    }, in_order, with_metrics }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let Use::Narrows(narrowing) = &self.what else { return Ok(input) };
        let metrics = KnnMetrics::new(&self.metrics, partition, "host");
        let mut nearest = Nearest::new(narrowing.clone(), &self.input)?;
        let passed = input.map(move |batch| {
            let batch = batch?;
            metrics.note(batch.num_rows(), Work { rescored: batch.num_rows(), ..Work::default() });
            let _timer = metrics.time.timer();
            nearest.passed(&batch)
        });
        let passed = passed.try_filter(|batch| future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), passed)))
    }
}

/// The first keys of a partition so far.
struct Nearest {
    narrowing: Narrowing,
    /// The keys that count.
    k: usize,
    converter: RowConverter,
    /// The k smallest keys, or the k smallest values of keys, in ascending order.
    smallest: Vec<OwnedRow>,
}

impl Nearest {
    fn new(narrowing: Narrowing, input: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let by = &narrowing.by;
        let field = SortField::new_with_options(by.expr.data_type(&input.schema())?, by.options);
        let converter = RowConverter::new(vec![field])?;
        // DISTINCT may take NaN of both signs for one value.
        let k = narrowing.k.saturating_add(usize::from(narrowing.is_distinct));
        Ok(Self { narrowing, k, converter, smallest: vec![] })
    }

    /// The key that a row must not exceed, once there are k.
    fn threshold(&self) -> Option<&OwnedRow> {
        self.smallest.last().filter(|_| self.smallest.len() >= self.k)
    }

    /// The rows of a batch that can be among the first.
    fn passed(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut key = self.narrowing.by.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        if self.narrowing.is_distinct {
            key = canonical(key);
        }
        let keys = self.converter.convert_columns(&[key])?;
        let mut near: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let narrow = |near: &mut Vec<u32>, threshold: Option<&OwnedRow>| {
            if let Some(threshold) = threshold {
                near.retain(|&row| keys.row(row as usize) <= threshold.row());
            }
        };
        narrow(&mut near, self.threshold());
        self.note(near.iter().map(|&row| keys.row(row as usize)).collect());
        narrow(&mut near, self.threshold());
        match near.len() == batch.num_rows() {
            true => Ok(batch.clone()),
            false => Ok(take_record_batch(batch, &UInt32Array::from(near))?),
        }
    }

    /// Takes new keys among the smallest.
    fn note(&mut self, mut keys: Vec<Row<'_>>) {
        let (k, is_distinct) = (self.k, self.narrowing.is_distinct);
        keys.sort_unstable();
        if is_distinct {
            keys.dedup();
        }
        keys.truncate(k);
        self.smallest.extend(keys.into_iter().map(|key| key.owned()));
        self.smallest.sort_unstable();
        if is_distinct {
            self.smallest.dedup();
        }
        self.smallest.truncate(k);
    }
}

/// Keys of which two that DISTINCT takes for one are equal: 0.0 and -0.0, and NaN of any payload. Their order stays, but for those two.
fn canonical(key: ArrayRef) -> ArrayRef {
    macro_rules! canonical {
        ($kind:ty, $float:ty) => {{
            let canonical = |x: $float| match x {
                x if x.is_nan() => <$float>::NAN.copysign(x),
                x if x == 0.0 => 0.0,
                x => x,
            };
            Arc::new(key.as_primitive::<$kind>().unary::<_, $kind>(canonical)) as ArrayRef
        }};
    }
    match key.data_type() {
        DataType::Float64 => canonical!(Float64Type, f64),
        DataType::Float32 => canonical!(Float32Type, f32),
        _ => key,
    }
}
