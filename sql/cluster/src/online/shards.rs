//! Deals saved indexes out to the workers that have them in memory.
//!
//! datafusion-distributed runs a source that it does not know in one task. These handlers recognise the source of paths below a search of
//! saved indexes, give each task the paths of one worker, and route the task there.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, DistributedLeafExec,
    RouteTasksEvent, RouteTasksEventResponse, RouteTasksHandler, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, ScaleUpLeafNodeHandler,
};
use nearfield_datafusion::{paths_of, source_of_paths};
use url::Url;

use crate::online::workers::Workers;

/// The fewest tasks of a search of saved indexes.
pub(crate) const LEAST: usize = 2;

/// Handles the three events in which a stage gets its tasks.
#[derive(Clone)]
pub(crate) struct Shards(pub(crate) Arc<Workers>);

impl Shards {
    /// The paths of each worker, for those that have any. Paths count in the order of their names, whatever the partitions.
    fn by_worker(&self, source: &dyn ExecutionPlan) -> Option<Result<BTreeMap<Url, Vec<String>>>> {
        let mut paths: Vec<String> = paths_of(source)?.into_iter().flatten().collect();
        paths.sort();
        let mut by_worker = BTreeMap::<Url, Vec<String>>::new();
        for (number, path) in paths.into_iter().enumerate() {
            let Some(home) = self.0.home(number) else { return Some(Err(self.0.nobody())) };
            by_worker.entry(home).or_default().push(path);
        }
        Some(Ok(by_worker))
    }
}

#[async_trait::async_trait]
impl DesiredTaskCountHandler for Shards {
    async fn handle(
        &self,
        event: DesiredTaskCountEvent<'_>,
    ) -> Option<Result<DesiredTaskCountEventResponse>> {
        let by_worker = self.by_worker(event.plan.as_ref())?;
        // A stage of one task would run on the client, which would load the indexes itself: another one searches nothing.
        Some(by_worker.map(|workers| DesiredTaskCountEventResponse::desired(workers.len().max(LEAST))))
    }
}

impl ScaleUpLeafNodeHandler for Shards {
    fn handle(&self, event: ScaleUpLeafNodeEvent) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let by_worker = match self.by_worker(event.plan.as_ref())? {
            Ok(by_worker) => by_worker,
            Err(error) => return Some(Err(error)),
        };
        // There may be fewer tasks than workers, if another part of the stage asks for that.
        let mut tasks = vec![vec![]; event.task_count];
        for (number, paths) in by_worker.into_values().enumerate() {
            tasks[number % event.task_count].extend(paths);
        }
        // A worker searches its indexes one after the other: all at once would load all.
        let source = |paths: Vec<String>| source_of_paths(&[paths]);
        let sources = tasks.into_iter().map(source).collect::<Result<Vec<_>>>();
        let leaf = sources.and_then(|sources| DistributedLeafExec::try_new(event.plan.clone(), sources));
        Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
    }
}

impl RouteTasksHandler for Shards {
    fn handle(&self, event: RouteTasksEvent) -> Option<Result<RouteTasksEventResponse>> {
        let mut by_worker = None;
        let found = event.plan.apply(|plan| {
            if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
                by_worker = self.by_worker(leaf.original().as_ref());
            }
            Ok(if by_worker.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        if let Err(error) = found {
            return Some(Err(error));
        }
        Some(by_worker?.map(|workers| {
            // A worker that was lost since the tasks were made shifts the others: answers are the same, with some indexes loaded anew.
            let urls = workers.keys().cycle().take(event.task_count).cloned().collect();
            RouteTasksEventResponse::new(urls)
        }))
    }
}
