//! The future of a caller who waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::callers::batch;
use crate::callers::bell::ring;
use crate::callers::member::{Member, Stage};
use crate::callers::queue::Queue;
use crate::callers::request::{Kind, Request, Run};
use crate::lock::lock;

/// Waits for the answer of a batch, and leads one when it is asked to. None when the batch failed.
pub(super) struct Waiting<'r, K: Kind, A: Send + 'static> {
    queue: &'r Arc<Mutex<Queue<K, A>>>,
    member: Arc<Member<K, A>>,
    run: Run<'r, K, A>,
}

impl<'r, K: Kind, A: Send + 'static> Waiting<'r, K, A> {
    pub(super) fn new(queue: &'r Arc<Mutex<Queue<K, A>>>, request: Request<K>, run: Run<'r, K, A>) -> Self {
        let member = Arc::new(Member::new(request));
        lock(queue).push(member.clone());
        Self { queue, member, run }
    }

    /// Leads a batch, or wakes those who are to lead the next. Whether this caller leads.
    fn leads(&self) -> bool {
        let (members, next) = {
            let mut queue = lock(self.queue);
            let members = queue.lead(&self.member);
            (members, queue.next())
        };
        ring(&next);
        let Some(members) = members else { return false };
        batch::join(self.queue, &self.member, members, self.run);
        true
    }
}

impl<K: Kind, A: Send + 'static> Future for Waiting<'_, K, A> {
    type Output = Option<A>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<A>> {
        // Before the stage is read, so that no change of it goes unnoticed.
        self.member.bell.set(context.waker());
        loop {
            let stage = self.member.change(|stage| match stage {
                Stage::Joined(batch) => (Stage::Joined(batch.clone()), Stage::Joined(batch)),
                Stage::Waits => (Stage::Waits, Stage::Waits),
                Stage::Taken => (Stage::Taken, Stage::Taken),
                done => (Stage::Gone, done),
            });
            let goes_on = match stage {
                Stage::Waits => self.leads(),
                Stage::Taken | Stage::Gone => false,
                Stage::Joined(batch) => batch.drive(&self.member),
                Stage::Answered(answer, others) => {
                    ring(&others);
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
            queue.remove(&self.member);
            queue.next()
        };
        // A batch of which this is the last member goes with the stage.
        let left = self.member.change(|stage| (Stage::Gone, stage));
        match &left {
            Stage::Answered(_, others) => ring(others),
            Stage::Joined(batch) => batch.leave(&self.member),
            _ => {}
        }
        ring(&next);
    }
}
