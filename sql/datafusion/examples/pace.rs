//! Times `knn_join` beside the library alone and beside plain SQL, and compares their answers:
//!
//! ```sh
//! cargo run --release --manifest-path sql/Cargo.toml --package nearfield-datafusion --example pace -- 50000 384 1000
//! cargo run --release --manifest-path sql/Cargo.toml --package nearfield-datafusion --example pace -- base.npy queries.npy
//! ```
//!
//! Arguments: rows, dim and queries of made values, or files of rows and queries; then a device. `examples/duckdb_pace.py` times DuckDB on the
//! Parquet files that this leaves in the folder for temporary ones.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::types::UInt64Type;
use datafusion::arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Float32Array, RecordBatch, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use nearfield::io::VectorFile;
use nearfield::{Device, Flat, MatrixView, Metric};

const K: usize = 10;
/// Queries that plain SQL answers, one by one: it takes too long for all.
const PLAIN: usize = 20;
const RUNS: usize = 5;

/// Clustered values without a pattern, the same in every run.
fn values(rows: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = move || {
        // The generator `splitmix64`.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..rows * dim).map(|_| next()).collect()
}

async fn register(context: &SessionContext, name: &str, values: &[f32], dim: usize) -> Result<()> {
    let path = std::env::temp_dir().join(format!("nearfield-pace-{name}.parquet"));
    let field = Arc::new(Field::new_list_field(DataType::Float32, false));
    let elements = Arc::new(Float32Array::from(values.to_vec()));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::try_new(field, dim as i32, elements, None)?);
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..(values.len() / dim) as u64));
    let batch = RecordBatch::try_from_iter([("id", ids), ("vec", vectors)])?;
    let mut writer = ArrowWriter::try_new(File::create(&path)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    let path = path.to_string_lossy().into_owned();
    context.register_parquet(name, path, ParquetReadOptions::default()).await
}

async fn timed(context: &SessionContext, sql: &str) -> Result<(Duration, RecordBatch)> {
    let start = Instant::now();
    let frame = context.sql(sql).await?;
    let schema = frame.schema().inner().clone();
    let batches = frame.collect().await?;
    Ok((start.elapsed(), concat_batches(&schema, &batches)?))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let external = |error: nearfield::Error| datafusion::common::DataFusionError::External(Box::new(error));
    let number =
        |place: usize, other: usize| arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(other);
    let is_made = arguments.first().is_none_or(|first| first.parse::<usize>().is_ok());
    let (base, asked, dim) = if is_made {
        let dim = number(1, 384);
        (values(number(0, 50_000), dim, 1), values(number(2, 1000), dim, 2), dim)
    } else {
        let read = |place: usize| {
            let path = arguments.get(place).map_or("", String::as_str);
            VectorFile::open(path)
                .and_then(|file| Ok((file.dim(), file.read_all()?.into_f32())))
                .map_err(external)
        };
        let ((dim, base), (_, asked)) = (read(0)?, read(1)?);
        (base, asked, dim)
    };
    let (rows, queries) = (base.len() / dim, asked.len() / dim);
    let name = arguments.get(if is_made { 3 } else { 2 }).map_or("best", String::as_str);
    let context = nearfield_datafusion::context();
    context.sql(&format!("SET nearfield.device = '{name}'")).await?;
    register(&context, "base", &base, dim).await?;
    register(&context, "queries", &asked, dim).await?;

    let device = Device::open((name != "best").then_some(name), Default::default()).map_err(external)?;
    let (mut library, mut reading, mut join) = (vec![], vec![], vec![]);
    let (mut wanted, mut found) = (vec![], vec![]);
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut index = Flat::builder(&device, Metric::L2Squared, dim).build().map_err(external)?;
        index.add(MatrixView::new(&base, dim).map_err(external)?).map_err(external)?;
        let answer = index.search(MatrixView::new(&asked, dim).map_err(external)?, K).map_err(external)?;
        library.push(start.elapsed());
        wanted = answer.hits().iter().map(|hit| hit.id).collect();
        let (time, _) = timed(&context, "SELECT vec FROM base").await?;
        reading.push(time);
        let sql =
            format!("SELECT id FROM knn_join(queries, vec, base, vec, {K}, 'l2') ORDER BY query_index, rank");
        let (time, answer) = timed(&context, &sql).await?;
        join.push(time);
        found = answer.column(0).as_primitive::<UInt64Type>().values().to_vec();
    }
    let differing = wanted.iter().zip(&found).filter(|(wanted, found)| wanted != found).count();
    // Distances that differ by less than f32 tells apart may change places.
    assert!(differing * 1000 <= wanted.len(), "{differing} of {} ids differ", wanted.len());

    // The sort of all rows, and the same statement with the search below the sort.
    let [mut plain, mut narrowed] = [vec![], vec![]];
    for (first, query) in (0..).step_by(K).zip(asked.chunks(dim).take(PLAIN)) {
        let text: Vec<String> = query.iter().map(|x| f64::from(*x).to_string()).collect();
        let vector = format!("[{}]", text.join(", "));
        let sql = format!("SELECT id FROM base ORDER BY l2_distance(vec, {vector}), id LIMIT {K}");
        for (is_narrowed, times) in [(false, &mut plain), (true, &mut narrowed)] {
            context.sql(&format!("SET nearfield.order_by = {is_narrowed}")).await?;
            let (time, answer) = timed(&context, &sql).await?;
            assert_eq!(answer.column(0).as_primitive::<UInt64Type>().values(), &found[first..first + K]);
            times.push(time);
        }
    }
    let [library, reading, join, plain, narrowed] = [library, reading, join, plain, narrowed].map(median);
    let each = join / queries as f64;
    println!("{rows} x {dim}, {queries} queries, k {K}, {name}, medians of {RUNS}; answers equal");
    println!("library: index and search     {library:9.1} ms");
    println!("reading the column            {reading:9.1} ms");
    println!("knn_join                      {join:9.1} ms, {:.2} times both", join / (library + reading));
    println!("ORDER BY l2_distance, a query {plain:9.1} ms, {:.0} times that of knn_join", plain / each);
    println!("with nearfield.order_by       {narrowed:9.1} ms");
    Ok(())
}
