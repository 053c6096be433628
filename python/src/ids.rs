//! Ids and filters of Python objects.

use std::borrow::Cow;

use nearfield::Filter;
use numpy::{
    PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::given::refused;
use crate::{errors, python};

/// Ids of the caller's: an array of int64 in C order, which is read where it lies, or a copy.
pub(crate) struct Ids<'py>(PyReadonlyArray1<'py, i64>);

impl<'py> Ids<'py> {
    pub(crate) fn of(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        let direct = |given: &Bound<'py, PyAny>| {
            let array: &Bound<'py, PyArray1<i64>> = given.cast().ok()?;
            let is_direct = array.is_c_contiguous() && array.data().is_aligned();
            if is_direct { array.try_readonly().ok() } else { None }
        };
        if let Some(ids) = direct(given) {
            return Ok(Self(ids));
        }
        let array = python::to_ids(py)?.call1((given, "ids"))?;
        let refused = || PyTypeError::new_err("ids: needed integers in one dimension");
        direct(&array).map(Self).ok_or_else(refused)
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
    /// The filter of an argument: ids, a boolean mask with a value for each id, or a function of an id. `ids` tells the ids of all rows,
    /// ascending.
    pub(crate) fn of(given: &Bound<'_, PyAny>, ids: impl FnOnce() -> PyResult<Vec<u64>>) -> PyResult<Self> {
        if given.is_callable() {
            return Ok(Self::Ids(allowed_by(given, ids()?)?));
        }
        let array = python::to_filter(given.py())?.call1((given,))?;
        let Ok(mask) = array.cast::<PyArrayDyn<bool>>() else {
            return Ok(Self::Ids(Ids::of(&array)?.view()?.into_owned()));
        };
        let mask: PyReadonlyArrayDyn<'_, bool> =
            mask.try_readonly().map_err(|error| refused("filter", "a mask", error))?;
        let mask = mask.as_slice().map_err(|error| refused("filter", "a mask", error))?;
        let needed = ids()?.last().map_or(0, |&id| id.saturating_add(1));
        if (mask.len() as u64) < needed {
            let needed = format!("a mask of at least {needed} values, one for each id from 0 to the largest");
            return Err(refused("filter", &needed, mask.len()));
        }
        let word =
            |bits: &[bool]| (0..).zip(bits).fold(0, |word, (bit, &is_set)| word | u64::from(is_set) << bit);
        Ok(Self::Bits(mask.chunks(64).map(word).collect()))
    }

    pub(crate) fn as_filter(&self) -> Filter<'_> {
        match self {
            Self::Ids(ids) => Filter::ids(ids),
            Self::Bits(words) => Filter::bits(words),
        }
    }
}

/// The ids that a Python function allows. It is called here, before the search begins, where its exception ends the call.
fn allowed_by(function: &Bound<'_, PyAny>, ids: Vec<u64>) -> PyResult<Vec<u64>> {
    let mut allowed = vec![];
    for id in ids {
        if function.call1((id,))?.is_truthy()? {
            allowed.push(id);
        }
    }
    Ok(allowed)
}
