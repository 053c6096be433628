//! Reads the elements of a dataset of an HDF5 file.

use std::fmt;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};

use hdf5_reader::error::{Error as Hdf5Error, Result as Hdf5Result};
use hdf5_reader::{ByteOrder, Dataset, Datatype, H5Type, SliceInfo, SliceInfoElem};

use crate::memory;

/// The elements of a dataset as bytes in its own order, row after row, whatever its chunks and filters are.
pub(in crate::io) struct DatasetBytes {
    dataset: Dataset,
    /// Bytes per row.
    row: u64,
    /// Bytes per element.
    size: usize,
    length: u64,
}

impl DatasetBytes {
    /// Takes a dataset of `length` bytes, with `row` bytes per row and `size` per element.
    pub(in crate::io) fn new(dataset: Dataset, row: u64, size: usize, length: u64) -> Self {
        Self { dataset, row, size, length }
    }

    /// The number of bytes.
    pub(in crate::io) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` with the bytes that start at `offset`. Both are multiples of an element.
    pub(in crate::io) fn fill(&self, offset: u64, buffer: &mut [u8]) -> IoResult<()> {
        match self.size {
            1 => self.fill_elements::<1>(offset, buffer),
            2 => self.fill_elements::<2>(offset, buffer),
            4 => self.fill_elements::<4>(offset, buffer),
            _ => self.fill_elements::<8>(offset, buffer),
        }
    }

    fn fill_elements<const N: usize>(&self, offset: u64, buffer: &mut [u8]) -> IoResult<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let whole = |end| SliceInfoElem::Slice { start: 0, end, step: 1 };
        let mut selections: Vec<_> = self.dataset.shape().iter().map(|&length| whole(length)).collect();
        let start = offset / self.row;
        let end = (offset + buffer.len() as u64).div_ceil(self.row);
        selections[0] = SliceInfoElem::Slice { start, end, step: 1 };
        // The elements, as bytes and as numbers, and the chunks that they lie in, as stored and as decoded.
        let chunk = self.dataset.chunks().unwrap_or_default();
        let chunk = chunk.iter().fold(self.size as u64, |bytes, &length| bytes.saturating_mul(length.into()));
        let bytes = (end - start).saturating_mul(self.row).saturating_add(chunk).saturating_mul(2);
        memory::check_free("reading HDF5", bytes).map_err(|_| IoError::from(ErrorKind::OutOfMemory))?;
        let read = self.dataset.read_slice::<Raw<N>>(&SliceInfo { selections }).map_err(of_system)?;
        let skipped = ((offset - start * self.row) / N as u64) as usize;
        let mut elements = read.iter().skip(skipped);
        for place in buffer.as_chunks_mut::<N>().0 {
            *place = elements.next().ok_or_else(|| IoError::other("elements are missing"))?.0;
        }
        Ok(())
    }
}

/// The error as one of the system.
pub(super) fn of_system(error: Hdf5Error) -> IoError {
    match error {
        Hdf5Error::Io(cause) => cause,
        other => IoError::other(other),
    }
}

/// An element as it is in the file.
#[derive(Clone, Copy)]
struct Raw<const N: usize>([u8; N]);

impl<const N: usize> H5Type for Raw<N> {
    fn hdf5_type() -> Datatype {
        Datatype::FixedPoint { size: N as u8, signed: false, byte_order: ByteOrder::LittleEndian }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> Hdf5Result<Self> {
        let short = || Hdf5Error::InvalidData(format!("an element of {} bytes", bytes.len()));
        bytes.first_chunk().map(|bytes| Self(*bytes)).ok_or_else(short)
    }

    fn element_size(_: &Datatype) -> usize {
        N
    }

    fn decode_vec(raw: &[u8], _: &Datatype, count: usize) -> Option<Hdf5Result<Vec<Self>>> {
        let elements = raw.as_chunks().0.get(..count)?;
        Some(Ok(elements.iter().map(|bytes| Self(*bytes)).collect()))
    }
}

impl fmt::Debug for DatasetBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetBytes").field("shape", &self.dataset.shape()).finish_non_exhaustive()
    }
}
