//! A physical optimizer rule: below `ORDER BY` a distance with a `LIMIT`, only the rows that can be among the first go on.
//!
//! The sort stays, so the answers stay the same, ties and further keys included. The rule moves the operator below projections and DISTINCT,
//! and leaves it above filters, which apply first.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::{ProjectionExec, update_expr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::exec::index_scan::IndexScanExec;
use crate::exec::indexed::VECTOR;
use crate::exec::last::KnnFinalExec;
use crate::exec::nearest::{KnnNearestExec, Narrowing};
use crate::functions::Distance;
use crate::options::NearfieldOptions;
use crate::search::near::Near;
use crate::search::queries::Queries;

/// The largest limit for which `KnnNearestExec` is used. A scan of an index searches the index for any limit.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct NearestFirst;

impl PhysicalOptimizerRule for NearestFirst {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_wanted = NearfieldOptions::of(options).order_by;
        let narrowed = |plan: Arc<dyn ExecutionPlan>| {
            let sort = plan.downcast_ref::<SortExec>();
            let Some((sort, k)) = sort.and_then(|sort| Some((sort, sort.fetch().filter(|k| *k > 0)?))) else {
                return Ok(Transformed::no(plan));
            };
            for (place, by) in sort.expr().iter().enumerate() {
                let narrowing = Narrowing { by: by.clone(), k, is_distinct: false };
                let Some(mut input) = below(sort.input(), narrowing, is_wanted)? else { continue };
                let why = match place {
                    // The sort would compute another value than the operator.
                    0 if is_volatile(&by.expr) => Some("the key is volatile"),
                    0 => None,
                    _ => Some("the distance is not the first key"),
                };
                if let Some(why) = why {
                    input = Arc::new(KnnNearestExec::not_used(sort.input().clone(), why.into()));
                }
                return Ok(Transformed::yes(replace_children_if_necessary(plan.clone(), vec![input])?));
            }
            Ok(Transformed::no(plan))
        };
        plan.transform_down(narrowed).data()
    }

    fn name(&self) -> &str {
        "nearest_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan with the operator at the lowest place where the key can be computed, or none where no distance is in the key.
fn below(
    plan: &Arc<dyn ExecutionPlan>,
    narrowing: Narrowing,
    is_wanted: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // A rule may run again on a plan that it has changed.
    let is_searched = plan.downcast_ref::<IndexScanExec>().is_some_and(|scan| scan.near().is_some());
    if plan.is::<KnnNearestExec>() || is_searched {
        return Ok(None);
    }
    if let Some((child, lowered)) = lower(plan, &narrowing)? {
        let child = below(child, lowered, is_wanted)?;
        return child.map(|child| replace_children_if_necessary(plan.clone(), vec![child])).transpose();
    }
    if has_distance(&narrowing.by.expr)? {
        let not_used =
            |why: &str| Ok(Some(Arc::new(KnnNearestExec::not_used(plan.clone(), why.into())) as _));
        if !is_wanted {
            return not_used("nearfield.order_by is false");
        }
        // The operator copies the rows that it passes, and the sort computes their distances again: too many cost more than it gains.
        return match searched(plan, &narrowing)? {
            Some(scan) if narrowing.k > MOST => Ok(Some(scan)),
            None if narrowing.k > MOST => not_used("the limit is over 1000 rows, and these are in no index"),
            scan => {
                let input = scan.unwrap_or_else(|| plan.clone());
                Ok(Some(Arc::new(KnnNearestExec::new(input, narrowing)?)))
            }
        };
    }
    let is_number = narrowing.by.expr.data_type(&plan.schema())?.is_floating();
    let hides = is_number && hides_a_distance(plan)?;
    let why = hides.then(|| format!("{} is between the sort and the distance", plan.name()));
    Ok(why.map(|why| Arc::new(KnnNearestExec::not_used(plan.clone(), why)) as _))
}

/// The child of an operator that passes all rows on, with the key as the child has it.
fn lower<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    narrowing: &Narrowing,
) -> Result<Option<(&'a Arc<dyn ExecutionPlan>, Narrowing)>> {
    let through = |columns: &[ProjectionExpr], is_distinct| -> Result<Option<Narrowing>> {
        // Random values would be others without the rows that are left out.
        if columns.iter().any(|column| is_volatile(&column.expr)) {
            return Ok(None);
        }
        let expr = update_expr(&narrowing.by.expr, columns, true)?;
        let by = |expr| PhysicalSortExpr { expr, options: narrowing.by.options };
        Ok(expr.map(|expr| Narrowing { by: by(expr), k: narrowing.k, is_distinct }))
    };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Ok(
            through(projection.expr(), narrowing.is_distinct)?.map(|below| (projection.input(), below))
        );
    }
    if let Some(distinct) = plan.downcast_ref::<AggregateExec>() {
        let groups = distinct.group_expr();
        // It may keep no more groups than the sort asks for, by the same order.
        let has_own_limit = distinct
            .limit_options()
            .is_some_and(|limit| limit.descending() != Some(narrowing.by.options.descending));
        let is_distinct = distinct.aggr_expr().is_empty() && groups.is_single() && !has_own_limit;
        let column =
            |(expr, name): &(Arc<dyn PhysicalExpr>, String)| ProjectionExpr::new(expr.clone(), name.clone());
        let columns: Vec<ProjectionExpr> = groups.expr().iter().map(column).collect();
        let below = if is_distinct { through(&columns, true)? } else { None };
        return Ok(below.map(|below| (distinct.input(), below)));
    }
    // Rows that are dealt out to more partitions are compared there.
    let is_by_hash = |exec: &RepartitionExec| matches!(exec.partitioning(), Partitioning::Hash(..));
    let passes = plan.downcast_ref::<RepartitionExec>().is_some_and(is_by_hash)
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|coalesce| coalesce.fetch().is_none());
    match plan.children().as_slice() {
        [child] if passes => Ok(Some((child, narrowing.clone()))),
        _ => Ok(None),
    }
}

/// A scan of saved indexes that searches them for the rows, where the key is a distance of theirs from a vector.
fn searched(plan: &Arc<dyn ExecutionPlan>, narrowing: &Narrowing) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(deals) = plan.downcast_ref::<RepartitionExec>() {
        let scan = searched(deals.input(), narrowing)?;
        return scan.map(|scan| replace_children_if_necessary(plan.clone(), vec![scan])).transpose();
    }
    let Some(scan) = plan.downcast_ref::<IndexScanExec>() else { return Ok(None) };
    let SortOptions { descending, nulls_first } = narrowing.by.options;
    let Some(function) = narrowing.by.expr.downcast_ref::<ScalarFunctionExpr>() else { return Ok(None) };
    let Some(distance) = function.fun().inner().downcast_ref::<Distance>() else { return Ok(None) };
    let metric = distance.metric();
    if descending || nulls_first || scan.near().is_some() || !Near::fits(metric, scan.indexed().metric) {
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
    if query.count() != 1 || query.dim() != scan.indexed().dim {
        return Ok(None);
    }
    let (k, is_distinct) = (narrowing.k, narrowing.is_distinct);
    let near = Near { query: Arc::new(query), metric, k, is_distinct };
    let (paths, indexed) = (scan.input().clone(), scan.indexed().clone());
    let scan = IndexScanExec::new(paths, indexed, scan.projection().to_vec(), Some(near))?;
    Ok(Some(Arc::new(scan)))
}

fn has_distance(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    expr.exists(|expr| {
        let function = expr.downcast_ref::<ScalarFunctionExpr>();
        Ok(function.is_some_and(|function| function.fun().inner().downcast_ref::<Distance>().is_some()))
    })
}

/// Whether a distance is below an operator, for `EXPLAIN`. Those of searches are not of the sort.
fn hides_a_distance(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let (mut found, mut is_search) = (false, false);
    plan.apply(|plan| {
        is_search |= plan.is::<KnnFinalExec>();
        plan.apply_expressions(&mut |expr| {
            found |= has_distance(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found && !is_search)
}
