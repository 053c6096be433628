//! `knn` finds what `ORDER BY` finds, ties included.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use test_case::test_matrix;

use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, assert_same, devices, literal, table, vectors};

/// The scalar function of a metric, as what smaller is nearer of.
fn ordered(metric: &str, query: &str) -> String {
    match metric {
        "l2" => format!("l2_distance(vec, {query})"),
        "l2sq" => format!("power(l2_distance(vec, {query}), 2)"),
        "ip" => format!("0.0 - inner_product(vec, {query})"),
        _ => format!("cosine_distance(vec, {query})"),
    }
}

fn brute_force(from: &str, metric: &str, query: &[f32], k: usize) -> String {
    let distance = ordered(metric, &literal(query));
    format!("SELECT id, {distance} AS d FROM {from} ORDER BY d, id LIMIT {k}")
}

/// One call of `knn` finds what brute force finds for each of its queries, which are numbered.
async fn same_for_each(sql: &Sql, call: &str, wanted: impl IntoIterator<Item = (usize, String)>) {
    let statement = format!("SELECT query_index, id, _distance FROM {call} ORDER BY query_index, rank");
    let found = sql.run(&statement).await;
    let numbers = found.column(0).as_primitive::<UInt64Type>().values();
    for (number, wanted) in wanted {
        let start = numbers.partition_point(|&at| at < number as u64);
        let end = numbers.partition_point(|&at| at <= number as u64);
        let found = found.slice(start, end - start).project(&[1, 2]).expect("two columns");
        assert_same(&found, &sql.run(&wanted).await, &format!("query {number}: {wanted}"));
    }
}

#[test_matrix(
    [Stored::FixedF32, Stored::ListF32, Stored::FixedF16, Stored::LargeListF64],
    ["l2", "cosine", "ip"]
)]
#[tokio::test]
async fn one_query_and_several_find_what_brute_force_finds(stored: Stored, metric: &str) {
    for device in devices() {
        let sql = Sql::new(device).await;
        let rows = vectors(&ROWS[..800 * DIM], DIM);
        sql.parquet("t", &table(&rows, DIM, stored), 3).await;
        let queries: Vec<&[f32]> = QUERIES.chunks(DIM).take(9).collect();
        for (k, query) in [(1, queries[0]), (10, queries[1]), (2000, queries[2])] {
            let call = format!("knn(t, vec, {}, {k}, '{metric}')", literal(query));
            let wanted = brute_force("t", metric, query, k);
            sql.same(&format!("SELECT id, _distance FROM {call} ORDER BY rank"), &wanted).await;
        }
        // Enough queries for the library, in two batches of rows.
        let all: Vec<String> = queries.iter().map(|query| literal(query)).collect();
        sql.run("SET nearfield.block_bytes = 800000").await;
        let call = format!("knn('t', 'vec', [{}], 7, '{metric}')", all.join(", "));
        let wanted = queries.iter().map(|query| brute_force("t", metric, query, 7));
        same_for_each(&sql, &call, wanted.enumerate()).await;
    }
}

/// Whole numbers: most distances come many times, and every answer ends among equal ones.
#[test_matrix(["l2", "cosine", "ip"], [1, 64])]
#[tokio::test]
async fn ties_go_to_the_first_rows_of_the_table(metric: &str, files: usize) {
    for device in devices() {
        let sql = Sql::new(device).await;
        let values: Vec<f32> = (0..6400 * 3).map(|i| ((i * 7919 + i / 31) % 5) as f32 - 2.0).collect();
        let stored = if files == 1 { Stored::FixedF32 } else { Stored::FixedI8 };
        sql.parquet("t", &table(&vectors(&values, 3), 3, stored), files).await;
        sql.run("SET datafusion.execution.target_partitions = 64").await;
        let queries: Vec<&[f32]> = values.chunks(3).step_by(640).collect();
        let all: Vec<String> = queries.iter().map(|query| literal(query)).collect();
        let call = format!("knn(t, vec, [{}], 40, '{metric}')", all.join(", "));
        let has_distances = |query: &[f32]| metric != "cosine" || query.iter().any(|&x| x != 0.0);
        let some = queries.iter().enumerate().filter(|(_, query)| has_distances(query));
        let wanted = some.map(|(number, query)| (number, brute_force("t", metric, query, 40)));
        same_for_each(&sql, &call, wanted).await;
    }
}

/// Rows that the library does not take, in f32 or at all.
#[test_matrix(["l2", "cosine", "ip"])]
#[tokio::test]
async fn rows_of_every_size_are_found(metric: &str) {
    let scales = [1.0, 1e-25, 1e25, 1e-30, 0.0, 3e18, f32::INFINITY, 1e-16, 1e16];
    let rows: Vec<Option<Vec<f32>>> = (0..900u32)
        .map(|row| {
            let direction = |d: u32| ((row * 31 + d * 17) % 19) as f32 - 9.5;
            (row % 11 != 5).then(|| (0..6).map(|d| direction(d) * scales[row as usize % 9]).collect())
        })
        .collect();
    for device in devices() {
        for stored in [Stored::FixedF32, Stored::LargeListF64] {
            let sql = Sql::new(device).await;
            sql.parquet("t", &table(&rows, 6, stored), 2).await;
            let queries: Vec<Vec<f32>> = [0, 1, 2, 3, 7, 8, 9, 14, 15, 18, 20, 21]
                .into_iter()
                .filter_map(|row: usize| rows[row].clone())
                .filter(|query| query.iter().all(|x| x.is_finite()))
                .collect();
            let all: Vec<String> = queries.iter().map(|query| literal(query)).collect();
            for k in [5, 400] {
                let call = format!("knn(t, vec, [{}], {k}, '{metric}')", all.join(", "));
                let wanted = queries.iter().map(|query| {
                    let distance = ordered(metric, &literal(query));
                    format!(
                        "SELECT id, {distance} AS d FROM t WHERE {distance} IS NOT NULL AND NOT isnan({distance}) \
                         ORDER BY d, id LIMIT {k}"
                    )
                });
                same_for_each(&sql, &call, wanted.enumerate()).await;
            }
        }
    }
}

#[tokio::test]
async fn a_filter_and_a_condition_outside_mean_what_they_say() {
    let sql = Sql::new("host").await;
    sql.parquet("t", &table(&vectors(&ROWS[..1000 * DIM], DIM), DIM, Stored::FixedF32), 4).await;
    let query = &QUERIES[..DIM];
    let call = format!("knn(t, vec, {}, 5, 'l2', 'part = 3 AND id > 100')", literal(query));
    let wanted = brute_force("t WHERE part = 3 AND id > 100", "l2", query, 5);
    let found = sql.same(&format!("SELECT id, _distance FROM {call} ORDER BY rank"), &wanted).await;
    assert_eq!(found.num_rows(), 5);
    let call = format!("knn(t, vec, {}, 20, 'l2')", literal(query));
    let wanted = format!(
        "SELECT id, d FROM ({}) WHERE part = 3",
        brute_force("t", "l2", query, 20).replace("SELECT id", "SELECT part, id")
    );
    sql.same(&format!("SELECT id, _distance FROM {call} WHERE part = 3 ORDER BY rank"), &wanted).await;
}

#[tokio::test]
async fn tables_without_rows_or_vectors_give_nothing() {
    let sql = Sql::new("host").await;
    for (name, rows) in [("none", &[][..]), ("nulls", &[None, None]), ("t", &[Some(vec![1.0, 2.0])])] {
        sql.parquet(name, &table(rows, 2, Stored::FixedF32), 1).await;
    }
    for (call, columns) in [
        ("knn(none, vec, [1, 2], 3)", 6),
        ("knn(nulls, vec, [1, 2], 3)", 6),
        ("knn_join(none, vec, t, vec, 3)", 9),
        ("knn_join(t, vec, none, vec, 3)", 9),
        ("knn_join(nulls, vec, t, vec, 3)", 9),
    ] {
        let found = sql.run(&format!("SELECT * FROM {call}")).await;
        assert_eq!((found.num_rows(), found.num_columns()), (0, columns), "{call}");
    }
    let found = sql.run("SELECT count(*) FROM knn(none, vec, [1, 2], 3) WHERE id > 0").await;
    assert_eq!(found.num_rows(), 1);
}

/// A filter makes DataFusion deal rows out to more partitions, which would mix those of the same distance.
#[tokio::test]
async fn ties_go_to_the_first_rows_under_a_filter_too() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 4").await;
    let same = vec![Some(vec![1.0, 2.0]); 20_000];
    sql.parquet("t", &table(&same, 2, Stored::FixedF32), 1).await;
    sql.run("CREATE VIEW some AS SELECT * FROM t WHERE id % 3 = 1").await;
    for call in ["knn(t, vec, [1, 2], 5, 'l2', 'id % 3 = 1')", "knn(some, vec, [1, 2], 5, 'l2')"] {
        let found = format!("SELECT id, _distance FROM {call} ORDER BY rank");
        sql.same(&found, "SELECT id, 0.0 FROM t WHERE id % 3 = 1 ORDER BY id LIMIT 5").await;
    }
}

#[tokio::test]
async fn names_keep_their_quotes_and_their_schema() {
    let sql = Sql::new("host").await;
    for (name, id) in [("t", 1), ("\"T\"", 2), ("\"a.b\"", 3)] {
        sql.run(&format!("CREATE TABLE {name} AS SELECT {id} AS id, [1.0, 2.0] AS vec")).await;
    }
    for (name, id) in
        [("t", 1), ("T", 1), ("\"T\"", 2), ("'\"T\"'", 2), ("\"a.b\"", 3), ("public.t", 1), ("'public.t'", 1)]
    {
        let found = format!("SELECT id FROM knn({name}, vec, [1, 2], CAST(1 AS INT))");
        sql.same(&found, &format!("SELECT {id}")).await;
    }
}
