//! The bytes of an array: a range of a file, or a deflated member.

use super::formats::Inflater;
#[cfg(feature = "hdf5")]
use super::formats::dataset::DatasetBytes;
use crate::files::PositionedFile;

/// Bytes that can be read at any offset.
#[derive(Debug)]
pub(super) enum Source {
    /// A range of a file.
    Stretch {
        /// The file.
        file: PositionedFile,
        /// The offset of the first byte.
        start: u64,
        /// The number of bytes. The range lies within the file.
        length: u64,
    },
    /// A deflated archive member.
    Deflated(Inflater),
    /// A dataset of an HDF5 file.
    #[cfg(feature = "hdf5")]
    Dataset(Box<DatasetBytes>),
}

impl Source {
    /// All bytes of a file.
    pub(super) fn file(file: PositionedFile) -> Self {
        let length = file.length();
        Self::Stretch { file, start: 0, length }
    }

    /// The bytes of a file up to `end`, which lies within it.
    pub(super) fn until(self, end: u64) -> Self {
        match self {
            Self::Stretch { file, start, .. } => Self::Stretch { file, start, length: end },
            other => other,
        }
    }

    /// The number of bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Stretch { length, .. } => *length,
            Self::Deflated(inflater) => inflater.length(),
            #[cfg(feature = "hdf5")]
            Self::Dataset(dataset) => dataset.length(),
        }
    }

    /// Fills `buffer` with the bytes that start at `offset`. The caller stays within the length.
    pub(super) fn fill(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Stretch { file, start, .. } => file.fill(start + offset, buffer),
            Self::Deflated(inflater) => inflater.fill(offset, buffer),
            #[cfg(feature = "hdf5")]
            Self::Dataset(dataset) => dataset.fill(offset, buffer),
        }
    }
}
