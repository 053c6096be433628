//! Times `knn_join` against an index that stays in memory beside the library's search of it, and compares their answers:
//!
//! ```sh
//! cargo run --release --manifest-path sql/Cargo.toml --package nearfield-datafusion --example resident -- 1000000 768 10000
//! ```
//!
//! Arguments: rows, dim, queries, device. It writes the index and the queries to the folder for temporary files, and removes them.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::types::{Float64Type, UInt64Type};
use datafusion::arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Float32Array, RecordBatch, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{DataFusionError, Result};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use nearfield::{Device, Flat, MatrixView, Metric};
use rayon::prelude::*;

const K: usize = 10;
const RUNS: usize = 9;
/// Rows that are made at a time.
const PIECE: usize = 50_000;

/// Values without a pattern, the same in every run.
fn values(first: usize, rows: usize, dim: usize, seed: u64) -> Vec<f32> {
    let start = seed.wrapping_add((first * dim) as u64);
    let value = |place: u64| {
        // The generator `splitmix64`.
        let state = start.wrapping_add(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..(rows * dim) as u64).into_par_iter().map(value).collect()
}

async fn timed(context: &SessionContext, sql: &str) -> Result<(Duration, RecordBatch)> {
    let start = Instant::now();
    let frame = context.sql(sql).await?;
    let schema = frame.schema().inner().clone();
    let batches = frame.collect().await?;
    let time = start.elapsed();
    Ok((time, concat_batches(&schema, &batches)?))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, other: usize| arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(other);
    let (rows, dim, queries) = (number(0, 100_000), number(1, 768), number(2, 1000));
    let name = arguments.get(3).map_or("best", String::as_str);
    let external = |error: nearfield::Error| DataFusionError::External(Box::new(error));
    let folder = tempfile::tempdir()?;
    let (saved, table) = (folder.path().join("rows.nf"), folder.path().join("queries.parquet"));

    let device = Device::open((name != "best").then_some(name), Default::default()).map_err(external)?;
    let mut index = Flat::builder(&device, Metric::L2Squared, dim).build().map_err(external)?;
    for first in (0..rows).step_by(PIECE) {
        let piece = values(first, PIECE.min(rows - first), dim, 1);
        index.add(MatrixView::new(&piece, dim).map_err(external)?).map_err(external)?;
    }
    index.save(&saved).map_err(external)?;
    let asked = values(0, queries, dim, 1 << 60);
    let field = Arc::new(Field::new_list_field(DataType::Float32, false));
    let elements = Arc::new(Float32Array::from(asked.clone()));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::try_new(field, dim as i32, elements, None)?);
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..queries as u64));
    let batch = RecordBatch::try_from_iter([("id", ids), ("vec", vectors)])?;
    let mut writer = ArrowWriter::try_new(File::create(&table)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    let in_memory = batch;

    let context = nearfield_datafusion::context();
    context.sql(&format!("SET nearfield.device = '{name}'")).await?;
    context.sql("SET nearfield.resident_bytes = 1000000000000").await?;
    let create = format!("CREATE EXTERNAL TABLE docs STORED AS NEARFIELD LOCATION '{}'", saved.display());
    context.sql(&create).await?;
    context.register_parquet("queries", table.display().to_string(), ParquetReadOptions::default()).await?;
    context.register_batch("held", in_memory)?;
    let sql =
        format!("SELECT query_id, id, _distance FROM knn_join(queries, vec, docs, vector, {K}, 'l2sq')");

    let (mut library, mut join, mut held) = (vec![], vec![], vec![]);
    for run in 0..=RUNS {
        let start = Instant::now();
        let wanted = index.search(MatrixView::new(&asked, dim).map_err(external)?, K).map_err(external)?;
        let alone = start.elapsed();
        let (time, found) = timed(&context, &sql).await?;
        let (in_memory, _) = timed(&context, &sql.replace("queries", "held")).await?;
        // The first loads the index.
        if run > 0 {
            library.push(alone);
            join.push(time);
            held.push(in_memory);
        }
        let numbers = |column: usize| found.column(column).as_primitive::<UInt64Type>().values();
        assert!(numbers(1).iter().eq(wanted.hits().iter().map(|hit| &hit.id)), "other ids");
        assert!(
            numbers(0).iter().enumerate().all(|(place, &query)| query as usize == place / K),
            "other queries"
        );
        let distances = found.column(2).as_primitive::<Float64Type>().values();
        let same = distances.iter().zip(wanted.hits()).all(|(found, hit)| *found == f64::from(hit.distance));
        assert!(same, "other distances");
    }
    let (library, join, held) = (median(library), median(join), median(held));
    println!("{rows} x {dim}, {queries} queries, k {K}, {name}, medians of {RUNS}; answers equal");
    println!("Flat::search                 {library:9.1} ms");
    println!(
        "knn_join, queries in memory  {held:9.1} ms: {:.0} % of the speed of Flat",
        100.0 * library / held
    );
    println!("knn_join, queries in Parquet {join:9.1} ms: {:.0} %", 100.0 * library / join);
    let (_, plan) = timed(&context, &format!("EXPLAIN ANALYZE {sql}")).await?;
    println!("{}", pretty_format_batches(&[plan])?);
    Ok(())
}
