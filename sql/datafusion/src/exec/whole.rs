//! Hides a source from the optimizer, which would split it.
//!
//! Queries are numbered in the order of their table. DataFusion divides a table in memory among partitions whatever the operator above asks for,
//! and sorts its batches by size to do so: the order would be lost.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::exec::pieces::keeps_rows;

/// Takes the place of a source while the optimizer's rules run, and shows them no child.
#[derive(Debug)]
struct WholeExec(Arc<dyn ExecutionPlan>);

/// A plan whose sources stay whole until [`unwrapped`], as far as its rows come in their order.
pub(crate) fn wrapped(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.children().is_empty() {
        return Ok(Arc::new(WholeExec(plan)));
    }
    if !keeps_rows(&plan) {
        return Ok(plan);
    }
    let children = plan.children().into_iter().cloned().map(wrapped).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// The source that an operator stands for.
pub(crate) fn unwrapped(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    plan.downcast_ref::<WholeExec>().map(|whole| &whole.0)
}

impl DisplayAs for WholeExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(format, f)
    }
}

impl ExecutionPlan for WholeExec {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
