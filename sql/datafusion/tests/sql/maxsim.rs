//! `maxsim` is its definition, and `knn_maxsim` finds what `ORDER BY` it finds.

use std::sync::Arc;

use datafusion::arrow::array::types::{Float32Type, Int64Type, UInt64Type};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use test_case::test_matrix;

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, column, devices, literal, table, vectors};

/// Its tokens, of which one may be NULL.
type Document = Option<Vec<Option<Vec<f32>>>>;

/// The definition, in f64.
fn exact(query: &Document, document: &Document) -> Option<f64> {
    let tokens = |of: &Document| {
        of.iter().flatten().cloned().collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
    };
    let (query, document) = (tokens(query)?, tokens(document)?);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let most =
        |own: &Vec<f32>| document.iter().map(|other| dot(own, other)).fold(f64::NEG_INFINITY, f64::max);
    Some(query.iter().map(most).sum())
}

/// A table with the columns `id`, `docs` and `part`.
fn documents(all: &[Document], dim: usize, stored: Stored) -> RecordBatch {
    let tokens: Vec<Option<Vec<f32>>> = all.iter().flatten().flatten().cloned().collect();
    let tokens = column(&tokens, dim, stored);
    let lengths = all.iter().map(|document| document.as_ref().map_or(0, Vec::len));
    let nulls: NullBuffer = all.iter().map(Option::is_some).collect();
    let field = Arc::new(Field::new_list_field(tokens.data_type().clone(), true));
    let lists = ListArray::new(field.clone(), OffsetBuffer::from_lengths(lengths), tokens, Some(nulls));
    let lists: ArrayRef = match stored {
        Stored::LargeListF64 => cast(&lists, &DataType::LargeList(field)).expect("a cast"),
        _ => Arc::new(lists),
    };
    let others = table(&vec![None; all.len()], 1, Stored::ListF32);
    let columns = [("id", others.column(0).clone()), ("docs", lists), ("part", others.column(2).clone())];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns")
}

/// Whole numbers, so that scores are the same in any order of sums, and many are equal. Some documents are NULL, have a NULL or no token.
fn whole(count: usize, dim: usize) -> Vec<Document> {
    let token =
        |d: usize, t: usize| (0..dim).map(move |i| ((d * 31 + t * 17 + i * 7 + d / 9) % 5) as f32 - 2.0);
    let document = |d: usize| {
        let token = |t: usize| (d % 13 != 7 || t != 1).then(|| token(d, t).collect());
        (d % 11 != 3).then(|| (0..d % 6).map(token).collect())
    };
    (0..count).map(document).collect()
}

fn document(tokens: &[f32], dim: usize) -> Document {
    Some(vectors(tokens, dim))
}

/// A document as SQL writes it.
fn written(document: &Document) -> String {
    let tokens: Vec<String> = document.iter().flatten().flatten().map(|token| literal(token)).collect();
    format!("[{}]", tokens.join(", "))
}

#[test_matrix([Stored::FixedF32, Stored::ListF32, Stored::FixedF16, Stored::LargeListF64, Stored::FixedI8])]
#[tokio::test]
async fn every_type_has_the_score_of_the_definition(stored: Stored) {
    for device in devices() {
        let sql = Sql::new(device).await;
        let all = whole(70, 5);
        sql.parquet("t", &documents(&all, 5, stored), 2).await;
        for asked in [&all[1], &all[5]] {
            let query = written(asked);
            let own = |d: &Document| exact(asked, d);
            let other = |d: &Document| exact(d, asked);
            check(&sql, &format!("SELECT maxsim({query}, docs) FROM t ORDER BY id"), all.iter().map(own))
                .await;
            check(&sql, &format!("SELECT maxsim(docs, {query}) FROM t ORDER BY id"), all.iter().map(other))
                .await;
        }
        let neighbours = "SELECT maxsim(a.docs, b.docs) FROM t a JOIN t b ON a.id = b.id + 1 ORDER BY a.id";
        check(&sql, neighbours, all.windows(2).map(|pair| exact(&pair[1], &pair[0]))).await;
        let every = "SELECT maxsim(a.docs, b.docs) FROM t a, t b WHERE a.id < 12 ORDER BY a.id, b.id";
        let wanted = all[..12].iter().flat_map(|a| all.iter().map(move |b| exact(a, b)));
        check(&sql, every, wanted).await;
    }
}

async fn check(sql: &Sql, statement: &str, wanted: impl Iterator<Item = Option<f64>>) {
    let found = sql.run(statement).await;
    let found: Vec<Option<f32>> = found.column(0).as_primitive::<Float32Type>().iter().collect();
    let wanted: Vec<Option<f32>> = wanted.map(|score| score.map(|score| score as f32)).collect();
    assert_eq!(found, wanted, "{statement:.200}");
}

#[tokio::test]
async fn scores_are_values_or_null() {
    let sql = Sql::new("host").await;
    for (call, wanted) in [
        ("maxsim([[1, 0], [0, 1]], [[3, 4], [5, 2]])", Some(9.0)),
        ("maxsim([[1.0, 0.5]], [[-2.0, 2.0]])", Some(-1.0)),
        ("maxsim([[0.0]], [[-1.0]])", Some(0.0)),
        (
            "maxsim(arrow_cast([[1, 2], [3, 4]], 'FixedSizeList(2, FixedSizeList(2, Float32))'), [[1, 1]])",
            Some(10.0),
        ),
        ("maxsim(NULL, [[1.0]])", None),
        ("maxsim([[1.0]], NULL)", None),
        ("maxsim([], [[1.0]])", None),
        ("maxsim([[1.0], NULL], [[1.0]])", None),
        ("maxsim([[1.0]], [[1.0], [NULL]])", None),
    ] {
        check(&sql, &format!("SELECT {call}"), std::iter::once(wanted)).await;
    }
}

/// Every answer ends among equal scores, of several files and blocks.
#[test_matrix([1, 16])]
#[tokio::test]
async fn ties_go_to_the_first_rows_of_the_table(files: usize) {
    for device in devices() {
        let sql = Sql::new(device).await;
        let all = whole(400, 3);
        sql.parquet("t", &documents(&all, 3, Stored::ListF32), files).await;
        sql.run("SET datafusion.execution.target_partitions = 8").await;
        sql.run("SET datafusion.execution.batch_size = 64").await;
        sql.run("SET nearfield.block_bytes = 4000").await;
        let asked: Vec<&Document> = [1, 5, 8, 10, 16].map(|place| &all[place]).into();
        let queries: Vec<String> = asked.iter().map(|query| written(query)).collect();
        let call = format!("knn_maxsim('t', 'docs', [{}], 40, 'part <> 2')", queries.join(", "));
        let statement =
            format!("SELECT query_index, rank, id, _score FROM {call} ORDER BY query_index, rank");
        let found = sql.run(&statement).await;
        let numbers = |place: usize| found.column(place).as_primitive::<UInt64Type>().values().to_vec();
        let ids = found.column(2).as_primitive::<Int64Type>().values().to_vec();
        let scores = found.column(3).as_primitive::<Float32Type>().values().to_vec();
        let mut wanted = vec![];
        for (number, query) in asked.iter().enumerate() {
            let score = |(id, document)| Some((exact(query, document)?, id));
            let mut own: Vec<(f64, usize)> = all
                .iter()
                .zip(0..)
                .map(|(d, id)| (id, d))
                .filter(|(id, _)| id % 7 != 2)
                .filter_map(score)
                .collect();
            own.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let ranked = (0..).zip(own).take(40);
            wanted.extend(ranked.map(|(rank, (score, id))| (number as u64, rank, id as i64, score as f32)));
        }
        let found: Vec<(u64, u64, i64, f32)> = (numbers(0).into_iter().zip(numbers(1)))
            .zip(ids.into_iter().zip(scores))
            .map(|((query, rank), (id, score))| (query, rank, id, score))
            .collect();
        assert_eq!(found, wanted);
    }
}

/// Shipped embeddings as tokens: to the last bit what the sort of all scores gives on the same device.
#[tokio::test]
async fn searches_find_what_order_by_finds() {
    for device in devices() {
        let sql = Sql::new(device).await;
        let lengths = [3, 1, 8, 2, 5].into_iter().cycle();
        let mut rest = &ROWS[..1200 * DIM];
        let mut all = vec![];
        for length in lengths {
            let Some((tokens, others)) = rest.split_at_checked(length * DIM) else { break };
            all.push(document(tokens, DIM));
            rest = others;
        }
        sql.parquet("t", &documents(&all, DIM, Stored::FixedF16), 3).await;
        for (k, tokens) in [(1, 1), (10, 4), (1000, 3)] {
            let asked = document(&QUERIES[..tokens * DIM], DIM);
            let query = written(&asked);
            let found = sql
                .same(
                    &format!("SELECT id, _score FROM knn_maxsim(t, docs, {query}, {k}) ORDER BY rank"),
                    &format!("SELECT id, maxsim({query}, docs) AS s FROM t ORDER BY s DESC, id LIMIT {k}"),
                )
                .await;
            let sorted = format!("SELECT id FROM t ORDER BY maxsim({query}, docs) DESC, id LIMIT {k}");
            assert_eq!(sql.run(&sorted).await.column(0), found.column(0), "{k}");
            let ids = found.column(0).as_primitive::<Int64Type>();
            for (id, score) in ids.values().iter().zip(found.column(1).as_primitive::<Float32Type>().values())
            {
                let wanted = exact(&asked, &all[*id as usize]).expect("a score");
                assert!((f64::from(*score) - wanted).abs() < 1e-5, "{id}: {score} {wanted}");
            }
        }
        let query = written(&document(&QUERIES[..2 * DIM], DIM));
        let statement = format!("SELECT part FROM knn_maxsim(t, docs, [{query}, {query}], 3)");
        let plan = sql.plan(&format!("ANALYZE {statement}")).await;
        assert!(plan.contains("KnnPartialExec: column=docs, k=3, metric=maxsim, queries=2"), "{plan}");
        assert!(plan.contains("pairs_screened=") && plan.contains("pairs_refined="), "{plan}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_refused_by_name() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &documents(&whole(30, 5), 5, Stored::FixedF32), 1).await;
    sql.run("CREATE TABLE spoilt AS SELECT arrow_cast([[1.0, 'NaN']], 'List(List(Float64))') AS docs").await;
    sql.run("CREATE TABLE long AS SELECT column1 AS docs FROM (VALUES ([[1.0]]), ([[1.0], [1e30]]))").await;
    sql.run("CREATE TABLE uneven AS SELECT column1 AS docs FROM (VALUES ([[1.0]]), ([[1.0, 2.0]]))").await;
    sql.run("CREATE TABLE twice AS SELECT [[1.0]] AS docs, 1 AS _score").await;
    sql.run("CREATE TABLE one AS SELECT [[1.0]] AS docs").await;
    for (call, wanted) in [
        (
            "knn_maxsim(t, docs, [[1.0]], 3)",
            "column \"docs\": needed tokens of 1 elements as the queries have, given 5",
        ),
        (
            "knn_maxsim(t, docs, [[[1.0]], [[2.0], [1.0, 2.0]]], 3)",
            "query: needed vectors of 1 elements as the first has, a token of document 1 has 2",
        ),
        (
            "knn_maxsim(t, docs, [[1.0, NULL]], 3)",
            "query: needed a token or more, and none that is NULL or has a NULL",
        ),
        ("knn_maxsim(t, docs, [], 3)", "query: needed a "),
        ("knn_maxsim(t, docs, NULL, 3)", "query: needed "),
        (
            "knn_maxsim(t, docs, [1.0], 3)",
            "query: needed a list of token vectors, which are lists of numbers, or a list of such",
        ),
        ("knn_maxsim(t, docs, [X'01'], 3)", "query: needed a list of token vectors"),
        (
            "knn_maxsim(t, docs, arrow_cast([[1.0, 'NaN']], 'List(List(Float64))'), 3)",
            "query: needed elements that are finite in f32, document 0 has others",
        ),
        (
            "knn_maxsim(t, docs, [[1e300]], 3)",
            "query: needed elements that are finite in f32, document 0 has others",
        ),
        ("knn_maxsim(t, docs, [[1.0]], 0)", "k: needed a whole number from 1, given"),
        ("knn_maxsim(t, docs)", "needed knn_maxsim(table, column, query, k [, filter]), given 2 arguments"),
        ("knn_maxsim(t, docs, [[1.0]], 3, 'nothing = 1')", "nothing"),
        ("knn_maxsim(t, nothing, [[1.0]], 3)", "column: needed a column of the table, one of id, docs, part"),
        (
            "knn_maxsim(t, id, [[1.0]], 3)",
            "column \"id\": needed lists of token vectors, which are lists of f16, f32, f64, i8 or u8, given Int64",
        ),
        (
            "knn(t, docs, [1.0], 3)",
            "column \"docs\": needed lists of f16, f32, f64, i8 or u8, or Binary, given",
        ),
        ("knn_maxsim(twice, docs, [[1.0]], 3)", "the answer would have two columns \"_score\""),
        (
            "knn_maxsim(spoilt, docs, [[1.0, 2.0]], 3)",
            "column \"docs\": needed elements that are finite in f32, document 0 has others",
        ),
        (
            "knn_maxsim(uneven, docs, [[1.0]], 3)",
            "column \"docs\": needed vectors of 1 elements as the first has, a token of document 1 has 2",
        ),
        (
            "knn_maxsim(long, docs, [[1.0]], 3)",
            "needed norms that are 0 or within 2^-50 .. 2^50, row 1 has another",
        ),
        (
            "knn_maxsim(one, docs, [[1e30]], 3)",
            "queries: needed norms that are 0 or within 2^-50 .. 2^50, row 0 has another",
        ),
        (
            "(SELECT maxsim([[1.0]], [[1.0, 2.0]]))",
            "maxsim: needed tokens of the same length, given 1 and 2 elements",
        ),
        (
            "(SELECT maxsim([1.0], [[1.0]]))",
            "maxsim: needed lists of vectors, the tokens of a document, given ",
        ),
        (
            "(SELECT maxsim([X'01'], [[1.0]]))",
            "maxsim: needed lists of vectors, the tokens of a document, given",
        ),
        (
            "(SELECT maxsim(docs, [[1.0, 2.0]]) FROM spoilt)",
            "maxsim: query: needed elements that are finite in f32, document 0 has others",
        ),
        (
            "(SELECT maxsim([[1.0]], docs) FROM long)",
            "documents: needed norms that are 0 or within 2^-50 .. 2^50, row 1 has another",
        ),
        ("(SELECT maxsim([[1.0]]))", "maxsim"),
    ] {
        let error = sql.error(&format!("SELECT * FROM {call}")).await;
        assert!(error.contains(wanted), "{call}: {error}");
    }
}

/// The statements that docs/sql.md shows.
#[tokio::test]
async fn the_documented_statements_run() {
    let sql = Sql::new("host").await;
    sql.run(
        "CREATE TABLE pages AS VALUES (1, 'en', [[0.1, 0.7], [0.2, 0.2]]), (2, 'de', [[0.9, 0.9]]), (3, 'en', [[0.8, 0.1]])",
    )
    .await;
    sql.run("CREATE VIEW docs AS SELECT column1 AS id, column2 AS lang, column3 AS tokens FROM pages").await;
    let text = include_str!("../../../../docs/sql.md");
    let block = text.split("```sql").find(|block| block.contains("maxsim(docs")).expect("an example");
    let statements: Vec<&str> = block.split("```").next().expect("its end").trim().split(';').collect();
    for (statement, wanted) in statements.iter().zip([vec![3, 1], vec![2, 3, 1]]) {
        let found = sql.run(statement).await;
        assert_eq!(found.column(0).as_primitive::<Int64Type>().values(), wanted.as_slice(), "{statement}");
    }
    assert_eq!(statements.len(), 2);
}
