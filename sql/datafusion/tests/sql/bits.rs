//! Binary values are vectors of bits: they have the answers of lists of the same bytes.

use std::sync::Arc;

use datafusion::arrow::array::types::{Float64Type, UInt8Type, UInt64Type};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, ListArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use nearfield::{Device, Flat, Index, MatrixView, Metric, PackedBits};
use test_case::test_case;

use crate::support::{Sql, assert_same};

const DIM: usize = 5;
const ROWS: usize = 90;

fn bytes() -> Vec<u8> {
    (0..ROWS * DIM).map(|place| ((place * 7919) % 251) as u8 | 1 << (place % 3)).collect()
}

/// The columns `id`, `bits` of a type, and `list` of the same bytes. Row 7 is NULL.
fn table(data_type: &DataType) -> RecordBatch {
    let (bytes, ids) = (bytes(), Int64Array::from_iter_values(0..ROWS as i64));
    let rows: Vec<Option<&[u8]>> =
        bytes.chunks(DIM).enumerate().map(|(row, bytes)| (row != 7).then_some(bytes)).collect();
    let bits: ArrayRef = Arc::new(BinaryArray::from(rows.clone()));
    let bits = cast(&bits, data_type).expect("a type of binary values");
    let lists = rows.into_iter().map(|row| row.map(|row| row.iter().copied().map(Some).collect::<Vec<_>>()));
    let lists = ListArray::from_iter_primitive::<UInt8Type, _, _>(lists);
    let columns: [(&str, ArrayRef); 3] = [("id", Arc::new(ids)), ("bits", bits), ("list", Arc::new(lists))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns")
}

/// A session with a table `t` of Parquet files, `memory`, a part of a larger one, and `docs`, a saved index of its rows.
async fn session(data_type: &DataType, metric: Metric) -> Sql {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    let table = table(data_type);
    sql.parquet("t", &table, 2).await;
    sql.context.register_batch("memory", table.slice(3, 60)).expect("a table");
    let bits: Vec<PackedBits> = bytes().into_iter().map(PackedBits).collect();
    let mut index = Flat::builder(&Device::host(), metric, DIM).build().expect("an index");
    index.add(MatrixView::new(&bits, DIM).expect("whole rows")).expect("rows");
    index.save(sql.folder.path().join("docs.nf")).expect("a saved index");
    sql.indexes("docs", &sql.folder.path().join("docs.nf")).await;
    sql
}

/// A query, in both forms.
const QUERY: [&str; 2] = ["X'f0a1ff0012'", "[240, 161, 255, 0, 18]"];

/// Both statements have the same answer, of some rows: the second has the lists in place of the binary values.
async fn same(sql: &Sql, statement: &str) {
    let of_lists = statement.replace(QUERY[0], QUERY[1]).replace("bits", "list");
    let found = sql.same(statement, &of_lists).await;
    assert!(found.num_rows() > 0 && found.column(0).null_count() < found.num_rows(), "{statement}");
}

// DataFusion reads `Binary` from Parquet as views.
#[test_case(&DataType::Binary, "t")]
#[test_case(&DataType::Binary, "memory")]
#[test_case(&DataType::LargeBinary, "memory")]
#[test_case(&DataType::BinaryView, "memory")]
#[test_case(&DataType::FixedSizeBinary(DIM as i32), "t")]
#[tokio::test]
async fn every_binary_type_has_the_answers_of_lists(data_type: &DataType, table: &str) {
    for (metric, operator) in [(Metric::Hamming, "<~>"), (Metric::Jaccard, "<%>")] {
        let sql = session(data_type, metric).await;
        let query = QUERY[0];
        let nearest =
            format!("SELECT id, _distance FROM knn({table}, bits, {query}, 9, '{metric}') ORDER BY rank");
        let join = |base: &str| {
            format!(
                "SELECT query_id, id, _distance FROM knn_join({table}, bits, {base}, 3, '{metric}') ORDER BY query_index, rank"
            )
        };
        for statement in [
            format!(
                "SELECT {metric}_distance(bits, {query}), {query} {operator} bits FROM {table} ORDER BY id"
            ),
            format!("SELECT id FROM {table} ORDER BY bits {operator} {query}, id LIMIT 9"),
            format!(
                "SELECT a.bits {operator} b.bits FROM t a JOIN {table} b ON a.id = b.id + 1 ORDER BY a.id"
            ),
            nearest.clone(),
            join("t, bits"),
            join("docs, vector"),
        ] {
            same(&sql, &statement).await;
        }
        let brute_force = format!("SELECT id, bits {operator} {query} FROM {table} ORDER BY 2, 1 LIMIT 9");
        sql.same(&nearest, &brute_force).await;
        // The row that is NULL has no distance.
        let null = sql.run(&format!("SELECT bits {operator} {query} FROM {table} WHERE id = 7")).await;
        assert_eq!((null.num_rows(), null.column(0).null_count()), (1, 1));
    }
}

#[test_case(Metric::Hamming)]
#[test_case(Metric::Jaccard)]
#[tokio::test]
async fn saved_indexes_of_bits_take_binary_queries(metric: Metric) {
    let sql = session(&DataType::Binary, metric).await;
    let (query, path) = (QUERY[0], sql.folder.path().join("docs.nf"));
    let file = path.display();
    let distance = format!("{metric}_distance(vector, {query})");
    for statement in [
        format!("SELECT id, _distance FROM knn(docs, vector, {query}, 9) ORDER BY rank"),
        format!(
            "SELECT id, _distance FROM knn(docs, vector, {query}, 9, '{metric}', 'id > 20') ORDER BY rank"
        ),
        format!(
            "SELECT query_index, id FROM knn(docs, vector, [{query}, X'0102030405'], 9) ORDER BY query_index, rank"
        ),
        format!("SELECT id, _distance FROM knn_index('{file}', {query}, 9) ORDER BY rank"),
        format!("SELECT id, {distance} FROM docs ORDER BY {distance}, id LIMIT 9"),
    ] {
        let of_lists = statement.replace("X'0102030405'", "[1, 2, 3, 4, 5]");
        let (found, wanted) = (sql.run(&statement).await, sql.run(&of_lists.replace(query, QUERY[1])).await);
        assert_same(&found, &wanted, &statement);
        assert!(found.num_rows() > 0, "{statement}");
    }
    let index = Index::load(&Device::host(), &path).expect("the index");
    let asked = [0xf0, 0xa1, 0xff, 0, 0x12].map(PackedBits);
    let wanted = index.search(MatrixView::new(&asked, DIM).expect("a query"), 9).expect("an answer");
    let found =
        sql.run(&format!("SELECT id, _distance FROM knn_index('{file}', {query}, 9) ORDER BY rank")).await;
    let ids: Vec<u64> = wanted.hits().iter().map(|hit| hit.id).collect();
    assert_eq!(found.column(0).as_primitive::<UInt64Type>().values(), &ids[..]);
    let distances: Vec<f64> = wanted.hits().iter().map(|hit| hit.distance.into()).collect();
    assert_eq!(found.column(1).as_primitive::<Float64Type>().values(), &distances[..]);
}

#[tokio::test]
async fn bits_are_no_numbers_and_have_one_length() {
    let sql = session(&DataType::Binary, Metric::Hamming).await;
    let path = sql.folder.path().join("numbers.nf");
    crate::support::save_index(&path, &[1.0, 2.0, 3.0, 4.0], 2, Metric::L2, 0);
    sql.indexes("numbers", &path).await;
    sql.run("CREATE TABLE lengths AS SELECT * FROM (VALUES (1, X'0a'), (2, X'0b0c')) AS v (id, bits)").await;
    sql.run("CREATE TABLE lists AS SELECT 1 AS id, [1.0, 2.0] AS vec").await;
    let bits = ["holds bits: hamming and jaccard compare those"];
    let file = path.display();
    for (query, wanted) in [
        (
            "SELECT l2_distance(bits, X'0a') FROM t",
            &["l2_distance: needed lists of numbers for l2", bits[0]][..],
        ),
        ("SELECT cosine_distance([1.0], X'0a')", &["cosine_distance", bits[0]]),
        ("SELECT bits <-> X'0a' FROM t", &bits),
        ("SELECT bits <#> X'0a' FROM t", &bits),
        ("SELECT bits <=> [1.0] FROM t", &bits),
        (
            "SELECT * FROM knn(t, bits, X'0a', 3)",
            &["column \"bits\": needed lists of numbers for cosine", bits[0]],
        ),
        ("SELECT * FROM knn(t, list, X'0a', 3, 'l2')", &["query: needed lists of numbers for l2", bits[0]]),
        ("SELECT * FROM knn_join(t, bits, t, list, 3)", &["column \"bits\" of the queries", bits[0]]),
        ("SELECT * FROM knn_join(t, list, t, bits, 3, 'ip')", &["column \"bits\": needed", bits[0]]),
        (
            "SELECT * FROM knn(numbers, vector, X'0a0b', 3)",
            &["query: needed lists of numbers for l2", bits[0]],
        ),
        (&format!("SELECT * FROM knn_index('{file}', X'0a0b', 3)"), &["query", bits[0]]),
        (
            "SELECT hamming_distance(X'0a', X'0b0c')",
            &["needed vectors of the same length, given 1 and 2 elements"],
        ),
        (
            "SELECT bits <~> X'0a' FROM lengths",
            &["needed vectors of the same length, given 2 and 1 elements"],
        ),
        (
            "SELECT * FROM knn(lengths, bits, X'0a', 3, 'hamming')",
            &["column \"bits\": needed vectors of 1 elements as the queries have, given 2"],
        ),
        (
            "SELECT * FROM knn_join(lengths, bits, t, bits, 3, 'hamming')",
            &[
                "column \"bits\" of the queries: needed vectors of 1 elements as the first has, vector 1 has 2",
            ],
        ),
        ("SELECT * FROM knn(t, bits, X'', 3, 'hamming')", &["query: needed vectors with elements"]),
        (
            "SELECT * FROM knn(t, bits, X'0a', 3, 'euclid')",
            &["metric: needed l2sq, l2, cosine, ip, hamming or jaccard"],
        ),
    ] {
        let error = sql.error(query).await;
        assert!(wanted.iter().all(|part| error.contains(part)), "{query}: {error}");
    }
    // Between binary values it stays what it is between other values: equality, of NULLs too.
    let equal = sql.run("SELECT X'0a' <=> X'0a' AND NOT X'0a' <=> X'0b' AND NOT X'0a' <=> NULL").await;
    assert!(equal.column(0).as_boolean().value(0));
    // Numbers that are no bytes have no bits.
    assert_eq!(sql.run("SELECT * FROM knn(lists, vec, X'0102', 3, 'hamming')").await.num_rows(), 1);
    assert_eq!(sql.run("SELECT * FROM knn(lists, vec, [1.5, 2.0], 3, 'hamming')").await.num_rows(), 0);
}
