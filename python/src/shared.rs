//! An index that threads share: searches run beside each other, and a change alone.

use nearfield::{AddOptions, Result};
use numpy::PyArray1;
use parking_lot::{Mutex, RwLock};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answers;
use crate::call::{self, Ending, Kept, Progress};
use crate::ids::{Ids, RowFilter};

/// An index of rows or of documents, which have ids.
pub(crate) trait Identified: Send + Sync {
    fn count(&self) -> usize;
    fn contains(&self, id: u64) -> bool;
    fn ids(&self) -> Result<Vec<u64>>;
    fn largest_id(&self) -> Result<Option<u64>> {
        Ok(self.ids()?.last().copied())
    }
    fn next_id(&self) -> u64;
    fn remove(&mut self, ids: &[u64]) -> Result<()>;
}

macro_rules! identified {
    ($($index:ident { $($largest:item)? })*) => {$(
        impl Identified for nearfield::$index {
            $($largest)?

            fn count(&self) -> usize {
                self.len()
            }

            fn contains(&self, id: u64) -> bool {
                self.contains(id)
            }

            fn ids(&self) -> Result<Vec<u64>> {
                self.ids()
            }

            fn next_id(&self) -> u64 {
                self.next_id()
            }

            fn remove(&mut self, ids: &[u64]) -> Result<()> {
                self.remove(ids)
            }
        }
    )*};
}

identified! {
    Index {
        fn largest_id(&self) -> Result<Option<u64>> {
            Ok(self.largest_id())
        }
    }
    MultiVector {}
}

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

impl<I: Identified> Shared<I> {
    /// Adds `count` rows or documents by `add`, and returns their ids: those given, or insertion numbers. Progress ends at `total`.
    pub(crate) fn add<'py>(
        &self,
        py: Python<'py>,
        (count, total): (usize, usize),
        ids: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
        add: impl FnOnce(&mut I, &AddOptions<'_>) -> Result<()> + Send,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let given = ids.map(Ids::of).transpose()?;
        let ids = given.as_ref().map(Ids::view).transpose()?;
        let shown = Progress::start(py, progress, "adding", total)?;
        let mut added = vec![];
        let first = self.change(py, |index, ending| {
            // Reserves memory for taking back what is added, which must not fail.
            added = answers::collected(count, std::iter::empty())?;
            let report = shown.reporter(ending);
            let mut options = AddOptions::new();
            options.ids = ids.as_deref();
            options.progress = report.as_ref().map(|report| report as _);
            add(index, &options)?;
            let first = index.next_id() - count as u64;
            if ending.has_exception() {
                // It came with the last rows, too late to end the addition. The hook would end the removal.
                match &ids {
                    Some(ids) => added.extend_from_slice(ids),
                    None => added.extend(first..index.next_id()),
                }
                nearfield::interruptible(|| true, || index.remove(&added))?;
            }
            Ok(first)
        });
        let first = shown.close(py, first)?;
        match ids {
            Some(ids) => answers::id_array(py, ids.iter().copied()),
            None => answers::id_array(py, (0..count).map(|number| first + number as u64)),
        }
    }

    /// Removes these ids, and returns how many there were: an id given twice counts once.
    pub(crate) fn remove(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<usize> {
        let ids = Ids::of(ids)?;
        let ids = ids.view()?;
        self.change(py, |index, _| {
            let before = index.count();
            index.remove(&ids)?;
            Ok(before - index.count())
        })
    }

    pub(crate) fn all_ids(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.read(py, |index, _| index.ids())
    }

    pub(crate) fn contains(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        // The index holds neither -1 nor a text.
        let Ok(id) = id.extract::<u64>() else { return Ok(false) };
        self.told(py, move |index| index.contains(id))
    }

    pub(crate) fn filter(
        &self,
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<RowFilter>> {
        let largest = || self.read(py, |index, _| index.largest_id());
        filter.map(|filter| RowFilter::of(filter, largest, || self.all_ids(py))).transpose()
    }
}

/// The exception where an object of a subclass is pickled: it would come back as its base, without its attributes.
pub(crate) fn not_pickled(object: &Bound<'_, PyAny>, base: &str) -> PyErr {
    let class = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "{class}: needed a __reduce__ of its own to be pickled or copied, given a subclass of nearfield.{base}"
    ))
}
