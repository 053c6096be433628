//! `knn_graph` and `similar_pairs` find what joins of a table with itself find, ties included.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::datasource::MemTable;
use nearfield::Metric;
use test_case::test_matrix;

use crate::support::{DIM, ROWS, Sql, Stored, devices, save_rows, table, vectors};

/// The distance of a metric, as SQL computes it.
fn distance_of(metric: &str) -> String {
    match metric {
        "l2" | "cosine" | "hamming" | "jaccard" => format!("{metric}_distance(a.vec, b.vec)"),
        _ => "0.0 - inner_product(a.vec, b.vec)".into(),
    }
}

/// Elements of a row: those of the shipped embeddings, cut short.
const CUT: usize = 24;

/// The first rows of the shipped embeddings, cut short.
fn rows(count: usize) -> Vec<Option<Vec<f32>>> {
    ROWS.chunks(DIM).take(count).map(|row| Some(row[..CUT].to_vec())).collect()
}

/// Both functions have the answers of a join of `t` with itself, whose ids are the places of rows, and come in its order. The last answer is
/// that of pairs.
async fn same_as_join(sql: &Sql, metric: &str, ks: &[usize], radii: &[f64]) -> RecordBatch {
    let distance = distance_of(metric);
    sql.run(&format!(
        "CREATE TABLE near AS SELECT * FROM (SELECT a.id AS a, b.id AS b, {distance} AS d FROM t a CROSS JOIN t b WHERE a.id <> b.id)
            WHERE d IS NOT NULL"
    ))
    .await;
    for k in ks {
        let wanted = format!(
            "SELECT * FROM (SELECT a, b, arrow_cast(row_number() OVER (PARTITION BY a ORDER BY d, b) - 1, 'UInt64') AS rank, d FROM near)
                WHERE rank < {k} ORDER BY a, rank"
        );
        let found = format!("SELECT query_id, id, rank, _distance FROM knn_graph(t, vec, {k}, '{metric}')");
        sql.same(&found, &wanted).await;
    }
    let mut last = RecordBatch::new_empty(Arc::new(Schema::empty()));
    for radius in radii {
        let wanted = format!("SELECT a, b, d FROM near WHERE a < b AND d < {radius:?} ORDER BY a, b");
        let found =
            format!("SELECT a_id, b_id, _distance FROM similar_pairs(t, vec, {radius:?}, '{metric}')");
        last = sql.same(&found, &wanted).await;
    }
    last
}

#[test_matrix(["l2", "cosine", "ip"], [(Stored::FixedF32, 300), (Stored::LargeListF64, 40)])]
#[tokio::test]
async fn graphs_and_pairs_are_those_of_a_join(metric: &str, (stored, count): (Stored, usize)) {
    let radius = match metric {
        "l2" => 0.3,
        "cosine" => 0.4,
        _ => -0.03,
    };
    for device in devices() {
        let sql = Sql::new(device).await;
        let mut rows = rows(count);
        // A duplicate, no vector, and one without a cosine.
        rows[17] = rows[3].clone();
        rows[5] = None;
        rows[11] = Some(vec![0.0; CUT]);
        // More duplicates than the library names, so that it leaves a doubt, and more rows in doubt than are looked for at a time.
        let many = rows[20].clone();
        rows[20..(count - 1).min(120)].fill(many);
        sql.parquet("t", &table(&rows, CUT, stored), 3).await;
        // The whole graph at once, and row by row.
        let found = same_as_join(&sql, metric, &[10, 30], &[radius]).await;
        assert!((1..count * (count - 1) / 2).contains(&found.num_rows()), "{} pairs", found.num_rows());
        for (call, wanted) in [
            ("knn_graph(t, vec, 2)", "id vec part query_id query_vec query_part query_index rank _distance"),
            ("similar_pairs(t, vec, 1)", "a_id a_vec a_part b_id b_vec b_part a_index b_index _distance"),
        ] {
            let columns = sql.run(&format!("SELECT * FROM {call} LIMIT 1")).await;
            let names: Vec<String> =
                columns.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!((columns.num_rows(), names.join(" ")), (1, wanted.into()));
        }
    }
}

/// Rows with few distances, so that ties decide, and pairs at the radius itself are none.
#[test_matrix(["l2", "cosine", "ip"], [Stored::ListF32, Stored::FixedI8])]
#[tokio::test]
async fn ties_come_in_the_order_of_the_table_and_the_radius_itself_is_outside(metric: &str, stored: Stored) {
    let sql = Sql::new(devices().last().expect("the host")).await;
    let small: Vec<f32> = (0..200 * 3).map(|i| ((i * 7919 + i / 31) % 5) as f32 - 2.0).collect();
    sql.parquet("t", &table(&vectors(&small, 3), 3, stored), 2).await;
    same_as_join(&sql, metric, &[1, 30], &[1.0]).await;
    // The nearest others in a join with the table itself, each of which finds itself.
    let join = format!("knn_join(t, vec, t, vec, 200, '{metric}')");
    sql.same(
        &format!("SELECT query_id, id, _distance FROM knn_graph(t, vec, 199, '{metric}')"),
        &format!("SELECT query_id, id, _distance FROM {join} WHERE query_id <> id ORDER BY query_id, rank"),
    )
    .await;
}

/// Doubles that f32 does not tell apart, and those that are too long or too short for the library.
#[test_matrix(["l2", "cosine", "ip"])]
#[tokio::test]
async fn rows_that_f32_cannot_hold_have_their_neighbours_too(metric: &str) {
    let sql = Sql::new("host").await;
    let values = "SELECT arrow_cast(value, 'Int64') AS id,
        CASE WHEN value % 9 = 4 THEN 1e30 WHEN value % 11 = 5 THEN 1e-30 WHEN value = 50 THEN 0.0 ELSE 1.0 END
            * (1.0 + 1e-12 * (value * 37 % 101)) AS x, (value % 3) * 1e-9 AS y FROM generate_series(0, 119)";
    sql.run(&format!("CREATE TABLE t AS SELECT id, [x, y, x * y] AS vec FROM ({values}) ORDER BY id")).await;
    same_as_join(&sql, metric, &[4], &[1e-11, 1e-20, 1e25]).await;
}

#[test_matrix([("hamming", 9.0), ("jaccard", 0.6)])]
#[tokio::test]
async fn rows_of_bits_are_compared((metric, radius): (&str, f64)) {
    let sql = Sql::new("host").await;
    let bytes: Vec<f32> = (0..120 * 4).map(|place| ((place * 7919 + place / 7) % 128) as f32).collect();
    sql.parquet("t", &table(&vectors(&bytes, 4), 4, Stored::FixedI8), 2).await;
    same_as_join(&sql, metric, &[5], &[radius]).await;
    // Numbers that are bytes in f32 alone, and others that are none, have no bits.
    let sql = Sql::new("host").await;
    let values = "SELECT arrow_cast(value, 'Int64') AS id, CASE WHEN value < 20 THEN 200.00000001 WHEN value % 9 = 4 THEN -1.0
        WHEN value = 50 THEN 256.0 ELSE 200.0 END AS x, arrow_cast(value % 7, 'Float64') AS y FROM generate_series(0, 119)";
    sql.run(&format!("CREATE TABLE t AS SELECT id, [x, y] AS vec FROM ({values}) ORDER BY id")).await;
    same_as_join(&sql, metric, &[1, 5], &[radius]).await;
}

/// Rows of more than 256 bytes: f32 rounds some of their Jaccard distances to one number.
#[tokio::test]
async fn long_rows_of_bits_are_compared() {
    const BYTES: usize = 300;
    let sql = Sql::new("host").await;
    // Rows differ from the first in a bit or two.
    let bytes: Vec<f32> = (0..70 * BYTES)
        .map(|place| {
            let (row, byte) = (place / BYTES, place % BYTES);
            f32::from(3 ^ u8::from(byte == row) ^ u8::from(byte == row * 7 % 41) << 2)
        })
        .collect();
    sql.parquet("t", &table(&vectors(&bytes, BYTES), BYTES, Stored::FixedI8), 2).await;
    same_as_join(&sql, "jaccard", &[6], &[0.004]).await;
}

/// With too little memory for a graph at once, its rows come piece by piece; with less, a query says so.
#[tokio::test]
async fn memory_is_that_of_the_pool() {
    let mut answers = vec![];
    // The rows take 970 KiB, and their graph another 560.
    for bytes in [64 << 20, 1250 << 10, 100 << 10] {
        let sql = Sql::with_memory(bytes).await;
        let rows = table(&rows(2000), CUT, Stored::FixedF32);
        sql.context.register_batch("t", rows).expect("a table");
        answers.push(sql.try_run("SELECT query_id, id, _distance FROM knn_graph(t, vec, 10)").await);
    }
    assert_eq!(answers[0].as_ref().expect("room"), answers[1].as_ref().expect("room for the rows"));
    let error = answers[2].as_ref().expect_err("100 KiB").to_string();
    assert!(error.contains("queries of a search"), "{error}");
}

/// Answers come batch by batch.
#[tokio::test]
async fn an_answer_is_no_single_batch() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.batch_size = 64").await;
    sql.parquet("t", &table(&rows(200), CUT, Stored::FixedF32), 2).await;
    for (call, count) in [("knn_graph(t, vec, 7)", 200 * 7), ("similar_pairs(t, vec, 3)", 200 * 199 / 2)] {
        let all = format!("SELECT * FROM {call}");
        let batches = sql.context.sql(&all).await.expect("a plan").collect().await.expect("an answer");
        let counts: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(counts.iter().sum::<usize>(), count, "{call}");
        assert!(counts.iter().all(|&count| count <= 64), "{call}: {counts:?}");
        assert_eq!(sql.run(&format!("{all} LIMIT 100")).await.num_rows(), 100);
        sql.same(&format!("SELECT count(*) FROM {call}"), &format!("SELECT {count}")).await;
    }
}

#[tokio::test]
async fn tables_with_no_row_or_one_have_neither_edges_nor_pairs() {
    let sql = Sql::new("host").await;
    sql.context.register_batch("none", table(&[], DIM, Stored::FixedF32)).expect("a table");
    sql.context
        .register_batch("one", table(&vectors(&ROWS[..DIM], DIM), DIM, Stored::FixedF32))
        .expect("a table");
    sql.context.register_batch("nulls", table(&vec![None; 99], DIM, Stored::FixedF32)).expect("a table");
    for name in ["none", "one", "nulls"] {
        for call in [format!("knn_graph({name}, vec, 3)"), format!("similar_pairs({name}, vec, 3)")] {
            let found = sql.run(&format!("SELECT * FROM {call}")).await;
            assert_eq!((found.num_rows(), found.num_columns()), (0, 9), "{call}");
        }
    }
}

/// A filter says which rows are compared, and a condition outside which edges the answer has.
#[tokio::test]
async fn filters_and_conditions_are_those_of_views() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&rows(150), CUT, Stored::FixedF16), 2).await;
    sql.run("CREATE VIEW some AS SELECT * FROM t WHERE part <> 3 AND id > 20").await;
    for (with, without) in [
        ("knn_graph(t, vec, 4, 'l2', 'part <> 3 AND id > 20')", "knn_graph(some, vec, 4, 'l2')"),
        ("similar_pairs(t, vec, 0.5, NULL, 'part <> 3 AND id > 20')", "similar_pairs(some, vec, 0.5)"),
    ] {
        let found = sql.same(&format!("SELECT * FROM {with}"), &format!("SELECT * FROM {without}")).await;
        assert!(found.num_rows() > 0, "{with}");
    }
    let edges = "SELECT query_id, id, rank FROM knn_graph(t, vec, 4)";
    let after = format!("SELECT * FROM ({edges}) WHERE id % 2 = 0 ORDER BY 1, 3");
    sql.same(&format!("{edges} WHERE id % 2 = 0 ORDER BY query_index, rank"), &after).await;
}

/// Rows keep the numbers that their table gives them: rules of the optimizer would deal them out to partitions.
#[tokio::test]
async fn rows_of_one_partition_are_numbered_in_its_order() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 8").await;
    let values: Vec<f32> = (0..2000u16).flat_map(|row| [f32::from(row), 1.0]).collect();
    let whole = table(&vectors(&values, 2), 2, Stored::ListF32);
    let starts = [0, 700, 900, 1000, 1400, 1500, 2000];
    let batches = starts.windows(2).map(|ends| whole.slice(ends[0], ends[1] - ends[0])).collect();
    let memory = MemTable::try_new(whole.schema(), vec![batches]).expect("one partition");
    sql.context.register_table("memory", Arc::new(memory)).expect("a table");
    let found = "SELECT a_index, b_index FROM similar_pairs(memory, vec, 1.5, 'l2')";
    let wanted = "SELECT value, value + 1 FROM generate_series(0, 1998) ORDER BY 1";
    sql.same(found, wanted).await;
    let ids = "SELECT a_id, b_id FROM similar_pairs(memory, vec, 1.5, 'l2', 'id % 4 <> 1') ORDER BY 1";
    sql.same(ids, "SELECT value, value + 1 FROM generate_series(0, 1998) WHERE value % 4 > 1 ORDER BY 1")
        .await;
}

/// The rows of saved indexes, which have a metric of their own.
#[tokio::test]
async fn tables_of_saved_indexes_are_compared_by_their_metric() {
    let sql = Sql::new("host").await;
    let rows = table(&vectors(&ROWS[..90 * DIM], DIM), DIM, Stored::FixedF32);
    sql.parquet("t", &rows, 1).await;
    let folder = sql.folder.path().join("indexes");
    std::fs::create_dir(&folder).expect("a folder");
    save_rows(&folder.join("0.nf"), 0..50, Metric::L2);
    save_rows(&folder.join("1.nf"), 50..90, Metric::L2);
    sql.indexes("docs", &folder).await;
    for (of_indexes, of_rows) in [
        ("query_id, id, rank, _distance FROM knn_graph(docs, vector, 5)", "knn_graph(t, vec, 5, 'l2')"),
        ("a_id, b_id, _distance FROM similar_pairs(docs, vector, 0.9)", "similar_pairs(t, vec, 0.9, 'l2')"),
    ] {
        let columns = of_indexes.split(" FROM ").next().unwrap_or_default();
        let order = if columns.starts_with("query") { "query_id, rank" } else { "a_id, b_id" };
        let found = format!("SELECT {of_indexes} ORDER BY {order}");
        assert!(
            sql.same(&found, &format!("SELECT {columns} FROM {of_rows} ORDER BY {order}")).await.num_rows()
                > 0
        );
    }
}
