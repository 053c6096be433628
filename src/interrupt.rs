//! Calls that end early because their caller asks for it.
//!
//! [`interruptible`] gives a thread a function, its hook. Blocking calls on this thread ask the hook between steps of their work, and while
//! they wait. Work that many threads share goes through [`watch`]: the caller's thread waits and asks, and the others look at a flag.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::parallel;
use crate::platform::{CAN_WAIT, Instant};

/// Time from one question to the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Multiply-adds, or numbers read, that need no question: a slow thread takes a tenth of a second for them.
const SHORT: usize = 1 << 27;

/// Values that are copied between two questions.
pub(crate) const WORK: usize = 1 << 24;

/// The function that a thread asks whether to go on.
struct Hook {
    keep_going: Box<dyn Fn() -> bool>,
    /// When it was asked last, or set.
    asked: Cell<Instant>,
    /// Whether it said that calls are to end.
    has_ended: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    NoHook,
    /// There is a hook, and no blocking call of this crate computes.
    Idle,
    /// A blocking call of this crate computes.
    Armed,
}

thread_local! {
    static HOOK: RefCell<Option<Rc<Hook>>> = const { RefCell::new(None) };
    /// Apart from the hook, because it is read between steps that take a microsecond.
    static STATE: Cell<State> = const { Cell::new(State::NoHook) };
}

/// Runs `work`, and lets blocking calls of this crate that it makes on this thread end early.
///
/// While such a call computes or waits, it asks `keep_going` about every 50 ms, on this thread; not in the first 50 ms. Once that returns
/// false it is not asked again: the call ends with [`Error::Interrupted`] as soon as it can, within some tenths of a second, and so do
/// later calls of `work` that take long. A call that was nearly done may still succeed.
///
/// An interrupted call leaves an index as a dropped future of its `_async` twin does, see there: whole, with all of the change or nothing of
/// it. The exceptions are those of the twins: a [merge](crate::Flat::merge_async) may have added some of the rows. The system may take
/// long to write a file to the disk, and a driver to compile a kernel: neither can be interrupted.
///
/// Futures (`_async`) do not ask, nor do calls on threads of a pool of rayon or on other threads that `work` starts. Inside of `work`,
/// another `interruptible` replaces `keep_going` until it returns. If `keep_going` panics, the call unwinds and leaves the index as an
/// interrupted one does.
///
/// ```
/// use nearfield::{Device, Error, Flat, Metric, interruptible};
/// use std::time::{Duration, Instant};
///
/// let mut index = Flat::builder(&Device::host(), Metric::L2, 2).build()?;
/// index.add(&[[0.0f32, 0.0], [3.0, 4.0]][..])?;
/// let end = Instant::now() + Duration::from_secs(10);
/// let found = interruptible(move || Instant::now() < end, || index.search(&[3.0f32, 3.0], 1));
/// match found {
///     Ok(found) => println!("row {}", found.row(0)[0].id),
///     Err(Error::Interrupted) => println!("no answer within ten seconds"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), Error>(())
/// ```
pub fn interruptible<T>(keep_going: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    // A thread of a pool takes up tasks of other calls while it waits for its own: those are not to end.
    if parallel::current_thread_index().is_some() {
        return work();
    }
    let (asked, has_ended) = (Cell::new(Instant::now()), Cell::new(false));
    let hook = Hook { keep_going: Box::new(keep_going), asked, has_ended };
    let _former = Former { hook: HOOK.replace(Some(Rc::new(hook))), _state: state(State::Idle) };
    work()
}

/// Puts back the hook of an outer call.
struct Former {
    hook: Option<Rc<Hook>>,
    _state: Restore,
}

impl Drop for Former {
    fn drop(&mut self) {
        // The inner hook is dropped without the borrow: what it captured may have a hook of its own.
        let _inner = HOOK.replace(self.hook.take());
    }
}

/// Puts back a thread's state.
pub(crate) struct Restore(State);

impl Drop for Restore {
    fn drop(&mut self) {
        STATE.set(self.0);
    }
}

/// Sets this thread's state until the guard is dropped.
fn state(new: State) -> Restore {
    Restore(STATE.replace(new))
}

/// Lets this thread's computations ask its hook, if it has one, until the guard is dropped: a blocking call polls its future meanwhile.
pub(crate) fn armed() -> Restore {
    // A thread with a hook may have joined a pool since.
    let may_ask = STATE.get() == State::Idle && parallel::current_thread_index().is_none();
    state(if may_ask { State::Armed } else { STATE.get() })
}

/// Keeps this thread from asking until the guard is dropped: it may run what belongs to other callers.
pub(crate) fn disarmed() -> Restore {
    state(if is_armed() { State::Idle } else { STATE.get() })
}

pub(crate) fn is_armed() -> bool {
    STATE.get() == State::Armed
}

/// How long a wait on this thread may take before it asks again; none without a hook.
pub(crate) fn patience() -> Option<Duration> {
    (STATE.get() != State::NoHook).then_some(PAUSE)
}

/// An error if this thread's hook says that its blocking calls are to end. Computations call it between their steps.
pub(crate) fn check() -> Result<()> {
    if is_armed() { ask() } else { Ok(()) }
}

/// The same for a thread that waits.
pub(crate) fn check_waiting() -> Result<()> {
    if STATE.get() == State::NoHook { Ok(()) } else { ask() }
}

#[cold]
fn ask() -> Result<()> {
    let Some(hook) = HOOK.with_borrow(Clone::clone) else { return Ok(()) };
    if !hook.has_ended.get() && hook.asked.get().elapsed() >= PAUSE {
        // Calls that the hook makes itself do not ask it.
        let _state = state(State::NoHook);
        let goes_on = (hook.keep_going)();
        hook.asked.set(Instant::now());
        hook.has_ended.set(!goes_on);
    }
    if hook.has_ended.get() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Tells the tasks of a call when to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop<'s>(Option<&'s AtomicBool>);

impl Stop<'_> {
    /// For a task that the caller's thread runs, which asks by itself, or for work so short that nobody asks.
    pub(crate) const fn here() -> Self {
        Self(None)
    }

    /// An error if the task is to end.
    pub(crate) fn check(self) -> Result<()> {
        match self.0 {
            None => check(),
            Some(ended) if ended.load(Ordering::Relaxed) => Err(Error::Interrupted),
            Some(_) => Ok(()),
        }
    }
}

/// Runs work that the pool's threads share. `operations` counts its multiply-adds, or the numbers that it reads. If this thread has a hook and
/// the work may take long, the pool runs it while this thread asks the hook. The hand-over takes some 10 us.
pub(crate) fn watch<T: Send>(
    operations: usize,
    work: impl FnOnce(Stop<'_>) -> Result<T> + Send,
) -> Result<T> {
    check()?;
    if operations <= SHORT || !is_armed() || !CAN_WAIT {
        return work(Stop::here());
    }
    let (ended, mut result) = (AtomicBool::new(false), Err(Error::Interrupted));
    let (sender, done) = channel::<()>();
    parallel::in_place_scope(|scope| {
        // The scope waits for the task, so a hook that panics has to end it.
        let _ending = Ending(&ended);
        scope.spawn(|_| {
            // Dropped at the end, also when the work panics.
            let _sender = sender;
            result = work(Stop(Some(&ended)));
        });
        while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(PAUSE) {
            if ask().is_err() {
                return;
            }
        }
    });
    result
}

/// Ends the tasks of a call when it is dropped.
struct Ending<'s>(&'s AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Computes for this long, as a blocking call does.
    fn compute(time: Duration) -> Result<()> {
        let _armed = armed();
        let end = Instant::now() + time;
        while Instant::now() < end {
            check()?;
        }
        Ok(())
    }

    fn counting(calls: &Rc<Cell<u32>>, most: u32) -> impl Fn() -> bool + 'static {
        let calls = calls.clone();
        move || {
            calls.set(calls.get() + 1);
            calls.get() < most
        }
    }

    #[test]
    fn a_hook_is_asked_every_50_ms_and_not_before() {
        let calls = Rc::new(Cell::new(0));
        interruptible(counting(&calls, 100), || compute(Duration::from_millis(20))).expect("not asked");
        assert_eq!(calls.get(), 0);
        interruptible(counting(&calls, 100), || compute(Duration::from_millis(260))).expect("asked and told");
        assert!((1..=5).contains(&calls.get()), "{} calls", calls.get());
        assert!(compute(Duration::from_millis(60)).is_ok(), "no hook is left");
    }

    #[test]
    fn a_hook_that_ended_is_not_asked_again_and_later_calls_end_too() {
        let calls = Rc::new(Cell::new(0));
        let long = Duration::from_secs(60);
        let results = interruptible(counting(&calls, 2), || [compute(long), compute(long)]);
        assert!(results.iter().all(|result| matches!(result, Err(Error::Interrupted))));
        assert_eq!(calls.get(), 2);
    }

    #[test]
    fn an_inner_hook_replaces_the_outer_one_until_it_returns_or_unwinds() {
        let (outer, inner) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let long = Duration::from_secs(60);
        interruptible(counting(&outer, 1), || {
            assert!(interruptible(counting(&inner, 2), || compute(long)).is_err());
            assert_eq!((outer.get(), inner.get()), (0, 2));
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                interruptible(|| true, || panic!("on purpose"));
            }));
            assert!(unwound.is_err());
            assert!(compute(long).is_err());
        });
        assert_eq!((outer.get(), inner.get()), (1, 2));
        assert!(HOOK.with_borrow(Option::is_none) && STATE.get() == State::NoHook);
    }

    #[test]
    fn only_a_blocking_call_asks_and_not_while_it_runs_what_is_of_others() {
        interruptible(
            || false,
            || {
                std::thread::sleep(PAUSE * 2);
                check().expect("a future's computation does not ask");
                let _armed = armed();
                {
                    let _disarmed = disarmed();
                    check().expect("another caller's future does not ask");
                }
                assert!(check().is_err());
            },
        );
    }

    #[test]
    fn work_on_the_pool_ends_and_the_callers_thread_asks() {
        let caller = std::thread::current().id();
        let asked_here = move || {
            assert_eq!(std::thread::current().id(), caller);
            false
        };
        let started = Instant::now();
        let result: Result<()> = interruptible(asked_here, || {
            let _armed = armed();
            watch(usize::MAX, |stop| {
                assert!(parallel::current_thread_index().is_some());
                loop {
                    stop.check()?;
                    std::thread::yield_now();
                }
            })
        });
        assert!(matches!(result, Err(Error::Interrupted)));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn short_work_stays_here_and_all_work_keeps_its_result_its_error_and_its_panic() {
        let caller = std::thread::current().id();
        interruptible(
            || true,
            || {
                let _armed = armed();
                let ran_on = watch(SHORT, |_| Ok(std::thread::current().id()));
                assert_eq!(ran_on.ok(), Some(caller));
                assert_eq!(watch(usize::MAX, |_| Ok(7)).ok(), Some(7));
                let error = watch(usize::MAX, |_| Err::<(), _>(Error::UnknownId { id: 3 }));
                assert!(matches!(error, Err(Error::UnknownId { id: 3 })));
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    watch(usize::MAX, |_| -> Result<()> { panic!("on purpose") })
                }));
                assert!(unwound.is_err());
                assert_eq!(watch(usize::MAX, |_| Ok(8)).ok(), Some(8), "the pool works on");
            },
        );
    }

    #[test]
    fn a_hook_that_panics_ends_the_work() {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            interruptible(
                || panic!("on purpose"),
                || {
                    let _armed = armed();
                    watch(usize::MAX, |stop| -> Result<()> {
                        loop {
                            stop.check()?;
                        }
                    })
                },
            )
        }));
        assert!(unwound.is_err());
        assert!(HOOK.with_borrow(Option::is_none) && STATE.get() == State::NoHook);
    }

    #[test]
    fn threads_of_a_pool_do_not_ask() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
        let result = pool.install(|| interruptible(|| false, || compute(PAUSE * 2)));
        assert!(result.is_ok());
    }
}
