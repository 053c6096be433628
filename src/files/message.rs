//! Errors about files.

use std::path::Path;

use crate::error::Error;

/// An [`Error::File`].
pub(crate) fn mismatch(path: &Path, needed: impl Into<String>, found: impl Into<String>) -> Error {
    Error::File { path: path.into(), needed: needed.into(), found: found.into() }
}

/// Turns the system's error about `path` into an [`Error::Io`].
pub(crate) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |cause| Error::Io { path, cause }
}
