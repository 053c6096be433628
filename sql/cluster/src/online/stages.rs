//! Divides searches into stages as datafusion-distributed divides what it knows.
//!
//! It broadcasts an input of joins alone. Another operator with two inputs would see the part of the queries that is its task's, and miss
//! the others without an error. And it ends stages where partitions are joined: a search of a single index has no such place, and would run
//! on the client.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::BroadcastExec;

/// The operators of `nearfield-datafusion` whose second input has the queries, which each task needs whole.
const SEARCHES: [&str; 2] = ["KnnPartialExec", "KnnIndexExec"];
/// Those that read saved indexes.
const OF_INDEXES: [&str; 2] = ["KnnIndexExec", "IndexScanExec"];

/// A physical optimizer rule: the queries of a search are broadcast, and a single index is a stage.
#[derive(Debug)]
pub(crate) struct Stages;

impl PhysicalOptimizerRule for Stages {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let divided = |plan: Arc<dyn ExecutionPlan>| {
            let plan = broadcast(plan)?;
            let is_single = plan.output_partitioning().partition_count() == 1;
            Ok(Transformed::yes(match is_single && OF_INDEXES.contains(&plan.name()) {
                true => Arc::new(CoalescePartitionsExec::new(plan)),
                false => plan,
            }))
        };
        plan.transform_up(divided).data()
    }

    fn name(&self) -> &str {
        "stages_of_knn"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A search whose queries every task gets.
fn broadcast(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children();
    let [rows, queries] = children.as_slice() else { return Ok(plan) };
    if !SEARCHES.contains(&plan.name()) {
        return Ok(plan);
    }
    let all = match queries.downcast_ref::<CoalescePartitionsExec>() {
        Some(coalesce) if coalesce.fetch().is_none() => coalesce.input(),
        _ => queries,
    };
    let queries = CoalescePartitionsExec::new(Arc::new(BroadcastExec::new(all.clone(), 1)));
    let children = vec![(*rows).clone(), Arc::new(queries) as Arc<dyn ExecutionPlan>];
    replace_children_if_necessary(plan, children)
}
