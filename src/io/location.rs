//! Splits a path into a file and a part of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The extensions of formats whose parts have names.
const WITH_PARTS: [&str; 6] = ["npz", "safetensors", "hdf5", "h5", "jsonl", "ndjson"];

/// The parts of a path `FILE` or `FILE.npz:MEMBER`.
#[derive(Debug)]
pub(super) struct Location {
    /// The file on disk.
    pub(super) file: PathBuf,
    /// The requested array or field. A member of an npz archive, without `.npy`.
    pub(super) member: Option<String>,
    /// The file's extension in lower case, without its dot; empty if it has none.
    pub(super) ending: String,
}

impl Location {
    /// Splits `path`. An existing file whose own name contains `.npz:` is taken as it is.
    pub(super) fn new(path: &Path) -> Self {
        let (mut file, mut member) = (path.to_path_buf(), None);
        let lower = path.to_str().map(str::to_ascii_lowercase).unwrap_or_default();
        let colon = |extension: &str| Some(lower.rfind(&format!(".{extension}:"))? + 1 + extension.len());
        if let Some(colon) = WITH_PARTS.into_iter().filter_map(colon).max()
            && let Some((name, asked)) = path.to_str().and_then(|text| text.split_at_checked(colon))
            && !path.is_file()
        {
            file = PathBuf::from(name);
            member = Some(asked[1..].strip_suffix(".npy").unwrap_or(&asked[1..]).to_owned());
        }
        let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        Self { file, member, ending: ending.unwrap_or_default() }
    }
}

/// The file of a path that may name one of its parts: `FILE` of `FILE.npz:MEMBER`.
pub fn file_of(path: impl AsRef<Path>) -> PathBuf {
    Location::new(path.as_ref()).file
}

/// Returns the path of one member, `FILE.npz:MEMBER`.
pub(super) fn member_path(file: &Path, member: &str) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(":");
    path.push(member);
    path.into()
}
