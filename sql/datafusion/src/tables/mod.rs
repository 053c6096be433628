//! The table functions.

mod arguments;
mod index_files;
pub(crate) mod index_table;
pub(crate) mod knn;
pub(crate) mod knn_index;
pub(crate) mod pairwise;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{Extension, Limit, LogicalPlan, UserDefinedLogicalNode, lit};

/// A search as a table: the planner replaces it by its logical plan.
fn view(search: impl UserDefinedLogicalNode + 'static) -> Arc<dyn TableProvider> {
    let search = LogicalPlan::Extension(Extension { node: Arc::new(search) });
    // A limit that no answer reaches: the optimizer moves no condition below it. Without, one that names no column, as
    // `random() < 0.5`, would say which rows are searched.
    let limit = Limit { skip: None, fetch: Some(Box::new(lit(i64::MAX))), input: Arc::new(search) };
    Arc::new(ViewTable::new(LogicalPlan::Limit(limit), None))
}
