//! What cannot be searched is refused by name, and a query that is given up ends.

use std::sync::Arc;
use std::time::Duration;

use datafusion::datasource::MemTable;

use crate::support::{DIM, ROWS, Sql, Stored, table, vectors};

#[tokio::test]
async fn wrong_arguments_are_refused_by_name() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..20 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    sql.run("CREATE VIEW twice AS SELECT vec, id AS rank FROM t").await;
    sql.run("CREATE VIEW spoilt AS SELECT arrow_cast([1.0, 'NaN'], 'List(Float64)') AS vec").await;
    sql.run("CREATE TABLE uneven AS SELECT [1.0] AS vec UNION ALL SELECT [1.0, 2.0]").await;
    for (call, wanted) in [
        ("knn(t, vec, [1.0], 3)", "needed vectors of 1 elements as the queries have, given 384"),
        (
            "knn(t, vec, [[1.0], [1.0, 2.0]], 3)",
            "query: needed vectors of 1 elements as the first has, vector 1 has 2",
        ),
        ("knn(t, vec, [1.0, NULL], 3)", "query: needed elements that are not NULL"),
        ("knn(t, vec, [[1.0], NULL], 3)", "query: needed vectors that are not NULL"),
        ("knn(t, vec, 'text', 3)", "query: needed a list of numbers"),
        ("knn(t, vec, ['a'], 3)", "query: needed a list of numbers"),
        // A subquery is no list of numbers, in the words of DataFusion.
        ("knn(t, vec, (SELECT 1), 3)", ""),
        ("knn(t, vec, arrow_cast([1.0, 'NaN'], 'List(Float64)'), 3)", "query: needed finite elements"),
        ("knn(t, vec, [1.0], 0)", "k: needed a whole number from 1, given"),
        ("knn(t, vec, [1.0], 1.5)", "k: needed a whole number from 1, given"),
        (
            "knn(t, vec, [1.0], 3, 'euclid')",
            "metric: needed l2sq, l2, cosine, ip, hamming or jaccard, given euclid",
        ),
        ("knn(t, vec, [1.0], 3, 'l2', 'nothing = 1')", "nothing"),
        (
            "knn(t, nothing, [1.0], 3)",
            "column: needed a column of the table, one of id, vec, part, given \"nothing\"",
        ),
        (
            "knn(nothing, vec, [1.0], 3)",
            "table: needed a table or view of the catalog, there is no \"nothing\"",
        ),
        (
            "knn(t, id, [1.0], 3)",
            "column \"id\": needed lists of f16, f32, f64, i8 or u8, or Binary, given Int64",
        ),
        ("knn(t, vec)", "needed knn(table, column, query, k [, metric, filter]), given 2 arguments"),
        ("knn(twice, vec, [1.0], 3)", "the answer would have two columns \"rank\""),
        (
            "knn_join(t, vec, t, part, 3)",
            "column \"part\": needed lists of f16, f32, f64, i8 or u8, or Binary, given Int64",
        ),
        ("knn_join(t, vec, t, vec)", "needed knn_join(queries, query_column, base, column, k [, metric])"),
        ("knn_graph(t, vec)", "needed knn_graph(table, column, k [, metric, filter]), given 2 arguments"),
        ("knn_graph(t, vec, 0)", "k: needed a whole number from 1, given"),
        (
            "knn_graph(t, part, 3)",
            "column \"part\": needed lists of f16, f32, f64, i8 or u8, or Binary, given Int64",
        ),
        (
            "knn_graph(t, nothing, 3)",
            "column: needed a column of the table, one of id, vec, part, given \"nothing\"",
        ),
        ("knn_graph(twice, vec, 3)", "the answer would have two columns \"rank\""),
        ("knn_graph(spoilt, vec, 3)", "column \"vec\": needed finite elements, vector 0 has others"),
        (
            "knn_graph(uneven, vec, 3)",
            "column \"vec\": needed vectors of 1 elements as the first has, vector 1 has 2",
        ),
        ("similar_pairs(t, vec, 'near')", "similar_pairs: radius: needed a finite number, given"),
        ("similar_pairs(t, vec, NULL)", "similar_pairs: radius: needed a finite number, given NULL"),
        (
            "similar_pairs(t, vec, arrow_cast('inf', 'Float64'))",
            "similar_pairs: radius: needed a finite number, given",
        ),
        (
            "similar_pairs(t, vec, 1, 'euclid')",
            "metric: needed l2sq, l2, cosine, ip, hamming or jaccard, given euclid",
        ),
        ("similar_pairs(t, vec, 1, 'l2', 'nothing = 1')", "nothing"),
        (
            "similar_pairs(t, vec)",
            "needed similar_pairs(table, column, radius [, metric, filter]), given 2 arguments",
        ),
    ] {
        let error = sql.error(&format!("SELECT * FROM {call}")).await;
        assert!(error.contains(wanted), "{call}: {error}");
    }
}

/// The pool of a session limits what a search gathers: with less it searches smaller blocks, with next to nothing it says so.
#[tokio::test]
async fn memory_is_that_of_the_pool() {
    let rows = table(&vectors(&ROWS[..3000 * DIM], DIM), DIM, Stored::FixedF32);
    let queries = table(&vectors(&ROWS[..30 * DIM], DIM), DIM, Stored::FixedF32);
    let mut answers = vec![];
    for bytes in [64 << 20, 2 << 20, 64 << 10] {
        let sql = Sql::with_memory(bytes).await;
        sql.run("SET datafusion.execution.batch_size = 256").await;
        // Batches of a quarter of a megabyte.
        let batches = (0..3000).step_by(150).map(|start| rows.slice(start, 150)).collect();
        let source = MemTable::try_new(rows.schema(), vec![batches]).expect("a table");
        sql.context.register_table("t", Arc::new(source)).expect("a table");
        sql.context.register_batch("q", queries.clone()).expect("a table");
        answers
            .push(sql.try_run("SELECT query_id, id, rank, _distance FROM knn_join(q, vec, t, vec, 2)").await);
    }
    assert_eq!(answers[0].as_ref().expect("room"), answers[1].as_ref().expect("room for a block"));
    let error = answers[2].as_ref().expect_err("64 KiB").to_string();
    assert!(error.contains("KnnPartialExec"), "{error}");
}

/// Nobody waits for the answer any more: its threads end soon.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_given_up_ends() {
    let sql = Sql::new("host").await;
    let values: Vec<f32> = (0..200_000 * 8u64).map(|i| ((i * 7919) % 1009) as f32).collect();
    sql.context.register_batch("t", table(&vectors(&values, 8), 8, Stored::FixedF32)).expect("a table");
    for search in
        ["knn_join(t, vec, t, vec, 3, 'l2')", "knn_graph(t, vec, 3, 'l2')", "similar_pairs(t, vec, 3, 'l2')"]
    {
        let frame = sql.context.sql(&format!("SELECT count(*) FROM {search}")).await.expect("a plan");
        let running = tokio::spawn(frame.collect());
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!running.is_finished(), "some minutes of work");
        running.abort();
        // The runtime waits for its blocking threads at its end, which this test would not reach within minutes otherwise.
        assert!(running.await.expect_err("aborted").is_cancelled());
    }
}
