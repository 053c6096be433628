//! Waiting for the device: blocking calls poll it themselves, and one thread for each device polls it for futures.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Poll;
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use futures_intrusive::channel::shared::{OneshotReceiver, oneshot_channel};

use super::adapter::AdapterKind;
use super::blocked::{Blocked, POLLING, Parked};
use crate::error::Result;
use crate::interrupt;
use crate::lock::lock;
use crate::platform::{CAN_WAIT, Instant, poll_once, process_id};

/// How long the thread in the background waits in the driver before it looks around.
const LOOK: Duration = Duration::from_millis(100);

/// Pause after a poll that failed.
const FAULT_PAUSE: Duration = Duration::from_millis(20);

/// How long a blocking call polls before it lets the driver put it to sleep. Waking up takes 0.05 to 0.5 ms, and the times of short
/// calls vary by as much; longer calls do not notice.
const SPIN: Duration = Duration::from_millis(2);

/// Pause between two polls of several devices whose work takes longer than that.
#[cfg(not(target_arch = "wasm32"))]
const PAUSE: Duration = Duration::from_micros(100);

/// Pieces that the device has to do when a call that may be interrupted submits another: enough to keep it busy. A software adapter takes
/// seconds for a piece.
const AHEAD: usize = 8;
const AHEAD_ON_SOFTWARE: usize = 1;

/// Waits for the work of one device.
#[derive(Debug)]
pub(super) struct Waiter {
    device: wgpu::Device,
    /// None on a software adapter, whose work this processor does itself.
    spin: Duration,
    /// Callbacks that no blocking call polls for.
    background: Arc<Background>,
    /// The last pieces of calls that may be interrupted, with the threads of these calls.
    pieces: Mutex<VecDeque<(ThreadId, wgpu::SubmissionIndex)>>,
    /// The last pieces in a browser: each is received when the device has done it.
    pieces_of_futures: Mutex<VecDeque<OneshotReceiver<()>>>,
}

#[derive(Debug, Default)]
struct Background {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    /// Counts the times that something may have come that a poll would find.
    stirred: u64,
    /// The thread that polls, and the process that it runs in.
    thread: Option<(u32, JoinHandle<()>)>,
    closed: bool,
}

impl Waiter {
    pub(super) fn new(device: wgpu::Device, kind: AdapterKind) -> Self {
        let spin = if kind == AdapterKind::Software { Duration::ZERO } else { SPIN };
        Self {
            device,
            spin,
            background: Arc::default(),
            pieces: Mutex::default(),
            pieces_of_futures: Mutex::default(),
        }
    }

    /// Where this thread may be interrupted, waits until the device has done all but the last pieces of work. Otherwise it would go on
    /// with an interrupted call's work while later calls wait.
    pub(super) fn keep_pace(&self, piece: wgpu::SubmissionIndex) -> Result<()> {
        if !interrupt::is_armed() {
            return Ok(());
        }
        let earlier = self.exchange(&self.pieces, (std::thread::current().id(), piece));
        POLLING.with_borrow(|polling| {
            if let Some(parked) = polling {
                parked.is_ahead.store(true, Ordering::Relaxed);
            }
        });
        if let Some((_, earlier)) = earlier {
            self.wait_for(Some(earlier));
        }
        interrupt::check()
    }

    /// The same in a browser, where every call is a future: it waits while the device has more than the last pieces to do, and may be
    /// dropped then.
    pub(super) async fn keep_pace_of_future(&self, queue: &wgpu::Queue) {
        let (sender, receiver) = oneshot_channel();
        queue.on_submitted_work_done(move || drop(sender.send(())));
        if let Some(earlier) = self.exchange(&self.pieces_of_futures, receiver) {
            earlier.receive().await;
        }
    }

    /// Tells this device from others. A waiter stays where it is as long as its device is in use.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Adds a piece to the last ones. Returns the earliest if there are too many then.
    fn exchange<P>(&self, pieces: &Mutex<VecDeque<P>>, piece: P) -> Option<P> {
        let most = if self.spin.is_zero() { AHEAD_ON_SOFTWARE } else { AHEAD };
        let mut pieces = lock(pieces);
        pieces.push_back(piece);
        if pieces.len() > most { pieces.pop_front() } else { None }
    }

    /// Forgets the pieces of this thread's call, whose last results have been read: to wait for each takes some 10 us.
    fn forget_pieces(&self) {
        if interrupt::patience().is_some() {
            let thread = std::thread::current().id();
            lock(&self.pieces).retain(|(of, _)| *of != thread);
        }
    }

    /// Waits in the driver until the device has done a submission, or the latest.
    ///
    /// Without a timeout: in wgpu 30 a wait that times out panics where another thread sees the submission done at that moment. A fault of the
    /// device shows where results are read.
    fn wait_for(&self, submission_index: Option<wgpu::SubmissionIndex>) {
        let _ = self.device.poll(wgpu::PollType::Wait { submission_index, timeout: None });
    }

    /// Runs a future of this crate to its end on this thread, or drops it where the caller asks the call to end.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        if !CAN_WAIT {
            return poll_once(future);
        }
        let parked = Arc::new(Parked::new(vec![self.address()]));
        let _blocked = Blocked::new(Some(parked.clone()));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = parked.poll(future.as_mut()) {
                if value.is_ok() && !parked.is_ahead.load(Ordering::Relaxed) {
                    self.forget_pieces();
                }
                return value;
            }
            // Once for each time that the future waits.
            let mut spin = self.spin;
            while !parked.woken.swap(false, Ordering::AcqRel) {
                interrupt::check_waiting()?;
                if parked.owed.load(Ordering::Acquire) > 0 {
                    let started = Instant::now();
                    while started.elapsed() < spin && !parked.woken.load(Ordering::Acquire) {
                        let _ = self.device.poll(wgpu::PollType::Poll);
                        std::thread::yield_now();
                    }
                    spin = Duration::ZERO;
                    if parked.woken.load(Ordering::Acquire) {
                        continue;
                    }
                    // A call that may be interrupted asks between pieces of work.
                    let piece = interrupt::patience().and_then(|_| lock(&self.pieces).pop_front());
                    if let Some((_, piece)) = piece {
                        self.wait_for(Some(piece));
                        continue;
                    }
                    self.wait_for(lock(&parked.awaited).clone());
                    if parked.woken.load(Ordering::Acquire) {
                        continue;
                    }
                    // Somebody else's callback: their thread has to run before anything here can change.
                    std::thread::park_timeout(Duration::from_micros(200));
                } else {
                    std::thread::park_timeout(Duration::from_millis(10));
                    // What this call waits for may wait for a callback that nobody polls for, if there is no thread for futures.
                    if !parked.woken.load(Ordering::Acquire) {
                        let _ = self.device.poll(wgpu::PollType::Poll);
                    }
                }
            }
        }
    }

    /// Runs a future that waits for several devices to its end on this thread. Asleep in the driver of one, it would not see another, so it
    /// polls all of them: for work that is short.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn block_on_all<T>(waiters: &[&Self], future: impl Future<Output = Result<T>>) -> Result<T> {
        let parked = Arc::new(Parked::new(waiters.iter().map(|waiter| waiter.address()).collect()));
        let _blocked = Blocked::new(Some(parked.clone()));
        // Software adapters need this processor for their work.
        let spin = waiters.iter().map(|waiter| waiter.spin).min().unwrap_or_default();
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = parked.poll(future.as_mut()) {
                if value.is_ok() && !parked.is_ahead.load(Ordering::Relaxed) {
                    waiters.iter().for_each(|waiter| waiter.forget_pieces());
                }
                return value;
            }
            let started = Instant::now();
            while !parked.woken.swap(false, Ordering::AcqRel) {
                interrupt::check_waiting()?;
                for waiter in waiters {
                    let _ = waiter.device.poll(wgpu::PollType::Poll);
                }
                if started.elapsed() < spin {
                    std::thread::yield_now();
                } else if !parked.woken.load(Ordering::Acquire) {
                    std::thread::park_timeout(PAUSE);
                }
            }
        }
    }

    /// Notes that a future waits for a callback of the device, until the guard is dropped. With a submission, later
    /// submissions are not waited for.
    pub(super) fn expect_callback(self: &Arc<Self>, submission: Option<wgpu::SubmissionIndex>) -> Expecting {
        // A call that polls another device would never see this callback.
        let polls = |parked: &Arc<Parked>| parked.waiters.contains(&self.address());
        let polling = POLLING.with_borrow(Clone::clone).filter(polls);
        if let Some(parked) = &polling {
            parked.owed.fetch_add(1, Ordering::AcqRel);
            // An upload waits for memory, and not for the work before it.
            if submission.is_some() {
                parked.is_ahead.store(false, Ordering::Relaxed);
            }
            *lock(&parked.awaited) = submission;
        } else {
            let mut state = lock(&self.background.state);
            state.waiting += 1;
            state.stirred += 1;
            if CAN_WAIT && state.thread.is_none() {
                let (device, background) = (self.device.clone(), self.background.clone());
                let thread = std::thread::Builder::new().name("nearfield-poll".into());
                // Without a thread, the next call that polls the device resolves the futures.
                let started = thread.spawn(move || background.run(&device));
                state.thread = started.ok().map(|thread| (process_id(), thread));
            }
            self.background.changed.notify_one();
        }
        Expecting { waiter: self.clone(), polling }
    }

    /// Notes work with a callback that a future may wait for, although its own call does not.
    pub(super) fn stir(&self) {
        lock(&self.background.state).stirred += 1;
        self.background.changed.notify_one();
    }
}

impl Drop for Waiter {
    /// Waits for the thread that polls, which would take the device down by itself: a process that ends meanwhile pulls the driver from under it.
    fn drop(&mut self) {
        let mut state = lock(&self.background.state);
        state.closed = true;
        let thread = state.thread.take();
        drop(state);
        self.background.changed.notify_all();
        // A forked process has no such thread. The thread itself, if it drops the device, ends soon.
        let is_other = |(process, thread): &(u32, JoinHandle<()>)| {
            *process == process_id() && thread.thread().id() != std::thread::current().id()
        };
        if let Some((_, thread)) = thread.filter(is_other) {
            // A panic was the thread's own.
            let _ = thread.join();
        }
    }
}

impl Background {
    fn run(&self, device: &wgpu::Device) {
        loop {
            let mut state = lock(&self.state);
            while state.waiting == 0 && !state.closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed {
                return;
            }
            let stirred = state.stirred;
            drop(state);
            // Looks now and then whether the device is dropped.
            let polled = device.poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(LOOK) });
            if matches!(polled, Err(wgpu::PollError::Timeout)) {
                continue;
            }
            if polled.is_err() {
                // A lost device resolves its futures by itself. Should it recover, they are polled for again.
                let state = lock(&self.state);
                drop(self.changed.wait_timeout(state, FAULT_PAUSE).unwrap_or_else(PoisonError::into_inner));
            } else if !matches!(polled, Ok(status) if !status.is_queue_empty()) {
                // Nothing is in flight: the woken futures have yet to run. A future that nobody polls must not keep this
                // thread in the driver, which a process that ends would pull from under it.
                let mut state = lock(&self.state);
                while state.stirred == stirred && !state.closed {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// While this lives, the device is polled.
#[derive(Debug)]
pub(super) struct Expecting {
    waiter: Arc<Waiter>,
    /// The blocking call that polls; none for the thread in the background.
    polling: Option<Arc<Parked>>,
}

impl Drop for Expecting {
    fn drop(&mut self) {
        if let Some(parked) = &self.polling {
            parked.owed.fetch_sub(1, Ordering::AcqRel);
            *lock(&parked.awaited) = None;
        } else {
            lock(&self.waiter.background.state).waiting -= 1;
        }
    }
}
