//! Reads files of vectors.

use std::borrow::Cow;
use std::iter::FusedIterator;
use std::ops::Range;
use std::path::Path;

use super::convert::{as_is, packed, to_f32};
use super::element_type::ElementType;
use super::formats::text::{Form, TextTable};
use super::input::Input;
use super::location::Location;
use super::open::{Accepted, Format, open};
use super::table::{Table, reserve};
use crate::elements::{ElementKind, Matrix, with_type};
use crate::error::{Error, Result};
use crate::files::{PositionedFile, mismatch};

const VECTORS: Accepted = Accepted {
    formats: &[
        ("npy", Format::Npy),
        ("npz", Format::Npz),
        ("safetensors", Format::Tensors),
        #[cfg(feature = "hdf5")]
        ("hdf5", Format::Hdf5),
        #[cfg(feature = "hdf5")]
        ("h5", Format::Hdf5),
        ("csv", Format::Text(Form::Separated)),
        ("tsv", Format::Text(Form::Separated)),
        ("jsonl", Format::Text(Form::Json)),
        ("ndjson", Format::Text(Form::Json)),
        ("fvecs", Format::RowHeaders(ElementType::F32)),
        ("bvecs", Format::RowHeaders(ElementType::U8)),
        ("fbin", Format::Header(ElementType::F32)),
        ("f16bin", Format::Header(ElementType::F16)),
        ("bf16bin", Format::Header(ElementType::BF16)),
        ("u8bin", Format::Header(ElementType::U8)),
        ("i8bin", Format::Header(ElementType::I8)),
    ],
    floats: true,
    dimensions: 2,
    member: None,
};

/// An open file of vectors, `[rows, dim]`.
///
/// Reading takes `&self` and keeps no position, so many threads can share one file. Files are not held in memory. A deflated
/// npz member is decoded from its start: ranges in ascending order cost one pass over the member in total; a range before the last
/// one starts a new pass, and so does each range of an array in Fortran order.
#[derive(Debug)]
pub struct VectorFile {
    rows: Rows,
    of_bits: bool,
}

/// Where the rows are.
#[derive(Debug)]
enum Rows {
    Binary(Table),
    Text(TextTable),
}

impl VectorFile {
    /// Opens a file by its [extension](super). A text file is read once to count its lines.
    ///
    /// `FILE.npz:MEMBER`, `FILE.safetensors:TENSOR` and `FILE.hdf5:GROUP/DATASET` name an array; the file alone stands for its only 2-D array of floats, or
    /// of integers if it has none of floats. `FILE.jsonl:FIELD` names the field of objects that holds the vectors.
    ///
    /// `-` stands for the standard input, of at most 2 GiB, which is kept in memory. Its first bytes tell the format: npy, npz,
    /// safetensors, HDF5, JSON lines or CSV.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened or read. [`Error::File`] if it is no regular file, the extension is unknown,
    /// the content does not match the extension, the length does not match the header, the elements are no numbers, or a file
    /// has no such array.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(Input::open(path.as_ref())?)
    }

    /// [`open`](Self::open) for the bytes of a file in memory. The extension of `name`, which may name an array like a path, tells
    /// the format.
    ///
    /// ```
    /// let file = nearfield::io::VectorFile::from_bytes("rows.csv", &b"0.5, 1, 2\n3, 4, 5\n"[..])?;
    /// assert_eq!((file.rows(), file.dim()), (2, 3));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(name: impl AsRef<Path>, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self> {
        let file = PositionedFile::of_bytes(bytes.into());
        Self::new(Input { location: Location::new(name.as_ref()), file })
    }

    fn new(input: Input) -> Result<Self> {
        let rows = match VECTORS.format(&input)? {
            Format::Text(form) => {
                let Location { file: path, member, .. } = input.location;
                Rows::Text(TextTable::open(&path, input.file, form, member)?)
            }
            _ => Rows::Binary(open(input, &VECTORS)?),
        };
        Ok(Self { rows, of_bits: false })
    }

    /// The same file, whose bytes are of eight bits each: [`ElementKind::Bits`]. Bools of numpy in C order are packed, the first of eight as the
    /// highest bit, as numpy's `packbits` does. No file tells that it has bits, so nothing else makes them.
    ///
    /// ```
    /// use nearfield::{Matrix, PackedBits, io::VectorFile};
    ///
    /// let bytes = [1u32.to_le_bytes(), 2u32.to_le_bytes()].concat().into_iter().chain([0b1000_0001, 255]);
    /// let file = VectorFile::from_bytes("rows.u8bin", bytes.collect::<Vec<u8>>())?.of_bits()?;
    /// assert_eq!(file.read_all()?, Matrix::Bits(vec![PackedBits(129), PackedBits(255)], 2));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] for elements other than u8 and bool, and for a number of bools that is no multiple of eight.
    pub fn of_bits(self) -> Result<Self> {
        let needed = "bits: bytes of eight (u8), or bools in C order, a multiple of eight a row";
        let found = match &self.rows {
            Rows::Text(_) => "text".to_owned(),
            Rows::Binary(table) => match table.element() {
                ElementType::U8 => return Ok(Self { of_bits: true, ..self }),
                ElementType::Bool if table.dim.is_multiple_of(8) && !table.layout.is_fortran => {
                    return Ok(Self { of_bits: true, ..self });
                }
                other => {
                    let order = if table.layout.is_fortran { " in Fortran order" } else { "" };
                    format!("{} of {}{order}", table.dim, other.name())
                }
            },
        };
        Err(mismatch(self.path(), needed, found))
    }

    /// Whether eight bools become one element.
    fn is_packed(&self) -> bool {
        self.of_bits && matches!(&self.rows, Rows::Binary(table) if table.element() == ElementType::Bool)
    }

    fn about(&self) -> (&Path, [usize; 2]) {
        match &self.rows {
            Rows::Binary(table) => (&table.path, [table.rows, table.dim]),
            Rows::Text(table) => (&table.path, [table.rows, table.dim]),
        }
    }

    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.about().1[0]
    }

    /// Elements per vector, at least 1.
    pub fn dim(&self) -> usize {
        self.about().1[1] / if self.is_packed() { 8 } else { 1 }
    }

    /// The element type that reading returns: that of files of f16, bf16, i8 and u8, and of [bits](Self::of_bits), f32 for all others.
    pub fn kind(&self) -> ElementKind {
        match &self.rows {
            _ if self.of_bits => ElementKind::Bits,
            Rows::Binary(table) => table.element().kept().unwrap_or_default(),
            Rows::Text(_) => ElementKind::F32,
        }
    }

    /// The path of the vectors. For an archive it is `FILE.npz:MEMBER`, even if no member was given.
    pub fn path(&self) -> &Path {
        self.about().0
    }

    /// What reading changes, as a note for people: `float64 rounded to float32`, say. `None` if the file has elements as the
    /// library uses them.
    pub fn converted(&self) -> Option<String> {
        let table = match &self.rows {
            Rows::Binary(table) => table,
            Rows::Text(table) => return table.has_header.then(|| "without its header line".to_owned()),
        };
        let element = match table.element() {
            element if element.kept().is_some() => None,
            ElementType::Bool if self.of_bits => Some("bool to bits".to_owned()),
            ElementType::F64 => Some("float64 rounded to float32".to_owned()),
            element => Some(format!("{} to float32", element.name())),
        };
        let order = table.layout.is_big_endian.then(|| "from big endian".to_owned());
        let layout = table.layout.is_fortran.then(|| "from Fortran order".to_owned());
        let notes: Vec<_> = [element, order, layout].into_iter().flatten().collect();
        (!notes.is_empty()).then(|| notes.join(", "))
    }

    /// Reads the vectors `range` into one allocation, `[range.len(), dim]`, in small pieces.
    ///
    /// # Errors
    /// [`Error::Argument`] if the range is not within the rows. [`Error::Io`] if the file cannot be read or memory runs out.
    /// [`Error::File`] if the dim of a row differs from the first, a line is no row of numbers, an integer is not exact in f32,
    /// or a number exceeds the largest f32.
    pub fn read(&self, range: Range<usize>) -> Result<Matrix> {
        if range.start > range.end || range.end > self.rows() {
            let (needed, given) = (format!("a range within 0..{}", self.rows()), format!("{range:?}"));
            return Err(Error::Argument { argument: "range", needed, given });
        }
        let dim = self.dim();
        match &self.rows {
            Rows::Binary(table) if self.is_packed() => Ok(Matrix::Bits(table.read(range, packed)?, dim)),
            Rows::Binary(table) if self.of_bits => Ok(Matrix::Bits(table.read(range, as_is)?, dim)),
            Rows::Binary(table) => match table.element().kept() {
                None => {
                    let convert =
                        |bytes: &[u8], values: &mut Vec<f32>| to_f32(table.element(), bytes, values);
                    Ok(Matrix::F32(table.read(range, convert)?, dim))
                }
                Some(kept) => with_type!(kept, T => Ok(Matrix::of(table.read(range, as_is::<T>)?, dim))),
            },
            Rows::Text(table) => {
                let mut values = reserve(&table.path, range.len().saturating_mul(dim))?;
                table.read(range, &mut values)?;
                Ok(Matrix::F32(values, dim))
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
