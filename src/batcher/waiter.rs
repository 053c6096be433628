//! Callers in the queue, and how they drive their searches.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::batcher::queue::{Batch, Queue, Turn};
use crate::batcher::request::{Kind, Request, Run};
use crate::interrupt;
use crate::lock::lock;

type Shared<K, A> = Arc<Mutex<Queue<K, A>>>;

/// Wakes callers. No lock may be held: an executor may poll inside of `wake`.
fn wake_all(wakers: Vec<Waker>) {
    let _disarmed = interrupt::disarmed();
    wakers.into_iter().for_each(Waker::wake);
}

/// The waker of a search. What wakes it is the device: the next search then has the slot, before this one's caller runs.
struct Notice<K, A> {
    queue: Shared<K, A>,
    search: u64,
}

impl<K: Kind, A: Send + 'static> Wake for Notice<K, A> {
    fn wake(self: Arc<Self>) {
        let wakers = lock(&self.queue).wake(self.search);
        wake_all(wakers);
    }
}

/// A caller in the queue, until it is dropped.
pub(super) struct Waiter<'q, K: Kind, A: Send + 'static> {
    queue: &'q Shared<K, A>,
    number: u64,
}

impl<'q, K: Kind, A: Send + 'static> Waiter<'q, K, A> {
    /// For a caller who searches at once and alone.
    pub(super) fn start(queue: &'q Shared<K, A>, queries: usize) -> Option<Self> {
        let number = lock(queue).start(queries)?;
        Some(Self { queue, number })
    }

    /// For a caller who waits.
    pub(super) fn wait(queue: &'q Shared<K, A>, request: Request<K>) -> Self {
        let number = lock(queue).push(request);
        Self { queue, number }
    }

    /// Polls the search of a caller who searches alone.
    pub(super) fn poll_alone<T>(
        &self,
        search: Pin<&mut impl Future<Output = T>>,
        context: &Context<'_>,
    ) -> Poll<T> {
        let mut waker = Some(context.waker().clone());
        lock(self.queue).before_poll(self.number, Some(&mut waker));
        // The former one goes without the lock: a task may go with it.
        drop(waker);
        let polled = self.poll_search(self.number, search);
        if polled.is_pending() {
            lock(self.queue).after_poll(self.number);
        }
        polled
    }

    fn poll_search<F: Future + ?Sized>(&self, search: u64, future: Pin<&mut F>) -> Poll<F::Output> {
        let notice = Notice { queue: self.queue.clone(), search };
        future.poll(&mut Context::from_waker(&Waker::from(Arc::new(notice))))
    }

    /// Waits for the answer of a batch, and leads or drives one when it is this caller's turn. None when the batch failed.
    pub(super) fn poll(&self, run: Run<'_, K, A>, context: &Context<'_>) -> Poll<Option<A>> {
        let mut waker = Some(context.waker().clone());
        loop {
            let (turn, wakers) = lock(self.queue).turn(self.number, &mut waker);
            waker = None;
            wake_all(wakers);
            match turn {
                Turn::Leads(requests, batch) => self.lead(requests, &batch, run),
                Turn::Drives(search, batch) if self.drive(search, &batch) => {}
                Turn::Drives(..) | Turn::Waits => return Poll::Pending,
                Turn::Ends(answer) => return Poll::Ready(answer),
            }
        }
    }

    /// Makes the search of a batch.
    fn lead(&self, requests: Vec<Request<K>>, batch: &Batch<A>, run: Run<'_, K, A>) {
        let failing = Failing(self.queue, self.number);
        let mut values = Vec::with_capacity(requests.iter().map(|request| request.values.len()).sum());
        requests.iter().for_each(|request| values.extend_from_slice(&request.values));
        let counts = requests.iter().map(|request| request.queries).collect();
        *lock(batch) = requests.first().map(|first| run(first.kind, values, counts));
        std::mem::forget(failing);
    }

    /// Drives the search of a batch on. Whether it has ended.
    fn drive(&self, search: u64, batch: &Batch<A>) -> bool {
        loop {
            // Another waiter drives, or is about to answer all: it wakes this one.
            let Ok(mut running) = batch.try_lock() else { return false };
            let Some(future) = &mut *running else { return false };
            lock(self.queue).before_poll(search, None);
            let failing = Failing(self.queue, search);
            let polled = self.poll_search(search, future.as_mut());
            std::mem::forget(failing);
            if let Poll::Ready(answers) = polled {
                let done = running.take();
                drop(running);
                drop(done);
                let wakers = lock(self.queue).end(search, answers.unwrap_or_default(), Some(self.number));
                wake_all(wakers);
                return true;
            }
            drop(running);
            // Others who were woken in the meantime found the search locked.
            if !lock(self.queue).after_poll(search) {
                return false;
            }
        }
    }
}

impl<K: Kind, A: Send + 'static> Drop for Waiter<'_, K, A> {
    fn drop(&mut self) {
        let (wakers, _removed) = lock(self.queue).leave(self.number);
        wake_all(wakers);
    }
}

/// Fails a batch whose search panics.
struct Failing<'q, K: Kind, A: Send + 'static>(&'q Shared<K, A>, u64);

impl<K: Kind, A: Send + 'static> Drop for Failing<'_, K, A> {
    fn drop(&mut self) {
        let wakers = lock(self.0).end(self.1, vec![], None);
        wake_all(wakers);
    }
}
