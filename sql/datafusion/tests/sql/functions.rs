//! The scalar functions compute their definitions, for every type of vector.

use datafusion::arrow::array::types::Float64Type;
use datafusion::arrow::array::{Array, AsArray};
use test_case::test_matrix;

use crate::support::{Sql, Stored, literal, table, vectors};

fn exact(function: &str, a: &[f32], b: &[f32]) -> f64 {
    let sum = |of: fn(f64, f64) -> f64, a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| of(a.into(), b.into())).sum()
    };
    let dot = |a, b| sum(|a, b| a * b, a, b);
    match function {
        "inner_product" => dot(a, b),
        "cosine_distance" => 1.0 - dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt()),
        _ => sum(|a, b| (a - b) * (a - b), a, b).sqrt(),
    }
}

#[test_matrix(
    [Stored::FixedF32, Stored::ListF32, Stored::FixedF16, Stored::LargeListF64, Stored::FixedI8],
    ["array_distance", "l2_distance", "cosine_distance", "inner_product"]
)]
#[tokio::test]
async fn every_type_has_the_distances_of_the_definition(stored: Stored, function: &str) {
    let sql = Sql::new("host").await;
    // Whole numbers, so that sums are exact in any order; 37 is no multiple of anything.
    let values: Vec<f32> = (0..50 * 37).map(|i| ((i * 7919) % 23) as f32 - 11.0).collect();
    sql.parquet("t", &table(&vectors(&values, 37), 37, stored), 1).await;
    let query = &values[37 * 3..37 * 4];
    let literal = literal(query);
    for call in [format!("{function}(vec, {literal})"), format!("{function}({literal}, vec)")] {
        let found = sql.run(&format!("SELECT {call} FROM t ORDER BY id")).await;
        let found = found.column(0).as_primitive::<Float64Type>();
        for (row, vector) in values.chunks(37).enumerate() {
            let wanted = exact(function, vector, query);
            assert!((found.value(row) - wanted).abs() <= 1e-14 * wanted.abs().max(1.0), "{call}, row {row}");
        }
    }
    let pairs = sql
        .run(&format!("SELECT {function}(a.vec, b.vec) FROM t a JOIN t b ON a.id = b.id + 1 ORDER BY a.id"))
        .await;
    let pairs = pairs.column(0).as_primitive::<Float64Type>();
    for row in 0..49 {
        let wanted = exact(function, &values[(row + 1) * 37..][..37], &values[row * 37..][..37]);
        assert!((pairs.value(row) - wanted).abs() <= 1e-14 * wanted.abs().max(1.0), "row {row}");
    }
}

#[tokio::test]
async fn functions_and_operators_have_values_or_null() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    for (expression, wanted) in [
        ("l2_distance([1.0, 2.0], NULL)", None),
        ("l2_distance(NULL, NULL)", None),
        ("l2_distance([1.0, NULL], [1.0, 2.0])", None),
        ("inner_product([1.0, 2.0], [3.0, NULL])", None),
        ("cosine_distance([0.0, 0.0], [1.0, 2.0])", None),
        ("cosine_distance([1.0, 2.0], [0.0, 0.0])", None),
        ("cosine_distance([3, 4], [4, 3])", Some(1.0 - 24.0 / 25.0)),
        ("array_distance([1, 2], [4, 6])", Some(5.0)),
        ("list_distance([1, 2], [4, 6])", Some(5.0)),
        ("dot_product([1, 2], [4, 6])", Some(16.0)),
        ("inner_product([0.0], [-1.0])", Some(0.0)),
        ("[1.0, 2.0] <-> [4.0, 6.0]", Some(5.0)),
        ("[1.0, 2.0] <#> [4.0, 6.0]", Some(-16.0)),
        ("[3.0, 4.0] <=> [4.0, 3.0]", Some(1.0 - 24.0 / 25.0)),
        ("hamming_distance([255, 3], [15, 2])", Some(5.0)),
        ("[255, 3] <~> [15, 2]", Some(5.0)),
        ("[255, 3] <%> [15, 2]", Some(0.5)),
        ("jaccard_distance([0, 0], [0, 0])", Some(1.0)),
        ("hamming_distance([255, 256], [0, 0])", None),
        ("hamming_distance([0.5], [0])", None),
    ] {
        let found = sql.run(&format!("SELECT {expression}")).await;
        let found = found.column(0).as_primitive::<Float64Type>();
        assert_eq!((!found.is_null(0)).then(|| found.value(0)), wanted, "{expression}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_errors() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.sql_parser.dialect = 'PostgreSQL'").await;
    for (expression, wanted) in [
        ("l2_distance([1.0, 2.0], [1.0])", "needed vectors of the same length, given 2 and 1 elements"),
        ("l2_distance([1.0], 'text')", "needed two lists of numbers, given"),
        ("l2_distance(['a'], ['b'])", "needed two lists of numbers, given"),
        ("l2_distance([1.0])", "l2_distance"),
        // Numbers are no vectors.
        ("1 <-> 2", "Unsupported binary operator"),
    ] {
        let error = sql.error(&format!("SELECT {expression}")).await;
        assert!(error.contains(wanted), "{expression}: {error}");
    }
}
