//! `knn_join(queries, query_column, base, column, k [, metric])`

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use crate::plan::node::{Asked, Knn};
use crate::tables::arguments::Arguments;
use crate::tables::knn::KnnTable;

const USAGE: &str = "knn_join(queries, query_column, base, column, k [, metric])";

/// The k nearest rows of one table to each row of another, exactly.
///
/// The answer has the columns of `base`, those of `queries` with `query_` before their names, `query_index`, `rank` and `_distance`. Queries
/// that are NULL have no neighbours.
#[derive(Debug)]
pub(crate) struct KnnJoinFunction;

impl TableFunctionImpl for KnnJoinFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let arguments = Arguments::new("knn_join", USAGE, 5..=6, &args)?;
        let queries = arguments.table(0, "queries")?;
        let query_column = arguments.column(1, "query_column", &queries)?;
        let base = arguments.table(2, "base")?;
        let column = arguments.column(3, "column", &base)?;
        let (k, metric) = (arguments.k(4)?, arguments.metric(5, &base)?);
        let asked = Asked::Table { plan: Arc::new(queries), column: query_column };
        Ok(Arc::new(KnnTable::new(Knn::all_columns(base, asked, column, k, metric)?)))
    }
}
