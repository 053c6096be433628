//! Waiting for the device: blocking calls poll it themselves, and one thread for each device polls it for futures.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::adapter::AdapterKind;

thread_local! {
    /// Whether this thread is inside [`Waiter::block_on`] and so polls the device itself.
    static POLLS_ITSELF: Cell<bool> = const { Cell::new(false) };
    /// The submission that this thread's future waits for; without one, the latest.
    static AWAITED: RefCell<Option<wgpu::SubmissionIndex>> = const { RefCell::new(None) };
}

/// Pause between two polls of a device that has nothing to do.
const IDLE_PAUSE: Duration = Duration::from_millis(2);

/// How long a blocking call polls before it lets the driver put it to sleep. Waking up takes 0.05 to 0.5 ms, and the times of short
/// calls vary by as much; longer calls do not notice.
const SPIN: Duration = Duration::from_millis(2);

/// Waits for the work of one device.
#[derive(Debug)]
pub(super) struct Waiter {
    device: wgpu::Device,
    /// None on a software adapter, whose work this processor does itself.
    spin: Duration,
    /// Callbacks that the device still owes.
    owed: AtomicUsize,
    /// The callbacks among them that no blocking call polls for.
    background: Arc<Background>,
}

#[derive(Debug, Default)]
struct Background {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    started: bool,
    closed: bool,
}

/// Waits for futures that need no device, or one that is still to be opened.
pub(crate) struct NoDevice;

impl NoDevice {
    /// Runs a future to its end on this thread.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        pollster::block_on(future)
    }
}

impl Waiter {
    pub(super) fn new(device: wgpu::Device, kind: AdapterKind) -> Self {
        let spin = if kind == AdapterKind::Software { Duration::ZERO } else { SPIN };
        Self { device, spin, owed: AtomicUsize::new(0), background: Arc::default() }
    }

    /// Runs a future of this crate to its end on this thread.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        struct Parked {
            thread: Thread,
            woken: AtomicBool,
        }
        impl Wake for Parked {
            fn wake(self: Arc<Self>) {
                self.woken.store(true, Ordering::Release);
                self.thread.unpark();
            }
        }
        /// Restores the flag also when the future panics.
        struct Restore(bool);
        impl Drop for Restore {
            fn drop(&mut self) {
                POLLS_ITSELF.set(self.0);
            }
        }
        let _restore = Restore(POLLS_ITSELF.replace(true));
        let parked = Arc::new(Parked { thread: std::thread::current(), woken: AtomicBool::new(false) });
        let waker = Waker::from(parked.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            // Once for each time that the future waits.
            let mut spin = self.spin;
            while !parked.woken.swap(false, Ordering::AcqRel) {
                if self.owed.load(Ordering::Acquire) > 0 {
                    let started = Instant::now();
                    while started.elapsed() < spin && !parked.woken.load(Ordering::Acquire) {
                        let _ = self.device.poll(wgpu::PollType::Poll);
                        std::thread::yield_now();
                    }
                    spin = Duration::ZERO;
                    if parked.woken.load(Ordering::Acquire) {
                        continue;
                    }
                    // A failed poll shows as an error of the mapping that is waited for.
                    let submission_index = AWAITED.with_borrow(Clone::clone);
                    let _ = self.device.poll(wgpu::PollType::Wait { submission_index, timeout: None });
                    if parked.woken.load(Ordering::Acquire) {
                        continue;
                    }
                    // Somebody else's callback: their thread has to run before anything here can change.
                    std::thread::park_timeout(Duration::from_micros(200));
                } else {
                    std::thread::park_timeout(Duration::from_millis(10));
                }
            }
        }
    }

    /// Notes that a future waits for a callback of the device, until the guard is dropped. With a submission, later
    /// submissions are not waited for.
    pub(super) fn expect_callback(self: &Arc<Self>, submission: Option<wgpu::SubmissionIndex>) -> Expecting {
        self.owed.fetch_add(1, Ordering::AcqRel);
        let in_background = !POLLS_ITSELF.get();
        if !in_background {
            AWAITED.set(submission);
        } else {
            let mut state = self.background.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.waiting += 1;
            if !state.started {
                state.started = true;
                let (device, background) = (self.device.clone(), self.background.clone());
                let thread = std::thread::Builder::new().name("nearfield-poll".into());
                // Without a thread, the next call that polls the device resolves the futures.
                let _ = thread.spawn(move || background.run(&device));
            }
            self.background.changed.notify_one();
        }
        Expecting { waiter: self.clone(), in_background }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.background.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.background.changed.notify_all();
    }
}

impl Background {
    fn run(&self, device: &wgpu::Device) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while state.waiting == 0 && !state.closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed {
                return;
            }
            drop(state);
            let polled = device.poll(wgpu::PollType::wait_indefinitely());
            if !matches!(polled, Ok(status) if !status.is_queue_empty()) {
                // Nothing is in flight: the woken futures have yet to run. A future that nobody polls must not keep this
                // thread busy.
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                drop(self.changed.wait_timeout(state, IDLE_PAUSE).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

/// While this lives, the device is polled.
#[derive(Debug)]
pub(super) struct Expecting {
    waiter: Arc<Waiter>,
    in_background: bool,
}

impl Drop for Expecting {
    fn drop(&mut self) {
        self.waiter.owed.fetch_sub(1, Ordering::AcqRel);
        if !self.in_background {
            AWAITED.set(None);
        } else {
            let background = &self.waiter.background;
            background.state.lock().unwrap_or_else(PoisonError::into_inner).waiting -= 1;
        }
    }
}
