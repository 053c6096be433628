//! Callers against a device that is done with a search when the test says so.

mod faults;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::batcher::queue::Queue;
use crate::batcher::waiter::Waiter;
use crate::batcher::{Batcher, Request};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::lock::lock;

/// A search with this among its queries fails.
const WRONG: f32 = -1.0;
/// A search with this among its queries panics, unless it is searched for alone.
const PANICS: f32 = -2.0;

/// A search that the device was given.
#[derive(Default)]
struct Job {
    queries: Vec<f32>,
    is_done: bool,
    is_dropped: bool,
    waker: Option<Waker>,
}

#[derive(Clone, Default)]
struct Device(Arc<Mutex<Vec<Job>>>);

/// Marks a job as dropped.
struct Dropping<'d>(&'d Device, usize);

impl Drop for Dropping<'_> {
    fn drop(&mut self) {
        lock(&self.0.0)[self.1].is_dropped = true;
    }
}

impl Device {
    /// Searches: the answer to a query is a half more.
    async fn work(&self, queries: Vec<f32>) -> Result<Vec<f32>> {
        let number = {
            let mut jobs = lock(&self.0);
            jobs.push(Job { queries: queries.clone(), ..Job::default() });
            jobs.len() - 1
        };
        let _dropping = Dropping(self, number);
        poll_fn(|context| {
            let job = &mut lock(&self.0)[number];
            job.waker = Some(context.waker().clone());
            if job.is_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if queries.contains(&WRONG) {
            return Err(Error::argument("queries", "right ones", WRONG));
        }
        Ok(queries.iter().map(|query| query + 0.5).collect())
    }

    /// The device is done with a job.
    fn finish(&self, number: usize) {
        let waker = {
            let job = &mut lock(&self.0)[number];
            job.is_done = true;
            job.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// The queries of all jobs.
    fn jobs(&self) -> Vec<Vec<f32>> {
        lock(&self.0).iter().map(|job| job.queries.clone()).collect()
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

type Answer = Result<Vec<f32>>;

/// A caller's future, and how often it was woken.
struct Task<'t> {
    future: Pin<Box<dyn Future<Output = Answer> + Send + 't>>,
    wakes: Arc<Wakes>,
}

impl Task<'_> {
    fn poll(&mut self) -> Poll<Answer> {
        self.wakes.0.store(0, Ordering::SeqCst);
        self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(self.wakes.clone())))
    }

    /// Polls the task if it was woken, as an executor does.
    fn run(&mut self) -> Option<Vec<f32>> {
        if !self.is_woken() {
            return None;
        }
        match self.poll() {
            Poll::Ready(answer) => Some(answer.expect("an answer")),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.wakes.0.load(Ordering::SeqCst) > 0
    }
}

/// The callers of an index, and what computes for them.
struct Index {
    batcher: Batcher<u32, Vec<f32>>,
    device: Device,
}

impl Index {
    fn new(most: usize) -> Self {
        Self { batcher: Batcher::new(most), device: Device::default() }
    }

    async fn search(&self, kind: u32, values: Vec<f32>, is_blocking: bool) -> Answer {
        let request = || Some(Request { kind, queries: values.len(), values: values.clone(), is_blocking });
        let run = |_: u32, values: Vec<f32>, counts: Vec<usize>| {
            let device = self.device.clone();
            Box::pin(async move {
                assert!(!values.contains(&PANICS), "a search that panics");
                let answers = device.work(values).await?;
                let mut answers = answers.into_iter();
                Ok(counts.iter().map(|&count| answers.by_ref().take(count).collect()).collect())
            }) as Boxed<'static, Vec<Vec<f32>>>
        };
        self.batcher.search(values.len(), request, self.device.work(values.clone()), &run).await
    }

    /// A caller that was polled once.
    fn started(&self, kind: u32, values: &[f32], is_blocking: bool) -> Task<'_> {
        let future = Box::pin(self.search(kind, values.to_vec(), is_blocking));
        let mut task = Task { future, wakes: Arc::default() };
        assert!(task.poll().is_pending());
        task
    }

    fn asynchronous(&self, value: f32) -> Task<'_> {
        self.started(0, &[value], false)
    }

    fn blocking(&self, value: f32) -> Task<'_> {
        self.started(0, &[value], true)
    }
}

#[test]
fn a_search_that_finds_no_other_starts_at_once_and_alone() {
    let index = Index::new(1);
    for number in 0..3 {
        let mut task = index.asynchronous(7.0);
        assert_eq!(index.device.jobs().len(), number + 1);
        index.device.finish(number);
        assert_eq!(task.run(), Some(vec![7.5]));
    }
}

#[test]
fn those_who_wait_are_searched_together_and_each_has_its_answers() {
    let index = Index::new(1);
    let mut first = index.asynchronous(1.0);
    let mut others: Vec<Task<'_>> =
        [&[2.0][..], &[3.0, 4.0], &[5.0]].iter().map(|&values| index.started(0, values, false)).collect();
    index.device.finish(0);
    assert_eq!(first.run(), Some(vec![1.5]));
    assert_eq!(others[1].run(), None, "it leads");
    assert_eq!(index.device.jobs(), [vec![1.0], vec![2.0, 3.0, 4.0, 5.0]]);
    index.device.finish(1);
    let answers: Vec<Option<Vec<f32>>> = others.iter_mut().map(Task::run).collect();
    assert_eq!(answers, [Some(vec![2.5]), Some(vec![3.5, 4.5]), Some(vec![5.5])]);
}

#[test]
fn the_next_search_starts_when_the_device_is_done_although_the_last_was_not_polled_again() {
    let index = Index::new(1);
    let mut suspended = index.asynchronous(1.0);
    let mut next = index.asynchronous(2.0);
    index.device.finish(0);
    assert_eq!(next.run(), None);
    assert_eq!(index.device.jobs().len(), 2, "it started");
    index.device.finish(1);
    assert_eq!(next.run(), Some(vec![2.5]));
    assert_eq!(suspended.run(), Some(vec![1.5]));
}

#[test]
fn a_second_search_starts_beside_one_that_is_no_larger() {
    let index = Index::new(2);
    let mut first = index.started(0, &[1.0, 2.0], false);
    let mut second = index.asynchronous(3.0);
    assert_eq!(index.device.jobs().len(), 1, "one query waits for the two");
    let mut third = index.asynchronous(4.0);
    assert_eq!(index.device.jobs().len(), 2, "two queries do not");
    let mut fourth = index.started(0, &[5.0; 9], false);
    assert_eq!(index.device.jobs().len(), 2, "two searches are in flight");
    index.device.finish(1);
    assert_eq!((second.run(), third.run()), (Some(vec![3.5]), Some(vec![4.5])));
    assert_eq!((fourth.run(), index.device.jobs().len()), (None, 3));
    index.device.finish(0);
    index.device.finish(2);
    assert_eq!((first.run(), fourth.run()), (Some(vec![1.5, 2.5]), Some(vec![5.5; 9])));
}

#[test]
fn searches_of_other_kinds_form_batches_of_their_own_oldest_first() {
    let index = Index::new(1);
    let mut tasks = vec![index.asynchronous(0.0)];
    tasks.extend(
        [(7, 1.0), (8, 2.0), (7, 3.0), (8, 4.0)].map(|(kind, value)| index.started(kind, &[value], false)),
    );
    for job in 0..3 {
        index.device.finish(job);
        tasks.iter_mut().for_each(|task| drop(task.run()));
    }
    assert_eq!(index.device.jobs(), [vec![0.0], vec![1.0, 3.0], vec![2.0, 4.0]]);
}

#[test]
fn a_batch_has_a_limit_and_the_rest_comes_next() {
    let index = Index::new(1);
    let mut tasks = vec![index.asynchronous(0.0)];
    tasks.extend((0..9).map(|task| index.started(0, &[task as f32; 200], false)));
    let mut answered = 0;
    for job in 0..3 {
        index.device.finish(job);
        tasks.iter_mut().for_each(|task| answered += usize::from(task.run().is_some()));
    }
    assert_eq!(answered, 10);
    let lengths: Vec<usize> = index.device.jobs().iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 1000, 800]);
}

#[test]
fn long_queries_make_batches_of_fewer() {
    let mut queue = Queue::<u32, ()>::new(1);
    let waiters: Vec<_> = (0..6)
        .map(|_| {
            let values = vec![0.0; 1_000_000];
            Arc::new(Waiter::new(Request { kind: 0, values, queries: 1, is_blocking: false }))
        })
        .collect();
    waiters.iter().for_each(|waiter| queue.push(waiter.clone()));
    let first = queue.lead(&waiters[5]).expect("there is room");
    let slots: Vec<usize> =
        first.iter().filter_map(|one| waiters.iter().position(|waiter| Arc::ptr_eq(one, waiter))).collect();
    assert_eq!(slots, [0, 1, 2, 5], "the oldest, and the one who leads");
    assert!(queue.lead(&waiters[3]).is_none(), "there is no room");
    queue.end(4);
    assert_eq!(queue.lead(&waiters[3]).expect("there is room").len(), 2);
}

#[test]
fn a_blocking_call_is_asked_to_lead_before_futures() {
    let index = Index::new(1);
    let _first = index.asynchronous(1.0);
    let (mut future, mut blocked) = (index.asynchronous(2.0), index.blocking(3.0));
    index.device.finish(0);
    assert!(!future.is_woken() && blocked.is_woken());
    assert_eq!(blocked.run(), None);
    assert_eq!(index.device.jobs().len(), 2);
    // Its search is its own to drive.
    assert!(future.poll().is_pending());
    index.device.finish(1);
    assert!(!future.is_woken(), "the blocking call goes on");
    assert_eq!((blocked.run(), future.run()), (Some(vec![3.5]), Some(vec![2.5])));
}

/// The lead goes to another, of the same kind or not.
#[test]
fn a_waiting_future_that_does_not_take_an_offered_lead_holds_up_nobody() {
    for kinds in [[0, 0], [7, 8]] {
        let index = Index::new(1);
        let _first = index.asynchronous(1.0);
        let (mut suspended, mut other) =
            (index.started(kinds[0], &[2.0], false), index.started(kinds[1], &[3.0], false));
        index.device.finish(0);
        assert_eq!(other.run(), None);
        index.device.finish(1);
        assert_eq!(other.run(), Some(vec![3.5]));
        if kinds[0] != kinds[1] {
            assert_eq!(suspended.run(), None);
            index.device.finish(2);
        }
        assert_eq!(suspended.run(), Some(vec![2.5]));
        assert_eq!(index.device.jobs().len(), if kinds[0] == kinds[1] { 2 } else { 3 });
    }
}

#[test]
fn a_leader_that_is_not_polled_again_holds_up_nobody() {
    let index = Index::new(1);
    let _first = index.asynchronous(1.0);
    let mut leader = index.asynchronous(2.0);
    let mut others = [index.asynchronous(3.0), index.blocking(4.0)];
    index.device.finish(0);
    assert!(leader.poll().is_pending(), "it leads");
    index.device.finish(1);
    assert_eq!(others[0].run(), Some(vec![3.5]));
    assert_eq!(others[1].run(), Some(vec![4.5]));
    assert_eq!(index.device.jobs().len(), 2, "nothing was searched for twice");
    assert_eq!(leader.run(), Some(vec![2.5]));
}
