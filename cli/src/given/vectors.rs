//! Files of vectors: those that the library reads, and columns of Parquet and Arrow files, `FILE.parquet:COLUMN`.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nearfield::io::{self, VectorFile};
use tempfile::TempDir;

/// The error of a program built without `parquet`: it names the feature.
#[cfg(not(feature = "parquet"))]
pub const WITHOUT_COLUMNS: &str =
    "needed a program with the feature `parquet`, as `cargo install` builds it with `--features parquet`";

/// Endings of files that hold columns.
const WITH_COLUMNS: [&str; 4] = ["parquet", "arrow", "ipc", "feather"];

/// An open file of vectors, with the name that the user knows.
#[derive(Debug)]
pub struct Vectors {
    file: VectorFile,
    path: PathBuf,
    converted: Option<String>,
    /// The directory of a copy, which goes with the file.
    _directory: Option<TempDir>,
}

impl Vectors {
    /// Opens a file by its ending. Columns have names: `FILE.parquet:COLUMN`. `bits` says whether bytes or bools are bits. Binary values
    /// can only be bits: without `bits` they are, and nothing else is.
    pub fn open(path: &Path, bits: Option<bool>) -> Result<Self> {
        match Place::of(path) {
            #[cfg(feature = "parquet")]
            Some(place) => {
                let column = super::columns::open(&place.file, place.column.as_deref(), bits)?;
                let (path, converted, _directory) = (column.name, column.converted, Some(column.directory));
                Ok(Self { file: column.copy, path, converted, _directory })
            }
            #[cfg(not(feature = "parquet"))]
            Some(place) => anyhow::bail!("{}: {WITHOUT_COLUMNS}", place.file.display()),
            None if bits == Some(true) => Ok(VectorFile::open(path)?.of_bits()?.into()),
            None => Ok(VectorFile::open(path)?.into()),
        }
    }

    /// The path of the vectors, with the name of the array or column.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file in which the rows lie, which is a copy for a column.
    pub fn stored(&self) -> &Path {
        self.file.path()
    }

    /// What reading changes, as a note for people.
    pub fn converted(&self) -> Option<&str> {
        self.converted.as_deref()
    }
}

impl From<VectorFile> for Vectors {
    fn from(file: VectorFile) -> Self {
        Self { path: file.path().into(), converted: file.converted(), _directory: None, file }
    }
}

impl Deref for Vectors {
    type Target = VectorFile;

    fn deref(&self) -> &VectorFile {
        &self.file
    }
}

/// The file of a path that may name one of its parts.
pub fn file_of(path: &Path) -> PathBuf {
    Place::of(path).map_or_else(|| io::file_of(path), |place| place.file)
}

/// The parts of a path `FILE.parquet` or `FILE.parquet:COLUMN`.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    file: PathBuf,
    column: Option<String>,
}

impl Place {
    /// Splits the path of a file of columns; none for another file. A file whose own name looks like both parts is taken as it is.
    fn of(path: &Path) -> Option<Self> {
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
