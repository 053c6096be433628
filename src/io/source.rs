//! Where the bytes of an array come from: a stretch of a file, or a deflated member.

use super::inflate::Inflater;
use crate::files::PositionedFile;

/// Bytes that can be read at any offset.
#[derive(Debug)]
pub(super) enum Source {
    /// A stretch of a file.
    Stretch {
        /// The file.
        file: PositionedFile,
        /// Where the stretch starts in it.
        start: u64,
        /// Bytes in it. The stretch lies within the file.
        length: u64,
    },
    /// A deflated archive member.
    Deflated(Inflater),
}

impl Source {
    /// All of a file.
    pub(super) fn file(file: PositionedFile) -> Self {
        let length = file.length();
        Self::Stretch { file, start: 0, length }
    }

    /// The first bytes of a file; `end` lies within it.
    pub(super) fn until(self, end: u64) -> Self {
        match self {
            Self::Stretch { file, start, .. } => Self::Stretch { file, start, length: end },
            deflated @ Self::Deflated(_) => deflated,
        }
    }

    /// How many bytes there are.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Stretch { length, .. } => *length,
            Self::Deflated(inflater) => inflater.length(),
        }
    }

    /// Fills `buffer` with the bytes from `offset` on. The caller stays within the length.
    pub(super) fn fill(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Stretch { file, start, .. } => file.fill(start + offset, buffer),
            Self::Deflated(inflater) => inflater.fill(offset, buffer),
        }
    }
}
