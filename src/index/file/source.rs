//! Where the bytes of an index come from.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::files::PositionedFile;

/// A file, bytes in memory, or a reader.
pub(crate) enum Source<'a> {
    File(PathBuf, PositionedFile),
    Bytes(&'a [u8]),
    /// A reader, and how many bytes it gave. A lock, so that loading an index can go on in another thread.
    Reader(Mutex<(Box<dyn Read + Send + 'a>, u64)>),
}

impl Source<'_> {
    /// The path of a file; other sources have a name for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path, _) => path,
            Self::Bytes(_) => Path::new("bytes of an index"),
            Self::Reader(_) => Path::new("reader of an index"),
        }
    }

    /// How many bytes there are, where that is known before they are read.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::File(_, file) => Some(file.length()),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Reader(_) => None,
        }
    }

    /// Fills `buffer` with the bytes from `offset` on. A reader does not go back.
    pub(crate) fn fill(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(_, file) => file.fill(offset, buffer),
            Self::Bytes(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                rest.unwrap_or_default().read_exact(buffer)
            }
            Self::Reader(reader) => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                let (reader, position) = &mut *reader;
                let skipped = offset.checked_sub(*position).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::Unsupported, "these bytes of the reader are gone")
                })?;
                if io::copy(&mut reader.take(skipped), &mut io::sink())? < skipped {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                reader.read_exact(buffer)?;
                *position = offset + buffer.len() as u64;
                Ok(())
            }
        }
    }
}
