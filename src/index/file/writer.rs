//! Writes a file, tensor after tensor.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::{Error, Result};
use crate::files::{Pending, failed};
use crate::index::file::header::Header;

/// A file that is being written. It takes its place when it is [finished](Self::finish); when it is dropped before that,
/// nothing of it is left, and what was in its place stays.
pub(crate) struct Writer {
    path: PathBuf,
    pending: Pending,
    header: Header,
    /// The tensor that is being written, by its number in the header.
    current: usize,
    /// Bytes of it that are still to come.
    left: usize,
    /// Of its bytes so far. Why xxh3: it is as fast as memory on every target with what the target has always had (SSE2,
    /// NEON), where CRC-32C needs instructions that are looked for at run time; and of 2^64 damages it misses one, not of 2^32.
    checksum: Xxh3Default,
}

impl Writer {
    /// Starts the file `path` of these tensors, which will be written in this order: those with wider elements come
    /// first. The keys `format`, `version` and `xxh3.…` of the metadata are the writer's own.
    ///
    /// # Errors
    /// [`Error::Argument`] when a name occurs twice or a tensor has a place that does not suit its elements.
    /// [`Error::Io`] when the file cannot be written.
    pub(crate) fn create(
        path: &Path,
        metadata: &[(&str, String)],
        tensors: &[(&str, Dtype, &[usize])],
    ) -> Result<Self> {
        let header = Header::new(metadata, tensors)?;
        let start = || {
            let mut pending = Pending::create(path)?;
            // With checksums of zeros, which keep their places. Nobody takes it for a whole file.
            pending.file().write_all(&header.render()?)?;
            io::Result::Ok(pending)
        };
        let pending = start().map_err(failed(path))?;
        let mut writer =
            Self { path: path.into(), pending, header, current: 0, left: 0, checksum: Xxh3Default::new() };
        writer.start_tensor();
        Ok(writer)
    }

    /// Appends little-endian bytes to `tensor`, whose turn it has to be.
    ///
    /// # Errors
    /// [`Error::Argument`] when it is not, or when the tensor has not that many bytes left. [`Error::Io`] when they
    /// cannot be written; the writer is of no use then.
    pub(crate) fn write(&mut self, tensor: &str, bytes: &[u8]) -> Result<()> {
        // Tensors without elements have no bytes to announce them.
        while self.left == 0 && self.name().is_some_and(|name| name != tensor) {
            self.end_tensor();
        }
        if self.name() != Some(tensor) || bytes.len() > self.left {
            let given = format!("{} bytes of {tensor}", bytes.len());
            return Err(Error::argument("tensor", self.expected(), given));
        }
        self.pending.file().write_all(bytes).map_err(failed(&self.path))?;
        self.checksum.update(bytes);
        self.left -= bytes.len();
        Ok(())
    }

    /// Puts the file in its place, once all of it is on the disk. A crash leaves the old file there or this one, whole.
    ///
    /// # Errors
    /// [`Error::Argument`] when bytes are missing. [`Error::Io`] when the file cannot be put on the disk.
    pub(crate) fn finish(mut self) -> Result<()> {
        while self.left == 0 && self.name().is_some() {
            self.end_tensor();
        }
        if self.name().is_some() {
            return Err(Error::argument("tensor", self.expected(), "the end"));
        }
        let Self { path, mut pending, header, .. } = self;
        let finish = || {
            let bytes = header.data_bytes() as u64;
            let head = header.seal()?;
            let file = pending.file();
            // A write that failed halfway and was tried again would leave more.
            if file.stream_position()? != head.len() as u64 + bytes {
                return Err(io::Error::other("a piece was not written as a whole"));
            }
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&head)?;
            pending.finish()
        };
        finish().map_err(failed(&path))
    }

    fn name(&self) -> Option<&str> {
        self.header.tensors().get(self.current).map(|(name, _)| name.as_str())
    }

    fn expected(&self) -> String {
        self.name().map_or("the end".into(), |name| format!("{} bytes of {name}", self.left))
    }

    fn start_tensor(&mut self) {
        let info = self.header.tensors().get(self.current).map(|(_, info)| info.data_offsets);
        self.left = info.map_or(0, |(start, end)| end - start);
    }

    fn end_tensor(&mut self) {
        if let Some(name) = self.name().map(str::to_owned) {
            self.header.set_checksum(&name, self.checksum.digest());
        }
        self.checksum.reset();
        self.current += 1;
        self.start_tensor();
    }
}
