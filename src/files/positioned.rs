//! Reads files at any position without affecting other readers of the same file.

use std::fs::{self, File, Metadata};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
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

fn check_kind(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, "not a regular file"))
}

/// An open file with a position, and its length at the time it was opened. Clones share the file but not the position.
#[derive(Debug, Clone)]
pub(crate) struct PositionedFile {
    file: Arc<File>,
    position: u64,
    length: u64,
}

impl PositionedFile {
    /// Opens `path`, which must be a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // Opening a named pipe would wait for a writer, so this comes first. What is opened may be another file by now.
        check_kind(&fs::metadata(path)?)?;
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        check_kind(&metadata)?;
        Ok(Self { file: Arc::new(file), position: 0, length: metadata.len() })
    }

    /// The length of the file in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` with the bytes that start at `offset`.
    pub(crate) fn fill(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match read_at(&self.file, buffer, offset) {
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
        let count = read_at(&self.file, buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for PositionedFile {
    /// Moves within the file. Refuses positions past the end, which offsets in a damaged archive point to.
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let inside = position.filter(|&position| position <= self.length);
        self.position =
            inside.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "a position outside of the file"))?;
        Ok(self.position)
    }
}
