//! `knn`, `knn_maxsim` and `knn_join`.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use crate::metric::Measure;
use crate::plan::node::{Asked, Knn};
use crate::tables::arguments::Arguments;
use crate::tables::view;

/// The k nearest rows of a table to one query or several, exactly.
///
/// `query` is a list of numbers or a binary value, whose bytes are eight bits each, or a list of several. `metric` is `cosine`, `l2`,
/// `l2sq` or `ip`, and of bits (binary values, or lists of bytes) `hamming` or `jaccard`; where the call names none, that of the table's
/// indexes, or `cosine`. `filter` is a condition in SQL, as a text: rows that do not fulfil it are not searched. A WHERE outside of the
/// call applies to the answer.
#[derive(Debug)]
pub(crate) struct KnnFunction;

impl TableFunctionImpl for KnnFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let arguments =
            Arguments::new("knn", "knn(table, column, query, k [, metric, filter])", 4..=6, &args)?;
        let table = arguments.table(0, "table")?;
        let column = arguments.column(1, "column", &table)?;
        let (queries, k) = (arguments.queries(2)?, arguments.k(3)?);
        let metric = arguments.metric(4, &table)?;
        let table = arguments.filtered(5, table)?;
        Ok(view(Knn::all_columns(table, Asked::Given(queries), column, k, Measure::Distance(metric))?))
    }
}

/// The k rows of a table whose documents have the largest MaxSim for one query or several, exactly.
///
/// A document, and a query, is a list of token vectors; `query` is one or a list of several. The answer has `_score` where that of `knn` has
/// `_distance`. `filter` is that of `knn`.
#[derive(Debug)]
pub(crate) struct KnnMaxSimFunction;

impl TableFunctionImpl for KnnMaxSimFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "knn_maxsim(table, column, query, k [, filter])";
        let arguments = Arguments::new("knn_maxsim", usage, 4..=5, &args)?;
        let table = arguments.table(0, "table")?;
        let column = arguments.column(1, "column", &table)?;
        let (queries, k) = (arguments.documents(2)?, arguments.k(3)?);
        let table = arguments.filtered(4, table)?;
        Ok(view(Knn::all_columns(table, Asked::Given(queries), column, k, Measure::MaxSim)?))
    }
}

/// The k nearest rows of one table to each row of another, exactly.
///
/// The answer has the columns of `base`, those of `queries` with `query_` before their names, `query_index`, `rank` and `_distance`. Queries
/// that are NULL have no neighbours.
#[derive(Debug)]
pub(crate) struct KnnJoinFunction;

impl TableFunctionImpl for KnnJoinFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "knn_join(queries, query_column, base, column, k [, metric])";
        let arguments = Arguments::new("knn_join", usage, 5..=6, &args)?;
        let queries = arguments.table(0, "queries")?;
        let query_column = arguments.column(1, "query_column", &queries)?;
        let base = arguments.table(2, "base")?;
        let column = arguments.column(3, "column", &base)?;
        let (k, metric) = (arguments.k(4)?, arguments.metric(5, &base)?);
        let asked = Asked::Table { plan: Arc::new(queries), column: query_column };
        Ok(view(Knn::all_columns(base, asked, column, k, Measure::Distance(metric))?))
    }
}
