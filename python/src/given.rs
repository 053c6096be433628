//! Arguments that are no arrays: numbers, words, paths. Their kind is looked at here, where their name is known: PyO3 would put the name
//! into a note behind its message, and before Python 3.11 nowhere.

use std::fmt;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// What counts are.
const COUNT: &str = "a whole number from 0 to 2^63 - 1";

/// An argument, or what was given in its place.
#[derive(Debug)]
pub(crate) struct Given<T>(Result<T, Other>);

#[derive(Debug)]
struct Other {
    what: String,
    /// Whether it is of the right type, and too large or too small.
    is_out_of_range: bool,
}

impl<T> From<T> for Given<T> {
    fn from(value: T) -> Self {
        Self(Ok(value))
    }
}

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Given<T> {
    type Error = std::convert::Infallible;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        let py = given.py();
        Ok(Self(T::extract(given).map_err(|error| {
            let is_out_of_range = error.into().is_instance_of::<PyOverflowError>(py);
            Other { what: described(&given), is_out_of_range }
        })))
    }
}

/// An object in a few words: the value of a number, which can be written in one line, or else its type.
pub(crate) fn described(given: &Bound<'_, PyAny>) -> String {
    let value = given.cast::<PyInt>().ok().and_then(|number| Some(number.str().ok()?.to_string()));
    let kind = || given.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    value.filter(|digits| digits.len() < 50).unwrap_or_else(kind)
}

/// The exception of an argument whose value does not fit: one line, whatever text it quotes.
pub(crate) fn refused(argument: &str, needed: &str, given: impl fmt::Display) -> PyErr {
    let given = given.to_string().replace(['\n', '\r'], " ");
    PyValueError::new_err(format!("{argument}: needed {needed}, given {given}"))
}

/// The exception of an array that another call writes to.
pub(crate) fn in_use(argument: &str) -> PyErr {
    refused(argument, "an array that no other call writes to", "one that is in use")
}

impl<T> Given<T> {
    /// The argument of this name.
    pub(crate) fn take(self, argument: &str, needed: &str) -> PyResult<T> {
        self.0.map_err(|Other { what, is_out_of_range }| {
            let message = format!("{argument}: needed {needed}, given {what}");
            if is_out_of_range { PyValueError::new_err(message) } else { PyTypeError::new_err(message) }
        })
    }
}

impl Given<i64> {
    /// A number that cannot be negative.
    pub(crate) fn count(self, argument: &str) -> PyResult<usize> {
        let given = self.take(argument, COUNT)?;
        given.try_into().map_err(|_| refused(argument, COUNT, given))
    }
}

impl<'a> Given<&'a str> {
    pub(crate) fn word(self, argument: &str) -> PyResult<&'a str> {
        self.take(argument, "a word")
    }
}
