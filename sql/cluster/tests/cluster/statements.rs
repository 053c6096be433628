//! Tables, saved indexes and statements whose answers every cluster gives as one machine does.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::Result;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use nearfield::Metric;
use nearfield_datafusion::IndexTable;

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, assert_same, literal, save_rows, table, vectors};

/// Files of each table, so that several tasks read it.
const FILES: usize = 8;

/// The tables of one machine, whose files the machines of a cluster read too.
pub(crate) async fn one_machine() -> Sql {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 8").await;
    sql.parquet("t", &table(&vectors(&ROWS[..1600 * DIM], DIM), DIM, Stored::FixedF32), FILES).await;
    let mut queries = vectors(&QUERIES[..20 * DIM], DIM);
    queries[4] = None;
    sql.parquet("q", &table(&queries, DIM, Stored::FixedF16), 3).await;
    // Few distances, each of many rows in all files.
    let small: Vec<f32> = (0..2000 * 3).map(|i| ((i * 7919 + i / 31) % 5) as f32 - 2.0).collect();
    sql.parquet("small", &table(&vectors(&small, 3), 3, Stored::ListF32), FILES).await;
    // Shards of an index, whose ids are those of the table.
    for shard in 0..8 {
        let path = sql.folder.path().join(format!("{shard}.nf"));
        save_rows(&path, shard * 200..(shard + 1) * 200, Metric::Cosine);
    }
    register_others(&sql.context, &sql).await;
    sql
}

/// Registers a table of one machine at a cluster.
pub(crate) async fn register_table(context: &SessionContext, sql: &Sql, name: &str) {
    let path = sql.folder.path().join(name);
    let path = path.to_str().expect("a path");
    context.register_parquet(name, path, ParquetReadOptions::default()).await.expect("a table");
}

/// Registers all tables of one machine at a cluster, and its views.
pub(crate) async fn register(context: &SessionContext, sql: &Sql) {
    for name in ["t", "q", "small"] {
        register_table(context, sql, name).await;
    }
    register_others(context, sql).await;
}

async fn register_others(context: &SessionContext, sql: &Sql) {
    let shards = IndexTable::open(sql.folder.path().to_str().expect("a path")).expect("saved indexes");
    context.register_table("docs", Arc::new(shards)).expect("a table");
    for view in VIEWS {
        context.sql(view).await.expect("a view");
    }
}

/// Views that read the files of one table twice, others whose rows are exchanged between tasks, and limits.
const VIEWS: [&str; 6] = [
    "CREATE VIEW last AS SELECT id, vec FROM small ORDER BY id DESC LIMIT 13",
    "CREATE VIEW near AS SELECT id, vec FROM knn(small, vec, [1, 0, 2], 50, 'l2')",
    "CREATE VIEW unlike AS SELECT DISTINCT id, vec FROM small WHERE id < 300",
    "CREATE VIEW twice AS SELECT id, vec FROM small UNION ALL SELECT id + 5000, vec FROM small WHERE part <> 1",
    "CREATE VIEW points AS SELECT id, vec FROM small WHERE id < 40 UNION ALL SELECT id, vec FROM small WHERE id < 30",
    "CREATE VIEW documents AS SELECT id, [vec[1:2], vec[2:3]] AS tokens FROM small",
];

pub(crate) fn statements(sql: &Sql) -> Vec<String> {
    let query = literal(&QUERIES[..DIM]);
    let two = format!("[{query}, {}]", literal(&QUERIES[DIM..2 * DIM]));
    let folder = sql.folder.path().display();
    vec![
        format!("SELECT id, part, rank, _distance FROM knn(t, vec, {query}, 10) ORDER BY rank"),
        format!("SELECT id, rank FROM knn(t, vec, {query}, 10, 'l2', 'part = 3') ORDER BY rank"),
        "SELECT id, rank, _distance FROM knn(small, vec, [1, 0, 2], 700, 'l2') ORDER BY rank".into(),
        "SELECT id, rank FROM knn(small, vec, [0.5, 0, 1], 300, 'ip', 'part <> 2') ORDER BY rank".into(),
        "SELECT query_id, id, rank, _distance FROM knn_join(q, vec, t, vec, 5) ORDER BY query_id, rank".into(),
        "SELECT query_part, count(*), max(_distance) FROM knn_join(q, vec, t, vec, 3, 'l2') GROUP BY 1 ORDER BY 1"
            .into(),
        "SELECT id, rank, _distance FROM knn(twice, vec, [1, 0, 2], 700, 'l2') ORDER BY rank".into(),
        "SELECT query_index, id, rank FROM knn_join(points, vec, twice, vec, 3, 'l2') ORDER BY 1, 3".into(),
        "SELECT query_id, id, rank, _distance FROM knn_join(unlike, vec, small, vec, 3, 'l2') ORDER BY 1, 3".into(),
        "SELECT query_id, id, rank, _distance FROM knn_join(last, vec, near, vec, 3, 'l2') ORDER BY 1, 3".into(),
        "SELECT id, rank, _score FROM knn_maxsim(documents, tokens, [[1, 0], [2, 1]], 300) ORDER BY rank".into(),
        "SELECT id FROM documents ORDER BY maxsim([[1, 0], [2, 1]], tokens) DESC, id LIMIT 300".into(),
        // One task has all rows.
        "SELECT query_index, query_id, id, rank, _distance FROM knn_graph(small, vec, 3, 'l2', 'id < 700') ORDER BY 1, 4".into(),
        "SELECT query_id, id, rank, _distance FROM knn_graph(docs, vector, 2) ORDER BY query_id, rank, id".into(),
        "SELECT a_index, b_index, a_id, b_id, _distance FROM similar_pairs(twice, vec, 0.5, 'l2', 'id < 150') ORDER BY 1, 2".into(),
        "SELECT t.part, count(*), min(_distance) FROM similar_pairs(t, vec, 0.3) p JOIN t ON t.id = p.b_id GROUP BY 1 ORDER BY 1"
            .into(),
        "SELECT last.id, first.id FROM last CROSS JOIN (SELECT id FROM t ORDER BY id LIMIT 4) first ORDER BY 1, 2".into(),
        // A search that every task ran whole would find each hit several times.
        format!(
            "SELECT query_index, id, file, rank, _distance FROM knn_index('{folder}', {two}, 10) ORDER BY 1, rank"
        ),
        format!("SELECT count(*), count(DISTINCT id) FROM knn_index('{folder}', {query}, 1600)"),
        "SELECT query_id, query_index, id, rank, _distance FROM knn_join(q, vec, docs, vector, 5) ORDER BY query_id, rank"
            .into(),
        "SELECT count(*), sum(id), count(vector) FROM docs".into(),
        "SELECT id, vec[1], array_length(vec) FROM t ORDER BY id LIMIT 3".into(),
        format!("SELECT id, vector FROM docs ORDER BY cosine_distance(vector, {query}), id LIMIT 10"),
        "SELECT DISTINCT part, l2_distance(vec, [1, 0, 2]) AS d FROM small ORDER BY d, part LIMIT 20".into(),
        format!("SELECT id, cosine_distance(vec, {query}) AS d FROM t ORDER BY d, id LIMIT 10"),
        format!("SELECT id FROM t WHERE list_inner_product(vec, {query}) > 0.1 ORDER BY id"),
    ]
}

/// An answer of a cluster is that of one machine.
pub(crate) async fn same(sql: &Sql, statement: &str, answer: Result<Vec<RecordBatch>>) {
    let answer = answer.unwrap_or_else(|error| panic!("{statement:.300}: {error}"));
    let answer = concat_batches(&answer[0].schema(), &answer).expect("batches of one schema");
    assert_same(&answer, &sql.run(statement).await, statement);
}
