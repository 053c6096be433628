//! Tables of saved indexes are read as tables, and searched where they are.

use std::path::Path;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::array::types::{Float64Type, UInt64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use half::f16;
use nearfield::{Device, ElementKind, Ivf, MatrixView, Metric};
use test_case::test_case;

use crate::support::{
    DIM, QUERIES, ROWS, Sql, Stored, assert_same, devices, literal, save_index, table, vectors,
};

const COUNT: usize = 900;

fn view(values: &[f32]) -> MatrixView<'_, f32> {
    MatrixView::new(values, DIM).expect("whole rows")
}

/// Saves the rows of a range under their own numbers.
fn save(rows: std::ops::Range<usize>, metric: Metric, path: &Path) {
    save_index(path, &ROWS[rows.start * DIM..rows.end * DIM], DIM, metric, rows.start as u64);
}

/// A session with the rows as a table of three indexes, `docs`, and of one Parquet file, `t`.
async fn indexed(device: &str, metric: Metric) -> Sql {
    let sql = Sql::new(device).await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    sql.parquet("t", &table(&vectors(&ROWS[..COUNT * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let folder = sql.folder.path().join("indexes");
    std::fs::create_dir(&folder).expect("a folder");
    for (shard, rows) in [0..300, 300..310, 310..COUNT].into_iter().enumerate() {
        save(rows, metric, &folder.join(format!("{shard}.nf")));
    }
    sql.indexes("docs", &folder).await;
    sql
}

async fn plan(sql: &Sql, statement: &str) -> String {
    pretty_format_batches(&[sql.run(&format!("EXPLAIN {statement}")).await]).expect("a table").to_string()
}

#[tokio::test]
async fn rows_are_read_by_file_and_id() {
    let sql = indexed("host", Metric::Cosine).await;
    sql.run("SET datafusion.execution.batch_size = 100").await;
    let all = sql.run("SELECT * FROM docs ORDER BY id").await;
    let wanted = sql.run("SELECT arrow_cast(id, 'UInt64') AS id, vec FROM t ORDER BY id").await;
    assert_same(&all, &wanted, "all rows");
    assert_eq!(all.schema().field(1).name(), "vector");
    for (statement, wanted) in [
        ("SELECT count(*) FROM docs", "SELECT count(*) FROM t"),
        ("SELECT count(vector) FROM docs", "SELECT count(vec) FROM t"),
        ("SELECT vector FROM docs WHERE id = 305", "SELECT vec FROM t WHERE id = 305"),
        ("SELECT sum(id) FROM docs WHERE id % 7 = 3", "SELECT sum(id) FROM t WHERE id % 7 = 3"),
        (
            "SELECT t.part, count(*) FROM docs JOIN t ON t.id = docs.id GROUP BY 1 ORDER BY 1",
            "SELECT part, count(*) FROM t GROUP BY 1 ORDER BY 1",
        ),
    ] {
        sql.same(statement, wanted).await;
    }
    assert_eq!(sql.run("SELECT id FROM docs LIMIT 7").await.num_rows(), 7);
    let plan = plan(&sql, "SELECT id FROM docs WHERE id > 3").await;
    assert!(plan.contains("IndexScanExec: metric=cosine, dim=384"), "{plan}");
}

#[test_case("l2", Metric::L2, false)]
#[test_case("l2", Metric::L2Squared, false)]
#[test_case("l2sq", Metric::L2Squared, false)]
#[test_case("cosine", Metric::Cosine, false)]
#[test_case("ip", Metric::InnerProduct, false)]
#[test_case("l2sq", Metric::L2, true)]
#[test_case("cosine", Metric::L2, true)]
#[tokio::test]
async fn searches_run_in_the_index_where_the_metric_is_its_own(metric: &str, own: Metric, is_general: bool) {
    for device in devices() {
        let sql = indexed(device, own).await;
        let mut queries = vectors(&QUERIES[..12 * DIM], DIM);
        queries[4] = None;
        sql.parquet("q", &table(&queries, DIM, Stored::ListF32), 3).await;
        let query = literal(&QUERIES[..DIM]);
        for (statement, wanted) in [
            (
                format!(
                    "SELECT id, rank, _distance FROM knn(docs, vector, {query}, 20, '{metric}') ORDER BY rank"
                ),
                format!("SELECT id, rank, _distance FROM knn(t, vec, {query}, 20, '{metric}') ORDER BY rank"),
            ),
            (
                format!(
                    "SELECT query_id, query_index, id, rank, _distance FROM knn_join(q, vec, docs, vector, 5, '{metric}') ORDER BY 1, rank"
                ),
                format!(
                    "SELECT query_id, query_index, id, rank, _distance FROM knn_join(q, vec, t, vec, 5, '{metric}') ORDER BY 1, rank"
                ),
            ),
        ] {
            let plan = plan(&sql, &statement).await;
            assert_eq!(plan.contains("KnnPartialExec"), is_general, "{plan}");
            assert_eq!(plan.contains("KnnIndexExec"), !is_general, "{plan}");
            if is_general {
                sql.same(&statement, &wanted).await;
                continue;
            }
            // The index's own distances, in f32: of the same rows, but where two are equal in f32.
            let (found, wanted) = (sql.run(&statement).await, sql.run(&wanted).await);
            assert_eq!(found.num_rows(), wanted.num_rows());
            let (last, columns) = (found.num_columns() - 1, found.num_columns());
            assert_eq!(found.columns()[..columns - 3], wanted.columns()[..columns - 3], "queries");
            let distances = |batch: &datafusion::arrow::array::RecordBatch| {
                batch.column(last).as_primitive::<Float64Type>().values().to_vec()
            };
            for (found, wanted) in distances(&found).into_iter().zip(distances(&wanted)) {
                assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{found} {wanted}");
            }
            let ids = |batch: &datafusion::arrow::array::RecordBatch| -> Vec<i64> {
                let ids = datafusion::arrow::compute::cast(
                    batch.column(columns - 3),
                    &datafusion::arrow::datatypes::DataType::Int64,
                );
                ids.expect("numbers")
                    .as_primitive::<datafusion::arrow::array::types::Int64Type>()
                    .values()
                    .to_vec()
            };
            let same =
                ids(&found).iter().zip(ids(&wanted)).filter(|(found, wanted)| *found == wanted).count();
            assert!(same + 2 >= found.num_rows(), "{same} of {}", found.num_rows());
        }
        let unnamed = plan(&sql, &format!("SELECT id FROM knn(docs, vector, {query}, 1)")).await;
        assert!(unnamed.contains("KnnIndexExec"), "the index's own metric where none is named\n{unnamed}");
        let found = sql.run(&format!("SELECT vector FROM knn(docs, vector, {query}, 1, '{metric}')")).await;
        let nearest = sql.run(&format!("SELECT vec FROM knn(t, vec, {query}, 1, '{metric}')")).await;
        assert_same(&found, &nearest, "the row itself");
    }
}

#[test_case("l2_distance", Metric::L2; "root")]
#[test_case("array_distance", Metric::L2Squared; "square")]
#[test_case("cosine_distance", Metric::Cosine; "cosine")]
#[tokio::test]
async fn order_by_a_distance_searches_the_index(function: &str, metric: Metric) {
    for device in devices() {
        let sql = indexed(device, metric).await;
        let query = literal(&QUERIES[3 * DIM..4 * DIM]);
        for (rest, k) in [("LIMIT 10", 10), ("LIMIT 3 OFFSET 5", 8), ("LIMIT 250", 250)] {
            let statement =
                format!("SELECT id, {function}(vector, {query}) AS d FROM docs ORDER BY d, id {rest}");
            let text = plan(&sql, &statement).await;
            assert!(text.contains(&format!("searched for k={k}")), "{text:.4000}");
            sql.same(&statement, &statement.replace("vector", "vec").replace("docs", "t")).await;
        }
        let analyzed =
            plan(&sql, &format!("ANALYZE SELECT id FROM docs ORDER BY {function}({query}, vector) LIMIT 5"))
                .await;
        let scan = analyzed.lines().find(|line| line.contains("IndexScanExec")).expect("the scan");
        assert!(scan.contains("queries_in_doubt=0") && scan.contains("rows_searched=900"), "{scan}");
        // The second index has ten rows, which are all read.
        assert!(scan.contains("pairs_rescored=26"), "{scan}");
    }
    let sql = indexed("host", metric).await;
    let query = literal(&QUERIES[..DIM]);
    for statement in [
        format!("SELECT id FROM docs ORDER BY {function}(vector, {query}) DESC, id LIMIT 5"),
        format!("SELECT id FROM docs ORDER BY inner_product(vector, {query}) DESC NULLS LAST, id LIMIT 5"),
        format!("SELECT id FROM docs WHERE id < 100 ORDER BY {function}(vector, {query}), id LIMIT 5"),
        format!("SELECT id FROM docs ORDER BY {function}(vector, vector), id LIMIT 5"),
    ] {
        let text = plan(&sql, &statement).await;
        assert!(text.contains("KnnNearestExec: k=5") && !text.contains("searched for"), "{text:.4000}");
        sql.same(&statement, &statement.replace("vector", "vec").replace("docs", "t")).await;
    }
    // For many rows the index is searched, and the sort does the rest.
    sql.parquet("more", &table(&vectors(&ROWS[..3000 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let path = sql.folder.path().join("more.nf");
    save(0..3000, metric, &path);
    sql.indexes("many", &path).await;
    let statement = format!("SELECT id FROM many ORDER BY {function}(vector, {query}), id LIMIT 1001");
    let text = plan(&sql, &statement).await;
    assert!(text.contains("searched for k=1001") && !text.contains("KnnNearestExec"), "{text:.4000}");
    sql.same(&statement, &statement.replace("vector", "vec").replace("many", "more")).await;
    let statement = format!("SELECT DISTINCT {function}(vector, {query}) AS d FROM docs ORDER BY d LIMIT 5");
    assert!(plan(&sql, &statement).await.contains("searched for k=5"));
    sql.same(&statement, &statement.replace("vector", "vec").replace("docs", "t")).await;
}

/// The second of two partitions has two of the files: their rows come behind those of the first.
#[tokio::test]
async fn rows_of_the_same_distance_come_in_the_order_of_files() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 2").await;
    let values: Vec<f32> = (0..5 * 300 * 3).map(|i| ((i * 7919 + i / 31) % 3) as f32).collect();
    for (shard, rows) in values.chunks(300 * 3).enumerate() {
        let path = sql.folder.path().join(format!("{shard}.nf"));
        save_index(&path, rows, 3, Metric::L2, shard as u64 * 300);
    }
    sql.indexes("docs", sql.folder.path()).await;
    sql.parquet("t", &table(&vectors(&values, 3), 3, Stored::FixedF32), 1).await;
    for rest in ["'ip'", "'l2', 'id % 2 = 0'"] {
        let statement = format!("SELECT id FROM knn(docs, vector, [1, 0, 2], 700, {rest}) ORDER BY rank");
        assert!(plan(&sql, &statement).await.contains("KnnPartialExec"));
        sql.same(&statement, &statement.replace("vector", "vec").replace("docs", "t")).await;
    }
}

/// Where more rows than the index names are equally near, all are compared.
#[tokio::test]
async fn ties_beyond_what_the_index_names_are_found() {
    let sql = Sql::new("host").await;
    let values: Vec<f32> = (0..2000 * 4).map(|i| ((i * 7919 + i / 31) % 3) as f32).collect();
    let path = sql.folder.path().join("ties.nf");
    save_index(&path, &values, 4, Metric::L2Squared, 0);
    sql.indexes("docs", &path).await;
    sql.parquet("t", &table(&vectors(&values, 4), 4, Stored::FixedF32), 1).await;
    for statement in [
        "SELECT id FROM docs ORDER BY l2_distance(vector, [1, 0, 2, 1]), id DESC LIMIT 5",
        "SELECT DISTINCT l2_distance(vector, [1, 0, 2, 1]) AS d FROM docs ORDER BY d LIMIT 3",
    ] {
        sql.same(statement, &statement.replace("vector", "vec").replace("docs", "t")).await;
    }
    let text =
        plan(&sql, "ANALYZE SELECT id FROM docs ORDER BY l2_distance(vector, [1, 0, 2, 1]) LIMIT 5").await;
    assert!(text.contains("queries_in_doubt=1"), "{text}");
}

#[tokio::test]
async fn lists_and_half_floats_are_exact_too() {
    let sql = Sql::new("host").await;
    let device = Device::host();
    let halves: Vec<f16> = ROWS[..800 * DIM].iter().map(|&x| f16::from_f32(x)).collect();
    let rows = MatrixView::new(&halves, DIM).expect("whole rows");
    let builder = Ivf::builder(&device, Metric::Cosine, DIM).elements(ElementKind::F16).lists(20);
    let mut lists = builder.train(rows).expect("lists");
    lists.add(rows).expect("rows");
    let path = sql.folder.path().join("lists.nf");
    lists.save(&path).expect("a saved index");
    sql.indexes("docs", &path).await;
    // The shipped rows are f16 already.
    sql.parquet("t", &table(&vectors(&ROWS[..800 * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let query = literal(&QUERIES[..DIM]);
    let found = sql.run(&format!("SELECT id FROM knn(docs, vector, {query}, 30) ORDER BY rank")).await;
    let wanted = lists.search(view(&QUERIES[..DIM]), 30, 20).expect("an answer");
    let wanted: Vec<u64> = wanted.hits().iter().map(|hit| hit.id).collect();
    assert_eq!(found.column(0).as_primitive::<UInt64Type>().values(), &wanted[..]);
    let statement = format!("SELECT id FROM docs ORDER BY cosine_distance(vector, {query}), id LIMIT 30");
    sql.same(&statement, &statement.replace("vector", "vec").replace("docs", "t")).await;
}

#[tokio::test]
async fn files_are_checked_and_followed() {
    let sql = indexed("host", Metric::L2).await;
    let folder = sql.folder.path().join("indexes");
    let create =
        |location: String| format!("CREATE EXTERNAL TABLE x STORED AS NEARFIELD LOCATION '{location}'");
    save(0..5, Metric::Cosine, &sql.folder.path().join("other.nf"));
    std::fs::write(sql.folder.path().join("text.nf"), "no index").expect("a file");
    let path = sql.folder.path().display();
    for (statement, wanted) in [
        (create(format!("{path}/absent.nf")), "absent.nf"),
        (create(format!("{path}/text.nf")), "text.nf"),
        (create(format!("{path}/t")), "needed index files (.nf), there are none in"),
        (
            create(format!("{path}/indexes, {path}/other.nf")),
            "other.nf: needed metric l2 and 384 elements as the first index has, given cosine and 384",
        ),
        (
            create(format!("{path}/other.nf")).replace("TABLE x", "TABLE x (a INT)"),
            "x: needed no columns: a saved index has id and vector",
        ),
        (
            create(format!("{path}/other.nf")) + " OPTIONS ('a.b' 'c')",
            "x: needed neither OPTIONS nor PARTITIONED BY",
        ),
        (
            create(format!("{path}/other.nf")).replace("CREATE", "CREATE UNBOUNDED"),
            "x: needed a table that is not UNBOUNDED",
        ),
        (
            format!("SELECT id FROM knn(docs, vector, [{}], 3, 'l2')", ["1e39"; DIM].join(", ")),
            "queries: needed elements that f32 can hold, as the rows of a saved index are, given 1e39",
        ),
        ("SELECT id FROM knn(docs, vector, [1.0], 3, 'l2')".into(), "dim"),
        ("SELECT id FROM knn_join(t, id, docs, vector, 3, 'l2')".into(), "column \"id\": needed lists"),
    ] {
        let error = sql.error(&statement).await;
        assert!(error.contains(wanted), "{statement:.100}: {error}");
        assert!(error.matches("absent.nf").count() < 2, "{error}");
    }
    // Written anew: loaded again.
    save(0..20, Metric::L2, &folder.join("0.nf"));
    assert_eq!(sql.run("SELECT id FROM docs").await.num_rows(), COUNT - 280);
    sql.run("SET nearfield.resident_bytes = 0").await;
    assert_eq!(sql.run("SELECT id FROM docs").await.num_rows(), COUNT - 280);
    assert_eq!(
        sql.run("SELECT id FROM knn_join(docs, vector, docs, vector, 1, 'l2')").await.num_rows(),
        COUNT - 280
    );
    // Of another metric: the table's answers would be others.
    save(0..20, Metric::Cosine, &folder.join("0.nf"));
    let query = literal(&QUERIES[..DIM]);
    for statement in [
        "SELECT id FROM docs".to_owned(),
        format!("SELECT id FROM knn(docs, vector, {query}, 3, 'l2')"),
        format!("SELECT id FROM docs ORDER BY l2_distance(vector, {query}) LIMIT 3"),
    ] {
        let error = sql.error(&statement).await;
        let wanted = "needed metric l2 and 384 elements as when the table was made, given cosine and 384";
        assert!(error.contains("0.nf") && error.contains(wanted), "{error}");
    }
    save(0..20, Metric::L2, &folder.join("0.nf"));
    std::fs::remove_file(folder.join("1.nf")).expect("a file");
    let error = sql.error("SELECT id FROM docs").await;
    assert!(error.contains("1.nf"), "{error}");
}
