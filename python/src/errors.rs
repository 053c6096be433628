//! Errors of the library as Python's exceptions.

use nearfield::{Error, ErrorKind};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::python;

/// The exception of an error: `ValueError` for what the caller gave, `OSError` for what the system says of a file, `nf.OutOfMemory`, and
/// `nf.Error` for the rest.
///
/// A message is one line, whatever text of the caller's it quotes.
pub(crate) fn exception(py: Python<'_>, error: Error) -> PyErr {
    let message = error.to_string().replace(['\n', '\r'], " ");
    match (error.kind(), error) {
        (ErrorKind::Argument, _) => PyValueError::new_err(message),
        (ErrorKind::Memory, _) => python::exception(python::out_of_memory(py), message),
        // With its number Python makes a FileNotFoundError, a PermissionError and so on.
        (_, Error::Io { path, cause }) => match cause.raw_os_error() {
            Some(number) => PyOSError::new_err((number, reason(&cause), path.into_os_string())),
            None => PyOSError::new_err(message),
        },
        _ => python::exception(python::error(py), message),
    }
}

/// The system's words, without the number that Rust puts behind them.
fn reason(cause: &std::io::Error) -> String {
    let words = cause.to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}
