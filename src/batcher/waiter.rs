//! Waiters: callers who wait for the lead, or for the answer of a batch.

use std::sync::{Arc, Mutex};

use crate::batcher::request::Request;
use crate::batcher::waker::WakerCell;
use crate::lock::lock;

/// A caller who waits.
pub(super) struct Waiter<K, A> {
    pub(super) request: Request<K>,
    pub(super) cell: Arc<WakerCell>,
    /// Changes from [`Stage::Waits`] only while the queue is locked.
    stage: Mutex<Stage<K, A>>,
}

/// How far a caller's search is.
pub(super) enum Stage<K, A> {
    /// In the queue.
    Waits,
    /// About to join a batch.
    Taken,
    Joined(Arc<dyn Joint<K, A>>),
    /// With the cells of other callers who have their answers too. This caller wakes them, so that one caller need not wake everybody.
    Answered(A, Vec<Arc<WakerCell>>),
    /// The batch failed: the caller searches by itself.
    Alone,
    /// The caller has its answer or was dropped.
    Gone,
}

/// A search for several callers.
pub(super) trait Joint<K, A>: Send + Sync {
    /// Drives the search on, if it is this waiter's to drive. Whether its stage has changed.
    fn drive(&self, by: &Waiter<K, A>) -> bool;

    /// Notes that this waiter is dropped before the end. If the search was its alone to drive, the others search by themselves.
    fn leave(&self, by: &Waiter<K, A>);
}

impl<K, A> Waiter<K, A> {
    pub(super) fn new(request: Request<K>) -> Self {
        Self { request, cell: Arc::default(), stage: Mutex::new(Stage::Waits) }
    }

    pub(super) fn queries(&self) -> usize {
        self.request.queries
    }

    /// Sets the stage to the one that `next` returns. The caller drops the rest of the former stage without the lock, because a search
    /// may end with it.
    pub(super) fn change<T>(&self, next: impl FnOnce(Stage<K, A>) -> (Stage<K, A>, T)) -> T {
        let mut stage = lock(&self.stage);
        let (new, left) = next(std::mem::replace(&mut *stage, Stage::Gone));
        *stage = new;
        left
    }

    /// Sets the stage of a caller who waits for a batch, or returns the new stage if the caller is gone.
    pub(super) fn settle(&self, new: Stage<K, A>) -> Result<(), Stage<K, A>> {
        let former = self.change(|stage| match stage {
            Stage::Taken | Stage::Joined(_) => (new, Ok(stage)),
            other => (other, Err(new)),
        });
        former.map(drop)
    }
}
