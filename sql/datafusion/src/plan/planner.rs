//! Plans searches: one operator beside the rows, and one that joins what those of all partitions found.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use nearfield::Metric;

use crate::exec::index::{IndexSearch, KnnIndexExec};
use crate::exec::index_scan::IndexScanExec;
use crate::exec::indexed::VECTOR;
use crate::exec::last::KnnFinalExec;
use crate::exec::operator::only;
use crate::exec::pairwise::PairwiseExec;
use crate::exec::partial::KnnPartialExec;
use crate::exec::pieces::files_of;
use crate::exec::source::{Source, numbered};
use crate::metric::Measure;
use crate::plan::node::{Asked, Knn, Wanted};
use crate::plan::pairwise::Pairwise;
use crate::search::near::Probes;

/// Plans what DataFusion plans, and searches.
#[derive(Debug, Default)]
pub struct KnnQueryPlanner;

#[async_trait]
impl QueryPlanner for KnnQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(KnnPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

/// Plans the operators of this crate, for a query planner that has others as well.
#[derive(Debug, Default)]
pub struct KnnPlanner;

#[async_trait]
impl ExtensionPlanner for KnnPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(pairwise) = node.as_any().downcast_ref::<Pairwise>() {
            let (rows, order) = numbered(only(inputs.to_vec(), "Pairwise")?)?;
            return Ok(Some(Arc::new(PairwiseExec::new(rows, order, pairwise.compared.clone())?)));
        }
        let Some(knn) = node.as_any().downcast_ref::<Knn>() else { return Ok(None) };
        let source = match (&knn.asked, inputs) {
            (Asked::Given(queries), [_]) => Source::Given(queries.clone()),
            (Asked::Table { column, .. }, [_, queries]) => Source::of_table(queries.clone(), column.clone())?,
            _ => return internal_err!("Knn: needed an input for rows, and one for queries of a table"),
        };
        if let Some((paths, search)) = of_index(&inputs[0], &knn.wanted) {
            let partial = KnnIndexExec::new(paths, source, search)?;
            return Ok(Some(Arc::new(KnnFinalExec::new(Arc::new(partial), knn.wanted.k)?)));
        }
        let files = files_of(&inputs[0]).into();
        let partial = KnnPartialExec::new(inputs[0].clone(), source, knn.wanted.clone(), files)?;
        Ok(Some(Arc::new(KnnFinalExec::new(Arc::new(partial), knn.wanted.k)?)))
    }
}

/// The search of saved indexes themselves, where the rows are all of theirs and the metric is theirs.
fn of_index(rows: &Arc<dyn ExecutionPlan>, wanted: &Wanted) -> Option<(Arc<dyn ExecutionPlan>, IndexSearch)> {
    let scan = rows.downcast_ref::<IndexScanExec>()?;
    let indexed = scan.indexed().clone();
    let metric = indexed.metric;
    // The squares of an index are in the order of their roots. Roots were rounded, and their squares are not the index's.
    let is_rooted = (wanted.measure, metric) == (Measure::Distance(Metric::L2), Metric::L2Squared);
    if wanted.column != VECTOR || !(wanted.measure == Measure::Distance(metric) || is_rooted) {
        return None;
    }
    let Wanted { k, kept, kept_of_queries, .. } = wanted.clone();
    let indexed = Some(indexed);
    let search = IndexSearch { k, probes: Probes::All, kept, kept_of_queries, is_rooted, indexed };
    Some((scan.input().clone(), search))
}
