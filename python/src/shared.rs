//! An index that threads share: searches run beside each other, and a change alone.

use nearfield::Result;
use parking_lot::{Mutex, RwLock};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{self, Ending, Kept};

/// An index behind a lock. Searches run from many threads at once; a change waits for them, and they for it.
// A call that waits for `index` gives up now and then, to look at signals, and a change would never find it free while searches of other
// threads overlap. So calls line up for `turn`: behind a change that waits, no search starts.
#[derive(Debug)]
pub(crate) struct Shared<I> {
    index: Kept<RwLock<I>>,
    turn: Mutex<()>,
}

impl<I: Send + Sync> Shared<I> {
    pub(crate) fn new(index: I) -> Self {
        Self { index: Kept::new(RwLock::new(index)), turn: Mutex::new(()) }
    }

    /// Runs `work` on the index, beside other readers and without the interpreter.
    pub(crate) fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&I, &Ending) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.read_until(py, &Ending::default(), work)
    }

    pub(crate) fn read_until<T: Send>(
        &self,
        py: Python<'_>,
        ending: &Ending,
        work: impl FnOnce(&I, &Ending) -> Result<T> + Send,
    ) -> PyResult<T> {
        call::run_until(py, ending, |ending| {
            let turn = ending.wait(|time| self.turn.try_lock_for(time))?;
            let index = ending.wait(|time| self.index.try_read_for(time))?;
            drop(turn);
            work(&index, ending)
        })
    }

    /// Runs `work` on the index while nobody else uses it.
    pub(crate) fn change<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut I, &Ending) -> Result<T> + Send,
    ) -> PyResult<T> {
        call::run(py, |ending| {
            let turn = ending.wait(|time| self.turn.try_lock_for(time))?;
            let mut index = ending.wait(|time| self.index.try_write_for(time))?;
            drop(turn);
            work(&mut index, ending)
        })
    }

    /// A number that the index knows: at once, unless another thread changes the index.
    pub(crate) fn told<T: Send>(&self, py: Python<'_>, tell: impl Fn(&I) -> T + Sync) -> PyResult<T> {
        if let Some(index) = self.index.try_read() {
            return Ok(tell(&index));
        }
        self.read(py, |index, _| Ok(tell(index)))
    }

    /// The bytes that a save writes.
    pub(crate) fn bytes<'py>(
        &self,
        py: Python<'py>,
        save: impl FnOnce(&I) -> Result<Vec<u8>> + Send,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.read(py, |index, _| save(index))?;
        PyBytes::new_with(py, bytes.len(), |copy| {
            py.detach(|| copy.copy_from_slice(&bytes));
            Ok(())
        })
    }
}

/// The exception where an object of a subclass is pickled: it would come back as its base, without its attributes.
pub(crate) fn not_pickled(object: &Bound<'_, PyAny>, base: &str) -> PyErr {
    let class = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "{class}: needed a __reduce__ of its own to be pickled or copied, given a subclass of nearfield.{base}"
    ))
}
