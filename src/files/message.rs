//! Errors about files.

use std::path::Path;

use serde_json::error::Category;

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

/// What a text has instead of the JSON that was needed.
pub(crate) fn not_json(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        Category::Data => format!("JSON of another shape at {place}"),
        _ => format!("text that is no JSON at {place}"),
    }
}
