//! Ids and filters of Python objects.

use std::borrow::Cow;

use nearfield::Filter;
use numpy::{
    PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::given::{in_use, refused};
use crate::vectors::is_plain;
use crate::{answers, call, errors, python};

/// Ids that a function is asked for between two looks at signals.
const ASKED: usize = 1 << 12;

/// Ids of the caller's: an array of int64 in C order, which is read where it lies, or a copy.
pub(crate) struct Ids<'py>(PyReadonlyArray1<'py, i64>);

impl<'py> Ids<'py> {
    pub(crate) fn of(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::of_argument(given, "ids")
    }

    /// The ids of an argument of this name.
    pub(crate) fn of_argument(given: &Bound<'py, PyAny>, argument: &'static str) -> PyResult<Self> {
        if is_plain(given)
            && let Some(ids) = Self::direct(given)
        {
            return Ok(ids);
        }
        let array = python::to_ids(given.py())?.call1((given, argument))?;
        Self::direct(&array).ok_or_else(|| in_use(argument))
    }

    fn direct(given: &Bound<'py, PyAny>) -> Option<Self> {
        let array: &Bound<'py, PyArray1<i64>> = given.cast().ok()?;
        let is_direct = array.is_c_contiguous() && array.data().is_aligned();
        if is_direct { array.try_readonly().ok().map(Self) } else { None }
    }

    /// The ids as the library takes them.
    pub(crate) fn view(&self) -> PyResult<Cow<'_, [u64]>> {
        let ids = self.0.as_slice().map_err(|error| refused("ids", "an array in C order", error))?;
        match bytemuck::try_cast_slice(ids) {
            // The library would call -1 an id of 2^64 - 1.
            Ok(view) if ids.iter().all(|&id| id >= 0) => Ok(Cow::Borrowed(view)),
            _ => nearfield::to_ids(ids.iter().copied())
                .map(Cow::Owned)
                .map_err(|error| errors::exception(self.0.py(), error)),
        }
    }
}

/// The rows that a search may find.
pub(crate) enum RowFilter {
    Ids(Vec<u64>),
    /// One bit an id.
    Bits(Vec<u64>),
}

impl RowFilter {
    /// The filter of an argument: ids, a boolean mask with a value for each id, or a function of an id. `largest` tells the largest id of
    /// a row, `all` the ids of all rows, ascending.
    pub(crate) fn of(
        given: &Bound<'_, PyAny>,
        largest: impl FnOnce() -> PyResult<Option<u64>>,
        all: impl FnOnce() -> PyResult<Vec<u64>>,
    ) -> PyResult<Self> {
        let py = given.py();
        let too_little = |error| errors::exception(py, error);
        if given.is_callable() {
            return Ok(Self::Ids(allowed_by(given, all()?)?));
        }
        let array = python::to_filter(py)?.call1((given,))?;
        let Ok(mask) = array.cast::<PyArrayDyn<bool>>() else {
            let ids = Ids::direct(&array).ok_or_else(|| in_use("filter"))?;
            let ids = ids.view()?;
            let copy = answers::collected(ids.len(), ids.iter().copied());
            return copy.map(Self::Ids).map_err(too_little);
        };
        let mask: PyReadonlyArrayDyn<'_, bool> =
            mask.try_readonly().map_err(|error| refused("filter", "a mask", error))?;
        let mask = mask.as_slice().map_err(|error| refused("filter", "a mask", error))?;
        let needed = largest()?.map_or(0, |id| id.saturating_add(1));
        if (mask.len() as u64) < needed {
            let needed = format!("a mask of at least {needed} values, one for each id from 0 to the largest");
            return Err(refused("filter", &needed, mask.len()));
        }
        let word =
            |bits: &[bool]| (0..).zip(bits).fold(0, |word, (bit, &is_set)| word | u64::from(is_set) << bit);
        let words = answers::collected(mask.len().div_ceil(64), mask.chunks(64).map(word));
        words.map(Self::Bits).map_err(too_little)
    }

    /// How many ids it names.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Bits(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    pub(crate) fn as_filter(&self) -> Filter<'_> {
        match self {
            Self::Ids(ids) => Filter::ids(ids),
            Self::Bits(words) => Filter::bits(words),
        }
    }
}

/// The ids that a Python function allows. It is called here, before the search begins, where its exception ends the call.
fn allowed_by(function: &Bound<'_, PyAny>, mut ids: Vec<u64>) -> PyResult<Vec<u64>> {
    let mut allowed = 0;
    for place in 0..ids.len() {
        // A function that is not written in Python does not look at them itself.
        if place % ASKED == 0 {
            function.py().check_signals()?;
        }
        call::check_end()?;
        if function.call1((ids[place],))?.is_truthy()? {
            ids[allowed] = ids[place];
            allowed += 1;
        }
    }
    ids.truncate(allowed);
    Ok(ids)
}
