//! The batcher: searches of one index that arrive while the device works run together, as one batch.
//!
//! There is no timer and no thread. A request that finds no search in flight starts at once and alone. Others wait in a queue. When the
//! device is done with a search, one of the waiters takes the lead: it joins all requests of its kind into a batch, runs it, and leaves
//! each answer where its waiter picks it up.
//!
//! No caller depends on another being polled:
//! - A search gives its slot back as soon as the device is done, whether or not the future of that search is polled again.
//! - Every waiter may take the lead. A blocking call is asked first, because its thread is sure to run.
//! - A batch that a blocking call leads is run by that call, whose thread does not leave before the end. Any other batch belongs to all
//!   of its waiters: each that is polled drives it on, so a leader that is dropped or never polled again holds up nobody.
//! - A batch that fails or panics gives no answers: its waiters search by themselves, and each has an error of its own.

mod queue;
mod request;
#[cfg(test)]
mod tests;
mod waiter;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use crate::error::Result;
use queue::Queue;
use request::{Kind, Run};
pub(crate) use request::{MANY, Request};
use waiter::Waiter;

/// The batcher of an index. Searches of one `K` can run as one, and each caller gets an `A`.
pub(crate) struct Batcher<K, A> {
    queue: Arc<Mutex<Queue<K, A>>>,
}

impl<K: Kind, A: Send + 'static> Batcher<K, A> {
    /// Without requests. Up to `most` searches are in flight.
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
        if let Some(waiter) = Waiter::start(&self.queue, queries) {
            let mut alone = pin!(alone);
            return poll_fn(|context| waiter.poll_alone(alone.as_mut(), context)).await;
        }
        if let Some(request) = request() {
            let waiter = Waiter::wait(&self.queue, request);
            if let Some(answer) = poll_fn(|context| waiter.poll(run, context)).await {
                return Ok(answer);
            }
        }
        alone.await
    }
}

impl<K, A> fmt::Debug for Batcher<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}
