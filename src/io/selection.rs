//! Reads ids of rows, and choices of rows, from one-dimensional numpy arrays.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use npyz::{DType, Deserialize, NpyFile, TypeChar};

use crate::error::{Error, Result};
use crate::files::{failed, mismatch};
use crate::filter::Filter;

/// A choice of rows that a file holds.
///
/// ```no_run
/// use nearfield::{Device, Index, MatrixView, SearchOptions, io};
/// let index = Index::load(&Device::best()?, "index.nf")?;
/// let allowed = io::read_selection("allowed.npy")?;
/// let options = SearchOptions::new(10).filter(allowed.filter());
/// let found = index.search_with(MatrixView::new(&[0.0f32; 384], 384)?, &options)?;
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selection {
    /// The ids of the chosen rows, in any order.
    Ids(Vec<u64>),
    /// One bit for each id, as [`Filter::bits`] takes them, and how many there are.
    Mask(Vec<u64>, usize),
}

impl Selection {
    /// The filter of a search that returns only these rows.
    pub fn filter(&self) -> Filter<'_> {
        match self {
            Self::Ids(ids) => Filter::ids(ids),
            Self::Mask(words, _) => Filter::bits(words),
        }
    }
}

/// Reads a choice of rows from `.npy`: a 1-D array of ids (whole numbers of any type), or of bool, whose element i is for id i.
///
/// # Errors
/// [`Error::File`] for another array, a negative id or a damaged file; [`Error::Io`] when it cannot be read.
pub fn read_selection(path: impl AsRef<Path>) -> Result<Selection> {
    let path = path.as_ref();
    let array = Array::open(path, "a 1-D array of ids (whole numbers) or of bool")?;
    if let DType::Plain(plain) = array.file.dtype()
        && plain.type_char() == TypeChar::Bool
    {
        let flags: Vec<bool> = array.values()?;
        let word = |flags: &[bool]| flags.iter().rev().fold(0, |word, &flag| word << 1 | u64::from(flag));
        return Ok(Selection::Mask(flags.chunks(64).map(word).collect(), flags.len()));
    }
    array.ids().map(Selection::Ids)
}

/// Reads ids of rows, one a row, from `.npy`: a 1-D array of whole numbers of any type.
///
/// # Errors
/// As [`read_selection`].
pub fn read_row_ids(path: impl AsRef<Path>) -> Result<Vec<u64>> {
    Array::open(path.as_ref(), "a 1-D array of ids (whole numbers)")?.ids()
}

/// An open array whose length is that of its file.
struct Array<'p> {
    path: &'p Path,
    needed: &'static str,
    file: NpyFile<BufReader<File>>,
}

impl<'p> Array<'p> {
    fn open(path: &'p Path, needed: &'static str) -> Result<Self> {
        let opened = File::open(path).map_err(failed(path))?;
        let metadata = opened.metadata().map_err(failed(path))?;
        if !metadata.is_file() {
            return Err(mismatch(path, needed, "something else than a file"));
        }
        let file = NpyFile::new(BufReader::new(opened))
            .map_err(|error| mismatch(path, needed, error.to_string()))?;
        let array = Self { path, needed, file };
        let size = match array.file.dtype() {
            DType::Plain(plain) => plain.num_bytes().unwrap_or(0) as u64,
            _ => 0,
        };
        let fits = array.file.len().checked_mul(size).is_some_and(|bytes| bytes <= metadata.len());
        if array.file.shape().len() != 1 || size == 0 || !fits {
            return Err(array.mismatch());
        }
        Ok(array)
    }

    fn mismatch(&self) -> Error {
        let (shape, dtype) = (self.file.shape(), self.file.dtype().descr());
        mismatch(self.path, self.needed, format!("an array {shape:?} of dtype {dtype}"))
    }

    fn values<T: Deserialize>(self) -> Result<Vec<T>> {
        let path = self.path;
        self.file.into_vec().map_err(failed(path))
    }

    /// The values as ids.
    fn ids(self) -> Result<Vec<u64>> {
        let DType::Plain(plain) = self.file.dtype() else { return Err(self.mismatch()) };
        match (plain.type_char(), plain.num_bytes()) {
            (TypeChar::Int, Some(1)) => self.ids_of::<i8>(),
            (TypeChar::Int, Some(2)) => self.ids_of::<i16>(),
            (TypeChar::Int, Some(4)) => self.ids_of::<i32>(),
            (TypeChar::Int, Some(8)) => self.ids_of::<i64>(),
            (TypeChar::Uint, Some(1)) => self.ids_of::<u8>(),
            (TypeChar::Uint, Some(2)) => self.ids_of::<u16>(),
            (TypeChar::Uint, Some(4)) => self.ids_of::<u32>(),
            (TypeChar::Uint, Some(8)) => self.values(),
            _ => Err(self.mismatch()),
        }
    }

    fn ids_of<T: Deserialize + TryInto<u64> + Copy + std::fmt::Display>(self) -> Result<Vec<u64>> {
        let path = self.path;
        let id = |(place, value): (usize, T)| {
            value.try_into().map_err(|_| mismatch(path, "ids of 0 or more", format!("{value} at {place}")))
        };
        self.values()?.into_iter().enumerate().map(id).collect()
    }
}
