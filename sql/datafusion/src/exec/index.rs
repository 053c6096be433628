//! The physical operator over saved indexes: it searches those whose paths its input names.
//!
//! It is no source itself, on purpose. Ballista restricts the sources that it knows to the partitions of a task, and gives every task all of
//! an unknown one: as a source of its own this operator would find every hit once for each task, without an error.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use nearfield::{ElementKind, MatrixView, PackedBits, Vectors, interruptible};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::error::in_file;
use crate::exec::indexed::{FILE, ID, Indexed, VECTOR, paths, vector_column, vector_field};
use crate::exec::metrics::KnnMetrics;
use crate::exec::operator::{found_fields, operator, properties};
use crate::exec::source::{Collected, Source};
use crate::exec::work::{StopOnDrop, blocking};
use crate::metric::DISTANCE;
use crate::options::NearfieldOptions;
use crate::resident;
use crate::search::block::Work;
use crate::search::near::Probes;
use crate::vectors::check_bits;

/// What to look for in saved indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexSearch {
    pub(crate) k: usize,
    pub(crate) probes: Probes,
    /// The columns of the indexes that the answer has.
    pub(crate) kept: Vec<String>,
    /// The columns of the queries that it has.
    pub(crate) kept_of_queries: Vec<String>,
    /// Whether the answer has the roots of the indexes' distances.
    pub(crate) is_rooted: bool,
    /// The table that the indexes are of, if they are of one.
    pub(crate) indexed: Option<Indexed>,
}

/// Searches the saved indexes that its input names.
#[derive(Debug)]
pub(crate) struct KnnIndexExec {
    input: Arc<dyn ExecutionPlan>,
    source: Source,
    wanted: IndexSearch,
    /// All partitions look for the same queries, which are read once.
    collected: Arc<OnceCell<Arc<Collected>>>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl KnnIndexExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, source: Source, wanted: IndexSearch) -> Result<Self> {
        let field = |name: &String| match name.as_str() {
            ID => Ok(Arc::new(Field::new(ID, DataType::UInt64, false))),
            FILE => Ok(Arc::new(Field::new(FILE, DataType::Utf8, false))),
            VECTOR => match &wanted.indexed {
                Some(indexed) => Ok(vector_field(indexed.dim)),
                None => plan_err!("an index of no table answers without its rows"),
            },
            _ => plan_err!("a saved index has the columns {ID}, {FILE} and {VECTOR}, and not {name:?}"),
        };
        let mut fields = wanted.kept.iter().map(field).collect::<Result<Vec<FieldRef>>>()?;
        fields.extend(source.fields(&wanted.kept_of_queries)?);
        fields.extend(found_fields(DISTANCE));
        let properties = properties(Arc::new(Schema::new(fields)), &input, EmissionType::Incremental);
        let (collected, metrics) = (Arc::new(OnceCell::new()), ExecutionPlanMetricsSet::new());
        Ok(Self { input, source, wanted, collected, metrics, properties })
    }

    pub(crate) fn wanted(&self) -> &IndexSearch {
        &self.wanted
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

impl DisplayAs for KnnIndexExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnnIndexExec: k={}, {}", self.wanted.k, self.source)?;
        match self.wanted.probes {
            Probes::Default => Ok(()),
            Probes::Lists(probes) => write!(f, ", probes={probes}"),
            Probes::All => write!(f, ", exact"),
        }
    }
}

impl ExecutionPlan for KnnIndexExec {
    // A file is a piece of work: rows of the input are not to be divided further.
    operator! { KnnIndexExec; queries = |this, input, source| Self::new(input, source, this.wanted.clone()), with_metrics }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let options = NearfieldOptions::of(context.session_config().options());
        let metrics = Arc::new(KnnMetrics::new(&self.metrics, partition, &options.device));
        // Has the bytes of the last answer.
        let reservation = Arc::new(MemoryConsumer::new("KnnIndexExec").register(context.memory_pool()));
        let (source, cell) = (self.source.clone(), self.collected.clone());
        let (wanted, schema) = (Arc::new(self.wanted.clone()), self.schema());
        let output = schema.clone();
        let found = paths(input).then(move |path: Result<String>| {
            let (source, cell, context) = (source.clone(), cell.clone(), context.clone());
            let (wanted, options, output) = (wanted.clone(), options.clone(), output.clone());
            let (metrics, reservation) = (metrics.clone(), reservation.clone());
            async move {
                let collect = || Collected::new(&source, &wanted.kept_of_queries, context);
                let collected = cell.get_or_try_init(collect).await?.clone();
                let (path, stop) = (path?, StopOnDrop::default());
                let flag = stop.flag();
                let timer = metrics.time.timer();
                let work = move || searched(&path, &collected, &wanted, &options, &output, flag);
                let (batch, rows, work) = blocking(work).await?;
                timer.done();
                metrics.note(rows, work);
                reservation.try_resize(batch.get_array_memory_size())?;
                Ok(batch)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, found)))
    }
}

/// Searches one index, and tells how many rows it has.
fn searched(
    path: &str,
    collected: &Collected,
    wanted: &IndexSearch,
    options: &NearfieldOptions,
    schema: &SchemaRef,
    stop: Arc<AtomicBool>,
) -> Result<(RecordBatch, usize, Work)> {
    let queries = &collected.queries;
    if queries.count() == 0 {
        return Ok((RecordBatch::new_empty(schema.clone()), 0, Work::default()));
    }
    let index = match &wanted.indexed {
        Some(indexed) => indexed.open(path, options)?,
        None => resident::index(Path::new(path), options)?,
    };
    // The metric of `knn_index` is known from here on.
    check_bits("query", queries.are_bits(), index.metric())?;
    let in_file = |error: nearfield::Error| in_file(path, error);
    let values = queries.to_f32();
    if let Some(place) = values.iter().position(|x| !x.is_finite()) {
        return exec_err!(
            "queries: needed elements that f32 can hold, as the rows of a saved index are, given {:e}",
            queries.values()[place]
        );
    }
    let search = wanted.probes.options(&index, wanted.k);
    let bytes: Vec<PackedBits>;
    let asked: Vectors<'_> = match index.elements() {
        ElementKind::Bits => {
            if let Some(other) = values.iter().find(|&&x| x != f32::from(x as u8)) {
                return exec_err!(
                    "queries: needed bytes from 0 to 255, as the index is of bits, given {other:e}"
                );
            }
            bytes = values.iter().map(|&x| PackedBits(x as u8)).collect();
            MatrixView::new(&bytes, queries.dim()).map_err(in_file)?.into()
        }
        _ => MatrixView::new(values, queries.dim()).map_err(in_file)?.into(),
    };
    let run = || index.search_with(asked, &search);
    let found = interruptible(move || !stop.load(Ordering::Relaxed), run).map_err(in_file)?;
    let hits = found.neighbors.hits();
    let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
    let distance =
        |distance: f32| if wanted.is_rooted { f64::from(distance).sqrt() } else { distance.into() };
    let distances = hits.iter().map(|hit| distance(hit.distance));
    let of_query = queries.numbers().iter().zip(found.neighbors.iter());
    let numbers: Vec<u64> =
        of_query.flat_map(|(&number, row)| std::iter::repeat_n(number, row.len())).collect();
    let mut columns: Vec<ArrayRef> = vec![];
    for name in &wanted.kept {
        columns.push(match name.as_str() {
            FILE => Arc::new(StringArray::from_iter_values(ids.iter().map(|_| path))),
            VECTOR => vector_column(index.get(&ids).map_err(in_file)?, index.dim())?,
            _ => Arc::new(UInt64Array::from(ids.clone())),
        });
    }
    columns.extend(collected.columns(&numbers)?);
    columns.push(Arc::new(UInt64Array::from(numbers)));
    columns.push(Arc::new(Float64Array::from_iter_values(distances)));
    // Rows of the same distance come by their id, whichever the file.
    columns.push(Arc::new(UInt64Array::from_value(0, ids.len())));
    columns.push(Arc::new(UInt64Array::from(ids)));
    let statistics = &found.statistics;
    let work = Work {
        screened: statistics.scored as usize,
        refined: statistics.refined as usize,
        in_doubt: statistics.searched_again as usize,
    };
    Ok((RecordBatch::try_new(schema.clone(), columns)?, index.len(), work))
}
