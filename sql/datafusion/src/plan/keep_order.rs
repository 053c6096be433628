//! Keeps the rows and the queries of a search in the order of their tables: rows of the same distance come in that order, and queries are
//! numbered in it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::exec::index::KnnIndexExec;
use crate::exec::pairwise::PairwiseExec;
use crate::exec::partial::KnnPartialExec;
use crate::exec::whole::unwrapped;

/// A physical optimizer rule: takes away what deals the rows below a search out to more partitions, which a filter asks for, and what kept
/// other rules from splitting the queries.
#[derive(Debug, Default)]
pub(crate) struct KeepOrder;

impl PhysicalOptimizerRule for KeepOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let of_search = |plan: Arc<dyn ExecutionPlan>| {
            if !plan.is::<KnnPartialExec>() && !plan.is::<KnnIndexExec>() && !plan.is::<PairwiseExec>() {
                return Ok(Transformed::no(plan));
            }
            let children = plan.children().into_iter().cloned().map(undealt).collect::<Result<Vec<_>>>()?;
            Ok(Transformed::yes(replace_children_if_necessary(plan, children)?))
        };
        plan.transform_up(of_search).data()
    }

    fn name(&self) -> &str {
        "keep_order_of_knn"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn undealt(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let undealt = |plan: Arc<dyn ExecutionPlan>| {
        let deals = plan.downcast_ref::<RepartitionExec>();
        let deals = deals.filter(|deals| matches!(deals.partitioning(), Partitioning::RoundRobinBatch(_)));
        Ok(match deals.map(RepartitionExec::input).or_else(|| unwrapped(&plan)) {
            Some(input) => Transformed::yes(input.clone()),
            None => Transformed::no(plan),
        })
    };
    plan.transform_up(undealt).data()
}
