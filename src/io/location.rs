//! Which file, and which member of it, a path names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A path taken apart: `FILE` or `FILE.npz:MEMBER`.
#[derive(Debug)]
pub(super) struct Location {
    /// The file on disk.
    pub(super) file: PathBuf,
    /// The member asked for, without `.npy`.
    pub(super) member: Option<String>,
    /// The file's ending in lower case, without its dot; empty when it has none.
    pub(super) ending: String,
}

impl Location {
    /// Takes `path` apart. A file whose own name holds `.npz:` is found under that name.
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

/// `FILE.npz:MEMBER`, the path that names one member.
pub(super) fn member_path(file: &Path, member: &str) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(":");
    path.push(member);
    path.into()
}
