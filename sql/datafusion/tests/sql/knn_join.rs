//! `knn_join` finds what a join with row numbers finds, ties included.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::array::types::UInt64Type;
use datafusion::datasource::MemTable;
use nearfield::Metric;
use test_case::test_matrix;

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, devices, save_index, table, vectors};

const BRUTE_FORCE: &str = "SELECT query_id, id, rank, d FROM (
    SELECT q.id AS query_id, t.id AS id, DISTANCE AS d,
        arrow_cast(row_number() OVER (PARTITION BY q.id ORDER BY DISTANCE, t.id) - 1, 'UInt64') AS rank
    FROM q CROSS JOIN t WHERE q.vec IS NOT NULL AND t.vec IS NOT NULL)
    WHERE rank < 10 ORDER BY query_id, rank";

#[test_matrix([("l2", "l2_distance(q.vec, t.vec)"), ("cosine", "cosine_distance(q.vec, t.vec)"), ("ip", "0.0 - inner_product(q.vec, t.vec)")])]
#[tokio::test]
async fn every_row_of_a_table_finds_its_neighbours((metric, distance): (&str, &str)) {
    for device in devices() {
        let sql = Sql::new(device).await;
        sql.parquet("t", &table(&vectors(&ROWS[..600 * DIM], DIM), DIM, Stored::FixedF32), 2).await;
        let mut queries = vectors(&QUERIES[..12 * DIM], DIM);
        queries[4] = None;
        sql.parquet("q", &table(&queries, DIM, Stored::ListF32), 3).await;
        let call = format!("knn_join(q, vec, t, vec, 10, '{metric}')");
        let found = format!("SELECT query_id, id, rank, _distance FROM {call} ORDER BY query_id, rank");
        let found = sql.same(&found, &BRUTE_FORCE.replace("DISTANCE", distance)).await;
        assert_eq!(found.num_rows(), 11 * 10, "a query that is NULL has no neighbours");
        let columns = sql.run(&format!("SELECT * FROM {call} LIMIT 1")).await;
        let names: Vec<String> = columns.schema().fields().iter().map(|field| field.name().clone()).collect();
        let wanted = "id vec part query_id query_vec query_part query_index rank _distance";
        assert_eq!(names.join(" "), wanted);
    }
}

#[tokio::test]
async fn joins_filters_and_aggregates_go_on_from_the_answer() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..600 * DIM], DIM), DIM, Stored::FixedF16), 2).await;
    sql.parquet("q", &table(&vectors(&QUERIES[..20 * DIM], DIM), DIM, Stored::FixedF16), 1).await;
    let near = BRUTE_FORCE.replace("DISTANCE", "cosine_distance(q.vec, t.vec)");
    sql.same(
        "SELECT query_part, count(*), max(_distance) FROM knn_join(q, vec, t, vec, 10) GROUP BY query_part ORDER BY query_part",
        &format!("SELECT query_id % 7 AS p, count(*), max(d) FROM ({near}) GROUP BY p ORDER BY p"),
    )
    .await;
    // Names in a subquery that the outer query has too, also that of a table.
    sql.same(
        "SELECT id FROM (SELECT id, vec, 0 AS t FROM t) WHERE id IN (SELECT id FROM knn_join(q, vec, t, vec, 10)) ORDER BY id",
        &format!("SELECT DISTINCT id FROM ({near}) ORDER BY id"),
    )
    .await;
    sql.same(
        "SELECT j.query_id, t.part FROM knn_join(q, vec, t, vec, 10) j JOIN t ON t.id = j.id WHERE j.rank = 0 ORDER BY 1",
        &format!("SELECT query_id, id % 7 FROM ({near}) WHERE rank = 0 ORDER BY 1"),
    )
    .await;
}

/// Rules of the optimizer would deal the queries out to partitions: a table in memory by the sizes of its batches, others below a filter.
#[tokio::test]
async fn queries_of_one_partition_are_numbered_in_its_order() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 8").await;
    let values: Vec<f32> = (0..20_000u16).flat_map(|row| [f32::from(row), 1.0]).collect();
    let whole = table(&vectors(&values, 2), 2, Stored::ListF32);
    let starts = [0, 700, 2_000, 3_000, 4_500, 5_000, 8_000, 9_000, 12_000, 15_000, 20_000];
    let batches = starts.windows(2).map(|ends| whole.slice(ends[0], ends[1] - ends[0])).collect();
    let memory = MemTable::try_new(whole.schema(), vec![batches]).expect("one partition");
    sql.context.register_table("memory", Arc::new(memory)).expect("a table");
    for (name, rows) in [("docs", 20_000), ("few", 10)] {
        let path = sql.folder.path().join(format!("{name}.nf"));
        save_index(&path, &values[..rows * 2], 2, Metric::L2, 0);
        sql.indexes(name, &path).await;
    }
    sql.parquet("file", &whole.slice(0, 10), 1).await;
    for (view, query, count) in [
        ("SELECT id, vec FROM memory", "vec", 20_000),
        ("SELECT vec, id FROM memory WHERE id % 4 <> 1", "vec", 15_000),
        ("SELECT id, vector FROM docs WHERE id % 5 <> 2", "vector", 16_000),
    ] {
        sql.run(&format!("CREATE OR REPLACE VIEW asked AS {view}")).await;
        for base in ["few, vector", "file, vec"] {
            let call = format!("knn_join(asked, {query}, {base}, 1, 'l2')");
            let found = format!(
                "SELECT query_index, arrow_cast(query_id, 'UInt64') FROM {call} ORDER BY query_index"
            );
            let found = sql.run(&found).await;
            let [numbers, ids] =
                [0, 1].map(|place| found.column(place).as_primitive::<UInt64Type>().values());
            assert!(numbers.iter().copied().eq(0..count), "{view} {base}");
            assert!(ids.is_sorted(), "{view} {base}");
        }
    }
}
