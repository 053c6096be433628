//! The physical operator beside the rows: it finds the neighbours among the rows of each of its partitions.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use crate::error::external;
use crate::exec::found::{Found, columns_of, gather};
use crate::exec::metrics::KnnMetrics;
use crate::exec::operator::{found_fields, operator, properties};
use crate::exec::pieces::{in_order, piece};
use crate::exec::source::{Collected, Source, check_documents, check_vectors};
use crate::exec::work::{StopOnDrop, blocking};
use crate::metric::{Measure, to_score};
use crate::options::NearfieldOptions;
use crate::plan::node::{Wanted, named_fields};
use crate::search::block::{self, Search};
use crate::search::documents;
use crate::search::hits::Hits;

/// A block takes its own memory this many times: rows, the same in f32, and their index.
const WITH_INDEX: usize = 3;

/// Finds the neighbours among the rows of each partition.
#[derive(Debug)]
pub(crate) struct KnnPartialExec {
    input: Arc<dyn ExecutionPlan>,
    source: Source,
    wanted: Wanted,
    /// The files of the table in their order: see [`piece`].
    files: Arc<[String]>,
    /// All partitions look for the same queries, which are read once.
    collected: Arc<OnceCell<Arc<Collected>>>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl KnnPartialExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        source: Source,
        wanted: Wanted,
        files: Arc<[String]>,
    ) -> Result<Self> {
        let input = in_order(input)?;
        match wanted.measure {
            Measure::Distance(_) => check_vectors(&input.schema(), &wanted.column)?,
            Measure::MaxSim => check_documents(&input.schema(), &wanted.column)?,
        }
        let mut fields = named_fields(&input.schema(), &wanted.kept, str::to_owned)?;
        fields.extend(source.fields(&wanted.kept_of_queries)?);
        fields.extend(found_fields(wanted.measure.column()));
        let properties = properties(Arc::new(Schema::new(fields)), &input, EmissionType::Final);
        let (collected, metrics) = (Arc::new(OnceCell::new()), ExecutionPlanMetricsSet::new());
        Ok(Self { input, source, wanted, files, collected, metrics, properties })
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

/// The bytes of a batch, which may be a part of a larger one.
fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    let bytes = |column: &ArrayRef| {
        // Texts of views lie in buffers that several batches may share.
        let texts = match column.data_type() {
            DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
            DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
            _ => 0,
        };
        Ok(texts + column.to_data().get_slice_memory_size()?)
    };
    batch.columns().iter().map(bytes).sum()
}

/// The search of one partition.
struct Progress {
    search: Search,
    hits: Hits,
    found: Found,
    /// The rows before the block.
    before: u64,
    block: Vec<RecordBatch>,
    block_bytes: usize,
    reservation: MemoryReservation,
    metrics: KnnMetrics,
}

impl Progress {
    /// Takes a batch of rows, and searches when there are enough or no room for more.
    async fn push(&mut self, batch: RecordBatch, most: usize) -> Result<()> {
        let bytes = WITH_INDEX * bytes_of(&batch)?;
        if self.reservation.try_grow(bytes).is_err() {
            self.search_block().await?;
            self.reservation.try_grow(bytes)?;
        }
        self.block_bytes += bytes / WITH_INDEX;
        self.block.push(batch);
        if self.block_bytes >= most {
            self.search_block().await?;
        }
        Ok(())
    }

    async fn search_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let rows: usize = block.iter().map(RecordBatch::num_rows).sum();
        let place = block[0].schema().index_of(&self.search.wanted.column)?;
        let vectors: Vec<ArrayRef> = block.iter().map(|batch| batch.column(place).clone()).collect();
        let kept = block.iter().map(|batch| columns_of(batch, &self.search.wanted.kept));
        let kept = kept.collect::<Result<Vec<RecordBatch>>>()?;
        drop(block);
        let (task, before) = (self.search.clone(), self.before);
        let hits = std::mem::replace(&mut self.hits, Hits::new(0, 0));
        let timer = self.metrics.time.timer();
        let (hits, work) = blocking(move || match task.wanted.measure {
            Measure::Distance(metric) => block::search(&task, metric, &vectors, before, hits),
            Measure::MaxSim => documents::search(&task, &vectors, before, hits),
        })
        .await?;
        timer.done();
        self.metrics.note(rows, work);
        let found = std::mem::replace(&mut self.found, Found::new(kept[0].schema()));
        self.found = found.take(&hits, &kept, before)?;
        self.hits = hits;
        self.before += rows as u64;
        self.block_bytes = 0;
        drop(kept);
        self.reservation.try_resize(self.found.bytes() + self.hits.bytes())?;
        Ok(())
    }
}

impl DisplayAs for KnnPartialExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { column, k, measure, .. } = &self.wanted;
        write!(f, "KnnPartialExec: column={column}, k={k}, metric={measure}, {}", self.source)
    }
}

impl ExecutionPlan for KnnPartialExec {
    operator! { KnnPartialExec; queries = |this, rows, source| Self::new(rows, source, this.wanted.clone(), this.files.clone()), with_metrics }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let (source, wanted, cell) = (self.source.clone(), self.wanted.clone(), self.collected.clone());
        let mut rows = self.input.execute(partition, context.clone())?;
        let partitions = self.input.output_partitioning().partition_count();
        let piece = piece(&self.input, partition, &self.files);
        let options = NearfieldOptions::of(context.session_config().options());
        let most = match context.memory_pool().memory_limit() {
            // A quarter is for the blocks of all partitions, the rest for what they have found.
            MemoryLimit::Finite(bytes) => options.block_bytes.min(bytes / (4 * WITH_INDEX * partitions)),
            _ => options.block_bytes,
        };
        let metrics = KnnMetrics::new(&self.metrics, partition, &options.device);
        let reservation = MemoryConsumer::new("KnnPartialExec").register(context.memory_pool());
        let kept_schema =
            Arc::new(Schema::new(named_fields(&self.input.schema(), &wanted.kept, str::to_owned)?));
        let output = schema.clone();
        let work = async move {
            let collected = cell
                .get_or_try_init(|| Collected::new(&source, &wanted.kept_of_queries, context.clone()))
                .await?
                .clone();
            let stop = StopOnDrop::default();
            let queries = collected.queries.clone();
            let opened = options.clone();
            let mut progress = Progress {
                hits: Hits::new(queries.count(), wanted.k),
                search: Search {
                    wanted,
                    queries,
                    device: blocking(move || opened.open().map_err(external)).await?,
                    stop: stop.flag(),
                },
                found: Found::new(kept_schema),
                before: 0,
                block: vec![],
                block_bytes: 0,
                reservation,
                metrics,
            };
            while let Some(batch) = rows.next().await {
                progress.push(batch?, most).await?;
            }
            progress.search_block().await?;
            let batch_size = context.session_config().batch_size();
            Ok::<_, DataFusionError>(answer(progress, &collected, piece, batch_size, output))
        };
        let answers = stream::once(work).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, answers)))
    }
}

/// The rows found, in batches.
fn answer(
    progress: Progress,
    collected: &Arc<Collected>,
    piece: u64,
    batch_size: usize,
    schema: SchemaRef,
) -> impl futures::Stream<Item = Result<RecordBatch>> + use<> {
    let pairs: Vec<(usize, usize)> = progress
        .hits
        .iter()
        .enumerate()
        .flat_map(|(query, hits)| (0..hits.len()).map(move |place| (query, place)))
        .collect();
    let collected = collected.clone();
    let starts: Vec<usize> = (0..pairs.len()).step_by(batch_size.max(1)).collect();
    stream::iter(starts).map(move |start| {
        let pairs = &pairs[start..pairs.len().min(start + batch_size.max(1))];
        let hits: Vec<_> =
            pairs.iter().map(|&(query, place)| (query, progress.hits.of_query(query)[place])).collect();
        let places = hits.iter().map(|(_, hit)| Ok((0, progress.found.place(hit.row)?)));
        let rows = gather(&[progress.found.rows()], &places.collect::<Result<Vec<_>>>()?)?;
        let numbers: Vec<u64> = hits.iter().map(|&(query, _)| collected.queries.numbers()[query]).collect();
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        columns.extend(collected.columns(&numbers)?);
        columns.push(Arc::new(UInt64Array::from(numbers)));
        let distances = hits.iter().map(|(_, hit)| hit.distance);
        columns.push(match progress.search.wanted.measure {
            Measure::Distance(_) => Arc::new(Float64Array::from_iter_values(distances)),
            Measure::MaxSim => Arc::new(Float32Array::from_iter_values(distances.map(to_score))),
        });
        columns.push(Arc::new(UInt64Array::from_value(piece, hits.len())));
        columns.push(Arc::new(hits.iter().map(|(_, hit)| Some(hit.row)).collect::<UInt64Array>()));
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    })
}
