//! Batches: one search for several callers.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::batcher::queue::Queue;
use crate::batcher::request::{Kind, Run};
use crate::batcher::slot::{Held, Notice};
use crate::batcher::waiter::{Joint, Stage, Waiter};
use crate::batcher::waker::{WakerCell, wake_all};
use crate::error::Result;
use crate::future::Boxed;
use crate::lock::lock;

/// Blocking callers that one of them wakes. A thread takes some microseconds to wake another.
const WOKEN_BY_ONE: usize = 8;

/// A search for several callers.
///
/// Only its waiters keep it: the search is dropped with the last of them, and so never outlives all of their borrows of the index.
struct Batch<K: Kind, A: Send + 'static> {
    waiters: Vec<Arc<Waiter<K, A>>>,
    /// The blocking call that runs the search; none when every waiter may. The device is polled by a blocking call's own thread.
    runner: Option<Arc<Waiter<K, A>>>,
    /// None when it is done.
    search: Mutex<Option<Boxed<'static, Vec<A>>>>,
    held: Held<K, A>,
}

/// Makes a batch of waiters that the queue counts already.
pub(super) fn join<K: Kind, A: Send + 'static>(
    queue: &Arc<Mutex<Queue<K, A>>>,
    leader: &Arc<Waiter<K, A>>,
    waiters: Vec<Arc<Waiter<K, A>>>,
    run: Run<'_, K, A>,
) {
    let counts: Vec<usize> = waiters.iter().map(|waiter| waiter.queries()).collect();
    let runner = leader.request.is_blocking.then(|| leader.clone());
    let cells = match &runner {
        Some(runner) => vec![runner.cell.clone()],
        None => waiters.iter().map(|waiter| waiter.cell.clone()).collect(),
    };
    let held = Held(Notice::new(queue, counts.iter().sum(), cells));
    let batch = Arc::new(Batch { waiters, runner, search: Mutex::new(None), held });
    let failing = Failing(&batch);
    let mut values = Vec::with_capacity(batch.waiters.iter().map(|waiter| waiter.request.values.len()).sum());
    batch.waiters.iter().for_each(|waiter| values.extend_from_slice(&waiter.request.values));
    *lock(&batch.search) = Some(run(leader.request.kind, values, counts));
    for waiter in &batch.waiters {
        // A caller that was dropped since then gets nothing.
        let _ = waiter.settle(Stage::Joined(batch.clone()));
    }
    std::mem::forget(failing);
}

impl<K: Kind, A: Send + 'static> Joint<K, A> for Batch<K, A> {
    fn leave(&self, by: &Waiter<K, A>) {
        if self.runner.as_ref().is_some_and(|runner| std::ptr::eq(&raw const **runner, by)) {
            drop(Failing(self));
        }
    }

    fn drive(&self, by: &Waiter<K, A>) -> bool {
        if self.runner.as_ref().is_some_and(|runner| !std::ptr::eq(&raw const **runner, by)) {
            return false;
        }
        loop {
            // Another waiter drives, or is about to answer all: it wakes this one.
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
    /// Gives each waiter its answer, and wakes all but the one who runs this.
    fn deliver(&self, answers: Result<Vec<A>>, by: &Waiter<K, A>) {
        let Ok(answers) = answers else { return self.fail() };
        let (mut threads, mut cells) = (vec![], vec![]);
        for (waiter, answer) in self.waiters.iter().zip(answers) {
            let is_own = std::ptr::eq(&raw const **waiter, by);
            if waiter.request.is_blocking && !is_own {
                threads.push((waiter, answer));
            } else if waiter.settle(Stage::Answered(answer, vec![])).is_ok() && !is_own {
                cells.push(waiter.cell.clone());
            }
        }
        let mut threads = threads.into_iter();
        let mut firsts = vec![];
        while let Some((first, answer)) = threads.next() {
            let others = threads.by_ref().take(WOKEN_BY_ONE - 1);
            let settled = others.filter_map(|(waiter, answer)| {
                waiter.settle(Stage::Answered(answer, vec![])).ok().map(|()| waiter.cell.clone())
            });
            match first.settle(Stage::Answered(answer, settled.collect())) {
                Ok(()) => firsts.push(first.cell.clone()),
                Err(Stage::Answered(_, others)) => firsts.extend(others),
                Err(_) => {}
            }
        }
        wake_all(&firsts);
        wake_all(&cells);
    }

    /// Lets all waiters search by themselves.
    fn fail(&self) {
        let settled = self.waiters.iter().filter(|waiter| waiter.settle(Stage::Alone).is_ok());
        let cells: Vec<Arc<WakerCell>> = settled.map(|waiter| waiter.cell.clone()).collect();
        wake_all(&cells);
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
