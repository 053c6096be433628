//! Reads rows of numbers from a file of any format.

use std::io::{Error as IoError, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::element_type::{ElementType, list};
use super::source::Source;
use crate::error::{Error, Result};
use crate::files::{failed, mismatch};

/// Bytes read at a time: a multiple of every element's size, small enough to stay in the cache until it is converted.
const STEP: usize = 256 << 10;

/// The positions of a table's elements in its source.
#[derive(Debug)]
pub(super) struct Layout {
    /// The element type.
    pub(super) element: ElementType,
    /// ElementType of rows.
    pub(super) rows: u64,
    /// Elements per row.
    pub(super) dim: u64,
    /// Bytes before the first row.
    pub(super) start: u64,
    /// Bytes before the elements of each row: none, or 4 that hold the dim.
    pub(super) row_header: usize,
}

/// A table whose layout was checked: every row lies within the source.
#[derive(Debug)]
pub(super) struct Table {
    /// Names the table in messages.
    pub(super) path: PathBuf,
    source: Source,
    pub(super) element: ElementType,
    pub(super) rows: usize,
    /// Elements per row.
    pub(super) dim: usize,
    start: u64,
    row_header: usize,
    /// Bytes per row, with its header.
    row: usize,
}

impl Table {
    /// Checks that `layout` fills `source` exactly.
    pub(super) fn new(path: &Path, source: Source, layout: Layout) -> Result<Self> {
        let Layout { element, rows, dim, start, row_header } = layout;
        if dim == 0 {
            return Err(mismatch(path, "rows of dim 1 or more", format!("{rows} rows of dim 0")));
        }
        let shape = format!("[{rows}, {dim}] numbers of {} bytes", element.size());
        let row = dim.checked_mul(element.size() as u64).and_then(|row| row.checked_add(row_header as u64));
        let length = row.and_then(|row| row.checked_mul(rows)).and_then(|data| data.checked_add(start));
        let (Some(row), Some(length)) = (row, length) else {
            return Err(mismatch(path, "a file below 2^64 bytes", shape));
        };
        if length != source.length() {
            let found = format!("{} bytes", source.length());
            return Err(mismatch(path, format!("{length} bytes ({shape} and headers)"), found));
        }
        match (usize::try_from(rows), usize::try_from(dim), usize::try_from(row)) {
            (Ok(rows), Ok(dim), Ok(row)) if rows.checked_mul(dim).is_some() => {
                Ok(Self { path: path.to_path_buf(), source, element, rows, dim, start, row_header, row })
            }
            _ => Err(mismatch(path, "rows that this machine can address", shape)),
        }
    }

    /// Reads the rows of `range`, which must lie within the table, into one allocation of the final size.
    ///
    /// `convert` gets the bytes of whole elements and appends the elements.
    pub(super) fn read<T>(
        &self,
        range: Range<usize>,
        mut convert: impl FnMut(&[u8], &mut Vec<T>) -> Result<()>,
    ) -> Result<Vec<T>> {
        let mut values = self.reserve(range.len() * self.dim)?;
        // Rows with headers are read whole, so that the headers lie at known positions.
        let step = if self.row_header == 0 { STEP } else { (STEP / self.row).max(1) * self.row };
        let mut offset = self.start + range.start as u64 * self.row as u64;
        let end = self.start + range.end as u64 * self.row as u64;
        let step = usize::try_from(end - offset).unwrap_or(step).min(step);
        let mut buffer = self.reserve(step)?;
        buffer.resize(step, 0);
        let mut row = range.start;
        while offset < end {
            let count = usize::try_from(end - offset).unwrap_or(step).min(step);
            let bytes = &mut buffer[..count];
            self.source.fill(offset, bytes).map_err(failed(&self.path))?;
            offset += count as u64;
            if self.row_header == 0 {
                convert(bytes, &mut values)?;
                continue;
            }
            for bytes in bytes.chunks_exact(self.row) {
                let (header, numbers) = bytes.split_at(self.row_header);
                self.check_row_header(row, header)?;
                convert(numbers, &mut values)?;
                row += 1;
            }
        }
        Ok(values)
    }

    fn check_row_header(&self, row: usize, header: &[u8]) -> Result<()> {
        let dim = header.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if dim.is_some_and(|dim| dim as usize == self.dim) {
            return Ok(());
        }
        let found = format!("row {row} of dim {}", dim.unwrap_or_default());
        Err(mismatch(&self.path, format!("rows of dim {}, as the first", self.dim), found))
    }

    /// The error for an element type that is not among the `accepted` ones.
    pub(super) fn unaccepted(&self, accepted: &[ElementType]) -> Error {
        mismatch(&self.path, format!("dtype {}", list(accepted)), format!("dtype {}", self.element.dtype()))
    }

    fn reserve<T>(&self, count: usize) -> Result<Vec<T>> {
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|_| {
            let message = format!("no memory for {count} numbers of {} bytes", size_of::<T>());
            failed(&self.path)(IoError::new(ErrorKind::OutOfMemory, message))
        })?;
        Ok(values)
    }
}
