//! Reads rows of numbers from a file of any binary format.

use std::io::{Error as IoError, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::convert::Misfit;
use super::element_type::ElementType;
use super::source::Source;
use crate::error::Result;
use crate::files::{failed, mismatch};
use crate::memory;

/// Bytes read at a time: a multiple of every element's size, small enough to stay in the cache until it is converted.
const STEP: usize = 256 << 10;

/// The positions of a table's elements in its source.
#[derive(Debug)]
pub(super) struct Layout {
    /// The element type.
    pub(super) element: ElementType,
    pub(super) is_big_endian: bool,
    /// Whether columns follow each other, not rows.
    pub(super) is_fortran: bool,
    /// Number of rows.
    pub(super) rows: u64,
    /// Elements per row.
    pub(super) dim: u64,
    /// Bytes before the first row.
    pub(super) start: u64,
    /// Bytes before the elements of each row: none, or 4 that hold the dim.
    pub(super) row_header: usize,
}

impl Layout {
    /// Rows of little-endian elements, one after the other.
    pub(super) fn plain(element: ElementType, rows: u64, dim: u64, start: u64) -> Self {
        Self { element, is_big_endian: false, is_fortran: false, rows, dim, start, row_header: 0 }
    }
}

/// A table whose layout was checked: every row lies within the source.
#[derive(Debug)]
pub(super) struct Table {
    /// Names the table in messages.
    pub(super) path: PathBuf,
    source: Source,
    pub(super) layout: Layout,
    pub(super) rows: usize,
    /// Elements per row.
    pub(super) dim: usize,
    /// Bytes per row, with its header.
    row: usize,
}

impl Table {
    /// Checks that `layout` fills `source` exactly.
    pub(super) fn new(path: &Path, source: Source, layout: Layout) -> Result<Self> {
        let Layout { element, rows, dim, start, row_header, .. } = layout;
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
                Ok(Self { path: path.to_path_buf(), source, layout, rows, dim, row })
            }
            _ => Err(mismatch(path, "rows that this machine can address", shape)),
        }
    }

    /// The element type.
    pub(super) fn element(&self) -> ElementType {
        self.layout.element
    }

    /// Reads the rows of `range`, which must lie within the table, into one allocation of the final size.
    ///
    /// `convert` gets the bytes of whole elements, little endian, and appends the elements.
    pub(super) fn read<T: Copy>(
        &self,
        range: Range<usize>,
        mut convert: impl FnMut(&[u8], &mut Vec<T>) -> Result<(), Misfit>,
    ) -> Result<Vec<T>> {
        if self.layout.is_fortran {
            return self.read_columns(range, convert);
        }
        // Eight bools become one element.
        let per = if self.element() == ElementType::Bool { 8 } else { 1 };
        let mut values = reserve(&self.path, range.len() * self.dim.div_ceil(per))?;
        // Rows with headers are read whole, so that the headers lie at known positions.
        let step = if self.layout.row_header == 0 { STEP } else { (STEP / self.row).max(1) * self.row };
        let [start, end] =
            [range.start, range.end].map(|row| self.layout.start + row as u64 * self.row as u64);
        let mut buffer = reserve(&self.path, usize::try_from(end - start).unwrap_or(step).min(step))?;
        self.steps(start..end, step, &mut buffer, |bytes| {
            let mut add = |numbers: &[u8], values: &mut Vec<T>| {
                let converted = convert(numbers, values);
                converted.map_err(|misfit| self.misfit(misfit, range.start + values.len() / self.dim))
            };
            if self.layout.row_header == 0 {
                return add(bytes, &mut values);
            }
            for bytes in bytes.chunks_exact(self.row) {
                let (header, numbers) = bytes.split_at(self.layout.row_header);
                self.check_row_header(range.start + values.len() / self.dim, header)?;
                add(numbers, &mut values)?;
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Reads rows of a table whose columns follow each other: the rows' part of each column.
    fn read_columns<T: Copy>(
        &self,
        range: Range<usize>,
        mut convert: impl FnMut(&[u8], &mut Vec<T>) -> Result<(), Misfit>,
    ) -> Result<Vec<T>> {
        let mut values: Vec<T> = reserve(&self.path, range.len() * self.dim)?;
        let size = self.element().size();
        let step = STEP.min(range.len().saturating_mul(size));
        let (mut buffer, mut part) = (reserve(&self.path, step)?, reserve(&self.path, step / size)?);
        for column in 0..self.dim {
            let first =
                self.layout.start + (column as u64 * self.rows as u64 + range.start as u64) * size as u64;
            let mut row = 0;
            self.steps(first..first + (range.len() * size) as u64, step, &mut buffer, |bytes| {
                part.clear();
                let converted = convert(bytes, &mut part);
                converted.map_err(|misfit| self.misfit(misfit, range.start + row + part.len()))?;
                if let (0, Some(&any)) = (values.len(), part.first()) {
                    values.resize(range.len() * self.dim, any);
                }
                let places = values[row * self.dim + column..].iter_mut().step_by(self.dim);
                places.zip(&part).for_each(|(place, value)| *place = *value);
                row += part.len();
                Ok(())
            })?;
        }
        Ok(values)
    }

    /// Hands over the bytes of `range`, little endian, in steps, which are multiples of an element.
    fn steps(
        &self,
        range: Range<u64>,
        step: usize,
        buffer: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut offset = range.start;
        while offset < range.end {
            buffer.resize(usize::try_from(range.end - offset).unwrap_or(step).min(step), 0);
            self.source.fill(offset, buffer).map_err(failed(&self.path))?;
            if self.layout.is_big_endian {
                buffer.chunks_exact_mut(self.element().size()).for_each(<[u8]>::reverse);
            }
            take(buffer)?;
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn check_row_header(&self, row: usize, header: &[u8]) -> Result<()> {
        let dim = header.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if dim.is_some_and(|dim| dim as usize == self.dim) {
            return Ok(());
        }
        let found = format!("row {row} of dim {}", dim.unwrap_or_default());
        Err(mismatch(&self.path, format!("rows of dim {}, as the first", self.dim), found))
    }

    fn misfit(&self, misfit: Misfit, row: usize) -> crate::error::Error {
        mismatch(&self.path, misfit.needed, format!("{} in row {row}", misfit.found))
    }
}

/// An empty vector with room for `count` elements.
pub(super) fn reserve<T>(path: &Path, count: usize) -> Result<Vec<T>> {
    memory::with_room(count).map_err(|_| {
        let message = format!("no memory for {count} numbers of {} bytes", size_of::<T>());
        failed(path)(IoError::new(ErrorKind::OutOfMemory, message))
    })
}
