//! Ballista with nearest neighbours: the configurations of its scheduler and executors, and a session that sends it statements.
//!
//! ```no_run
//! # async fn example() -> datafusion::common::Result<()> {
//! let session = nearfield_cluster::batch::Session::connect("df://scheduler:50050").await?;
//! session.context().register_parquet("docs", "/data/docs.parquet", Default::default()).await?;
//! session.run("SELECT id, rank FROM knn(docs, embedding, [0.1, 0.7, 0.2], 10)").await?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;

use ballista::prelude::SessionContextExt;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::{
    SessionConfigExt, ballista_aggregate_functions, ballista_scalar_functions, ballista_window_functions,
};
use ballista_core::optimizer::ballista_default_optimizer_rules;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfield_datafusion::{KnnLogicalCodec, KnnPhysicalCodec, scalar_functions, with_nearfield};

use crate::{MESSAGE_BYTES, collected};

/// How tasks reach executors. Pushed ones start 50 ms sooner than those that executors ask for.
const SCHEDULING: TaskSchedulingPolicy = TaskSchedulingPolicy::PushStaged;

fn logical_codec() -> Arc<KnnLogicalCodec> {
    Arc::new(KnnLogicalCodec(Arc::new(BallistaLogicalExtensionCodec::default())))
}

fn physical_codec() -> Arc<KnnPhysicalCodec> {
    Arc::new(KnnPhysicalCodec(Arc::new(BallistaPhysicalExtensionCodec::default())))
}

/// The configuration of a session, the same on all machines.
///
/// The adaptive planner of Ballista 55 is off. It plans a job again while it runs, and can lose rows without an error: a join of two inputs with
/// a `LIMIT` gives none.
pub fn session_config() -> SessionConfig {
    nearfield_datafusion::config(SessionConfig::new_with_ballista())
        .with_ballista_logical_extension_codec(logical_codec())
        .with_ballista_physical_extension_codec(physical_codec())
        .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES)
        .with_ballista_adaptive_query_planner(false)
}

/// The scheduler makes sessions anew from what the client's are configured with.
fn session_state(config: SessionConfig) -> Result<SessionState> {
    let builder = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_optimizer_rules(ballista_default_optimizer_rules())
        .with_scalar_functions(ballista_scalar_functions())
        .with_aggregate_functions(ballista_aggregate_functions())
        .with_window_functions(ballista_window_functions());
    Ok(with_nearfield(builder).build())
}

/// A scheduler that plans searches: Ballista's defaults otherwise, but that it pushes tasks, to executors in turn, and takes an executor for
/// lost that was silent for 20 seconds.
pub fn scheduler_config() -> SchedulerConfig {
    let mut config = SchedulerConfig::default()
        .with_scheduler_policy(SCHEDULING)
        .with_task_distribution(TaskDistributionPolicy::RoundRobin)
        .with_grpc_server_max_decoding_message_size(MESSAGE_BYTES as u32)
        .with_grpc_server_max_encoding_message_size(MESSAGE_BYTES as u32)
        .with_grpc_client_max_message_size(MESSAGE_BYTES as u32)
        .with_override_config_producer(Arc::new(session_config))
        .with_override_session_builder(Arc::new(session_state));
    config.executor_timeout_seconds = 20;
    config.expire_dead_executor_interval_seconds = 2;
    config.override_logical_codec = Some(logical_codec());
    config.override_physical_codec = Some(physical_codec());
    config
}

/// An executor that searches: Ballista's defaults otherwise, but that the scheduler pushes tasks to it, and that it reports every 5 seconds.
pub fn executor_config() -> ExecutorProcessConfig {
    // Plans name functions, which are looked up here.
    let mut functions = BallistaFunctionRegistry::default();
    // Ballista's are without those of lists and maps.
    let others = SessionStateBuilder::new().with_default_features().build();
    for (name, function) in others.scalar_functions() {
        functions.scalar_functions.entry(name.clone()).or_insert_with(|| function.clone());
    }
    for function in scalar_functions() {
        for name in function.aliases().iter().map(String::as_str).chain([function.name()]) {
            functions.scalar_functions.insert(name.to_owned(), function.clone());
        }
    }
    ExecutorProcessConfig {
        task_scheduling_policy: SCHEDULING,
        grpc_max_decoding_message_size: MESSAGE_BYTES as u32,
        grpc_max_encoding_message_size: MESSAGE_BYTES as u32,
        executor_heartbeat_interval_seconds: 5,
        override_function_registry: Some(Arc::new(functions)),
        override_config_producer: Some(Arc::new(session_config)),
        override_logical_codec: Some(logical_codec()),
        override_physical_codec: Some(physical_codec()),
        ..ExecutorProcessConfig::default()
    }
}

/// What Ballista says when an executor could not read a task. Only the executor's log says why.
const REJECTED: &str = "could not be prepared or was rejected by executor";

/// A session whose statements run on the cluster of a scheduler.
#[derive(Clone)]
pub struct Session {
    context: SessionContext,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("session_id", &self.context.session_id()).finish_non_exhaustive()
    }
}

impl Session {
    /// A new session with a scheduler, `df://host:port`.
    ///
    /// Errors if the address is none; whether a scheduler is there shows with the first statement.
    pub async fn connect(scheduler: &str) -> Result<Self> {
        let builder = SessionStateBuilder::new().with_default_features().with_config(session_config());
        let context = SessionContext::remote_with_state(scheduler, with_nearfield(builder).build()).await?;
        // A session of Ballista has Ballista's functions in place of those that it had.
        nearfield_datafusion::register(&context)?;
        Ok(Self { context })
    }

    /// The session of DataFusion, in which tables are registered. Their paths are those that executors see.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Runs a statement, and gathers its answer: one batch at least, with the columns. Tasks of an executor that is lost are run again by others.
    ///
    /// Errors are those of DataFusion and Ballista, with a reason where an executor knows nothing of nearfield.
    pub async fn run(&self, statement: &str) -> Result<Vec<RecordBatch>> {
        let run = async { collected(self.context.sql(statement).await?).await };
        run.await.map_err(|error| match error.to_string().contains(REJECTED) {
            true => error.context(
                "an executor could not read its task. Executors have to know nearfield: \
                 start each with `nearfield-cluster executor`, or with nearfield_cluster::batch::executor_config()",
            ),
            false => error,
        })
    }
}
