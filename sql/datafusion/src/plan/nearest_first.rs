//! A physical optimizer rule: `ORDER BY` a distance with a `LIMIT`, over saved indexes, reads only the rows that can be among the first.
//!
//! The sort stays, so the answers stay the same, ties and further keys included.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::{ProjectionExec, update_expr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::exec::index_scan::IndexScanExec;
use crate::exec::indexed::VECTOR;
use crate::functions::Distance;
use crate::options::NearfieldOptions;
use crate::search::near::Near;
use crate::search::queries::Queries;

#[derive(Debug, Default)]
pub(crate) struct NearestFirst;

impl PhysicalOptimizerRule for NearestFirst {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !NearfieldOptions::of(options).order_by {
            return Ok(plan);
        }
        let of_sort = |plan: Arc<dyn ExecutionPlan>| {
            let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(Transformed::no(plan)) };
            let (first, k) = (&sort.expr()[0], sort.fetch().unwrap_or(0));
            let is_nearest_first = !first.options.descending && !first.options.nulls_first;
            let input =
                if is_nearest_first && k > 0 { searched(sort.input(), &first.expr, k)? } else { None };
            Ok(match input {
                Some(input) => Transformed::yes(replace_children_if_necessary(plan, vec![input])?),
                None => Transformed::no(plan),
            })
        };
        plan.transform_down(of_sort).data()
    }

    fn name(&self) -> &str {
        "nearest_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan whose scan of saved indexes searches them for the rows with the k smallest keys, where the key is a distance of theirs from a vector
/// and everything above the scan passes on all rows.
fn searched(
    plan: &Arc<dyn ExecutionPlan>,
    key: &Arc<dyn PhysicalExpr>,
    k: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<IndexScanExec>() {
        let Some(near) = near(scan, key, k)? else { return Ok(None) };
        let (paths, indexed) = (scan.input().clone(), scan.indexed().clone());
        let scan = IndexScanExec::new(paths, indexed, scan.projection().to_vec(), Some(near))?;
        return Ok(Some(Arc::new(scan)));
    }
    let passes = plan.is::<RepartitionExec>()
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|coalesce| coalesce.fetch().is_none());
    let key = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => update_expr(key, projection.expr(), true)?,
        None => passes.then(|| key.clone()),
    };
    let children = plan.children();
    let (Some(key), [child]) = (key, children.as_slice()) else { return Ok(None) };
    let child = searched(child, &key, k)?;
    child.map(|child| replace_children_if_necessary(plan.clone(), vec![child])).transpose()
}

/// What to search the indexes of a scan for.
fn near(scan: &IndexScanExec, key: &Arc<dyn PhysicalExpr>, k: usize) -> Result<Option<Near>> {
    let Some(function) = key.downcast_ref::<ScalarFunctionExpr>() else { return Ok(None) };
    let Some(distance) = function.fun().inner().downcast_ref::<Distance>() else { return Ok(None) };
    let metric = distance.metric();
    // A rule may run again on a plan that it has changed.
    if scan.near().is_some() || !Near::fits(metric, scan.indexed().metric) {
        return Ok(None);
    }
    let mut query = None;
    for argument in function.args() {
        if let Some(literal) = argument.downcast_ref::<Literal>() {
            query = Some(literal.value());
        } else if argument.downcast_ref::<Column>().is_none_or(|column| column.name() != VECTOR) {
            return Ok(None);
        }
    }
    let Some(query) = query.filter(|query| !query.is_null()) else { return Ok(None) };
    // The scalar function reports a literal that is no finite vector.
    let Ok(query) = Queries::of_column(&query.to_array()?, "query") else { return Ok(None) };
    let is_one = query.count() == 1 && query.dim() == scan.indexed().dim;
    Ok(is_one.then(|| Near { query: Arc::new(query), metric, k }))
}
