//! The future of a caller who waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::batcher::batch;
use crate::batcher::queue::Queue;
use crate::batcher::request::{Kind, Request, Run};
use crate::batcher::waiter::{Stage, Waiter};
use crate::batcher::waker::wake_all;
use crate::lock::lock;

/// Waits for the answer of a batch, and leads one when it is asked to. None when the batch failed.
pub(super) struct Waiting<'r, K: Kind, A: Send + 'static> {
    queue: &'r Arc<Mutex<Queue<K, A>>>,
    waiter: Arc<Waiter<K, A>>,
    run: Run<'r, K, A>,
}

impl<'r, K: Kind, A: Send + 'static> Waiting<'r, K, A> {
    pub(super) fn new(queue: &'r Arc<Mutex<Queue<K, A>>>, request: Request<K>, run: Run<'r, K, A>) -> Self {
        let waiter = Arc::new(Waiter::new(request));
        lock(queue).push(waiter.clone());
        Self { queue, waiter, run }
    }

    /// Leads a batch, or wakes those who are to lead the next. Whether this caller leads.
    fn leads(&self) -> bool {
        let (waiters, next) = {
            let mut queue = lock(self.queue);
            let waiters = queue.lead(&self.waiter);
            (waiters, queue.next())
        };
        wake_all(&next);
        let Some(waiters) = waiters else { return false };
        batch::join(self.queue, &self.waiter, waiters, self.run);
        true
    }
}

impl<K: Kind, A: Send + 'static> Future for Waiting<'_, K, A> {
    type Output = Option<A>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<A>> {
        // Before the stage is read, so that no change of it goes unnoticed.
        self.waiter.cell.set(context.waker());
        loop {
            let stage = self.waiter.change(|stage| match stage {
                Stage::Joined(batch) => (Stage::Joined(batch.clone()), Stage::Joined(batch)),
                Stage::Waits => (Stage::Waits, Stage::Waits),
                Stage::Taken => (Stage::Taken, Stage::Taken),
                done => (Stage::Gone, done),
            });
            let goes_on = match stage {
                Stage::Waits => self.leads(),
                Stage::Taken | Stage::Gone => false,
                Stage::Joined(batch) => batch.drive(&self.waiter),
                Stage::Answered(answer, others) => {
                    wake_all(&others);
                    return Poll::Ready(Some(answer));
                }
                Stage::Alone => return Poll::Ready(None),
            };
            if !goes_on {
                return Poll::Pending;
            }
        }
    }
}

impl<K: Kind, A: Send + 'static> Drop for Waiting<'_, K, A> {
    fn drop(&mut self) {
        let next = {
            let mut queue = lock(self.queue);
            queue.remove(&self.waiter);
            queue.next()
        };
        // A batch of which this is the last waiter goes with the stage.
        let left = self.waiter.change(|stage| (Stage::Gone, stage));
        match &left {
            Stage::Answered(_, others) => wake_all(others),
            Stage::Joined(batch) => batch.leave(&self.waiter),
            _ => {}
        }
        wake_all(&next);
    }
}
