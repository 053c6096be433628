//! Slots in flight: a search has one while the device works on it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::batcher::queue::Queue;
use crate::batcher::request::Kind;
use crate::batcher::waker::{WakerCell, wake_all};
use crate::lock::lock;

/// The waker of a search in flight. What wakes it is the device: the next search then has the slot, before this one's caller runs.
pub(super) struct Notice<K, A> {
    queue: Arc<Mutex<Queue<K, A>>>,
    queries: usize,
    /// Those who can go on with the search.
    cells: Vec<Arc<WakerCell>>,
    /// Locked before the queue where both are locked.
    state: Mutex<State>,
}

struct State {
    has_slot: bool,
    /// Whether what the search waits for has happened since it was last polled.
    is_woken: bool,
}

impl<K: Kind, A: Send + 'static> Notice<K, A> {
    /// For a search that the queue counts already.
    pub(super) fn new(
        queue: &Arc<Mutex<Queue<K, A>>>,
        queries: usize,
        cells: Vec<Arc<WakerCell>>,
    ) -> Arc<Self> {
        let state = Mutex::new(State { has_slot: true, is_woken: false });
        Arc::new(Self { queue: queue.clone(), queries, cells, state })
    }

    /// Polls the search.
    pub(super) fn poll<F: Future + ?Sized>(self: &Arc<Self>, search: Pin<&mut F>) -> Poll<F::Output> {
        lock(&self.state).is_woken = false;
        let polled = search.poll(&mut Context::from_waker(&Waker::from(self.clone())));
        match polled {
            Poll::Ready(_) => self.release(),
            Poll::Pending => {
                // The device has more to do for this search.
                let mut state = lock(&self.state);
                if !state.has_slot && !state.is_woken {
                    state.has_slot = true;
                    lock(&self.queue).begin(self.queries);
                }
            }
        }
        polled
    }

    /// Whether the search can go on.
    pub(super) fn is_woken(&self) -> bool {
        lock(&self.state).is_woken
    }

    /// Gives the slot to whoever is next.
    pub(super) fn release(&self) {
        let next = {
            let mut state = lock(&self.state);
            if !std::mem::take(&mut state.has_slot) {
                return;
            }
            let mut queue = lock(&self.queue);
            queue.end(self.queries);
            queue.next()
        };
        wake_all(&next);
    }
}

impl<K: Kind, A: Send + 'static> Wake for Notice<K, A> {
    fn wake(self: Arc<Self>) {
        lock(&self.state).is_woken = true;
        // Those who wait longest come first: the next search starts while this one's answers are read.
        self.release();
        wake_all(&self.cells);
    }
}

/// Frees the slot of a search that ends, is dropped or panics, also while somebody keeps its waker.
pub(super) struct Held<K: Kind, A: Send + 'static>(pub(super) Arc<Notice<K, A>>);

impl<K: Kind, A: Send + 'static> Drop for Held<K, A> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Runs a search of one caller that the queue counts already.
pub(super) async fn run<K: Kind, A: Send + 'static, F: Future>(
    queue: &Arc<Mutex<Queue<K, A>>>,
    queries: usize,
    search: F,
) -> F::Output {
    let cell = Arc::new(WakerCell::default());
    let held = Held(Notice::new(queue, queries, vec![cell.clone()]));
    let mut search = pin!(search);
    poll_fn(|context| {
        cell.set(context.waker());
        held.0.poll(search.as_mut())
    })
    .await
}
