//! `knn(table, column, query, k [, metric, filter])`

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, Extension, Limit, LogicalPlan, lit};
use datafusion::physical_plan::ExecutionPlan;

use crate::plan::node::{Asked, Knn};
use crate::tables::arguments::Arguments;

const USAGE: &str = "knn(table, column, query, k [, metric, filter])";

/// The k nearest rows of a table to one query or several, exactly.
///
/// `query` is a list of numbers, or a list of such lists. `metric` is `cosine`, `l2`, `l2sq` or `ip`; where the call names
/// none, that of the table's indexes, or `cosine`. `filter`
/// is a condition in SQL, as a text: rows that do not fulfil it are not searched. A WHERE outside of the call applies to the answer.
#[derive(Debug)]
pub(crate) struct KnnFunction;

impl TableFunctionImpl for KnnFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let arguments = Arguments::new("knn", USAGE, 4..=6, &args)?;
        let table = arguments.table(0, "table")?;
        let column = arguments.column(1, "column", &table)?;
        let (queries, k) = (arguments.queries(2)?, arguments.k(3)?);
        let metric = arguments.metric(4, &table)?;
        let table = arguments.filtered(5, table)?;
        let knn = Knn::all_columns(table, Asked::Given(queries), column, k, metric)?;
        Ok(Arc::new(KnnTable::new(knn)))
    }
}

/// A search as a table: the planner replaces it by its logical plan.
#[derive(Debug)]
pub(crate) struct KnnTable {
    plan: LogicalPlan,
}

impl KnnTable {
    pub(crate) fn new(knn: Knn) -> Self {
        let search = LogicalPlan::Extension(Extension { node: Arc::new(knn) });
        // A limit that no answer reaches: the optimizer moves no condition below it. Without, one that names no column, as
        // `random() < 0.5`, would say which rows are searched.
        let limit = Limit { skip: None, fetch: Some(Box::new(lit(i64::MAX))), input: Arc::new(search) };
        Self { plan: LogicalPlan::Limit(limit) }
    }
}

#[async_trait]
impl TableProvider for KnnTable {
    fn schema(&self) -> SchemaRef {
        self.plan.schema().inner().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = datafusion::logical_expr::LogicalPlanBuilder::from(self.plan.clone());
        let plan = match projection {
            Some(projection) => plan.select(projection.iter().copied())?,
            None => plan,
        };
        session.create_physical_plan(&plan.build()?).await
    }
}
