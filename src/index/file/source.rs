//! The sources that an index is loaded from.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::files::PositionedFile;
use crate::lock::lock;

/// A file, bytes in memory, or a reader.
pub(crate) enum Source<'a> {
    File(PathBuf, PositionedFile),
    Bytes(&'a [u8]),
    /// A reader, and the number of bytes read so far. The lock makes a `Source` usable from other threads.
    Reader(Mutex<(Box<dyn Read + Send + 'a>, u64)>),
}

impl Source<'_> {
    /// The path of a file, or a name for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path, _) => path,
            Self::Bytes(_) => Path::new("bytes of an index"),
            Self::Reader(_) => Path::new("reader of an index"),
        }
    }

    /// The number of bytes, if it is known before reading.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::File(_, file) => Some(file.length()),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Reader(_) => None,
        }
    }

    /// Fills `buffer` with the bytes that start at `offset`. A reader cannot go back.
    pub(crate) fn fill(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(_, file) => file.fill(offset, buffer),
            Self::Bytes(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                rest.unwrap_or_default().read_exact(buffer)
            }
            Self::Reader(reader) => {
                let mut reader = lock(reader);
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
