//! `knn_join` finds what a join with row numbers finds, ties included.

use test_case::test_matrix;

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, devices, table, vectors};

const BRUTE_FORCE: &str = "SELECT query_id, id, rank, d FROM (
    SELECT q.id AS query_id, t.id AS id, DISTANCE AS d,
        row_number() OVER (PARTITION BY q.id ORDER BY DISTANCE, t.id) AS rank
    FROM q CROSS JOIN t WHERE q.vec IS NOT NULL AND t.vec IS NOT NULL)
    WHERE rank <= 10 ORDER BY query_id, rank";

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
    sql.same(
        "SELECT j.query_id, t.part FROM knn_join(q, vec, t, vec, 10) j JOIN t ON t.id = j.id WHERE j.rank = 1 ORDER BY 1",
        &format!("SELECT query_id, id % 7 FROM ({near}) WHERE rank = 1 ORDER BY 1"),
    )
    .await;
}

#[tokio::test]
async fn tables_without_queries_or_rows_give_nothing() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..10 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    sql.parquet("none", &table(&[], DIM, Stored::FixedF32), 1).await;
    for call in ["knn_join(none, vec, t, vec, 3)", "knn_join(t, vec, none, vec, 3)"] {
        assert_eq!(sql.run(&format!("SELECT id, rank FROM {call}")).await.num_rows(), 0, "{call}");
    }
}
