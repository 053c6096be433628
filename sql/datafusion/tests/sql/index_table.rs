//! Tables of saved indexes are read as tables, and searched where they are.

use datafusion::arrow::array::types::{Float64Type, UInt64Type};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use half::f16;
use nearfield::{Device, ElementKind, Ivf, MatrixView, Metric, SearchOptions};
use test_case::test_case;

use crate::support::{
    DIM, QUERIES, ROWS, Sql, Stored, devices, literal, save_index, save_rows, table, vectors,
};

const COUNT: usize = 900;

/// A session with the rows as a table of three indexes, `docs`, and of one Parquet file, `t`.
async fn indexed(device: &str, metric: Metric) -> Sql {
    let sql = Sql::new(device).await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    sql.parquet("t", &table(&vectors(&ROWS[..COUNT * DIM], DIM), DIM, Stored::FixedF32), 1).await;
    let folder = sql.folder.path().join("indexes");
    std::fs::create_dir(&folder).expect("a folder");
    for (shard, rows) in [0..300, 300..310, 310..COUNT].into_iter().enumerate() {
        save_rows(&folder.join(format!("{shard}.nf")), rows, metric);
    }
    sql.indexes("docs", &folder).await;
    sql
}

/// The same statement on the rows in Parquet.
fn in_parquet(statement: &str) -> String {
    statement.replace("vector", "vec").replace("docs", "t")
}

async fn same(sql: &Sql, statement: &str) {
    sql.same(statement, &in_parquet(statement)).await;
}

#[tokio::test]
async fn rows_are_read_by_file_and_id() {
    let sql = indexed("host", Metric::Cosine).await;
    sql.run("SET datafusion.execution.batch_size = 100").await;
    for statement in [
        "SELECT id, vector FROM docs ORDER BY id",
        "SELECT count(*) FROM docs",
        "SELECT count(vector) FROM docs",
        "SELECT vector FROM docs WHERE id = 305",
        "SELECT sum(id) FROM docs WHERE id % 7 = 3",
        "SELECT u.part, count(*) FROM docs JOIN t u ON u.id = docs.id GROUP BY 1 ORDER BY 1",
    ] {
        same(&sql, statement).await;
    }
    let some = sql.run("SELECT * FROM docs LIMIT 7").await;
    assert_eq!((some.num_rows(), some.schema().field(1).name().as_str()), (7, "vector"));
    let plan = sql.plan("SELECT id FROM docs WHERE id > 3").await;
    assert!(plan.contains("IndexScanExec: metric=cosine, dim=384"), "{plan}");
}

/// Answers whose last columns are `id`, `rank` and `_distance`. Those of an index are in f32, in which two rows may be equally near.
fn assert_close(found: &RecordBatch, wanted: &RecordBatch) {
    let others = found.num_columns() - 3;
    assert_eq!(found.columns()[..others], wanted.columns()[..others], "queries");
    let numbers = |batch: &RecordBatch, place: usize| {
        let column = cast(batch.column(others + place), &DataType::Float64).expect("numbers");
        column.as_primitive::<Float64Type>().values().to_vec()
    };
    assert_eq!(numbers(found, 1), numbers(wanted, 1), "ranks");
    for (found, wanted) in numbers(found, 2).into_iter().zip(numbers(wanted, 2)) {
        assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{found} {wanted}");
    }
    let (ids, wanted) = (numbers(found, 0), numbers(wanted, 0));
    let same = ids.iter().zip(&wanted).filter(|(found, wanted)| found == wanted).count();
    assert!(same + 2 >= ids.len(), "{same} of {}", ids.len());
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
        for statement in [
            format!(
                "SELECT id, rank, _distance FROM knn(docs, vector, {query}, 20, '{metric}') ORDER BY rank"
            ),
            format!(
                "SELECT query_id, query_index, id, rank, _distance FROM knn_join(q, vec, docs, vector, 5, '{metric}') ORDER BY 1, rank"
            ),
        ] {
            let plan = sql.plan(&statement).await;
            assert_eq!(plan.contains("KnnPartialExec"), is_general, "{plan}");
            assert_eq!(plan.contains("KnnIndexExec"), !is_general, "{plan}");
            match is_general {
                true => same(&sql, &statement).await,
                false => assert_close(&sql.run(&statement).await, &sql.run(&in_parquet(&statement)).await),
            }
        }
        let unnamed = sql.plan(&format!("SELECT id FROM knn(docs, vector, {query}, 1)")).await;
        assert!(unnamed.contains("KnnIndexExec"), "the index's own metric where none is named\n{unnamed}");
        same(&sql, &format!("SELECT vector FROM knn(docs, vector, {query}, 1, '{metric}')")).await;
    }
}

/// Statements, and for how many rows the indexes are searched, if they are.
const ORDERED: [(&str, Option<usize>); 18] = [
    ("SELECT id, DISTANCE AS d FROM docs ORDER BY d, id LIMIT 10", Some(10)),
    ("SELECT id, DISTANCE AS d FROM docs ORDER BY d, id LIMIT 3 OFFSET 5", Some(8)),
    ("SELECT id FROM docs ORDER BY DISTANCE, id DESC LIMIT 250", Some(250)),
    (
        "SELECT CAST(a AS BIGINT) + 1 FROM (SELECT id AS a, DISTANCE AS d FROM docs) ORDER BY d, a LIMIT 9",
        Some(9),
    ),
    ("SELECT sum(id) FROM (SELECT id FROM docs ORDER BY DISTANCE, id LIMIT 20)", Some(20)),
    ("SELECT id FROM docs WHERE id IN (SELECT id FROM docs ORDER BY DISTANCE LIMIT 4) ORDER BY id", Some(4)),
    ("SELECT id FROM docs ORDER BY DISTANCE, id", None),
    ("SELECT id FROM docs ORDER BY DISTANCE DESC, id LIMIT 5", None),
    ("SELECT id FROM docs ORDER BY DISTANCE NULLS FIRST, id LIMIT 5", None),
    ("SELECT id FROM docs ORDER BY id % 3, DISTANCE, id LIMIT 5", None),
    ("SELECT id FROM docs ORDER BY round(DISTANCE), id LIMIT 5", None),
    ("SELECT id FROM docs ORDER BY inner_product(vector, QUERY) DESC NULLS LAST, id LIMIT 5", None),
    ("SELECT id FROM docs ORDER BY l2_distance(vector, vector), id LIMIT 5", None),
    ("SELECT id FROM docs WHERE id < 100 ORDER BY DISTANCE, id LIMIT 5", None),
    ("SELECT DISTINCT DISTANCE AS d FROM docs ORDER BY d LIMIT 5", None),
    ("SELECT id % 2, min(DISTANCE) AS d FROM docs GROUP BY 1 ORDER BY d LIMIT 1", None),
    ("SELECT id FROM (SELECT id, DISTANCE AS d FROM docs ORDER BY id LIMIT 20) ORDER BY d, id LIMIT 3", None),
    (
        "SELECT id FROM (SELECT id, DISTANCE AS d FROM docs UNION ALL SELECT id, 1.0 FROM docs) ORDER BY d, id LIMIT 30",
        None,
    ),
];

#[test_case("vector <-> QUERY", Metric::L2; "root")]
#[test_case("array_distance(QUERY, vector)", Metric::L2Squared; "square")]
#[test_case("vector <=> QUERY", Metric::Cosine; "cosine")]
#[tokio::test]
async fn order_by_a_distance_searches_the_index(distance: &str, metric: Metric) {
    let written = |statement: &str| {
        statement.replace("DISTANCE", distance).replace("QUERY", &literal(&QUERIES[3 * DIM..4 * DIM]))
    };
    for device in devices() {
        let sql = indexed(device, metric).await;
        for (statement, searched) in ORDERED {
            let statement = written(statement);
            let plan = sql.plan(&statement).await;
            let wanted = searched.map_or("searched for".into(), |k| format!("searched for k={k}"));
            assert_eq!(plan.contains(&wanted), searched.is_some(), "{statement:.4000}\n{plan:.4000}");
            same(&sql, &statement).await;
        }
        let statement = written("SELECT id FROM docs ORDER BY DISTANCE LIMIT 5");
        let analyzed = sql.plan(&format!("ANALYZE {statement}")).await;
        let scan = analyzed.lines().find(|line| line.contains("IndexScanExec")).expect("the scan");
        assert!(scan.contains("queries_in_doubt=0") && scan.contains("rows_searched=900"), "{scan}");
        // The second index has ten rows, which are all read.
        assert!(scan.contains("pairs_refined=26"), "{scan}");
        sql.run("SET nearfield.order_by = false").await;
        assert!(!sql.plan(&statement).await.contains("searched for"));
    }
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
        assert!(sql.plan(&statement).await.contains("KnnPartialExec"));
        same(&sql, &statement).await;
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
    let statement = "SELECT id FROM docs ORDER BY l2_distance(vector, [1, 0, 2, 1]), id DESC LIMIT 5";
    same(&sql, statement).await;
    let text = sql.plan(&format!("ANALYZE {statement}")).await;
    assert!(text.contains("queries_in_doubt=1"), "{text}");
}

#[tokio::test]
async fn lists_and_half_floats_are_exact_too() {
    let sql = Sql::new("host").await;
    let halves: Vec<f16> = ROWS[..800 * DIM].iter().map(|&x| f16::from_f32(x)).collect();
    let rows = MatrixView::new(&halves, DIM).expect("whole rows");
    let device = Device::host();
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
    let asked = MatrixView::new(&QUERIES[..DIM], DIM).expect("a query");
    let wanted = lists.search_with(asked, &SearchOptions::new(30).probes(20)).expect("an answer").neighbors;
    let wanted: Vec<u64> = wanted.hits().iter().map(|hit| hit.id).collect();
    assert_eq!(found.column(0).as_primitive::<UInt64Type>().values(), &wanted[..]);
    same(&sql, &format!("SELECT id FROM docs ORDER BY cosine_distance(vector, {query}), id LIMIT 30")).await;
}

#[tokio::test]
async fn files_are_checked_and_followed() {
    let sql = indexed("host", Metric::L2).await;
    let folder = sql.folder.path().join("indexes");
    save_rows(&sql.folder.path().join("other.nf"), 0..5, Metric::Cosine);
    std::fs::write(sql.folder.path().join("text.nf"), "no index").expect("a file");
    let create = "CREATE EXTERNAL TABLE x STORED AS NEARFIELD LOCATION";
    let alone = "x: needed a LOCATION alone: neither columns, which are id and vector, nor OPTIONS";
    let large = format!("[{}]", ["1e39"; DIM].join(", "));
    for (statement, wanted) in [
        (&format!("{create} 'AT/absent.nf'"), "absent.nf"),
        (&format!("{create} 'AT/text.nf'"), "text.nf"),
        (&format!("{create} 'AT/t'"), "needed index files (.nf), there are none in"),
        (
            &format!("{create} 'AT/indexes, AT/other.nf'"),
            "other.nf: needed metric l2 and 384 elements as the first index has, given cosine and 384",
        ),
        (&format!("{create} 'AT/other.nf'").replace("TABLE x", "TABLE x (a INT)"), alone),
        (&format!("{create} 'AT/other.nf' OPTIONS ('a.b' 'c')"), alone),
        (&format!("{create} 'AT/other.nf'").replace("CREATE", "CREATE UNBOUNDED"), alone),
        (
            &format!("SELECT id FROM knn(docs, vector, {large}, 3, 'l2')"),
            "queries: needed elements that f32 can hold, as the rows of a saved index are, given 1e39",
        ),
        (&"SELECT id FROM knn(docs, vector, [1.0], 3, 'l2')".into(), "dim"),
        (&"SELECT id FROM knn_join(t, id, docs, vector, 3, 'l2')".into(), "column \"id\": needed lists"),
    ] {
        let statement = statement.replace("AT/", &format!("{}/", sql.folder.path().display()));
        let error = sql.error(&statement).await;
        assert!(error.contains(wanted), "{statement:.100}: {error}");
        assert!(error.matches("absent.nf").count() < 2, "{error}");
    }
    // Written anew: loaded again.
    save_rows(&folder.join("0.nf"), 0..20, Metric::L2);
    for statement in ["SELECT id FROM docs", "SELECT id FROM knn_join(docs, vector, docs, vector, 1, 'l2')"] {
        assert_eq!(sql.run(statement).await.num_rows(), COUNT - 280);
        sql.run("SET nearfield.resident_bytes = 0").await;
    }
    // Of another metric: the table's answers would be others.
    save_rows(&folder.join("0.nf"), 0..20, Metric::Cosine);
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
    save_rows(&folder.join("0.nf"), 0..20, Metric::L2);
    std::fs::remove_file(folder.join("1.nf")).expect("a file");
    let error = sql.error("SELECT id FROM docs").await;
    assert!(error.contains("1.nf"), "{error}");
}
