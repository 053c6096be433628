//! Runs the library without the interpreter, and hands signals, cancellation, progress and exceptions across.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nearfield::{Error, Result};
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

use crate::{errors, python};

thread_local! {
    /// The Python code that a call of the library has this thread run.
    static CALLED_BACK: Cell<Option<Code>> = const { Cell::new(None) };
    /// Whether this thread ends the interpreter.
    static ENDS_INTERPRETER: Cell<bool> = const { Cell::new(false) };
}

/// Python code that runs inside of a call.
#[derive(Debug, Clone, Copy)]
enum Code {
    Progress,
    /// A handler of a signal.
    Handler,
}

/// Whether a device was opened in this process: threads run, which a forked process does not have.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);
/// Calls that run. In a forked process it may fall below zero: the call that forked ends there too.
static RUNNING: AtomicIsize = AtomicIsize::new(0);
/// Whether the interpreter ends.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Whether this process was forked from one that had opened a device.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Notes that this process was forked. The package has Python call it in the new process.
#[pyfunction(name = "_forked")]
pub(crate) fn forked() {
    IS_FORKED.fetch_or(HAS_THREADS.load(Ordering::Relaxed), Ordering::Relaxed);
    // The calls of other threads do not run here.
    RUNNING.store(0, Ordering::SeqCst);
}

/// Whether calls are refused here, because this process was forked.
#[pyfunction(name = "_is_forked")]
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Notes that a device is opened.
pub(crate) fn opens_device() {
    HAS_THREADS.store(true, Ordering::Relaxed);
}

/// Ends the calls of other threads and waits for them. The package has Python call it when the interpreter ends: a driver takes itself down
/// then, and crashes a thread that is inside of it.
#[pyfunction(name = "_end")]
pub(crate) fn end(py: Python<'_>) {
    ENDS_INTERPRETER.set(true);
    IS_ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        // Not for ever: a thread may wait in code of somebody else's.
        let given_up = Instant::now() + Duration::from_secs(10);
        while RUNNING.load(Ordering::SeqCst) > 0 && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Whether the interpreter ends, and not by this thread.
fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst) && !ENDS_INTERPRETER.get()
}

/// Ends a thread without a word, as Python does.
fn ended() -> PyErr {
    PySystemExit::new_err(())
}

/// An exception where the interpreter ends, for calls that run Python code for long.
pub(crate) fn check_end() -> PyResult<()> {
    if is_ending() { Err(ended()) } else { Ok(()) }
}

/// Checks that a call can work here: neither inside of another one, where it could wait for itself, nor in a forked process, where the
/// threads that it would wait for do not run. The call keeps what it gets to its end.
pub(crate) fn check(py: Python<'_>) -> PyResult<Running> {
    let running = Running::start()?;
    let refused = match CALLED_BACK.get() {
        _ if is_forked() => {
            "device: needed a process that was not forked from one that uses nearfield, given a forked one; let multiprocessing \
             start its processes by \"spawn\" or \"forkserver\""
        }
        Some(Code::Progress) => {
            "progress: needed a function that does not call nearfield, given one that does"
        }
        Some(Code::Handler) => {
            "signal: needed a handler that does not call nearfield while a call runs, given one that does"
        }
        None => return Ok(running),
    };
    Err(python::exception(python::error(py), refused.to_owned()))
}

/// Keeps a value that a device holds from being freed in a forked process. The value belongs to the parent's device, and a driver may wait
/// for threads that do not run here.
#[derive(Debug)]
pub(crate) struct Kept<T>(Arc<T>);

impl<T> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if IS_FORKED.load(Ordering::Relaxed) {
            // One reference that nobody gives up.
            std::mem::forget(self.0.clone());
        }
    }
}

/// A flag that ends the call that was given it.
#[pyclass(frozen, module = "nearfield._native", name = "_Cancel")]
#[derive(Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why a running call should end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    /// The exception that Python code raised inside of the call.
    exception: Arc<Mutex<Option<PyErr>>>,
    cancel: Option<Arc<AtomicBool>>,
}

impl Ending {
    pub(crate) fn by(cancel: Option<&Cancel>) -> Self {
        Self { exception: Arc::default(), cancel: cancel.map(|cancel| cancel.0.clone()) }
    }

    fn take(&self) -> Option<PyErr> {
        self.exception.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether Python code inside of the call has raised an exception.
    pub(crate) fn has_exception(&self) -> bool {
        self.exception.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Runs Python code inside of the call, and keeps its exception. Once the interpreter has ended, no code can run.
    fn call_back(&self, kind: Code, code: impl FnOnce(Python<'_>) -> PyResult<()>) {
        let outcome = Python::try_attach(|py| {
            let before = CALLED_BACK.replace(Some(kind));
            let outcome = code(py);
            CALLED_BACK.set(before);
            outcome
        });
        if let Some(Err(error)) = outcome {
            let mut exception = self.exception.lock().unwrap_or_else(PoisonError::into_inner);
            exception.get_or_insert(error);
        }
    }

    /// Whether the call should go on. Runs the handlers of signals, where this is Python's main thread.
    fn keep_going(&self) -> bool {
        if is_ending() || self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return false;
        }
        if !self.has_exception() {
            self.call_back(Code::Handler, |py| py.check_signals());
        }
        !self.has_exception()
    }

    /// Waits for a lock, as long as the call should go on. `try_for` waits for it at most that long.
    pub(crate) fn wait<T>(&self, mut try_for: impl FnMut(Duration) -> Option<T>) -> Result<T> {
        loop {
            if let Some(locked) = try_for(Duration::from_millis(50)) {
                return Ok(locked);
            }
            if !self.keep_going() {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Runs `work` without the interpreter. Ctrl-C ends it, as does an exception of Python code that it calls.
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&Ending) -> Result<T> + Send) -> PyResult<T> {
    run_until(py, &Ending::default(), work)
}

/// The same, with another reason to end it.
pub(crate) fn run_until<T: Send>(
    py: Python<'_>,
    ending: &Ending,
    work: impl FnOnce(&Ending) -> Result<T> + Send,
) -> PyResult<T> {
    let _running = check(py)?;
    let done = py.detach(|| {
        let hook = ending.clone();
        nearfield::interruptible(move || hook.keep_going(), || work(ending))
    });
    match ending.take() {
        Some(exception) => Err(exception),
        None if matches!(done, Err(Error::Interrupted)) && is_ending() => Err(ended()),
        None => done.map_err(|error| errors::exception(py, error)),
    }
}

/// A call that runs: the interpreter's end waits for it.
pub(crate) struct Running;

impl Running {
    /// An exception where the interpreter ends: it no longer waits for this call.
    fn start() -> PyResult<Self> {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let running = Self;
        check_end().map(|()| running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Shows how far a call is: the caller's function, or a bar of tqdm.
#[derive(Debug)]
pub(crate) struct Progress(Option<Py<PyAny>>);

impl Progress {
    /// Starts to show a stage of `total` rows, queries or iterations, where the caller asks for it.
    pub(crate) fn start(
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        stage: &str,
        total: usize,
    ) -> PyResult<Self> {
        let Some(progress) = progress else { return Ok(Self(None)) };
        let started = python::start_progress(py)?.call1((progress, stage, total))?;
        Ok(Self((!started.is_none()).then(|| started.unbind())))
    }

    /// The function that the library calls.
    pub(crate) fn reporter<'p>(&'p self, ending: &'p Ending) -> Option<impl Fn(usize) + Send + Sync + 'p> {
        let shown = self.0.as_ref()?;
        Some(move |done: usize| {
            if !ending.has_exception() {
                ending.call_back(Code::Progress, |py| shown.call_method1(py, "update", (done,)).map(drop));
            }
        })
    }

    /// The same for a training, whose inertia nobody is told.
    pub(crate) fn iterations<'p>(&'p self, ending: &'p Ending) -> impl Fn(usize, f64) + Send + Sync + 'p {
        let report = self.reporter(ending);
        move |iteration, _| {
            if let Some(report) = &report {
                report(iteration);
            }
        }
    }

    /// Ends it, with what the call has returned: after one that succeeded, all is done.
    pub(crate) fn close<T>(self, py: Python<'_>, returned: PyResult<T>) -> PyResult<T> {
        if let Some(shown) = self.0 {
            shown.call_method1(py, "close", (returned.is_ok(),))?;
        }
        returned
    }
}
