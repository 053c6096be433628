//! An optimizer rule: a search answers with no more columns than are asked for, so that it need not keep the others of every row it finds.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Extension, LogicalPlan, Projection, UserDefinedLogicalNode};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::plan::node::Knn;
use crate::plan::pairwise::Pairwise;

#[derive(Debug, Default)]
pub(crate) struct NarrowKnn;

impl OptimizerRule for NarrowKnn {
    fn name(&self) -> &str {
        "narrow_knn"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(projection) = &plan else { return Ok(Transformed::no(plan)) };
        let used: Vec<&Column> = projection.expr.iter().flat_map(|expr| expr.column_refs()).collect();
        let is_used = |name: &str| used.iter().any(|column| column.name == name);
        match narrowed(&projection.input, &is_used)? {
            Some(input) => {
                let projection = Projection::try_new(projection.expr.clone(), Arc::new(input))?;
                Ok(Transformed::yes(LogicalPlan::Projection(projection)))
            }
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// A search, under other names or not, with the columns that are used, if that is fewer.
fn narrowed(plan: &LogicalPlan, is_used: &impl Fn(&str) -> bool) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Limit(_) => {
            let input = narrowed(plan.inputs()[0], is_used)?;
            input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
        }
        LogicalPlan::Extension(extension) => {
            let any = extension.node.as_any();
            let narrowed: Option<Arc<dyn UserDefinedLogicalNode>> =
                if let Some(knn) = any.downcast_ref::<Knn>() {
                    let narrowed = knn.narrowed(is_used)?;
                    if narrowed.wanted == knn.wanted { None } else { Some(Arc::new(narrowed)) }
                } else if let Some(pairwise) = any.downcast_ref::<Pairwise>() {
                    let narrowed = pairwise.narrowed(is_used)?;
                    if narrowed.compared == pairwise.compared { None } else { Some(Arc::new(narrowed)) }
                } else {
                    None
                };
            Ok(narrowed.map(|node| LogicalPlan::Extension(Extension { node })))
        }
        _ => Ok(None),
    }
}
