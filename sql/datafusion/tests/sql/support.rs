//! Tables of the shipped embeddings, sessions, and comparison of answers.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::types::Float32Type;
use datafusion::arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use nearfield::io::VectorFile;
use nearfield::{AddOptions, Device, Flat, MatrixView, Metric};
use tempfile::TempDir;

pub(crate) const DIM: usize = 384;

/// The devices that answers are compared on.
pub(crate) fn devices() -> Vec<&'static str> {
    let is_required = std::env::var("NEARFIELD_REQUIRE_GPU").is_ok_and(|value| value == "1");
    let wants_host = std::env::var("NEARFIELD_ADAPTER").is_ok_and(|value| value == "host");
    let gpu = if wants_host { None } else { Device::open(Some("gpu"), Default::default()).ok() };
    assert!(gpu.is_some() || !is_required, "NEARFIELD_REQUIRE_GPU=1, but there is no adapter");
    if gpu.is_some() { vec!["host", "gpu"] } else { vec!["host"] }
}

fn shipped(name: &str) -> Vec<f32> {
    // The tests of the cluster use this too, one folder further down.
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("cli/data"));
    let path = folders.find(|folder| folder.is_dir()).expect("the folder").join(name);
    VectorFile::open(path).and_then(|file| file.read_all()).expect("the shipped data").into_f32()
}

/// `[4000, 384]`.
pub(crate) static ROWS: LazyLock<Vec<f32>> = LazyLock::new(|| shipped("base.f16.npy"));
/// `[200, 384]`.
pub(crate) static QUERIES: LazyLock<Vec<f32>> = LazyLock::new(|| shipped("query.f16.npy"));

/// How a table stores its vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stored {
    FixedF32,
    ListF32,
    FixedF16,
    LargeListF64,
    FixedI8,
}

/// A column of vectors. Every one has `dim` elements, or is NULL.
pub(crate) fn column(vectors: &[Option<Vec<f32>>], dim: usize, stored: Stored) -> ArrayRef {
    let elements = |vector: &Option<Vec<f32>>| vector.as_ref().map(|x| x.iter().copied().map(Some).collect());
    let lists = vectors.iter().map(elements).collect::<Vec<Option<Vec<Option<f32>>>>>();
    let lists = ListArray::from_iter_primitive::<Float32Type, _, _>(lists);
    let element = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let data_type = match stored {
        Stored::FixedF32 => DataType::FixedSizeList(element(DataType::Float32), dim as i32),
        Stored::ListF32 => DataType::List(element(DataType::Float32)),
        Stored::FixedF16 => DataType::FixedSizeList(element(DataType::Float16), dim as i32),
        Stored::LargeListF64 => DataType::LargeList(element(DataType::Float64)),
        Stored::FixedI8 => DataType::FixedSizeList(element(DataType::Int8), dim as i32),
    };
    cast(&lists, &data_type).expect("a cast")
}

/// A table with the columns `id`, `vec` and `part`, which is id modulo 7.
pub(crate) fn table(vectors: &[Option<Vec<f32>>], dim: usize, stored: Stored) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..vectors.len() as i64));
    let parts: ArrayRef = Arc::new(Int64Array::from_iter_values((0..vectors.len() as i64).map(|id| id % 7)));
    let columns = [("id", ids), ("vec", column(vectors, dim, stored)), ("part", parts)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns")
}

pub(crate) fn vectors(values: &[f32], dim: usize) -> Vec<Option<Vec<f32>>> {
    values.chunks(dim).map(|vector| Some(vector.to_vec())).collect()
}

/// Saves an index of rows, whose ids count from `first`.
pub(crate) fn save_index(path: &Path, rows: &[f32], dim: usize, metric: Metric, first: u64) {
    let mut index = Flat::builder(&Device::host(), metric, dim).build().expect("an index");
    let rows = MatrixView::new(rows, dim).expect("whole rows");
    let ids: Vec<u64> = (first..).take(rows.rows()).collect();
    index.add_with(rows, &AddOptions::new().ids(&ids)).expect("rows");
    index.save(path).expect("a saved index");
}

/// Saves an index of some of [`ROWS`], whose ids are their numbers.
pub(crate) fn save_rows(path: &Path, rows: Range<usize>, metric: Metric) {
    save_index(path, &ROWS[rows.start * DIM..rows.end * DIM], DIM, metric, rows.start as u64);
}

/// A session on a device, and a folder for its files.
pub(crate) struct Sql {
    pub(crate) context: SessionContext,
    pub(crate) folder: TempDir,
}

impl Sql {
    /// A session on the host whose pool has this many bytes.
    pub(crate) async fn with_memory(bytes: usize) -> Self {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().expect("a runtime");
        let builder = SessionStateBuilder::new().with_default_features().with_runtime_env(runtime);
        let context = SessionContext::new_with_state(nearfield_datafusion::with_nearfield(builder).build());
        let sql = Self { context, folder: tempfile::tempdir().expect("a folder") };
        sql.run("SET nearfield.device = 'host'").await;
        sql
    }

    pub(crate) async fn new(device: &str) -> Self {
        let sql =
            Self { context: nearfield_datafusion::context(), folder: tempfile::tempdir().expect("a folder") };
        sql.run(&format!("SET nearfield.device = '{device}'")).await;
        sql
    }

    /// Writes a table as this many Parquet files of consecutive rows, and registers them as one table.
    pub(crate) async fn parquet(&self, name: &str, batch: &RecordBatch, files: usize) -> &Self {
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder).expect("a new folder");
        for file in 0..files {
            let start = |file: usize| batch.num_rows() * file / files;
            let path = folder.join(format!("{file:03}.parquet"));
            let mut writer = ArrowWriter::try_new(File::create(path).expect("a file"), batch.schema(), None)
                .expect("a writer");
            writer.write(&batch.slice(start(file), start(file + 1) - start(file))).expect("rows");
            writer.close().expect("a file");
        }
        let path = folder.to_str().expect("a path");
        self.context.register_parquet(name, path, ParquetReadOptions::default()).await.expect("a table");
        self
    }

    /// Makes a table of a saved index, or of a folder of them.
    pub(crate) async fn indexes(&self, name: &str, path: &Path) -> &Self {
        let path = path.display();
        self.run(&format!("CREATE EXTERNAL TABLE {name} STORED AS NEARFIELD LOCATION '{path}'")).await;
        self
    }

    pub(crate) async fn run(&self, sql: &str) -> RecordBatch {
        match self.try_run(sql).await {
            Ok(batch) => batch,
            Err(error) => panic!("{sql:.300}: {error}"),
        }
    }

    pub(crate) async fn try_run(&self, sql: &str) -> datafusion::common::Result<RecordBatch> {
        let frame = self.context.sql(sql).await?;
        let schema = frame.schema().inner().clone();
        Ok(concat_batches(&schema, &frame.collect().await?)?)
    }

    pub(crate) async fn error(&self, sql: &str) -> String {
        self.try_run(sql).await.expect_err(sql).to_string()
    }

    /// What `EXPLAIN` prints of a statement, or of `ANALYZE` and one.
    pub(crate) async fn plan(&self, sql: &str) -> String {
        text(&self.run(&format!("EXPLAIN {sql}")).await)
    }

    /// Both statements have the same answer, to the last bit.
    pub(crate) async fn same(&self, sql: &str, brute_force: &str) -> RecordBatch {
        let (found, wanted) = (self.run(sql).await, self.run(brute_force).await);
        assert_same(&found, &wanted, sql);
        found
    }
}

pub(crate) fn text(batch: &RecordBatch) -> String {
    pretty_format_batches(std::slice::from_ref(batch)).expect("a table").to_string()
}

/// The rows of both are the same, to the last bit.
pub(crate) fn assert_same(found: &RecordBatch, wanted: &RecordBatch, sql: &str) {
    assert_eq!(found.num_rows(), wanted.num_rows(), "{sql:.300}");
    for (place, column) in found.columns().iter().enumerate() {
        let wanted_column = cast(wanted.column(place), column.data_type()).expect("the same kind of column");
        assert!(*column == wanted_column, "{sql:.300}\n{}\n{}", text(found), text(wanted));
    }
}

/// A vector as SQL writes it.
pub(crate) fn literal(vector: &[f32]) -> String {
    let elements: Vec<String> = vector.iter().map(|x| format!("{:?}", f64::from(*x))).collect();
    format!("[{}]", elements.join(", "))
}
