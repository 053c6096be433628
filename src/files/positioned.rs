//! Reads files at any position without affecting other readers of the same file.

#[cfg(feature = "io")]
use std::borrow::Cow;
use std::fs::{self, File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;
use std::sync::Arc;

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Opens a regular file.
pub(super) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let checked = |metadata: Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
    };
    // Opening a named pipe would wait for a writer, so this comes first. Another file may have the name by the time it is opened.
    checked(fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = checked(file.metadata()?)?;
    Ok((file, metadata))
}

/// A browser has no files.
#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> Result<usize> {
    Err(ErrorKind::Unsupported.into())
}

/// An open file with a position, and its length at the time it was opened. Clones share the file but not the position.
#[derive(Debug, Clone)]
pub(crate) struct PositionedFile {
    content: Content,
    position: u64,
    length: u64,
}

#[derive(Debug, Clone)]
enum Content {
    File(Arc<File>),
    /// Bytes that stand for those of a file.
    #[cfg(feature = "io")]
    Bytes(Arc<Cow<'static, [u8]>>),
}

impl PositionedFile {
    /// Opens `path`, which must be a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, metadata) = open_regular(path)?;
        Ok(Self { content: Content::File(Arc::new(file)), position: 0, length: metadata.len() })
    }

    /// Takes bytes for those of a file.
    #[cfg(feature = "io")]
    pub(crate) fn of_bytes(bytes: Cow<'static, [u8]>) -> Self {
        Self { length: bytes.len() as u64, content: Content::Bytes(Arc::new(bytes)), position: 0 }
    }

    /// The length of the file in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The same file at another position, for [`Read`].
    #[cfg(feature = "io")]
    pub(crate) fn at(self, position: u64) -> Self {
        Self { position, ..self }
    }

    /// Reads some of the bytes that start at `offset` into `buffer`, and returns how many: none at the end.
    pub(crate) fn read_some(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &self.content {
            Content::File(file) => read_at(file, buffer, offset),
            #[cfg(feature = "io")]
            Content::Bytes(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                rest.unwrap_or_default().read(buffer)
            }
        }
    }

    /// Fills `buffer` with the bytes that start at `offset`.
    pub(crate) fn fill(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match self.read_some(offset, buffer) {
                Ok(0) => {
                    let message = format!("the file ends at byte {offset}, it had {} bytes", self.length);
                    return Err(Error::new(ErrorKind::UnexpectedEof, message));
                }
                Ok(count) => {
                    offset += count as u64;
                    buffer = &mut buffer[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for PositionedFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.read_some(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}
