//! The queue: how much is in flight, who waits, and who may start next.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::batcher::request::{Kind, MOST, MOST_VALUES};
use crate::batcher::waiter::{Stage, Waiter};
use crate::batcher::waker::WakerCell;

/// The searches of an index.
pub(super) struct Queue<K, A> {
    /// The most searches in flight.
    most: usize,
    searches: usize,
    /// Queries of the searches in flight.
    queries: usize,
    /// Those who wait, the oldest first.
    waiting: VecDeque<Arc<Waiter<K, A>>>,
    /// Queries of those who wait.
    waiting_queries: usize,
}

impl<K: Kind, A> Queue<K, A> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, searches: 0, queries: 0, waiting: VecDeque::new(), waiting_queries: 0 }
    }

    /// Whether a search may start, with `more` queries beside those that wait.
    ///
    /// A search beside one in flight hides the host's work behind the device's. It has to be as large as the one in flight: otherwise
    /// the first caller to come back from a batch would start alone, and batches would never grow.
    fn has_room(&self, more: usize) -> bool {
        self.searches == 0 || self.searches < self.most && self.waiting_queries + more >= self.queries
    }

    /// Starts a search without waiting, if nobody waits and there is room.
    pub(super) fn start(&mut self, queries: usize) -> bool {
        let starts = self.waiting.is_empty() && self.has_room(queries);
        if starts {
            self.begin(queries);
        }
        starts
    }

    /// Notes that a search is in flight.
    pub(super) fn begin(&mut self, queries: usize) {
        self.searches += 1;
        self.queries += queries;
    }

    /// Notes that a search is in flight no longer.
    pub(super) fn end(&mut self, queries: usize) {
        self.searches -= 1;
        self.queries -= queries;
    }

    pub(super) fn push(&mut self, waiter: Arc<Waiter<K, A>>) {
        self.waiting_queries += waiter.queries();
        self.waiting.push_back(waiter);
    }

    /// Removes a caller, if it waits.
    pub(super) fn remove(&mut self, waiter: &Arc<Waiter<K, A>>) {
        if let Some(at) = self.place_of(waiter) {
            self.waiting.remove(at);
            self.waiting_queries -= waiter.queries();
        }
    }

    fn place_of(&self, waiter: &Arc<Waiter<K, A>>) -> Option<usize> {
        self.waiting.iter().position(|other| Arc::ptr_eq(other, waiter))
    }

    /// The blocking call that is asked first: one of the kind that waits longest.
    fn first_asked(&self) -> Option<&Arc<Waiter<K, A>>> {
        let oldest = self.waiting.front()?.request.kind;
        self.waiting.iter().find(|waiter| waiter.request.kind == oldest && waiter.request.is_blocking)
    }

    /// Starts a search for this caller and the oldest others who wait with one of its kind, as many as a batch holds. None unless the
    /// caller waits and there is room. A blocking call with the kind of the oldest goes before callers of other kinds; a future does
    /// not, because nobody may be polling it.
    pub(super) fn lead(&mut self, leader: &Arc<Waiter<K, A>>) -> Option<Vec<Arc<Waiter<K, A>>>> {
        let kind = leader.request.kind;
        if !self.has_room(0) || self.first_asked().is_some_and(|first| first.request.kind != kind) {
            return None;
        }
        self.place_of(leader)?;
        let (mut queries, mut values) = (leader.queries(), leader.request.values.len());
        let (waiters, others): (VecDeque<_>, _) = self.waiting.drain(..).partition(|waiter| {
            if Arc::ptr_eq(waiter, leader) {
                return true;
            }
            let more = (queries + waiter.queries(), values + waiter.request.values.len());
            let fits = waiter.request.kind == kind && more.0 <= MOST && more.1 <= MOST_VALUES;
            if fits {
                (queries, values) = more;
            }
            fits
        });
        self.waiting = others;
        self.waiting_queries -= queries;
        self.begin(queries);
        waiters.iter().for_each(|waiter| waiter.change(|_| (Stage::Taken, ())));
        Some(waiters.into())
    }

    /// The cells of those who are to take the lead next: one whose thread is sure to run or, where there is none with the kind of the
    /// oldest, all who wait. None without room.
    pub(super) fn next(&self) -> Vec<Arc<WakerCell>> {
        if !self.has_room(0) {
            return vec![];
        }
        match self.first_asked() {
            Some(first) => vec![first.cell.clone()],
            None => self.waiting.iter().map(|waiter| waiter.cell.clone()).collect(),
        }
    }
}
