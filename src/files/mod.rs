//! Reads files at any position, and writes files whole or not at all.

use std::path::Path;

use crate::error::Error;

mod pending;
mod positioned;
mod temporary;

pub(crate) use pending::Pending;
pub(crate) use positioned::PositionedFile;
#[cfg(feature = "io")]
pub use temporary::remove_unfinished;

/// An [`Error::File`].
pub(crate) fn mismatch(path: &Path, needed: impl Into<String>, found: impl Into<String>) -> Error {
    Error::File { path: path.into(), needed: needed.into(), found: found.into() }
}

/// Turns the system's error about `path` into an [`Error::Io`].
pub(crate) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |cause| Error::Io { path, cause }
}
