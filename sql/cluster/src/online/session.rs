//! Sessions of datafusion-distributed: that of the client, and those of workers.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, Worker, WorkerQueryContext};
use datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec;
use nearfield_datafusion::{KnnPhysicalCodec, NearfieldOptions, scalar_functions, with_nearfield};

use crate::collected;
use crate::online::channels::Channels;
use crate::online::shards::{LEAST, Shards};
use crate::online::stages::Stages;
use crate::online::workers::{Alive, Workers};

/// How often a statement is run again when a worker was lost.
const RETRIES: usize = 3;

fn codec() -> KnnPhysicalCodec {
    KnnPhysicalCodec(Arc::new(DefaultPhysicalExtensionCodec {}))
}

/// Whether an operator of a plan may change tables or files. `EXPLAIN ANALYZE` runs its statement, and a prepared one is known by its name alone.
fn changes_data(plan: &LogicalPlan) -> Result<bool> {
    use LogicalPlan::{Copy, Ddl, Dml, Statement};
    Ok(matches!(plan, Dml(_) | Ddl(_) | Copy(_) | Statement(_)))
}

/// A worker that searches, to be served by tonic: `worker().into_worker_server()`.
pub fn worker() -> Worker {
    let channels = Channels::default();
    Worker::from_session_builder(move |context: WorkerQueryContext| {
        let channels = channels.clone();
        async move {
            let builder = context
                .builder
                .with_distributed_channel_resolver(channels)
                .with_distributed_user_codec(codec())
                .with_distributed_option_extension_from_headers::<NearfieldOptions>(&context.headers)?;
            // Plans arrive planned: a worker needs the functions by their names, and makes this state for every query.
            let mut state = builder.build();
            for function in scalar_functions() {
                state.register_udf(function)?;
            }
            Ok(state)
        }
    })
}

/// A session whose statements run on workers.
pub struct Session {
    context: SessionContext,
    workers: Arc<Workers>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Session {
    /// A new session with these workers.
    ///
    /// Errors are those of datafusion-distributed, for its options.
    pub fn new(workers: Arc<Workers>) -> Result<Self> {
        let shards = Shards(workers.clone());
        let builder = SessionStateBuilder::new()
            .with_default_features()
            .with_config(SessionConfig::new())
            .with_distributed_option_extension(NearfieldOptions::default());
        let builder = with_nearfield(builder)
            .with_physical_optimizer_rule(Arc::new(Stages))
            .with_distributed_worker_resolver(Alive(workers.clone()))
            .with_distributed_channel_resolver(workers.channels().clone())
            .with_distributed_max_tasks_per_stage(workers.count().max(LEAST))?
            .with_distributed_planner()
            .with_distributed_user_codec(codec())
            .with_distributed_desired_task_count_handler(shards.clone())
            .with_distributed_scale_up_leaf_node_handler(shards.clone())
            .with_distributed_route_tasks_handler(shards);
        Ok(Self { context: SessionContext::new_with_state(builder.build()), workers })
    }

    /// The session of DataFusion, in which tables are registered. A statement that it runs is not run again when a worker is lost: use
    /// [`Session::run`].
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Runs a statement, and gathers its answer: one batch at least, with the columns.
    ///
    /// When a worker is lost a query is run again by the others, up to three times; a statement that changes tables or writes files is not.
    /// Errors are those of DataFusion, and that no worker answers.
    pub async fn run(&self, statement: &str) -> Result<Vec<RecordBatch>> {
        self.workers.wait_until_asked().await;
        let mut retries = 0;
        loop {
            let before = self.workers.alive();
            let plan = self.context.state().create_logical_plan(statement).await?;
            let is_query = !plan.exists(changes_data)?;
            let run = async { collected(self.context.execute_logical_plan(plan).await?).await };
            let error = match run.await {
                Err(error) if is_query && retries < RETRIES => error,
                answer => return answer,
            };
            // Asked anew: what a lost worker leaves behind are errors of many kinds.
            self.workers.ask().await;
            let now = self.workers.alive();
            if before.iter().all(|worker| now.contains(worker)) {
                return Err(error);
            }
            retries += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_queries_are_run_again() -> Result<()> {
        let context = SessionContext::new();
        context.sql("CREATE TABLE t AS VALUES (1)").await?.collect().await?;
        let copy = "COPY (SELECT * FROM t) TO '/nowhere.parquet'";
        for (statement, changes) in [
            ("SELECT * FROM t", false),
            ("EXPLAIN ANALYZE SELECT * FROM t", false),
            ("INSERT INTO t VALUES (2)", true),
            ("EXPLAIN ANALYZE INSERT INTO t VALUES (2)", true),
            (copy, true),
            (&format!("EXPLAIN ANALYZE {copy}"), true),
            ("EXECUTE prepared", true),
            ("DROP TABLE t", true),
        ] {
            let plan = context.state().create_logical_plan(statement).await?;
            assert_eq!(plan.exists(changes_data)?, changes, "{statement}");
        }
        Ok(())
    }
}
