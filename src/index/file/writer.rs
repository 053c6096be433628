//! Writes a file, tensor after tensor.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::{Error, Result};
use crate::files::{Pending, failed};
use crate::index::file::header::Header;

/// Where the bytes of an index go.
enum Target<'a> {
    /// A file, which takes its place when it is finished.
    File(PathBuf, Pending),
    Memory(Vec<u8>),
    /// Nowhere: only the checksums are wanted.
    Nothing,
    /// A writer, which cannot go back to the header.
    Writer(&'a mut (dyn Write + Send)),
}

impl Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::File(path, pending) => pending.file().write_all(bytes).map_err(failed(path)),
            Self::Memory(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
            Self::Nothing => Ok(()),
            Self::Writer(writer) => writer.write_all(bytes).map_err(failed(Path::new("writer of an index"))),
        }
    }
}

/// An index that is being written. A file takes its place when it is [finished](Self::finish); when it is dropped before
/// that, nothing of it is left, and the file that was in its place stays.
pub(crate) struct Writer<'a> {
    target: Target<'a>,
    header: Header,
    /// The tensor that is being written, by its number in the header.
    current: usize,
    /// Bytes of it that are still to come.
    left: usize,
    /// Checksum of its bytes so far. Why xxh3: it is as fast as memory on every target with the instructions that the target
    /// has always had (SSE2, NEON), where CRC-32C needs instructions that are looked for at run time; and it misses one of
    /// 2^64 damages, not one of 2^32.
    checksum: Xxh3Default,
}

impl<'a> Writer<'a> {
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
        let pending = Pending::create(path).map_err(failed(path))?;
        Self::with_blank_header(Target::File(path.into(), pending), header)
    }

    /// Starts an index in memory.
    ///
    /// # Errors
    /// As [`create`](Self::create), without those of files.
    pub(crate) fn in_memory(
        metadata: &[(&str, String)],
        tensors: &[(&str, Dtype, &[usize])],
    ) -> Result<Self> {
        Self::with_blank_header(Target::Memory(vec![]), Header::new(metadata, tensors)?)
    }

    /// Starts an index that is written nowhere, for its header.
    ///
    /// # Errors
    /// As [`create`](Self::create), without those of files.
    pub(crate) fn of_checksums(
        metadata: &[(&str, String)],
        tensors: &[(&str, Dtype, &[usize])],
    ) -> Result<Self> {
        Self::with_blank_header(Target::Nothing, Header::new(metadata, tensors)?)
    }

    /// Starts to write an index whose header is known to a writer that cannot go back.
    ///
    /// # Errors
    /// [`Error::Io`] when the writer fails.
    pub(crate) fn behind(header: Header, writer: &'a mut (dyn Write + Send)) -> Result<Self> {
        let bytes = header.clone().seal().map_err(failed(Path::new("header of an index")))?;
        Self::start(Target::Writer(writer), header, &bytes)
    }

    /// Writes the header with checksums of zeros, which keep their places. Nobody takes it for a whole file.
    fn with_blank_header(target: Target<'a>, header: Header) -> Result<Self> {
        let bytes = header.render().map_err(failed(Path::new("header of an index")))?;
        Self::start(target, header, &bytes)
    }

    fn start(mut target: Target<'a>, header: Header, head: &[u8]) -> Result<Self> {
        target.write(head)?;
        let mut writer = Self { target, header, current: 0, left: 0, checksum: Xxh3Default::new() };
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
        self.target.write(bytes)?;
        self.checksum.update(bytes);
        self.left -= bytes.len();
        Ok(())
    }

    /// Puts a file in its place, once all of it is on the disk: a crash leaves the old file there or this one, whole. Flushes
    /// a writer.
    ///
    /// # Errors
    /// [`Error::Argument`] when bytes are missing. [`Error::Io`] when the file cannot be put on the disk.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.end_tensors()?;
        let Self { target, header, .. } = self;
        match target {
            Target::File(path, mut pending) => {
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
            Target::Writer(writer) => writer.flush().map_err(failed(Path::new("writer of an index"))),
            Target::Memory(_) | Target::Nothing => Ok(()),
        }
    }

    /// The bytes of an index in memory.
    ///
    /// # Errors
    /// [`Error::Argument`] when bytes are missing.
    pub(crate) fn into_bytes(mut self) -> Result<Vec<u8>> {
        self.end_tensors()?;
        let Target::Memory(mut bytes) = self.target else { return Ok(vec![]) };
        let head = self.header.seal().map_err(failed(Path::new("header of an index")))?;
        bytes[..head.len()].copy_from_slice(&head);
        Ok(bytes)
    }

    /// The header, which has the checksums of all tensors.
    ///
    /// # Errors
    /// [`Error::Argument`] when bytes are missing.
    pub(crate) fn into_header(mut self) -> Result<Header> {
        self.end_tensors()?;
        Ok(self.header)
    }

    fn end_tensors(&mut self) -> Result<()> {
        while self.left == 0 && self.name().is_some() {
            self.end_tensor();
        }
        if self.name().is_some() {
            return Err(Error::argument("tensor", self.expected(), "the end"));
        }
        Ok(())
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
