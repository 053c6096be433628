//! Plans that went through bytes give the answers of those that did not.

use std::sync::Arc;

use datafusion::arrow::compute::concat_batches;
use datafusion::physical_plan::collect;
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::DefaultLogicalExtensionCodec;
use datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec;
use nearfield::Metric;
use nearfield_datafusion::{KnnLogicalCodec, KnnPhysicalCodec};

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, literal, save_rows, table, text, vectors};

#[tokio::test]
async fn logical_and_physical_plans_survive_the_way_through_bytes() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..200 * DIM], DIM), DIM, Stored::FixedF32), 3).await;
    sql.parquet("q", &table(&vectors(&QUERIES[..9 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let path = sql.folder.path().join("rows.nf");
    save_rows(&path, 0..100, Metric::L2);
    sql.indexes("docs", &path).await;
    sql.run("CREATE VIEW bits AS SELECT X'0a0b' AS vec FROM t").await;
    sql.run("CREATE VIEW tokens AS SELECT id, [vec[1:2], vec[3:4]] AS vec FROM t").await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    let query = literal(&QUERIES[..DIM]);
    let logical = KnnLogicalCodec(Arc::new(DefaultLogicalExtensionCodec {}));
    let physical = KnnPhysicalCodec(Arc::new(DefaultPhysicalExtensionCodec {}));
    for statement in [
        format!("SELECT id, rank, _distance FROM knn(t, vec, {query}, 5, 'l2') ORDER BY rank"),
        "SELECT query_id, id, rank FROM knn_join(q, vec, t, vec, 3) ORDER BY query_id, rank".into(),
        "SELECT id, rank, _score FROM knn_maxsim(tokens, vec, [[[0.3, -0.1], [0.7, 0.1]], [[1.0, 2.0]]], 3)"
            .into(),
        "SELECT id FROM tokens ORDER BY maxsim([[0.3, -0.1]], vec) DESC, id LIMIT 4".into(),
        "SELECT rank, _distance FROM knn(bits, vec, X'0f01', 3, 'hamming') ORDER BY rank".into(),
        format!("SELECT id, rank, _distance FROM knn_index('{}', {query}, 5) ORDER BY rank", path.display()),
        format!("SELECT id FROM t ORDER BY vec <-> {query}, id LIMIT 4"),
        "SELECT id, vector FROM docs WHERE id < 9 ORDER BY id".into(),
        format!("SELECT id FROM docs ORDER BY l2_distance(vector, {query}), id LIMIT 4"),
        format!("SELECT id, _distance, vector FROM knn(docs, vector, {query}, 5, 'l2') ORDER BY rank"),
        "SELECT query_id, id, rank FROM knn_graph(t, vec, 3, 'ip', 'part < 5') ORDER BY query_id, rank"
            .into(),
        "SELECT a_id, b_id, a_index, _distance FROM similar_pairs(t, vec, 0.1 + 0.7) ORDER BY a_id, b_id"
            .into(),
        "SELECT query_id, id, rank FROM knn_graph(docs, vector, 2) ORDER BY query_id, rank".into(),
        "SELECT query_id, id, rank FROM knn_join(q, vec, docs, vector, 3, 'l2') ORDER BY query_id, rank"
            .into(),
    ] {
        let frame = sql.context.sql(&statement).await.expect("a plan");
        let (state, plan) = frame.into_parts();
        let plan = state.optimize(&plan).expect("an optimized plan");
        let bytes = logical_plan_to_bytes_with_extension_codec(&plan, &logical).expect("bytes");
        let context = sql.context.task_ctx();
        let decoded =
            logical_plan_from_bytes_with_extension_codec(&bytes, &context, &logical).expect("a plan");
        assert_eq!(decoded.display_indent().to_string(), plan.display_indent().to_string());
        let planned = state.create_physical_plan(&decoded).await.expect("a physical plan");
        let bytes = physical_plan_to_bytes_with_extension_codec(planned, &physical).expect("bytes");
        let decoded =
            physical_plan_from_bytes_with_extension_codec(&bytes, &context, &physical).expect("a plan");
        let schema = decoded.schema();
        let found =
            concat_batches(&schema, &collect(decoded, context).await.expect("an answer")).expect("rows");
        let wanted = sql.run(&statement).await;
        assert_eq!(text(&found), text(&wanted), "{statement:.60}");
    }
}

/// Bytes of a damaged or later message are errors.
#[tokio::test]
async fn damaged_plans_are_refused() {
    let sql = Sql::new("host").await;
    let codec = KnnPhysicalCodec(Arc::new(DefaultPhysicalExtensionCodec {}));
    sql.parquet("t", &table(&vectors(&ROWS[..20 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let statement = format!("SELECT id FROM knn(t, vec, {}, 1)", literal(&QUERIES[..DIM]));
    let plan =
        sql.context.sql(&statement).await.expect("a plan").create_physical_plan().await.expect("a plan");
    let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).expect("bytes").to_vec();
    let context = sql.context.task_ctx();
    for cut in (1..bytes.len()).step_by(97) {
        // It ends too early, or it has another number of inputs: never a panic.
        assert!(
            physical_plan_from_bytes_with_extension_codec(&bytes[..cut], &context, &codec).is_err(),
            "{cut}"
        );
    }
}
