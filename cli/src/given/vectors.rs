//! Files of vectors: those that the library reads, and columns of Parquet and Arrow files.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nearfield::io::{self, VectorFile};

#[cfg(feature = "sql")]
use super::place::Copied;
use super::place::Place;

/// The error of a program built without `sql`: it names the feature and the command that builds it.
#[cfg(not(feature = "sql"))]
pub(crate) const WITHOUT_SQL: &str =
    "needed a program with the feature `sql`, as `cargo install --path cli --features sql` builds it";

/// An open file of vectors, with the name that the user knows.
#[derive(Debug)]
pub(crate) struct Vectors {
    file: VectorFile,
    #[cfg(feature = "sql")]
    copied: Option<Copied>,
}

impl Vectors {
    /// Opens a file by its ending. Columns have names: `FILE.parquet:COLUMN`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match Place::of(path) {
            #[cfg(feature = "sql")]
            Some(place) => {
                let (file, copied) = super::columns::open(&place)?;
                Ok(Self { file, copied: Some(copied) })
            }
            #[cfg(not(feature = "sql"))]
            Some(place) => anyhow::bail!("{}: {WITHOUT_SQL}", place.file.display()),
            None => Ok(VectorFile::open(path)?.into()),
        }
    }

    /// The path of the vectors, with the name of the array or column.
    pub(crate) fn path(&self) -> &Path {
        #[cfg(feature = "sql")]
        if let Some(copied) = &self.copied {
            return &copied.path;
        }
        self.file.path()
    }

    /// The path of the file in which the rows lie, which is a copy for a column.
    pub(crate) fn stored(&self) -> &Path {
        self.file.path()
    }

    /// What reading changes, as a note for people.
    pub(crate) fn converted(&self) -> Option<String> {
        #[cfg(feature = "sql")]
        if let Some(copied) = &self.copied {
            return copied.converted.clone();
        }
        self.file.converted()
    }
}

impl From<VectorFile> for Vectors {
    fn from(file: VectorFile) -> Self {
        Self {
            file,
            #[cfg(feature = "sql")]
            copied: None,
        }
    }
}

impl Deref for Vectors {
    type Target = VectorFile;

    fn deref(&self) -> &VectorFile {
        &self.file
    }
}

/// The file of a path that may name one of its parts.
pub(crate) fn file_of(path: &Path) -> PathBuf {
    Place::of(path).map_or_else(|| io::file_of(path), |place| place.file)
}
