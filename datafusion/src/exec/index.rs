//! The physical operator over saved indexes: it searches those whose paths its input names.
//!
//! It is unary on purpose. Ballista restricts the sources that it knows to the partitions of a task, and gives every task all of an unknown
//! one: as a source of its own this operator would find every hit once for each task, without an error.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use nearfield::{MatrixView, SearchOptions, interruptible};

use crate::error::external;
use crate::exec::metrics::KnnMetrics;
use crate::exec::pieces::{PIECE, ROW};
use crate::exec::stop::StopOnDrop;
use crate::options::NearfieldOptions;
use crate::plan::node::{DISTANCE, QUERY_INDEX};
use crate::resident;
use crate::search::block::Work;
use crate::search::queries::Queries;

/// What to look for in saved indexes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexSearch {
    pub(crate) queries: Arc<Queries>,
    pub(crate) k: usize,
    /// Lists of an `Ivf` to search for each query.
    pub(crate) probes: Option<usize>,
}

/// Searches the saved indexes that its input names.
#[derive(Debug)]
pub(crate) struct KnnIndexExec {
    input: Arc<dyn ExecutionPlan>,
    wanted: IndexSearch,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl KnnIndexExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, wanted: IndexSearch) -> Self {
        let fields = [
            ("id", DataType::UInt64),
            ("file", DataType::Utf8),
            (QUERY_INDEX, DataType::UInt64),
            (DISTANCE, DataType::Float64),
            (PIECE, DataType::UInt64),
            (ROW, DataType::UInt64),
        ];
        let schema = Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, false)).to_vec());
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, wanted, metrics: ExecutionPlanMetricsSet::new(), properties }
    }

    pub(crate) fn wanted(&self) -> &IndexSearch {
        &self.wanted
    }
}

impl DisplayAs for KnnIndexExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexSearch { queries, k, probes } = &self.wanted;
        write!(f, "KnnIndexExec: k={k}, queries={}", queries.count())?;
        probes.map_or(Ok(()), |probes| write!(f, ", probes={probes}"))
    }
}

impl ExecutionPlan for KnnIndexExec {
    fn name(&self) -> &str {
        "KnnIndexExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// A file is a piece of work: rows of the input are not to be divided further.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input, self.wanted.clone()))),
            _ => internal_err!("KnnIndexExec: needed one child"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let options = NearfieldOptions::of(context.session_config().options());
        let metrics = Arc::new(KnnMetrics::new(&self.metrics, partition, &options.device));
        let (wanted, schema) = (self.wanted.clone(), self.schema());
        let paths = input.map_ok(|batch| {
            let paths: Vec<String> =
                batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect();
            stream::iter(paths.into_iter().map(Ok))
        });
        let output = schema.clone();
        let found = paths.try_flatten().then(move |path: Result<String>| {
            let (wanted, options, output) = (wanted.clone(), options.clone(), output.clone());
            let metrics = metrics.clone();
            async move {
                let (path, stop) = (path?, StopOnDrop::default());
                let flag = stop.flag();
                let timer = metrics.time.timer();
                let work = move || searched(&path, &wanted, &options, &output, flag);
                let task = SpawnedTask::spawn_blocking(work).join_unwind().await;
                let (batch, rows, work) = task.map_err(|error| exec_datafusion_err!("{error}"))??;
                timer.done();
                metrics.note(rows, work);
                Ok(batch)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, found)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Searches one index, and tells how many rows it has.
fn searched(
    path: &str,
    wanted: &IndexSearch,
    options: &NearfieldOptions,
    schema: &SchemaRef,
    stop: Arc<AtomicBool>,
) -> Result<(RecordBatch, usize, Work)> {
    let index = resident::index(Path::new(path), options)?;
    let queries: Vec<f32> = wanted.queries.values().iter().map(|&x| x as f32).collect();
    let mut search = SearchOptions::new(wanted.k);
    if let Some(probes) = wanted.probes {
        search = search.probes(probes);
    }
    let run = || index.search_with(MatrixView::new(&queries, wanted.queries.dim())?, &search);
    let found = interruptible(move || !stop.load(Ordering::Relaxed), run);
    let found = found.map_err(|error| external(error).context(path.to_owned()))?;
    let neighbors = &found.neighbors;
    let numbers = wanted.queries.numbers().iter().zip(neighbors.iter());
    let numbers = numbers.flat_map(|(&number, row)| row.iter().map(move |_| number));
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(neighbors.hits().iter().map(|hit| hit.id)));
    let distances = neighbors.hits().iter().map(|hit| f64::from(hit.distance));
    let columns: Vec<ArrayRef> = vec![
        ids.clone(),
        Arc::new(StringArray::from_iter_values(neighbors.hits().iter().map(|_| path))),
        Arc::new(UInt64Array::from_iter_values(numbers)),
        Arc::new(Float64Array::from_iter_values(distances)),
        // Rows of the same distance come by their id, whichever the file.
        Arc::new(UInt64Array::from_value(0, neighbors.hits().len())),
        ids,
    ];
    let statistics = &found.statistics;
    let work = Work {
        screened: statistics.scored as usize,
        rescored: statistics.rescored as usize,
        in_doubt: statistics.searched_again as usize,
    };
    Ok((RecordBatch::try_new(schema.clone(), columns)?, index.len(), work))
}
