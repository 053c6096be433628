//! Threads that are inside of a blocking call, and what such a call waits for.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::error::Result;
use crate::interrupt;
use crate::platform::{CAN_WAIT, poll_once};

thread_local! {
    /// Whether this thread is inside of a blocking call.
    static IS_BLOCKED: Cell<bool> = const { Cell::new(false) };
    /// The blocking call that this thread is inside of, if it polls a device.
    pub(super) static POLLING: RefCell<Option<Arc<Parked>>> = const { RefCell::new(None) };
}

/// A blocking call.
#[derive(Debug)]
pub(super) struct Parked {
    /// The devices that the call polls, by the addresses of their waiters.
    pub(super) waiters: Vec<usize>,
    pub(super) thread: Thread,
    pub(super) woken: AtomicBool,
    /// Callbacks that this call's future waits for: the call polls the device for them, and for no others, because threads that
    /// poll hold each other up.
    pub(super) owed: AtomicUsize,
    /// The submission that is waited for; without one, the latest.
    pub(super) awaited: Mutex<Option<wgpu::SubmissionIndex>>,
    /// Whether the call has submitted work since it last waited for a submission.
    pub(super) is_ahead: AtomicBool,
}

impl Parked {
    /// For a call on this thread.
    pub(super) fn new(waiters: Vec<usize>) -> Self {
        Self {
            waiters,
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
            owed: AtomicUsize::new(0),
            awaited: Mutex::new(None),
            is_ahead: AtomicBool::new(false),
        }
    }

    /// Polls the call's future, which may ask whether the call is to end.
    pub(super) fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        let _armed = interrupt::armed();
        future.poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Marks this thread as blocked, until it is dropped.
pub(super) struct Blocked {
    was_blocked: bool,
    was_polling: Option<Arc<Parked>>,
}

impl Blocked {
    pub(super) fn new(polling: Option<Arc<Parked>>) -> Self {
        Self { was_blocked: IS_BLOCKED.replace(true), was_polling: POLLING.replace(polling) }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        IS_BLOCKED.set(self.was_blocked);
        POLLING.set(self.was_polling.take());
    }
}

/// Whether this thread is inside of a blocking call: it does nothing else until the call's future is ready.
pub(crate) fn is_blocked() -> bool {
    IS_BLOCKED.get()
}

/// Waits for futures that need no device, or one that is still to be opened.
pub(crate) struct NoDevice;

impl NoDevice {
    /// Runs a future to its end on this thread, or drops it where the caller asks the call to end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        if !CAN_WAIT {
            return poll_once(future);
        }
        let Some(patience) = interrupt::patience() else { return self.complete(future) };
        let parked = Arc::new(Parked::new(vec![]));
        let _blocked = Blocked::new(None);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = parked.poll(future.as_mut()) {
                return value;
            }
            while !parked.woken.swap(false, Ordering::AcqRel) {
                interrupt::check_waiting()?;
                std::thread::park_timeout(patience);
            }
        }
    }

    /// Runs a future that cannot fail to its end on this thread.
    pub(crate) fn complete<T>(&self, future: impl Future<Output = T>) -> T {
        let _blocked = Blocked::new(None);
        pollster::block_on(future)
    }
}
