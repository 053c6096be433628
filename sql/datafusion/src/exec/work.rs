//! Helpers of several operators: they run work on other threads, end it when nobody waits for it any more, and take an operator's only child.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::physical_plan::ExecutionPlan;

/// Runs work that blocks on another thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    SpawnedTask::spawn_blocking(work).join_unwind().await.map_err(|error| exec_datafusion_err!("{error}"))?
}

/// Sets a flag when it is dropped, as a stream is that nobody reads to its end.
#[derive(Debug, Default)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The child of an operator that has one.
pub(crate) fn only(children: Vec<Arc<dyn ExecutionPlan>>, operator: &str) -> Result<Arc<dyn ExecutionPlan>> {
    match <[_; 1]>::try_from(children) {
        Ok([child]) => Ok(child),
        Err(children) => internal_err!("{operator}: needed one child, given {}", children.len()),
    }
}
