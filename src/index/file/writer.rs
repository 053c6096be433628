//! Writes an index, tensor by tensor.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::{Error, Result};
use crate::files::{Pending, failed};
use crate::index::file::header::Header;
use crate::interrupt;
use crate::memory;

/// The destinations that an index is saved to.
enum FileTarget<'a> {
    /// A file, which appears under its path when it is finished.
    File(PathBuf, Pending),
    Memory(Vec<u8>),
    /// Discards the bytes: only the checksums are needed.
    Nothing,
    /// A writer, which cannot go back to the header.
    Writer(&'a mut (dyn Write + Send)),
}

impl FileTarget<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::File(path, pending) => pending.file().write_all(bytes).map_err(failed(path)),
            Self::Memory(all) => {
                let len = all.len() + bytes.len();
                memory::reserve(all, len)?;
                all.extend_from_slice(bytes);
                Ok(())
            }
            Self::Nothing => Ok(()),
            Self::Writer(writer) => writer.write_all(bytes).map_err(failed(Path::new("writer of an index"))),
        }
    }
}

/// An index that is being written. [`finish`](Self::finish) puts a file in its place. If the writer is dropped before that,
/// nothing is left behind and an existing file stays.
pub(crate) struct Writer<'a> {
    target: FileTarget<'a>,
    header: Header,
    /// The index of the current tensor in the header.
    current: usize,
    /// Bytes of the current tensor that are not written yet.
    left: usize,
    /// Checksum of the bytes so far. xxh3 runs at the speed of memory with each target's baseline instructions (SSE2, NEON),
    /// while CRC-32C needs detection at run time. Its 64 bits miss one error in 2^64, not one in 2^32.
    checksum: Xxh3Default,
}

impl<'a> Writer<'a> {
    /// Starts the file `path`. Tensors must be written in the given order, wider elements before narrower ones. The metadata
    /// keys `format`, `version` and `xxh3.…` are reserved.
    pub(crate) fn create(
        path: &Path,
        metadata: &[(&str, String)],
        tensors: &[(&str, Dtype, &[usize])],
    ) -> Result<Self> {
        let header = Header::new(metadata, tensors)?;
        let pending = Pending::create(path, header.data_bytes() as u64).map_err(failed(path))?;
        Self::with_blank_header(FileTarget::File(path.into(), pending), header)
    }

    pub(crate) fn in_memory(
        metadata: &[(&str, String)],
        tensors: &[(&str, Dtype, &[usize])],
    ) -> Result<Self> {
        Self::with_blank_header(FileTarget::Memory(vec![]), Header::new(metadata, tensors)?)
    }

    /// Starts an index whose bytes are discarded, to compute its checksums.
    pub(crate) fn of_checksums(
        metadata: &[(&str, String)],
        tensors: &[(&str, Dtype, &[usize])],
    ) -> Result<Self> {
        Self::with_blank_header(FileTarget::Nothing, Header::new(metadata, tensors)?)
    }

    /// Starts an index for a writer that cannot seek. `header` already has all checksums.
    pub(crate) fn behind(header: Header, writer: &'a mut (dyn Write + Send)) -> Result<Self> {
        let bytes = header.clone().seal().map_err(failed(Path::new("header of an index")))?;
        Self::start(FileTarget::Writer(writer), header, &bytes)
    }

    /// Writes the header with zeros as checksums, which `finish` replaces. No reader accepts such a header.
    fn with_blank_header(target: FileTarget<'a>, header: Header) -> Result<Self> {
        let bytes = header.render().map_err(failed(Path::new("header of an index")))?;
        Self::start(target, header, &bytes)
    }

    fn start(mut target: FileTarget<'a>, header: Header, head: &[u8]) -> Result<Self> {
        target.write(head)?;
        let mut writer = Self { target, header, current: 0, left: 0, checksum: Xxh3Default::new() };
        writer.start_tensor();
        Ok(writer)
    }

    /// Appends little-endian bytes to `tensor`, which must be the current or the next tensor.
    pub(crate) fn write(&mut self, tensor: &str, bytes: &[u8]) -> Result<()> {
        interrupt::check()?;
        // Complete tensors end here, including those without elements, for which no call comes.
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

    /// Puts a file in its place once all bytes are on the disk, so that a crash leaves either the old file or the new one.
    /// Flushes a writer.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.end_tensors()?;
        let Self { target, header, .. } = self;
        match target {
            FileTarget::File(path, mut pending) => {
                let finish = || {
                    let bytes = header.data_bytes() as u64;
                    let head = header.seal()?;
                    let file = pending.file();
                    // A write that failed halfway and was repeated leaves extra bytes.
                    if file.stream_position()? != head.len() as u64 + bytes {
                        return Err(io::Error::other("a piece was not written as a whole"));
                    }
                    file.seek(SeekFrom::Start(0))?;
                    file.write_all(&head)?;
                    pending.finish()
                };
                finish().map_err(failed(&path))
            }
            FileTarget::Writer(writer) => writer.flush().map_err(failed(Path::new("writer of an index"))),
            FileTarget::Memory(_) | FileTarget::Nothing => Ok(()),
        }
    }

    /// The bytes of an index in memory.
    pub(crate) fn into_bytes(mut self) -> Result<Vec<u8>> {
        self.end_tensors()?;
        let FileTarget::Memory(mut bytes) = self.target else { return Ok(vec![]) };
        let head = self.header.seal().map_err(failed(Path::new("header of an index")))?;
        bytes[..head.len()].copy_from_slice(&head);
        Ok(bytes)
    }

    /// The header with the checksums of all tensors.
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
