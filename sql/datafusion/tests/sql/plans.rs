//! `EXPLAIN` says what is searched and how, and plans hold no more than they need.

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, literal, table, vectors};

#[tokio::test]
async fn plans_name_the_search_and_read_only_its_columns() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..100 * DIM], DIM), DIM, Stored::FixedF32), 4).await;
    sql.parquet("q", &table(&vectors(&QUERIES[..30 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    sql.run("SET datafusion.execution.target_partitions = 4").await;
    let call = format!("knn(t, vec, {}, 3, 'l2')", literal(&QUERIES[..DIM]));
    let plan = sql.plan(&format!("SELECT id, rank FROM {call} ORDER BY query_index, rank")).await;
    for part in [
        "Knn: column=vec, k=3, metric=l2, queries=1",
        "KnnFinalExec: k=3",
        "CoalescePartitionsExec",
        "KnnPartialExec: column=vec, k=3, metric=l2, queries=1",
        "projection=[id, vec]",
    ] {
        assert!(plan.contains(part), "{part}:\n{plan}");
    }
    assert!(!plan.contains("SortExec"), "the answer is in order:\n{plan}");
    assert!(!plan.contains("RepartitionExec"), "the order of the table would be lost:\n{plan}");
    let plan = sql.plan("SELECT query_id, id FROM knn_join(q, vec, t, vec, 3)").await;
    assert_eq!(
        plan.matches("projection=[id, vec]").count(),
        4,
        "logical and physical, rows and queries:\n{plan}"
    );
    let call = "knn_graph(t, vec, 3, 'l2')";
    let plan = sql.plan(&format!("SELECT query_id, rank FROM {call} ORDER BY query_index, rank")).await;
    for part in [
        "Pairwise: column=vec, k=3, metric=l2",
        "PairwiseExec: column=vec, k=3, metric=l2",
        "projection=[id, vec]",
    ] {
        assert!(plan.contains(part), "{part}:\n{plan}");
    }
    assert!(!plan.contains("SortExec") && !plan.contains("RepartitionExec"), "{plan}");
    let plan = sql.plan("SELECT b_part FROM similar_pairs(t, vec, 0.5)").await;
    assert!(plan.contains("PairwiseExec: column=vec, radius=0.5, metric=cosine"), "{plan}");
    assert_eq!(plan.matches("projection=[vec, part]").count(), 2, "logical and physical:\n{plan}");
}

#[tokio::test]
async fn explain_analyze_counts_the_work() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(ROWS.as_slice(), DIM), DIM, Stored::FixedF32), 1).await;
    sql.parquet("q", &table(&vectors(QUERIES.as_slice(), DIM), DIM, Stored::FixedF32), 1).await;
    let plan = sql.plan("ANALYZE SELECT id FROM knn_join(q, vec, t, vec, 3)").await;
    let search = plan.lines().find(|line| line.contains("KnnPartialExec")).expect("a search");
    for part in [
        "rows_searched=4.00 K",
        "pairs_screened=800.0 K",
        "pairs_refined=",
        "queries_in_doubt=",
        "search_time=",
    ] {
        assert!(search.contains(part), "{part}: {search}");
    }
}

/// A condition without columns applies to the answer too, also when it may be another in every call.
#[tokio::test]
async fn conditions_outside_stay_outside() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..100 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let call = format!("knn(t, vec, {}, 3, 'l2')", literal(&QUERIES[..DIM]));
    let plan = sql.plan(&format!("FORMAT INDENT SELECT id FROM {call} WHERE random() < 0.5")).await;
    let physical = &plan[plan.find("KnnFinalExec").expect("a search")..];
    assert!(plan.contains("random()") && !physical.contains("random()"), "{plan}");
}
