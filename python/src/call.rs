//! Runs the library without the interpreter, and hands signals, cancellation, progress and exceptions across.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearfield::{Error, Result};
use pyo3::prelude::*;

use crate::{errors, python};

thread_local! {
    /// Whether this thread runs Python code that a call of the library called.
    static IS_CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether a device was opened in this process: threads run, which a forked process does not have.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);
/// Whether this process was forked from one that had opened a device.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Notes that this process was forked. The package has Python call it in the new process.
#[pyfunction(name = "_forked")]
pub(crate) fn forked() {
    IS_FORKED.fetch_or(HAS_THREADS.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Checks that a call can work here: neither inside of another one, where it could wait for itself, nor in a forked process, where the
/// threads that it would wait for do not run.
pub(crate) fn check(py: Python<'_>) -> PyResult<()> {
    HAS_THREADS.store(true, Ordering::Relaxed);
    let refused = if IS_FORKED.load(Ordering::Relaxed) {
        "device: needed a process that was not forked from one that uses nearfield, given a forked one; let multiprocessing \
         start its processes by \"spawn\" or \"forkserver\""
    } else if IS_CALLED_BACK.get() {
        "progress: needed a function that does not call nearfield, given one that does"
    } else {
        return Ok(());
    };
    Err(python::exception(python::error(py), refused.to_owned()))
}

/// What a device holds. A forked process leaves it alone: it belongs to the parent's device, and a driver may wait for threads that do not
/// run here.
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

    /// Runs Python code inside of the call, and keeps its exception. While the interpreter ends, no code can run.
    fn call_back(&self, code: impl FnOnce(Python<'_>) -> PyResult<()>) {
        let outcome = Python::try_attach(|py| {
            let before = IS_CALLED_BACK.replace(true);
            let outcome = code(py);
            IS_CALLED_BACK.set(before);
            outcome
        });
        if let Some(Err(error)) = outcome {
            let mut exception = self.exception.lock().unwrap_or_else(PoisonError::into_inner);
            exception.get_or_insert(error);
        }
    }

    /// Whether the call should go on. Runs the handlers of signals, where this is Python's main thread.
    fn keep_going(&self) -> bool {
        if self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return false;
        }
        self.call_back(|py| py.check_signals());
        self.exception.lock().unwrap_or_else(PoisonError::into_inner).is_none()
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
    check(py)?;
    let done = py.detach(|| {
        let hook = ending.clone();
        nearfield::interruptible(move || hook.keep_going(), || work(ending))
    });
    match ending.take() {
        Some(exception) => Err(exception),
        None => done.map_err(|error| errors::exception(py, error)),
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
            ending.call_back(|py| shown.call_method1(py, "update", (done,)).map(drop));
        })
    }

    /// Ends it: after a call that succeeded, all is done.
    pub(crate) fn close(self, py: Python<'_>, is_done: bool) -> PyResult<()> {
        self.0.map_or(Ok(()), |shown| shown.call_method1(py, "close", (is_done,)).map(drop))
    }
}
