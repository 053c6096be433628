//! The physical operator that reads the rows of saved indexes: all of them, or those that can be among the nearest.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use nearfield::{Index, interruptible};

use crate::error::in_file;
use crate::exec::indexed::{Indexed, VECTOR, paths, vector_column};
use crate::exec::metrics::KnnMetrics;
use crate::exec::operator::{operator, properties};
use crate::exec::work::{StopOnDrop, blocking};
use crate::options::NearfieldOptions;
use crate::search::block::Work;
use crate::search::near::{Near, candidates};

/// Reads the rows of the saved indexes that its input names, file by file, and by id in each.
#[derive(Debug)]
pub(crate) struct IndexScanExec {
    input: Arc<dyn ExecutionPlan>,
    indexed: Indexed,
    /// The columns of the table that it reads.
    projection: Vec<usize>,
    /// Reads no more than the rows that can be among the nearest.
    near: Option<Near>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl IndexScanExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        indexed: Indexed,
        projection: Vec<usize>,
        near: Option<Near>,
    ) -> Result<Self> {
        let schema = Arc::new(indexed.schema().project(&projection)?);
        let properties = properties(schema, &input, EmissionType::Incremental);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, indexed, projection, near, metrics, properties })
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(crate) fn indexed(&self) -> &Indexed {
        &self.indexed
    }

    pub(crate) fn projection(&self) -> &[usize] {
        &self.projection
    }

    pub(crate) fn near(&self) -> Option<&Near> {
        self.near.as_ref()
    }
}

impl DisplayAs for IndexScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Indexed { metric, dim, .. } = &self.indexed;
        write!(f, "IndexScanExec: metric={metric}, dim={dim}")?;
        match &self.near {
            Some(near) => write!(f, ", searched for k={}", near.k),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for IndexScanExec {
    operator! { IndexScanExec; input = |this, input| Self::new(input, this.indexed.clone(), this.projection.clone(), this.near.clone()), with_metrics }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let options = NearfieldOptions::of(context.session_config().options());
        let batch_size = context.session_config().batch_size().max(1);
        let metrics = Arc::new(KnnMetrics::new(&self.metrics, partition, &options.device));
        let (near, output) = (self.near.clone(), self.schema());
        let indexed = self.indexed.clone();
        let batches = paths(self.input.execute(partition, context)?).and_then(move |path| {
            let (near, output, options) = (near.clone(), output.clone(), options.clone());
            let (metrics, indexed) = (metrics.clone(), indexed.clone());
            async move {
                let stop = StopOnDrop::default();
                let flag = stop.flag();
                let open = move || open(&path, &indexed, near.as_ref(), &options, &metrics, &flag);
                let opened = blocking(open).await?;
                let starts: Vec<usize> = (0..opened.ids.len()).step_by(batch_size).collect();
                let opened = Arc::new(opened);
                Ok(stream::iter(starts).then(move |start| {
                    let (opened, output) = (opened.clone(), output.clone());
                    blocking(move || opened.batch(start, batch_size, &output))
                }))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten())))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], of: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if of.partition().is_none() && self.near.is_none() {
            // Files may be written anew after the table was made.
            statistics.num_rows = Precision::Inexact(self.indexed.rows);
        }
        Ok(Arc::new(statistics))
    }
}

/// An index, and the ids of its rows that are read.
struct Opened {
    path: String,
    index: Arc<Index>,
    ids: Vec<u64>,
}

fn open(
    path: &str,
    indexed: &Indexed,
    near: Option<&Near>,
    options: &NearfieldOptions,
    metrics: &KnnMetrics,
    stop: &Arc<AtomicBool>,
) -> Result<Opened> {
    let index = indexed.open(path, options)?;
    let in_file = |error: nearfield::Error| in_file(path, error);
    let timer = metrics.time.timer();
    let mut work = Work::default();
    let found = match near {
        Some(near) => {
            let stop = stop.clone();
            let run = || candidates(&index, near, &mut work);
            interruptible(move || !stop.load(Ordering::Relaxed), run).map_err(in_file)?
        }
        None => None,
    };
    let mut ids = match found {
        Some(found) => found,
        None => index.ids().map_err(in_file)?,
    };
    timer.done();
    metrics.note(index.len(), work);
    ids.sort_unstable();
    Ok(Opened { path: path.to_owned(), index, ids })
}

impl Opened {
    fn batch(&self, start: usize, most: usize, schema: &SchemaRef) -> Result<RecordBatch> {
        let ids = &self.ids[start..self.ids.len().min(start + most)];
        let column = |field: &Arc<Field>| -> Result<ArrayRef> {
            if field.name() != VECTOR {
                return Ok(Arc::new(UInt64Array::from(ids.to_vec())));
            }
            let rows = self.index.get(ids).map_err(|error| in_file(&self.path, error))?;
            vector_column(rows, self.index.dim())
        };
        let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(ids.len()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }
}
