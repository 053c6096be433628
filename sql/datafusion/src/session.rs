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
use crate::plan::sort_by_score::SortByScore;
use crate::tables::index_table::IndexTables;
use crate::tables::knn::{KnnFunction, KnnJoinFunction, KnnMaxSimFunction};
use crate::tables::knn_index::KnnIndexFunction;
use crate::tables::pairwise::{KnnGraphFunction, SimilarPairsFunction};

/// The word of `CREATE EXTERNAL TABLE ... STORED AS` for saved indexes.
const STORED_AS: &str = "NEARFIELD";

/// The table functions, by their names.
pub fn table_functions() -> Vec<Arc<TableFunction>> {
    vec![
        Arc::new(TableFunction::new("knn".into(), Arc::new(KnnFunction))),
        Arc::new(TableFunction::new("knn_graph".into(), Arc::new(KnnGraphFunction))),
        Arc::new(TableFunction::new("knn_index".into(), Arc::new(KnnIndexFunction))),
        Arc::new(TableFunction::new("knn_join".into(), Arc::new(KnnJoinFunction))),
        Arc::new(TableFunction::new("knn_maxsim".into(), Arc::new(KnnMaxSimFunction))),
        Arc::new(TableFunction::new("similar_pairs".into(), Arc::new(SimilarPairsFunction))),
    ]
}

/// A new session with everything of this crate, and the defaults of DataFusion otherwise.
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
    let mut state = builder.build();
    add(&mut state);
    let planner: Arc<dyn QueryPlanner + Send + Sync> = Arc::new(KnnQueryPlanner);
    SessionStateBuilder::new_from_existing(state)
        .with_query_planner(planner)
        .with_optimizer_rule(Arc::new(NarrowKnn))
        .with_optimizer_rule(Arc::new(SortByScore))
        .with_physical_optimizer_rule(Arc::new(KeepOrder))
        .with_physical_optimizer_rule(Arc::new(NearestFirst))
}

/// Adds what a session looks up by names.
fn add(state: &mut SessionState) {
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
}

/// Adds the functions, the operators and the options to a session that exists. It plans searches of tables if its query planner does.
pub fn register(context: &SessionContext) -> Result<()> {
    add(&mut context.state_ref().write());
    Ok(())
}
