//! An optimizer rule: a sort by a score has the score as a column.
//!
//! DataFusion compares no literals that are lists of lists. It refuses to merge partitions by an expression with one, because it cannot tell
//! that they are in its order.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::MaxSim;

#[derive(Debug, Default)]
pub(crate) struct SortByScore;

impl OptimizerRule for SortByScore {
    fn name(&self) -> &str {
        "sort_by_score"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Sort(sort) = &plan else { return Ok(Transformed::no(plan)) };
        let own: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
        let (mut keys, mut columns) = (sort.expr.clone(), own.clone());
        for (number, key) in keys.iter_mut().enumerate() {
            if key.expr.exists(|expr| Ok(is_score(expr)))? {
                let name = format!("__score_{number}");
                let score = std::mem::replace(&mut key.expr, Expr::Column(Column::from_name(&name)));
                columns.push(score.unalias().alias(name));
            }
        }
        if columns.len() == own.len() {
            return Ok(Transformed::no(plan));
        }
        let scored = LogicalPlanBuilder::new_from_arc(sort.input.clone()).project(columns)?;
        let sorted = scored.sort_with_limit(keys, sort.fetch)?.project(own)?;
        Ok(Transformed::yes(sorted.build()?))
    }
}

fn is_score(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<MaxSim>())
}
