//! Reads files of vectors.

use std::iter::FusedIterator;
use std::ops::Range;
use std::path::Path;

use half::f16;

use super::element_type::ElementType;
use super::open::{Accepted, Format, open};
use super::table::Table;
use crate::error::{Error, Result};
use crate::matrix::{ElementKind, Matrix};

const VECTORS: Accepted = Accepted {
    formats: &[
        ("npy", Format::Npy),
        ("npz", Format::Npz),
        ("fvecs", Format::RowHeaders(ElementType::F32)),
        ("bvecs", Format::RowHeaders(ElementType::U8)),
        ("fbin", Format::Header(ElementType::F32)),
        ("f16bin", Format::Header(ElementType::F16)),
        ("u8bin", Format::Header(ElementType::U8)),
        ("i8bin", Format::Header(ElementType::I8)),
    ],
    elements: &[ElementType::F32, ElementType::F16],
    dimensions: 2,
    member: None,
};

/// An open file of vectors, `[rows, dim]`.
///
/// Reading takes `&self`, keeps no position and holds no memory, so many threads can share one file. A deflated npz member
/// is the exception: it is decoded from its start, for one reader at a time. Ranges in ascending order cost one pass over the
/// member in total; a range before the last one starts a new pass.
#[derive(Debug)]
pub struct VectorFile {
    table: Table,
}

impl VectorFile {
    /// Opens a file by its extension: `.npy`, `.npz`, `.fvecs`, `.bvecs`, `.fbin`, `.f16bin`, `.u8bin` or `.i8bin`.
    ///
    /// `FILE.npz:MEMBER` names a member; `FILE.npz` stands for its only 2-D float member.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened or read. [`Error::File`] if the extension is unknown, the content does not
    /// match the extension, the length does not match the header, the element type, byte order or axis order is not
    /// [accepted](super), or an archive has no such member.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { table: open(path.as_ref(), &VECTORS)? })
    }

    /// ElementType of vectors.
    pub fn rows(&self) -> usize {
        self.table.rows
    }

    /// Elements per vector, at least 1.
    pub fn dim(&self) -> usize {
        self.table.dim
    }

    /// The element type that reading returns: f16 for f16 files, f32 for all others.
    pub fn kind(&self) -> ElementKind {
        match self.table.element {
            ElementType::F16 => ElementKind::F16,
            _ => ElementKind::F32,
        }
    }

    /// The path of the vectors. For an archive it is `FILE.npz:MEMBER`, even if no member was given.
    pub fn path(&self) -> &Path {
        &self.table.path
    }

    /// Reads the vectors `range` into one allocation, `[range.len(), dim]`, in small pieces.
    ///
    /// # Errors
    /// [`Error::Argument`] if the range is not within the rows. [`Error::Io`] if the file cannot be read or memory runs out.
    /// [`Error::File`] if the dim of an fvecs or bvecs row differs from the first.
    pub fn read(&self, range: Range<usize>) -> Result<Matrix> {
        if range.start > range.end || range.end > self.rows() {
            let (needed, given) = (format!("a range within 0..{}", self.rows()), format!("{range:?}"));
            return Err(Error::Argument { argument: "range", needed, given });
        }
        let dim = self.dim();
        let f32s = |convert: fn(&[u8], &mut Vec<f32>)| {
            let convert = |bytes: &[u8], values: &mut Vec<f32>| {
                convert(bytes, values);
                Ok(())
            };
            Ok(Matrix::F32(self.table.read(range.clone(), convert)?, dim))
        };
        match self.table.element {
            ElementType::F32 => f32s(|bytes, values| {
                values.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }),
            ElementType::U8 => f32s(|bytes, values| values.extend(bytes.iter().map(|byte| f32::from(*byte)))),
            ElementType::I8 => {
                f32s(|bytes, values| values.extend(bytes.iter().map(|byte| f32::from(byte.cast_signed()))))
            }
            ElementType::F16 => {
                let convert = |bytes: &[u8], values: &mut Vec<f16>| {
                    values.extend(bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes)));
                    Ok(())
                };
                Ok(Matrix::F16(self.table.read(range, convert)?, dim))
            }
            ElementType::I32 | ElementType::U32 | ElementType::I64 | ElementType::U64 => {
                Err(self.table.unaccepted(VECTORS.elements))
            }
        }
    }

    /// Reads all vectors: [`read`](Self::read) of `0..rows`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_all(&self) -> Result<Matrix> {
        self.read(0..self.rows())
    }

    /// Reads all vectors in pieces of up to `bytes` bytes, but at least one row.
    ///
    /// Each item is the number of the piece's first row, and the piece. An error is the last item.
    pub fn pieces(&self, bytes: usize) -> Pieces<'_> {
        let row = self.dim().saturating_mul(self.kind().size());
        Pieces { file: self, rows_each: (bytes / row).max(1), next: 0 }
    }
}

/// The iterator that [`VectorFile::pieces`] returns.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    file: &'a VectorFile,
    rows_each: usize,
    next: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Result<(usize, Matrix)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, rows) = (self.next, self.file.rows());
        if first >= rows {
            return None;
        }
        let end = first.saturating_add(self.rows_each).min(rows);
        let piece = self.file.read(first..end);
        self.next = if piece.is_ok() { end } else { rows };
        Some(piece.map(|piece| (first, piece)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let pieces = (self.file.rows() - self.next).div_ceil(self.rows_each);
        (pieces.min(1), Some(pieces))
    }
}

impl FusedIterator for Pieces<'_> {}
