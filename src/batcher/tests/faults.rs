//! Callers that are dropped, that fail and that panic.

use super::*;

#[test]
fn a_dropped_future_leaves_the_others_alone_wherever_it_was() {
    // Who is dropped, and whether the device was done by then.
    for (dropped, is_done) in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
        let index = Index::new(1);
        let mut tasks: Vec<Option<Task<'_>>> =
            (0..4).map(|task| Some(index.asynchronous(task as f32))).collect();
        if dropped > 0 {
            index.device.finish(0);
            let leader = tasks[1].as_mut().expect("it is there");
            assert!(leader.poll().is_pending() && index.device.jobs().len() == 2);
            if is_done {
                index.device.finish(1);
            }
        }
        tasks[dropped] = None;
        for job in 0..3 {
            if job < index.device.jobs().len() {
                index.device.finish(job);
            }
            for (value, task) in tasks.iter_mut().enumerate() {
                if let Some(answer) = task.as_mut().and_then(Task::run) {
                    assert_eq!(answer, [value as f32 + 0.5]);
                    *task = None;
                }
            }
        }
        assert!(tasks.iter().all(Option::is_none), "task {dropped} was dropped, and another hangs");
        assert_eq!(index.device.jobs().len(), 2, "nothing was searched for twice");
    }
}

#[test]
fn a_future_that_is_dropped_while_it_waits_is_not_searched_for() {
    let index = Index::new(1);
    let mut first = index.asynchronous(1.0);
    let (second, mut third) = (index.asynchronous(2.0), index.asynchronous(3.0));
    // The lead is offered to a blocking call, which cannot be dropped; a future's goes to another when it is dropped.
    index.device.finish(0);
    assert!(second.is_woken());
    drop(second);
    assert_eq!((third.run(), first.run()), (None, Some(vec![1.5])));
    assert_eq!(index.device.jobs()[1], [3.0]);
    index.device.finish(1);
    assert_eq!(third.run(), Some(vec![3.5]));
}

#[test]
fn a_search_goes_with_the_last_of_its_callers() {
    let index = Index::new(1);
    let first = index.asynchronous(1.0);
    let (mut second, third) = (index.asynchronous(2.0), index.asynchronous(3.0));
    index.device.finish(0);
    assert!(second.poll().is_pending());
    let is_dropped = || lock(&index.device.0)[1].is_dropped;
    drop(second);
    assert!(!is_dropped());
    drop(third);
    assert!(is_dropped());
    // The slot is free again.
    drop(first);
    let mut next = index.asynchronous(4.0);
    index.device.finish(2);
    assert_eq!(next.run(), Some(vec![4.5]));
}

#[test]
fn members_of_a_batch_that_fails_search_by_themselves() {
    let index = Index::new(1);
    let _first = index.asynchronous(1.0);
    let (mut second, mut wrong) = (index.blocking(2.0), index.asynchronous(WRONG));
    index.device.finish(0);
    assert_eq!(second.run(), None);
    index.device.finish(1);
    assert_eq!((second.run(), wrong.run()), (None, None));
    assert_eq!(index.device.jobs().len(), 4);
    index.device.finish(2);
    index.device.finish(3);
    assert_eq!(second.run(), Some(vec![2.5]));
    assert!(matches!(wrong.poll(), Poll::Ready(Err(Error::Argument { .. }))));
}

#[test]
fn members_of_a_batch_that_panics_search_by_themselves() {
    for is_blocking in [false, true] {
        let index = Index::new(1);
        let _first = index.asynchronous(1.0);
        let (mut leader, mut other) = (index.started(0, &[PANICS], is_blocking), index.blocking(3.0));
        index.device.finish(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| leader.poll()));
        assert!(panicked.is_err());
        drop(leader);
        assert_eq!(other.run(), None);
        index.device.finish(1);
        assert_eq!(other.run(), Some(vec![3.5]));
        let mut next = index.asynchronous(4.0);
        index.device.finish(2);
        assert_eq!(next.run(), Some(vec![4.5]), "its slot is free again");
    }
}

/// A blocking call is dropped before its end only if its thread unwinds.
#[test]
fn a_blocking_leader_that_unwinds_leaves_the_others_alone() {
    let index = Index::new(1);
    let _first = index.asynchronous(1.0);
    let (mut leader, mut others) = (index.blocking(2.0), [index.asynchronous(3.0), index.blocking(4.0)]);
    index.device.finish(0);
    assert_eq!(leader.run(), None);
    assert_eq!(index.device.jobs().len(), 2, "it leads");
    drop(leader);
    assert_eq!(others.each_mut().map(|other| other.run()), [None, None]);
    (1..index.device.jobs().len()).for_each(|job| index.device.finish(job));
    assert_eq!(others.each_mut().map(|other| other.run()), [Some(vec![3.5]), Some(vec![4.5])]);
}

/// Threads with blocking calls, futures that are dropped, suspended or polled, and a device with a thread of its own.
#[test]
fn nothing_hangs_and_every_answer_is_right_under_load() {
    for most in [1, 2] {
        let index = Index::new(most);
        let (callers, searches) = (8u32, 400u32);
        let left = AtomicUsize::new(callers as usize);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut done = 0;
                while left.load(Ordering::SeqCst) > 0 {
                    match index.device.jobs().len() {
                        jobs if jobs > done => {
                            index.device.finish(done);
                            done += 1;
                        }
                        _ => std::thread::yield_now(),
                    }
                }
            });
            for caller in 0..callers {
                let (index, left) = (&index, &left);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(caller.into());
                    for search in 0..searches {
                        let values: Vec<f32> =
                            (0..random.usize(1..4)).map(|_| (search * callers + caller) as f32).collect();
                        let wanted: Vec<f32> = values.iter().map(|value| value + 0.5).collect();
                        let (kind, is_blocking) = (random.u32(0..2), caller % 2 == 0);
                        let mut future = Box::pin(index.search(kind, values.clone(), is_blocking));
                        if !is_blocking {
                            let polls = random.usize(0..3);
                            let context = &mut Context::from_waker(Waker::noop());
                            if !(0..polls).any(|_| future.as_mut().poll(context).is_ready()) {
                                std::thread::sleep(Duration::from_micros(random.u64(0..200)));
                            }
                            if random.bool() {
                                continue;
                            }
                            future = Box::pin(index.search(kind, values, false));
                        }
                        assert_eq!(pollster::block_on(future).expect("an answer"), wanted);
                    }
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        // Everything is as it was.
        let jobs = index.device.jobs();
        let is_joint = |queries: &Vec<f32>| queries.windows(2).any(|two| two[0] != two[1]);
        assert!(jobs.iter().any(is_joint), "callers were searched for together");
        let before = jobs.len();
        let mut task = index.asynchronous(1.0);
        assert_eq!(index.device.jobs().len(), before + 1);
        index.device.finish(before);
        assert_eq!(task.run(), Some(vec![1.5]));
    }
}
