//! Paths of columns: `FILE.parquet:COLUMN`.

use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use tempfile::TempDir;

/// Endings of files that hold columns.
const WITH_COLUMNS: [&str; 4] = ["parquet", "arrow", "ipc", "feather"];

/// Where a file comes from that is a copy of a column.
#[cfg(feature = "parquet")]
#[derive(Debug)]
pub(super) struct Copied {
    /// `FILE.parquet:COLUMN`.
    pub(super) path: PathBuf,
    /// What copying converted.
    pub(super) converted: Option<String>,
    /// The directory of the copy, which goes with the file.
    pub(super) _directory: TempDir,
}

/// The parts of a path `FILE.parquet` or `FILE.parquet:COLUMN`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    pub(super) column: Option<String>,
}

impl Place {
    /// Splits the path of a file of columns; none for another file. A file whose own name looks like both parts is taken as it is.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let is_one = |path: &Path| {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            WITH_COLUMNS.iter().any(|one| ending.eq_ignore_ascii_case(one))
        };
        if is_one(path) {
            return Some(Self { file: path.to_owned(), column: None });
        }
        let text = path.to_str().filter(|_| !path.is_file())?;
        let splits = text.match_indices(':').map(|(colon, _)| (&text[..colon], &text[colon + 1..]));
        let (file, column) = splits.into_iter().find(|(file, _)| is_one(Path::new(file)))?;
        Some(Self { file: file.into(), column: Some(column.to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_after_the_ending_names_a_column() {
        let of = |path: &str| Place::of(Path::new(path)).map(|place| (place.file, place.column));
        let at = |file: &str, column: Option<&str>| Some((file.into(), column.map(str::to_owned)));
        assert_eq!(of("a/b.Parquet"), at("a/b.Parquet", None));
        assert_eq!(of("b.parquet:x"), at("b.parquet", Some("x")));
        assert_eq!(of("a:b.arrow:x:y.z"), at("a:b.arrow", Some("x:y.z")));
        assert_eq!(of("b.npz:x.arrows"), None);
        assert_eq!(of("b.npy"), None);
    }
}
