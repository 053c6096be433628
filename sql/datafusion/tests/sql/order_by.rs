//! `ORDER BY` a distance with a `LIMIT` answers the same with the rule and without it, and `EXPLAIN` says whether it was used.

use datafusion::arrow::util::pretty::pretty_format_batches;
use test_case::test_case;

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, assert_same, literal, table, vectors};

/// Rows of few distances, with NULL and zero vectors, elements that are not finite, and every vector several times.
async fn small(stored: Stored) -> Sql {
    let values: Vec<f32> = (0..3000 * 3).map(|i| ((i * 7919 + i / 31) % 5) as f32 - 2.0).collect();
    let mut rows = vectors(&values, 3);
    for (row, vector) in rows.iter_mut().enumerate() {
        match row % 97 {
            0 => *vector = None,
            1 => *vector = Some(vec![0.0; 3]),
            2 => *vector = Some(vec![f32::NAN, 1.0, 0.0]),
            3 => *vector = Some(vec![f32::INFINITY, 1.0, 0.0]),
            _ => {}
        }
    }
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 4").await;
    sql.run("SET datafusion.execution.batch_size = 100").await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    sql.parquet("t", &table(&rows, 3, stored), 5).await;
    sql
}

async fn plan(sql: &Sql, statement: &str) -> String {
    pretty_format_batches(&[sql.run(&format!("EXPLAIN {statement}")).await]).expect("a table").to_string()
}

/// The rule is used, and changes no answer.
async fn used(sql: &Sql, statement: &str) -> String {
    let plan = plan(sql, statement).await;
    assert!(plan.contains("KnnNearestExec: k="), "{statement}\n{plan}");
    same(sql, statement).await;
    plan
}

async fn same(sql: &Sql, statement: &str) {
    let found = sql.run(statement).await;
    sql.run("SET nearfield.order_by = false").await;
    let wanted = sql.run(statement).await;
    sql.run("SET nearfield.order_by = true").await;
    assert_same(&found, &wanted, statement);
}

const Q: &str = "[0.5, -1.0, 2.0]";

#[test_case(Stored::FixedF32)]
#[test_case(Stored::ListF32)]
#[test_case(Stored::FixedF16)]
#[test_case(Stored::LargeListF64)]
#[tokio::test]
async fn answers_stay_the_same(stored: Stored) {
    let sql = small(stored).await;
    for statement in [
        // Ties at the boundary, of which a further key chooses.
        format!("SELECT id, l2_distance(vec, {Q}) AS d FROM t ORDER BY d, id DESC LIMIT 40"),
        format!("SELECT id FROM t ORDER BY array_distance({Q}, vec), part, id LIMIT 7"),
        format!("SELECT id, vec, part FROM t ORDER BY cosine_distance(vec, {Q}), id LIMIT 100 OFFSET 23"),
        format!("SELECT id FROM t ORDER BY inner_product(vec, {Q}) DESC NULLS LAST, id LIMIT 30"),
        format!("SELECT id FROM t ORDER BY inner_product(vec, {Q}) DESC, id LIMIT 50"),
        format!("SELECT id FROM t ORDER BY l2_distance(vec, {Q}) NULLS FIRST, id LIMIT 60"),
        // The farthest, too.
        format!("SELECT id FROM t ORDER BY l2_distance(vec, {Q}) DESC NULLS LAST, id LIMIT 60"),
        // Casts of the key, of the column and of the query.
        format!("SELECT id, CAST(l2_distance(vec, {Q}) AS REAL) AS d FROM t ORDER BY d, id LIMIT 40"),
        format!("SELECT id FROM t ORDER BY l2_distance(arrow_cast(vec, 'List(Float64)'), {Q}), id LIMIT 40"),
        format!(
            "SELECT id FROM t ORDER BY l2_distance(vec, arrow_cast({Q}, 'FixedSizeList(3, Float32)')), id LIMIT 4"
        ),
        // Operators of pgvector.
        format!("SELECT id FROM t ORDER BY vec <-> {Q}, id LIMIT 10"),
        format!("SELECT id FROM t ORDER BY vec <=> {Q}, id LIMIT 10"),
        format!("SELECT id FROM t ORDER BY vec <#> {Q}, id LIMIT 10"),
        // Filters first.
        format!("SELECT id FROM t WHERE part = 3 AND id > 100 ORDER BY vec <-> {Q}, id LIMIT 25"),
        format!("SELECT id FROM t WHERE vec <-> {Q} > 2 ORDER BY vec <-> {Q}, id LIMIT 25"),
        // Other names and expressions.
        format!(
            "SELECT a.b + 1 AS c FROM (SELECT id AS b, vec AS v FROM t) a ORDER BY l2_distance(a.v, {Q}), b LIMIT 9"
        ),
        format!(
            "SELECT d * 2 AS e FROM (SELECT l2_distance(vec, {Q}) AS d, id FROM t) ORDER BY e, id LIMIT 9"
        ),
        // Duplicates: fewer rows than there are candidates.
        format!("SELECT DISTINCT part, l2_distance(vec, {Q}) AS d FROM t ORDER BY d, part LIMIT 20"),
        // Without NaN, whose group DataFusion 55.2 does not find again: it panics, with the rule or without.
        format!("SELECT DISTINCT l2_distance(vec, {Q}) AS d FROM t WHERE id % 97 <> 2 ORDER BY d LIMIT 11"),
        format!("SELECT part, vec <-> {Q} AS d FROM t GROUP BY part, vec <-> {Q} ORDER BY d, part LIMIT 20"),
        // The two zeros are one value of DISTINCT.
        "SELECT DISTINCT l2_distance(vec, [1, 1, 1]) * (id % 2 - 0.5) AS d FROM t
         WHERE id % 97 > 3 AND l2_distance(vec, [1, 1, 1]) * (id % 2 - 0.5) >= 0 ORDER BY d LIMIT 3"
            .into(),
        // More than there are, and fewer with a distance than are asked for.
        format!("SELECT id FROM t WHERE id < 400 ORDER BY vec <-> {Q}, id LIMIT 1000"),
        format!("SELECT id FROM t WHERE id < 400 ORDER BY vec <=> {Q}, id LIMIT 399"),
        "SELECT id FROM t ORDER BY vec <-> vec, id LIMIT 5".into(),
        // Inside of other queries.
        format!(
            "SELECT id FROM (SELECT * FROM t ORDER BY vec <-> {Q}, id LIMIT 50) WHERE part = 2 ORDER BY id"
        ),
        format!(
            "SELECT part FROM t WHERE id IN (SELECT id FROM t ORDER BY vec <-> {Q}, id LIMIT 10) ORDER BY id"
        ),
        format!(
            "SELECT t.id FROM t JOIN t u ON t.id = u.id + 1 ORDER BY l2_distance(t.vec, {Q}), t.id LIMIT 10"
        ),
        format!(
            "SELECT id, count(*) OVER (PARTITION BY part) FROM t ORDER BY l2_distance(vec, {Q}), id LIMIT 10"
        ),
        format!("SELECT id FROM t ORDER BY round(l2_distance(vec, {Q})), id LIMIT 10"),
        format!("SELECT id FROM t WHERE random() < 2 ORDER BY l2_distance(vec, {Q}), id LIMIT 10"),
        format!(
            "SELECT id, x FROM (SELECT id, vec, unnest([1, 2]) AS x FROM t) ORDER BY vec <-> {Q}, id, x LIMIT 10"
        ),
    ] {
        used(&sql, &statement).await;
    }
}

/// NaN comes after every other number, of whichever sign, and infinity before it; -0.0 before 0.0.
#[test_case("l2_distance(vec, Q)"; "l2")]
#[test_case("cosine_distance(vec, Q)"; "cosine")]
#[test_case("inner_product(vec, Q) DESC"; "inner product")]
#[test_case("inner_product(vec, Q) DESC NULLS LAST"; "inner product with nulls last")]
#[test_case("0.0 - inner_product(vec, Q)"; "negative inner product")]
#[tokio::test]
async fn distances_that_are_no_number_have_their_place(order: &str) {
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, 1e30, 1.0];
    let row = |row: usize| Some((0..3).map(|d| special[(row * 7 + d * row / 5) % 8]).collect());
    let rows: Vec<Option<Vec<f32>>> = (0..500).map(row).collect();
    for stored in [Stored::FixedF32, Stored::FixedF16, Stored::LargeListF64] {
        let sql = Sql::new("host").await;
        sql.parquet("t", &table(&rows, 3, stored), 3).await;
        for query in [Q, "[0.0, 0.0, -0.0]"] {
            for k in [1, 20, 150, 499] {
                let statement = format!("SELECT id FROM t ORDER BY {order}, id LIMIT {k}");
                used(&sql, &statement.replace('Q', query)).await;
            }
        }
    }
}

#[tokio::test]
async fn plans_apply_filters_first_and_read_the_same_columns() {
    let sql = small(Stored::FixedF32).await;
    let text = used(&sql, &format!("SELECT id FROM t WHERE part = 3 ORDER BY vec <-> {Q}, id LIMIT 5")).await;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
    assert!(at("SortExec: TopK(fetch=5)") < at("KnnNearestExec: k=5, distinct=false, by=l2_distance"));
    assert!(at("KnnNearestExec") < at("FilterExec: part"), "{text}");
    assert!(text.contains("predicate=part"), "the filter goes to Parquet\n{text}");
    let text = used(
        &sql,
        &format!("SELECT DISTINCT part, vec <-> {Q} AS d FROM t ORDER BY d, part LIMIT 5 OFFSET 2"),
    )
    .await;
    assert!(text.contains("KnnNearestExec: k=7, distinct=true"), "{text}");
    assert!(text.contains("projection=[vec, part]"), "{text}");
}

#[tokio::test]
async fn explain_says_why_the_rule_is_not_used() {
    let sql = small(Stored::FixedF32).await;
    for (statement, wanted) in [
        (
            format!("SELECT part, min(vec <-> {Q}) AS d FROM t GROUP BY part ORDER BY d, part LIMIT 3"),
            "KnnNearestExec: not used, AggregateExec is between the sort and the distance",
        ),
        (
            format!(
                "SELECT id, d FROM (SELECT id, vec <-> {Q} AS d FROM t UNION ALL SELECT id + 5000, vec <=> {Q} FROM t) ORDER BY d, id LIMIT 30"
            ),
            "KnnNearestExec: not used, UnionExec is between the sort and the distance",
        ),
        (
            format!(
                "WITH x AS (SELECT id, vec <-> {Q} AS d FROM t) SELECT x.id, y.id FROM x JOIN x y ON x.id = y.id \
                 ORDER BY x.d, x.id LIMIT 12"
            ),
            "KnnNearestExec: not used, HashJoinExec is between the sort and the distance",
        ),
        (
            format!("SELECT id, vec <-> {Q} AS d FROM t ORDER BY part, d, id LIMIT 3"),
            "KnnNearestExec: not used, the distance is not the first key",
        ),
        (
            format!(
                "SELECT id FROM (SELECT id, vec <-> {Q} AS d FROM t ORDER BY id LIMIT 20) ORDER BY d, id LIMIT 3"
            ),
            "is between the sort and the distance",
        ),
        (
            format!(
                "SELECT id FROM (SELECT id, vec <-> {Q} AS d, random() AS r FROM t) WHERE r < 2 ORDER BY d, id LIMIT 3"
            ),
            "is between the sort and the distance",
        ),
        (
            format!("SELECT id FROM t ORDER BY (vec <-> {Q}) + random() * 0, id LIMIT 3"),
            "KnnNearestExec: not used, the key is volatile",
        ),
        (
            format!("SELECT id FROM t ORDER BY vec <-> {Q}, id LIMIT 1001"),
            "KnnNearestExec: not used, the limit is over 1000 rows, and these are in no index",
        ),
    ] {
        let plan = plan(&sql, &statement).await;
        assert!(plan.contains(wanted), "{statement}\n{plan}");
        same(&sql, &statement).await;
    }
    sql.run("SET nearfield.order_by = false").await;
    let text = plan(&sql, &format!("SELECT id FROM t ORDER BY vec <-> {Q} LIMIT 3")).await;
    assert!(text.contains("KnnNearestExec: not used, nearfield.order_by is false"), "{text}");
    sql.run("SET nearfield.order_by = true").await;
    for statement in [
        "SELECT id FROM t ORDER BY id LIMIT 3".to_owned(),
        format!("SELECT id FROM t ORDER BY vec <-> {Q}"),
        format!(
            "SELECT id FROM knn(t, vec, {Q}, 50, 'l2', 'vec <-> {Q} > 1') ORDER BY _distance, id LIMIT 3"
        ),
    ] {
        let text = plan(&sql, &statement).await;
        assert!(!text.contains("KnnNearestExec"), "{statement}\n{text}");
    }
}

#[tokio::test]
async fn real_rows_are_narrowed_and_counted() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(ROWS.as_slice(), DIM), DIM, Stored::FixedF32), 3).await;
    let query = literal(&QUERIES[..DIM]);
    let statement = format!("SELECT id FROM t ORDER BY cosine_distance(vec, {query}), id LIMIT 10");
    used(&sql, &statement).await;
    let analyzed = plan(&sql, &format!("ANALYZE {statement}")).await;
    let line = analyzed.lines().find(|line| line.contains("KnnNearestExec")).expect("the operator");
    assert!(line.contains("rows_searched=4.00 K"), "{line:.3000}");
    let error = sql.error("SELECT id FROM t ORDER BY l2_distance(vec, [1.0, 2.0]) LIMIT 3").await;
    assert!(
        error.contains("l2_distance: needed vectors of the same length, given 384 and 2 elements"),
        "{error}"
    );
}
