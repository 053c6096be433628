//! The queue of a batcher: who waits, what is in flight, and who may start next.
//!
//! All of it is under one lock. Nobody is woken under that lock, and no waker and no search is dropped: an executor may poll or drop other
//! callers inside. So methods return the wakers, and the searches that end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::batcher::request::{Kind, MOST, MOST_VALUES, Request};
use crate::future::Boxed;

/// Blocking callers that one of them wakes. A thread takes some microseconds to wake another.
const WOKEN_BY_ONE: usize = 8;

/// The search of a batch; none before its leader has made it, and when it is done.
pub(super) type Batch<A> = Arc<Mutex<Option<Boxed<'static, Vec<A>>>>>;

/// The requests of an index.
pub(super) struct Queue<K, A> {
    /// The slots: the most searches in flight.
    most: usize,
    /// Queries of the requests that wait.
    waiting: usize,
    /// By the numbers of the waiters, the oldest first.
    entries: BTreeMap<u64, Entry<K, A>>,
    /// Searches that are not done: those in flight, and few beside.
    running: Vec<Running<A>>,
    /// The number of the last entry.
    last: u64,
}

/// What the queue knows of a waiter.
struct Entry<K, A> {
    /// That of the last poll, until it is woken.
    waker: Option<Waker>,
    is_blocking: bool,
    stage: Stage<K, A>,
}

/// How far a caller's search is.
enum Stage<K, A> {
    Waits(Request<K>),
    /// Part of this search.
    Runs(u64),
    /// With the waiters who have their answers too, and whom this one wakes, so that one caller need not wake everybody.
    Answered(A, Vec<u64>),
    /// The batch failed: the caller searches by itself.
    Failed,
}

struct Running<A> {
    /// The number of the waiter who started it.
    search: u64,
    queries: usize,
    has_slot: bool,
    /// Whether what the search waits for has happened since it was last polled.
    is_woken: bool,
    /// Who may drive the search on: the blocking call that leads, whose thread polls the device, or else everybody.
    drivers: Vec<u64>,
    /// Whose answers a batch has, in this order.
    waiters: Vec<u64>,
    batch: Batch<A>,
}

/// What a waiter does next.
pub(super) enum Turn<K, A> {
    Waits,
    /// Makes the search of these requests.
    Leads(Vec<Request<K>>, Batch<A>),
    /// Drives this search on.
    Drives(u64, Batch<A>),
    /// None when the batch failed.
    Ends(Option<A>),
}

impl<K: Kind, A> Queue<K, A> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: 0, entries: BTreeMap::new(), running: vec![], last: 0 }
    }

    /// Whether a search may start, with `more` queries beside those that wait.
    ///
    /// A search beside one in flight hides the host's work behind the device's. It has to be as large as the one in flight: otherwise
    /// the first caller to come back from a batch would start alone, and batches would never grow.
    fn has_room(&self, more: usize) -> bool {
        let in_flight = self.running.iter().filter(|running| running.has_slot);
        let (searches, queries) = (in_flight.clone().count(), in_flight.map(|running| running.queries).sum());
        searches == 0 || searches < self.most && self.waiting + more >= queries
    }

    /// Starts a search without waiting, if nobody waits and there is a slot. Returns the caller's number.
    pub(super) fn start(&mut self, queries: usize) -> Option<u64> {
        if self.waiting > 0 || !self.has_room(queries) {
            return None;
        }
        let number = self.enter(false, Stage::Runs(self.last + 1));
        self.run(number, queries, vec![number], vec![]);
        Some(number)
    }

    /// Takes a request that waits. Returns the caller's number.
    pub(super) fn push(&mut self, request: Request<K>) -> u64 {
        self.waiting += request.queries;
        self.enter(request.is_blocking, Stage::Waits(request))
    }

    fn enter(&mut self, is_blocking: bool, stage: Stage<K, A>) -> u64 {
        self.last += 1;
        self.entries.insert(self.last, Entry { waker: None, is_blocking, stage });
        self.last
    }

    fn run(&mut self, search: u64, queries: usize, drivers: Vec<u64>, waiters: Vec<u64>) -> Batch<A> {
        let batch = Batch::default();
        let running = Running {
            search,
            queries,
            has_slot: true,
            is_woken: false,
            drivers,
            waiters,
            batch: batch.clone(),
        };
        self.running.push(running);
        batch
    }

    fn running(&self, search: u64) -> Option<&Running<A>> {
        self.running.iter().find(|running| running.search == search)
    }

    fn running_mut(&mut self, search: u64) -> Option<&mut Running<A>> {
        self.running.iter_mut().find(|running| running.search == search)
    }

    /// The wakers of these callers.
    fn wakers(&mut self, numbers: &[u64]) -> Vec<Waker> {
        numbers.iter().filter_map(|number| self.entries.get_mut(number)?.waker.take()).collect()
    }

    /// The requests that wait, the oldest first.
    fn requests(&self) -> impl Iterator<Item = (u64, &Request<K>)> {
        self.entries.iter().filter_map(|(&number, entry)| match &entry.stage {
            Stage::Waits(request) => Some((number, request)),
            _ => None,
        })
    }

    /// The blocking call that is asked first: one of the kind that waits longest.
    fn first_asked(&self) -> Option<(u64, &Request<K>)> {
        let (_, oldest) = self.requests().next()?;
        self.requests().find(|(_, request)| request.kind == oldest.kind && request.is_blocking)
    }

    /// The wakers of those who are to take the lead next: one whose thread is sure to run or, where there is none with the kind of the
    /// oldest, all who wait. None without a slot.
    fn next(&mut self) -> Vec<Waker> {
        if self.waiting == 0 || !self.has_room(0) {
            return vec![];
        }
        let asked = match self.first_asked() {
            Some((first, _)) => vec![first],
            None => self.requests().map(|(number, _)| number).collect(),
        };
        self.wakers(&asked)
    }

    /// What a caller does next, and whom it wakes before. Exchanges its waker first, if there is one, so that no change goes unnoticed.
    pub(super) fn turn(&mut self, number: u64, waker: &mut Option<Waker>) -> (Turn<K, A>, Vec<Waker>) {
        let Some(entry) = self.entries.get_mut(&number) else { return (Turn::Waits, vec![]) };
        if waker.is_some() {
            std::mem::swap(&mut entry.waker, waker);
        }
        match &entry.stage {
            Stage::Waits(_) => (self.lead(number).unwrap_or(Turn::Waits), self.next()),
            &Stage::Runs(search) => {
                let running = self.running(search).filter(|running| running.drivers.contains(&number));
                let turn = running.map(|running| Turn::Drives(search, running.batch.clone()));
                (turn.unwrap_or(Turn::Waits), vec![])
            }
            Stage::Answered(..) | Stage::Failed => match std::mem::replace(&mut entry.stage, Stage::Failed) {
                Stage::Answered(answer, others) => (Turn::Ends(Some(answer)), self.wakers(&others)),
                _ => (Turn::Ends(None), vec![]),
            },
        }
    }

    /// Starts a search for this caller and the oldest others who wait with one of its kind, as many as a batch holds. None without a
    /// slot. A blocking call with the kind of the oldest goes before callers of other kinds; a future does not, because nobody may be
    /// polling it.
    fn lead(&mut self, leader: u64) -> Option<Turn<K, A>> {
        let Stage::Waits(own) = &self.entries.get(&leader)?.stage else { return None };
        let (kind, is_blocking) = (own.kind, own.is_blocking);
        if !self.has_room(0) || self.first_asked().is_some_and(|(_, first)| first.kind != kind) {
            return None;
        }
        let (mut queries, mut values) = (own.queries, own.values.len());
        let (mut members, mut requests) = (vec![], vec![]);
        for (&number, entry) in &mut self.entries {
            let Stage::Waits(request) = &entry.stage else { continue };
            if number != leader {
                let more = (queries + request.queries, values + request.values.len());
                if request.kind != kind || more.0 > MOST || more.1 > MOST_VALUES {
                    continue;
                }
                (queries, values) = more;
            }
            members.push(number);
            if let Stage::Waits(request) = std::mem::replace(&mut entry.stage, Stage::Runs(leader)) {
                requests.push(request);
            }
        }
        self.waiting -= queries;
        let drivers = if is_blocking { vec![leader] } else { members.clone() };
        Some(Turn::Leads(requests, self.run(leader, queries, drivers, members)))
    }

    /// Notes that a search is about to be polled, and exchanges the waker of a caller who searches alone.
    pub(super) fn before_poll(&mut self, search: u64, waker: Option<&mut Option<Waker>>) {
        self.running_mut(search).into_iter().for_each(|running| running.is_woken = false);
        if let (Some(entry), Some(waker)) = (self.entries.get_mut(&search), waker) {
            std::mem::swap(&mut entry.waker, waker);
        }
    }

    /// Notes that a search was polled and is not done. Whether it can go on already.
    pub(super) fn after_poll(&mut self, search: u64) -> bool {
        // If it cannot, the device has more to do for it.
        self.running_mut(search).is_some_and(|running| {
            running.has_slot |= !running.is_woken;
            running.is_woken
        })
    }

    /// Notes that the device is done with a search. Those who wait longest are woken first: the next search starts while this one's
    /// answers are read.
    pub(super) fn wake(&mut self, search: u64) -> Vec<Waker> {
        let Some(running) = self.running_mut(search) else { return vec![] };
        running.is_woken = true;
        let drivers = running.drivers.clone();
        let mut wakers = self.release(search);
        wakers.extend(self.wakers(&drivers));
        wakers
    }

    /// Gives the slot of a search to whoever is next.
    fn release(&mut self, search: u64) -> Vec<Waker> {
        let had_slot = self.running_mut(search).is_some_and(|running| std::mem::take(&mut running.has_slot));
        if had_slot { self.next() } else { vec![] }
    }

    /// Ends a search: its waiters have these answers, or none where the search failed. All but `by` are woken.
    pub(super) fn end(&mut self, search: u64, answers: Vec<A>, by: Option<u64>) -> Vec<Waker> {
        let mut wakers = self.release(search);
        let Some(place) = self.running.iter().position(|running| running.search == search) else {
            return wakers;
        };
        let running = self.running.swap_remove(place);
        let (mut threads, mut others, mut answers) = (vec![], vec![], answers.into_iter());
        for number in running.waiters {
            let answer = answers.next();
            // A caller that was dropped since then gets nothing.
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            match entry.is_blocking && answer.is_some() {
                _ if by == Some(number) => {}
                true => threads.push(number),
                false => others.push(number),
            }
            entry.stage = answer.map_or(Stage::Failed, |answer| Stage::Answered(answer, vec![]));
        }
        for threads in threads.chunks(WOKEN_BY_ONE) {
            let woken = self.entries.get_mut(&threads[0]).map(|first| &mut first.stage);
            if let Some(Stage::Answered(_, woken)) = woken {
                woken.extend_from_slice(&threads[1..]);
            }
            wakers.extend(self.wakers(&threads[..1]));
        }
        wakers.extend(self.wakers(&others));
        wakers
    }

    /// Removes a caller, and its search if nobody is left to drive it. What was removed is to be dropped without the lock.
    pub(super) fn leave(&mut self, number: u64) -> (Vec<Waker>, impl Sized + use<K, A>) {
        let entry = self.entries.remove(&number);
        let (mut wakers, mut batch) = (vec![], None);
        match entry.as_ref().map(|entry| &entry.stage) {
            Some(Stage::Waits(request)) => {
                self.waiting -= request.queries;
                wakers = self.next();
            }
            Some(&Stage::Runs(search)) => {
                let running = self.running(search);
                let abandoned = running
                    .filter(|running| !running.drivers.iter().any(|one| self.entries.contains_key(one)));
                if let Some(running) = abandoned {
                    batch = Some(running.batch.clone());
                    wakers = self.end(search, vec![], None);
                }
            }
            Some(Stage::Answered(_, others)) => wakers = self.wakers(others),
            Some(Stage::Failed) | None => {}
        }
        (wakers, (entry, batch))
    }
}
