//! Sessions of DataFusion that know everything of this crate.

use std::sync::Arc;

use datafusion::catalog::TableFunction;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::functions::scalar_functions;
use crate::operators::Operators;
use crate::options::NearfieldOptions;
use crate::plan::keep_order::KeepOrder;
use crate::plan::narrow::NarrowKnn;
use crate::plan::nearest_first::NearestFirst;
use crate::plan::planner::KnnQueryPlanner;
use crate::tables::index_table::IndexTables;
use crate::tables::knn::KnnFunction;
use crate::tables::knn_index::KnnIndexFunction;
use crate::tables::knn_join::KnnJoinFunction;

/// The word of `CREATE EXTERNAL TABLE ... STORED AS` for saved indexes.
const STORED_AS: &str = "NEARFIELD";

/// The table functions, by their names.
pub fn table_functions() -> Vec<Arc<TableFunction>> {
    vec![
        Arc::new(TableFunction::new("knn".into(), Arc::new(KnnFunction))),
        Arc::new(TableFunction::new("knn_index".into(), Arc::new(KnnIndexFunction))),
        Arc::new(TableFunction::new("knn_join".into(), Arc::new(KnnJoinFunction))),
    ]
}

/// A new session with everything of this crate, and the defaults of DataFusion otherwise.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::common::Result<()> {
/// let context = nearfield_datafusion::context();
/// context.sql("CREATE TABLE points AS VALUES (1, [0.0, 1.0]), (2, [1.0, 1.0]), (3, [3.0, 0.1])").await?;
/// let found = context.sql("SELECT column1, rank FROM knn(points, column2, [1.0, 0.9], 2, 'l2') ORDER BY rank").await?;
/// found.show().await?;
/// # Ok(())
/// # }
/// ```
pub fn context() -> SessionContext {
    let builder = SessionStateBuilder::new().with_default_features();
    SessionContext::new_with_state(with_nearfield(builder.with_config(config(SessionConfig::new()))).build())
}

/// The options of this crate beside those of a configuration.
pub fn config(config: SessionConfig) -> SessionConfig {
    config.with_option_extension(NearfieldOptions::default())
}

/// Adds everything of this crate to a session that is being built, over functions that it has already. Its query planner becomes
/// [`KnnQueryPlanner`]: one of your own plans searches with [`KnnPlanner`](crate::KnnPlanner).
pub fn with_nearfield(builder: SessionStateBuilder) -> SessionStateBuilder {
    let state = builder.build();
    let planner: Arc<dyn QueryPlanner + Send + Sync> = Arc::new(KnnQueryPlanner);
    SessionStateBuilder::new_from_existing(with_functions(state))
        .with_query_planner(planner)
        .with_optimizer_rule(Arc::new(NarrowKnn))
        .with_physical_optimizer_rule(Arc::new(KeepOrder))
        .with_physical_optimizer_rule(Arc::new(NearestFirst))
}

fn with_functions(mut state: SessionState) -> SessionState {
    use datafusion::execution::FunctionRegistry;
    for function in scalar_functions() {
        // The registry of a session takes any function, and any planner.
        let _ = state.register_udf(function);
    }
    for function in table_functions() {
        state.register_udtf(function.name(), function.function().clone());
    }
    let _ = state.register_expr_planner(Arc::new(Operators));
    state.table_factories_mut().insert(STORED_AS.into(), Arc::new(IndexTables));
    let options = state.config_mut().options_mut();
    if options.extensions.get::<NearfieldOptions>().is_none() {
        options.extensions.insert(NearfieldOptions::default());
    }
    state
}

/// Registers the functions in a session that exists, without the operators of pgvector and the options. It plans `knn` and `knn_join` if its
/// query planner does.
pub fn register(context: &SessionContext) -> Result<()> {
    scalar_functions().iter().for_each(|function| context.register_udf(function.as_ref().clone()));
    for function in table_functions() {
        context.register_udtf(function.name(), function.function().clone());
    }
    context.state_ref().write().table_factories_mut().insert(STORED_AS.into(), Arc::new(IndexTables));
    Ok(())
}
