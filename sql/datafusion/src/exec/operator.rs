//! What all operators have alike.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};

use crate::exec::pieces::{PIECE, ROW};
use crate::plan::node::QUERY_INDEX;

/// Writes the methods of an `ExecutionPlan` that are alike, within its `impl`. All read the partitions of their children as they are, in their
/// order, which ties and places follow.
///
/// - `input`: the field `input` is the only child, and the function makes the operator over another.
/// - `queries`: the field `source` may have a second child, and the function makes the operator over others.
/// - `with_metrics`.
macro_rules! operator {
    ($name:ident; $($part:ident $(= $with:expr)?),+) => {
        fn name(&self) -> &str {
            stringify!($name)
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false; self.children().len()]
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        $($crate::exec::operator::operator! { @$part $($with)? })+
    };
    (@input $with:expr) => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn with_new_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            let with: fn(&Self, Arc<dyn ExecutionPlan>) -> Result<Self> = $with;
            Ok(Arc::new(with(&self, $crate::exec::operator::only(children, self.name())?)?))
        }
    };
    (@queries $with:expr) => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            self.source.children(&self.input)
        }

        fn required_input_distribution(&self) -> Vec<datafusion::physical_expr::Distribution> {
            self.source.distributions()
        }

        fn with_new_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            let with: fn(&Self, Arc<dyn ExecutionPlan>, Source) -> Result<Self> = $with;
            let (input, source) = self.source.with_children(children)?;
            Ok(Arc::new(with(&self, input, source)?))
        }
    };
    (@with_metrics) => {
        fn metrics(&self) -> Option<datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    };
}
pub(crate) use operator;

/// The child of an operator that has one.
pub(crate) fn only(children: Vec<Arc<dyn ExecutionPlan>>, operator: &str) -> Result<Arc<dyn ExecutionPlan>> {
    match <[_; 1]>::try_from(children) {
        Ok([child]) => Ok(child),
        Err(children) => internal_err!("{operator}: needed one child, given {}", children.len()),
    }
}

/// The properties of an operator with the partitions of its input, and rows in no order that is known.
pub(crate) fn properties(
    schema: SchemaRef,
    input: &Arc<dyn ExecutionPlan>,
    emission: EmissionType,
) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
        emission,
        Boundedness::Bounded,
    ))
}

/// The columns behind the payload of what a partition found: the query, what is measured, and the two that order equal
/// distances.
pub(crate) fn found_fields(measured: (&str, DataType)) -> [FieldRef; 4] {
    [(QUERY_INDEX, DataType::UInt64), measured, (PIECE, DataType::UInt64), (ROW, DataType::UInt64)]
        .map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)))
}
