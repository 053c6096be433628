//! Batches: one search for several callers.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::callers::bell::{Bell, ring};
use crate::callers::member::{Joint, Member, Stage};
use crate::callers::place::{Held, Notice};
use crate::callers::queue::Queue;
use crate::callers::request::{Kind, Run};
use crate::error::Result;
use crate::future::Boxed;
use crate::lock::lock;

/// Blocking callers that one of them wakes. A thread takes some microseconds to wake another.
const WOKEN_BY_ONE: usize = 8;

/// A search for several callers.
///
/// Only its members keep it: the search is dropped with the last of them, and so never outlives all of their borrows of the index.
struct Batch<K: Kind, A: Send + 'static> {
    members: Vec<Arc<Member<K, A>>>,
    /// The blocking call that runs the search; none when every member may. The device is polled by a blocking call's own thread.
    runner: Option<Arc<Member<K, A>>>,
    /// None when it is done.
    search: Mutex<Option<Boxed<'static, Vec<A>>>>,
    held: Held<K, A>,
}

/// Makes a batch of members that the queue counts already.
pub(super) fn join<K: Kind, A: Send + 'static>(
    queue: &Arc<Mutex<Queue<K, A>>>,
    leader: &Arc<Member<K, A>>,
    members: Vec<Arc<Member<K, A>>>,
    run: Run<'_, K, A>,
) {
    let counts: Vec<usize> = members.iter().map(|member| member.queries()).collect();
    let runner = leader.request.is_blocking.then(|| leader.clone());
    let bells = match &runner {
        Some(runner) => vec![runner.bell.clone()],
        None => members.iter().map(|member| member.bell.clone()).collect(),
    };
    let held = Held(Notice::new(queue, counts.iter().sum(), bells));
    let batch = Arc::new(Batch { members, runner, search: Mutex::new(None), held });
    let failing = Failing(&batch);
    let mut values = Vec::with_capacity(batch.members.iter().map(|member| member.request.values.len()).sum());
    batch.members.iter().for_each(|member| values.extend_from_slice(&member.request.values));
    *lock(&batch.search) = Some(run(leader.request.kind, values, counts));
    for member in &batch.members {
        // A caller that was dropped since then gets nothing.
        let _ = member.settle(Stage::Joined(batch.clone()));
    }
    std::mem::forget(failing);
}

impl<K: Kind, A: Send + 'static> Joint<K, A> for Batch<K, A> {
    fn leave(&self, by: &Member<K, A>) {
        if self.runner.as_ref().is_some_and(|runner| std::ptr::eq(&raw const **runner, by)) {
            drop(Failing(self));
        }
    }

    fn drive(&self, by: &Member<K, A>) -> bool {
        if self.runner.as_ref().is_some_and(|runner| !std::ptr::eq(&raw const **runner, by)) {
            return false;
        }
        loop {
            // Another member drives, or is about to answer all: it wakes this one.
            let Ok(mut search) = self.search.try_lock() else { return false };
            let Some(running) = &mut *search else { return false };
            let failing = Failing(self);
            let polled = self.held.0.poll(running.as_mut());
            std::mem::forget(failing);
            if let Poll::Ready(answers) = polled {
                let done = search.take();
                drop(search);
                drop(done);
                self.deliver(answers, by);
                return true;
            }
            drop(search);
            // Others who were woken in the meantime found the search locked.
            if !self.held.0.is_woken() {
                return false;
            }
        }
    }
}

impl<K: Kind, A: Send + 'static> Batch<K, A> {
    /// Gives each member its answer, and wakes all but the one who runs this.
    fn deliver(&self, answers: Result<Vec<A>>, by: &Member<K, A>) {
        let Ok(answers) = answers else { return self.fail() };
        let (mut threads, mut bells) = (vec![], vec![]);
        for (member, answer) in self.members.iter().zip(answers) {
            let is_own = std::ptr::eq(&raw const **member, by);
            if member.request.is_blocking && !is_own {
                threads.push((member, answer));
            } else if member.settle(Stage::Answered(answer, vec![])).is_ok() && !is_own {
                bells.push(member.bell.clone());
            }
        }
        let mut threads = threads.into_iter();
        let mut firsts = vec![];
        while let Some((first, answer)) = threads.next() {
            let others = threads.by_ref().take(WOKEN_BY_ONE - 1);
            let settled = others.filter_map(|(member, answer)| {
                member.settle(Stage::Answered(answer, vec![])).ok().map(|()| member.bell.clone())
            });
            match first.settle(Stage::Answered(answer, settled.collect())) {
                Ok(()) => firsts.push(first.bell.clone()),
                Err(Stage::Answered(_, others)) => firsts.extend(others),
                Err(_) => {}
            }
        }
        ring(&firsts);
        ring(&bells);
    }

    /// Lets all members search by themselves.
    fn fail(&self) {
        let settled = self.members.iter().filter(|member| member.settle(Stage::Alone).is_ok());
        let bells: Vec<Arc<Bell>> = settled.map(|member| member.bell.clone()).collect();
        ring(&bells);
    }
}

/// Fails a batch whose search panics, or whose runner unwinds.
struct Failing<'b, K: Kind, A: Send + 'static>(&'b Batch<K, A>);

impl<K: Kind, A: Send + 'static> Drop for Failing<'_, K, A> {
    fn drop(&mut self) {
        self.0.held.0.release();
        self.0.fail();
    }
}
