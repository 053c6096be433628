//! Takes searches of many callers, and runs those that wait together as one.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};

use crate::batcher::queue::Queue;
use crate::batcher::request::{Kind, Request, Run};
use crate::batcher::slot;
use crate::batcher::waiting::Waiting;
use crate::error::Result;
use crate::lock::lock;

/// The callers of an index. Searches of one `K` can run as one, and each caller gets an `A`.
pub(crate) struct Batcher<K, A> {
    queue: Arc<Mutex<Queue<K, A>>>,
}

impl<K: Kind, A: Send + 'static> Batcher<K, A> {
    /// No callers yet. Up to `most` searches are in flight.
    pub(crate) fn new(most: usize) -> Self {
        Self { queue: Arc::new(Mutex::new(Queue::new(most))) }
    }

    /// Runs `alone` at once where nobody is in the way, and otherwise as a part of a batch, which `run` runs. `request` is called only
    /// then; if it gives none, `alone` runs beside all others.
    pub(crate) async fn search(
        &self,
        queries: usize,
        request: impl FnOnce() -> Option<Request<K>>,
        alone: impl Future<Output = Result<A>>,
        run: Run<'_, K, A>,
    ) -> Result<A> {
        if lock(&self.queue).start(queries) {
            return slot::run(&self.queue, queries, alone).await;
        }
        let Some(request) = request() else { return alone.await };
        match Waiting::new(&self.queue, request, run).await {
            Some(answer) => Ok(answer),
            None => alone.await,
        }
    }
}

impl<K, A> fmt::Debug for Batcher<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}
