//! Reads a saved index, tensor by tensor.

use std::io;
use std::path::Path;
use std::str::FromStr;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use xxhash_rust::xxh3::Xxh3Default;

use crate::elements::ElementKind;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};
use crate::index::file::header::{Header, LONGEST, PREFIX, describe, digits};
use crate::index::file::source::Source;
use crate::interrupt;
use crate::memory;

/// The bytes that [`Reader::u64s`] reads at a time.
const PIECE: usize = 1 << 20;

/// An open saved index with a valid header. Tensors are read in order, because an `io::Read` cannot go back.
pub(crate) struct Reader<'a> {
    source: Source<'a>,
    header: Header,
    /// The offset of the first tensor.
    data: u64,
}

impl<'a> Reader<'a> {
    /// Opens `path` and checks everything except the bytes of the tensors.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = PositionedFile::open(path).map_err(failed(path))?;
        Self::new(Source::File(path.into(), file))
    }

    /// [`open`](Self::open) for bytes in memory.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        Self::new(Source::Bytes(bytes))
    }

    /// [`open`](Self::open) for a reader.
    pub(crate) fn from_reader(reader: Box<dyn io::Read + Send + 'a>) -> Result<Self> {
        Self::new(Source::Reader((reader, 0).into()))
    }

    fn new(source: Source<'a>) -> Result<Self> {
        let path = source.path();
        let found = |length: u64| format!("{length} bytes");
        if let Some(length) = source.length().filter(|&length| length < PREFIX as u64) {
            return Err(mismatch(path, "an index of nearfield", found(length)));
        }
        let mut bytes = vec![0; PREFIX];
        source.fill(0, &mut bytes).map_err(failed(path))?;
        let header_bytes = u64::from_le_bytes(bytes.as_chunks().0[0]);
        // This also prevents reading a large file of another kind into memory.
        if header_bytes > LONGEST as u64 {
            let needed = format!("an index of nearfield, whose header has at most {LONGEST} bytes");
            return Err(mismatch(path, needed, found(header_bytes)));
        }
        let data = PREFIX as u64 + header_bytes;
        if let Some(length) = source.length().filter(|&length| length < data) {
            return Err(mismatch(path, format!("a header of {header_bytes} bytes"), found(length)));
        }
        bytes.resize(data as usize, 0);
        source.fill(PREFIX as u64, &mut bytes[PREFIX..]).map_err(failed(path))?;
        let header = Header::parse(path, &bytes)?;
        let needed = data.checked_add(header.data_bytes() as u64);
        let needed = needed.ok_or_else(|| mismatch(path, "fewer than 2^64 bytes", "more"))?;
        if let Some(length) = source.length().filter(|&length| length != needed) {
            return Err(mismatch(path, found(needed), found(length)));
        }
        Ok(Self { source, header, data })
    }

    /// What tells the index from every other.
    pub(crate) fn identity(&self) -> u64 {
        self.header.identity()
    }

    /// The bytes of the whole index.
    pub(crate) fn bytes(&self) -> u64 {
        self.data + self.header.data_bytes() as u64
    }

    /// Whether the source's length is known. It then matches the header.
    pub(crate) fn has_length(&self) -> bool {
        self.source.length().is_some()
    }

    /// The path of the file, or a name for messages.
    pub(crate) fn path(&self) -> &Path {
        self.source.path()
    }

    pub(crate) fn parts(&self) -> Vec<(String, u64)> {
        let bytes = |info: &TensorInfo| (info.data_offsets.1 - info.data_offsets.0) as u64;
        self.header.tensors().iter().map(|(name, info)| (name.clone(), bytes(info))).collect()
    }

    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.header.tensors().iter().any(|(own, _)| own == name)
    }

    /// Whether the metadata has a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.header.get(key).is_some()
    }

    /// The metadata value of a key; `needed` describes valid values.
    pub(crate) fn get<T: FromStr>(&self, key: &str, needed: &str) -> Result<T> {
        let text = self.header.get(key);
        text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let found = text.map_or("none".into(), |text| format!("{text:?}"));
            mismatch(self.path(), format!("metadata `{key}`, {needed}"), found)
        })
    }

    /// The element type of the tensor `name` and its number of rows, each of `dim` elements.
    pub(crate) fn rows(&self, name: &str, dim: usize) -> Result<(ElementKind, usize)> {
        let (name, info) = self.info(name)?;
        match (ElementKind::find(|about| about.dtype == info.dtype), info.shape.as_slice()) {
            (Some(kind), &[rows, given]) if given == dim => Ok((kind, rows)),
            (_, shape) => {
                let types = ElementKind::NUMBERS.map(|kind| format!("{:?}", kind.dtype())).join(" or ");
                let needed = format!("tensor {name}: {types} [rows, {dim}]");
                Err(mismatch(self.path(), needed, describe(name, info.dtype, shape)))
            }
        }
    }

    /// The number of elements of the tensor `name`, which has one dimension.
    pub(crate) fn length(&self, name: &str) -> Result<usize> {
        let (name, info) = self.info(name)?;
        match info.shape.as_slice() {
            &[length] => Ok(length),
            shape => {
                let needed = format!("tensor {name} of one dimension");
                Err(mismatch(self.path(), needed, describe(name, info.dtype, shape)))
            }
        }
    }

    /// The bytes of a tensor in pieces of `piece_bytes`; the last piece may be shorter.
    pub(crate) fn tensor(
        &self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
        piece_bytes: usize,
    ) -> Result<Pieces<'_, 'a>> {
        let (name, info) = self.info(name)?;
        if info.dtype != dtype || info.shape != shape {
            let found = describe(name, info.dtype, &info.shape);
            return Err(mismatch(self.path(), describe(name, dtype, shape), found));
        }
        Pieces::new(self, name, info, piece_bytes)
    }

    pub(crate) fn u64s(&self, name: &str, shape: &[usize]) -> Result<Vec<u64>> {
        let mut pieces = self.tensor(name, Dtype::U64, shape, PIECE)?;
        let mut values = Vec::new();
        // The length of a file was checked; a reader may end earlier.
        let expected = if self.has_length() { pieces.left / size_of::<u64>() } else { 0 };
        memory::reserve(&mut values, expected)?;
        while let Some(piece) = pieces.next_piece()? {
            let len = values.len() + piece.len() / size_of::<u64>();
            memory::reserve(&mut values, len)?;
            values.extend(piece.as_chunks().0.iter().map(|value| u64::from_le_bytes(*value)));
        }
        Ok(values)
    }

    /// Where the bytes of a tensor start in the file, and their checksum as digits.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn place(&self, name: &str) -> Result<(u64, String)> {
        let (name, info) = self.info(name)?;
        let checksum = self.header.checksum(name).unwrap_or_default();
        Ok((self.data + info.data_offsets.0 as u64, checksum.to_owned()))
    }

    fn info(&self, name: &str) -> Result<(&str, &TensorInfo)> {
        let tensors = self.header.tensors();
        let found = tensors.iter().find(|(given, _)| given == name);
        found.map(|(name, info)| (name.as_str(), info)).ok_or_else(|| {
            let names: Vec<_> = tensors.iter().map(|(name, _)| name.as_str()).collect();
            mismatch(self.path(), format!("a tensor {name}"), format!("tensors [{}]", names.join(", ")))
        })
    }
}

/// The bytes of a tensor, little endian, piece by piece.
///
/// The checksum is verified with the last piece. After an error the caller must discard all pieces of the tensor.
pub(crate) struct Pieces<'p, 'a> {
    reader: &'p Reader<'a>,
    name: &'p str,
    position: u64,
    left: usize,
    buffer: Vec<u8>,
    checksum: Xxh3Default,
}

impl<'p, 'a> Pieces<'p, 'a> {
    fn new(reader: &'p Reader<'a>, name: &'p str, info: &TensorInfo, piece_bytes: usize) -> Result<Self> {
        let (start, end) = info.data_offsets;
        let (position, left) = (reader.data + start as u64, end - start);
        let buffer = memory::filled(piece_bytes.clamp(1, left.max(1)), 0)?;
        let pieces = Self { reader, name, position, left, buffer, checksum: Xxh3Default::new() };
        if left == 0 {
            pieces.verify()?;
        }
        Ok(pieces)
    }

    /// The next piece, or `None` after the last. The last piece is returned only if the tensor's checksum is right.
    pub(crate) fn next_piece(&mut self) -> Result<Option<&[u8]>> {
        let length = self.buffer.len().min(self.left);
        if length == 0 {
            return Ok(None);
        }
        interrupt::check()?;
        let piece = &mut self.buffer[..length];
        self.reader.source.fill(self.position, piece).map_err(failed(self.reader.path()))?;
        self.checksum.update(piece);
        if length == self.left {
            self.verify()?;
        }
        // Only after verifying: a damaged tensor must never reach its end in a later call.
        self.position += length as u64;
        self.left -= length;
        Ok(Some(&self.buffer[..length]))
    }

    fn verify(&self) -> Result<()> {
        let written = self.reader.header.checksum(self.name).unwrap_or_default();
        verify(self.reader.path(), self.name, written, &self.checksum)
    }
}

/// An error if the bytes of a tensor are not those that were written.
pub(crate) fn verify(path: &Path, tensor: &str, written: &str, seen: &Xxh3Default) -> Result<()> {
    let found = digits(seen.digest());
    if written == found {
        return Ok(());
    }
    let needed = format!("tensor {tensor} of checksum {written:?}");
    Err(mismatch(path, needed, format!("one of {found:?}")))
}
