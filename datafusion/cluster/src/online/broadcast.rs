//! Sends the queries of a table to every task of a search.
//!
//! datafusion-distributed does so for joins that it knows. Another operator with two inputs would see the part of the queries that is its
//! task's, and miss the others without an error.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion_distributed::BroadcastExec;

/// The operators of `nearfield-datafusion` whose second input has the queries, which each task needs whole.
const SEARCHES: [&str; 2] = ["KnnPartialExec", "KnnIndexExec"];

/// A physical optimizer rule: the queries of a search are broadcast.
#[derive(Debug)]
pub(crate) struct BroadcastQueries;

impl PhysicalOptimizerRule for BroadcastQueries {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let broadcast = |plan: Arc<dyn ExecutionPlan>| {
            let children = plan.children();
            let [rows, queries] = children.as_slice() else { return Ok(Transformed::no(plan)) };
            if !SEARCHES.contains(&plan.name()) || contains_broadcast(queries) {
                return Ok(Transformed::no(plan));
            }
            let all = match queries.downcast_ref::<CoalescePartitionsExec>() {
                Some(coalesce) if coalesce.fetch().is_none() => coalesce.input(),
                _ => queries,
            };
            let queries = CoalescePartitionsExec::new(Arc::new(BroadcastExec::new(all.clone(), 1)));
            let children = vec![(*rows).clone(), Arc::new(queries) as Arc<dyn ExecutionPlan>];
            Ok(Transformed::yes(replace_children_if_necessary(plan, children)?))
        };
        plan.transform_up(broadcast).data()
    }

    fn name(&self) -> &str {
        "broadcast_queries_of_knn"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn contains_broadcast(queries: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(queries.children().as_slice(), [child] if child.is::<BroadcastExec>())
}
