//! `knn_graph` and `similar_pairs`.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use crate::plan::pairwise::{Pairwise, Radius, Sought};
use crate::tables::arguments::Arguments;
use crate::tables::view;

/// The k nearest other rows of every row of a table, exactly.
///
/// The answer has the columns of `knn_join` of the table with itself, and no row as a neighbour of itself. A row is left out by its place, so
/// that its duplicates are found. `metric` and `filter` are those of `knn`.
#[derive(Debug)]
pub(crate) struct KnnGraphFunction;

impl TableFunctionImpl for KnnGraphFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "knn_graph(table, column, k [, metric, filter])";
        let arguments = Arguments::new("knn_graph", usage, 3..=5, &args)?;
        compared(&arguments, Sought::Nearest { k: arguments.k(2)? })
    }
}

/// The pairs of rows of a table whose distance is below a radius, each once, exactly.
///
/// The answer has the columns of both rows, with `a_` before the names of those of the earlier one and `b_` before the others, their places
/// `a_index` and `b_index`, and `_distance`. `metric` and `filter` are those of `knn`.
#[derive(Debug)]
pub(crate) struct SimilarPairsFunction;

impl TableFunctionImpl for SimilarPairsFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "similar_pairs(table, column, radius [, metric, filter])";
        let arguments = Arguments::new("similar_pairs", usage, 3..=5, &args)?;
        compared(&arguments, Sought::Within { radius: Radius(arguments.distance(2, "radius")?) })
    }
}

/// Both have the same arguments but one.
fn compared(arguments: &Arguments<'_>, sought: Sought) -> Result<Arc<dyn TableProvider>> {
    let table = arguments.table(0, "table")?;
    let column = arguments.column(1, "column", &table)?;
    let metric = arguments.metric(3, &table)?;
    let table = arguments.filtered(4, table)?;
    Ok(view(Pairwise::all_columns(table, column, sought, metric)?))
}
