//! Splits a path into a file and the member of an archive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The parts of a path `FILE` or `FILE.npz:MEMBER`.
#[derive(Debug)]
pub(super) struct Location {
    /// The file on disk.
    pub(super) file: PathBuf,
    /// The requested member, without `.npy`.
    pub(super) member: Option<String>,
    /// The file's extension in lower case, without its dot; empty if it has none.
    pub(super) ending: String,
}

impl Location {
    /// Splits `path`. An existing file whose own name contains `.npz:` is taken as it is.
    pub(super) fn new(path: &Path) -> Self {
        const MARK: &str = ".npz:";
        let (mut file, mut member) = (path.to_path_buf(), None);
        if let Some(text) = path.to_str()
            && let Some(start) = text.to_ascii_lowercase().rfind(MARK)
            && !path.is_file()
        {
            let (name, asked) = text.split_at(start + MARK.len());
            file = PathBuf::from(name.trim_end_matches(':'));
            member = Some(asked.strip_suffix(".npy").unwrap_or(asked).to_owned());
        }
        let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        Self { file, member, ending: ending.unwrap_or_default() }
    }
}

/// Returns the path of one member, `FILE.npz:MEMBER`.
pub(super) fn member_path(file: &Path, member: &str) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(":");
    path.push(member);
    path.into()
}
