//! Files of vectors: those that the library reads, and columns of Parquet and Arrow files.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nearfield::io::{self, VectorFile};

#[cfg(feature = "parquet")]
use super::place::Copied;
use super::place::Place;

/// The error of a program built without `parquet`: it names the feature and the command that builds it.
#[cfg(not(feature = "parquet"))]
pub const WITHOUT_COLUMNS: &str =
    "needed a program with the feature `parquet`, as `cargo install --path cli --features parquet` builds it";

/// An open file of vectors, with the name that the user knows.
#[derive(Debug)]
pub struct Vectors {
    file: VectorFile,
    #[cfg(feature = "parquet")]
    copied: Option<Copied>,
}

impl Vectors {
    /// Opens a file by its ending. Columns have names: `FILE.parquet:COLUMN`.
    pub fn open(path: &Path) -> Result<Self> {
        match Place::of(path) {
            #[cfg(feature = "parquet")]
            Some(place) => {
                let (file, copied) = super::columns::open(&place)?;
                Ok(Self { file, copied: Some(copied) })
            }
            #[cfg(not(feature = "parquet"))]
            Some(place) => anyhow::bail!("{}: {WITHOUT_COLUMNS}", place.file.display()),
            None => Ok(VectorFile::open(path)?.into()),
        }
    }

    /// The path of the vectors, with the name of the array or column.
    pub fn path(&self) -> &Path {
        #[cfg(feature = "parquet")]
        if let Some(copied) = &self.copied {
            return &copied.path;
        }
        self.file.path()
    }

    /// The path of the file in which the rows lie, which is a copy for a column.
    pub fn stored(&self) -> &Path {
        self.file.path()
    }

    /// What reading changes, as a note for people.
    pub fn converted(&self) -> Option<String> {
        #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
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
pub fn file_of(path: &Path) -> PathBuf {
    Place::of(path).map_or_else(|| io::file_of(path), |place| place.file)
}
