//! Times `knn_join`, over Parquet files and over an index that stays in memory, beside the library alone and beside plain SQL, and compares
//! their answers:
//!
//! ```sh
//! cargo run --release --manifest-path sql/Cargo.toml --package nearfield-datafusion --example pace -- 50000 384 1000
//! cargo run --release --manifest-path sql/Cargo.toml --package nearfield-datafusion --example pace -- base.npy queries.npy
//! ```
//!
//! Arguments: rows, dim and queries of made values, or files of rows and queries; then a device. The Parquet files stay in the folder for temporary
//! ones.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::types::UInt64Type;
use datafusion::arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Float32Array, RecordBatch, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use nearfield::io::VectorFile;
use nearfield::{Device, Flat, MatrixView, Metric};
use rayon::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const K: usize = 10;
/// Queries that plain SQL answers, one by one: it takes too long for all.
const PLAIN: usize = 20;
const RUNS: usize = 5;

/// Values without a pattern, the same in every run.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let value = |place: u64| {
        // The generator `splitmix64`.
        let state = (seed << 60).wrapping_add(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count as u64).into_par_iter().map(value).collect()
}

fn read(path: &str) -> Result<(Vec<f32>, usize)> {
    let file = VectorFile::open(path)?;
    Ok((file.read_all()?.into_f32(), file.dim()))
}

/// Registers vectors as a table in a Parquet file, and gives them back as one in memory.
async fn register(context: &SessionContext, name: &str, values: &[f32], dim: usize) -> Result<RecordBatch> {
    let path = std::env::temp_dir().join(format!("nearfield-pace-{name}.parquet"));
    let field = Arc::new(Field::new_list_field(DataType::Float32, false));
    let elements = Arc::new(Float32Array::from(values.to_vec()));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::try_new(field, dim as i32, elements, None)?);
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..(values.len() / dim) as u64));
    let batch = RecordBatch::try_from_iter([("id", ids), ("vec", vectors)])?;
    let mut writer = ArrowWriter::try_new(File::create(&path)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    context.register_parquet(name, path.display().to_string(), ParquetReadOptions::default()).await?;
    Ok(batch)
}

/// How long a statement takes, and its answer.
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
    let argument = |place: usize, other| arguments.get(place).map_or(other, String::as_str);
    let is_made = argument(0, "0").parse::<usize>().is_ok();
    let (base, asked, dim) = if is_made {
        let dim = argument(1, "384").parse()?;
        let [rows, queries] = [argument(0, "50000"), argument(2, "1000")].map(str::parse::<usize>);
        (values(rows? * dim, 1), values(queries? * dim, 2), dim)
    } else {
        let (base, dim) = read(argument(0, ""))?;
        (base, read(argument(1, ""))?.0, dim)
    };
    let (rows, queries) = (base.len() / dim, asked.len() / dim);
    let name = argument(if is_made { 3 } else { 2 }, "best");
    let context = nearfield_datafusion::context();
    context.sql(&format!("SET nearfield.device = '{name}'")).await?;
    context.sql("SET nearfield.resident_bytes = 1000000000000").await?;
    register(&context, "base", &base, dim).await?;
    let held = register(&context, "queries", &asked, dim).await?;
    context.register_batch("held", held)?;

    let device = Device::open((name != "best").then_some(name), Default::default())?;
    let (base, all) = (MatrixView::new(&base, dim)?, MatrixView::new(&asked, dim)?);
    let mut index = Flat::builder(&device, Metric::L2Squared, dim).build()?;
    index.add(base)?;
    let wanted: Vec<u64> = index.search(all, K)?.hits().iter().map(|hit| hit.id).collect();
    let folder = tempfile::tempdir()?;
    let saved = folder.path().join("rows.nf");
    index.save(&saved)?;
    let location = saved.display();
    context.sql(&format!("CREATE EXTERNAL TABLE docs STORED AS NEARFIELD LOCATION '{location}'")).await?;
    let join = |from: &str| format!("SELECT id FROM knn_join({from}, {K}, 'l2') ORDER BY query_index, rank");
    let [in_memory, queries_in_parquet, in_parquet] =
        ["held, vec, docs, vector", "queries, vec, docs, vector", "queries, vec, base, vec"].map(join);
    // The first loads the index.
    timed(&context, &in_memory).await?;

    let mut times: [Vec<Duration>; 6] = Default::default();
    for _ in 0..RUNS {
        let start = Instant::now();
        index.search(all, K)?;
        times[0].push(start.elapsed());
        let mut built = Flat::builder(&device, Metric::L2Squared, dim).build()?;
        built.add(base)?;
        built.search(all, K)?;
        times[1].push(start.elapsed() - times[0][times[0].len() - 1]);
        let statements = ["SELECT vec FROM base", &in_memory, &queries_in_parquet, &in_parquet];
        for (statement, times) in statements.into_iter().zip(&mut times[2..]) {
            let (time, answer) = timed(&context, statement).await?;
            times.push(time);
            if let Some(found) = answer.column(0).as_primitive_opt::<UInt64Type>() {
                let differing = found.values().iter().zip(&wanted).filter(|(found, wanted)| found != wanted);
                let differing = differing.count();
                // Distances that differ by less than f32 tells apart may change places.
                assert!(differing * 1000 <= wanted.len(), "{differing} of {} ids differ", wanted.len());
            }
        }
    }
    let mut plain = vec![];
    for query in asked.chunks(dim).take(PLAIN) {
        let text: Vec<String> = query.iter().map(|x| f64::from(*x).to_string()).collect();
        let vector = text.join(", ");
        let sql = format!("SELECT id FROM base ORDER BY l2_distance(vec, [{vector}]), id LIMIT {K}");
        plain.push(timed(&context, &sql).await?.0);
    }
    let [search, library, reading, in_memory, queries_in_parquet, in_parquet] = times.map(median);
    let plain = median(plain);
    println!("{rows} x {dim}, {queries} queries, k {K}, {name}, medians of {RUNS}; answers equal");
    println!("Flat::search                  {search:9.1} ms");
    println!(
        "knn_join with a saved index   {in_memory:9.1} ms, {:.0} % of its speed",
        100.0 * search / in_memory
    );
    println!("  and queries in Parquet      {queries_in_parquet:9.1} ms");
    println!("library: index and search     {library:9.1} ms");
    println!("reading the column            {reading:9.1} ms");
    println!(
        "knn_join of Parquet files     {in_parquet:9.1} ms, {:.2} times both",
        in_parquet / (library + reading)
    );
    println!(
        "ORDER BY l2_distance, a query {plain:9.1} ms, {:.0} times that of knn_join",
        plain * queries as f64 / in_parquet
    );
    Ok(())
}
