//! Vectors on the host whose element type is known: a borrowed view, and an owned matrix.

use half::{bf16, f16};

use crate::elements::{Element, ElementKind, PackedBits, with_type};
use crate::error::{Error, Result};
use crate::memory;

/// Borrowed vectors, `[rows, dim]` in C order without gaps.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<'a, T> {
    values: &'a [T],
    dim: usize,
}

impl<'a, T: Element> MatrixView<'a, T> {
    /// Views `values` as rows of `dim` elements each.
    ///
    /// # Errors
    /// [`Error::Argument`] if `dim` is 0 or does not divide the length of `values`.
    ///
    /// ```
    /// let rows = nearfield::MatrixView::new(&[1.0f32, 2.0, 3.0, 4.0], 2)?;
    /// assert_eq!((rows.rows(), rows.dim()), (2, 2));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn new(values: &'a [T], dim: usize) -> Result<Self> {
        if dim == 0 {
            return Err(Error::argument("dim", "at least 1", dim));
        }
        if !values.len().is_multiple_of(dim) {
            let needed = format!("a multiple of dim = {dim} elements");
            return Err(Error::argument("values", needed, format!("{} elements", values.len())));
        }
        Ok(Self { values, dim })
    }

    /// [`MatrixView::new`] for values that are known to be whole rows.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn of_whole_rows(values: &'a [T], dim: usize) -> Self {
        assert!(dim > 0 && values.len().is_multiple_of(dim), "a matrix of whole rows of {dim} elements");
        Self { values, dim }
    }

    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.values.len() / self.dim
    }

    /// Elements per vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All elements, row after row.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// One vector.
    ///
    /// # Panics
    /// If `row` is not below [`rows`](Self::rows).
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.values[row * self.dim..][..self.dim]
    }

    /// The vectors `start..end`.
    ///
    /// # Panics
    /// If the range is not within the rows.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self { values: &self.values[range.start * self.dim..range.end * self.dim], dim: self.dim }
    }
}

/// Owned vectors, `[rows, dim]` in C order. The readers of `nearfield::io` return them.
#[derive(Debug, Clone, PartialEq)]
pub enum Matrix {
    /// f32 elements, and the dim.
    F32(Vec<f32>, usize),
    /// f16 elements, and the dim.
    F16(Vec<f16>, usize),
    /// bf16 elements, and the dim.
    BF16(Vec<bf16>, usize),
    /// i8 elements, and the dim.
    I8(Vec<i8>, usize),
    /// u8 elements, and the dim.
    U8(Vec<u8>, usize),
    /// Bytes of eight bits, and how many of them a vector has.
    Bits(Vec<PackedBits>, usize),
}

/// Runs an expression on the vector and the dim inside a [`Matrix`], whatever its type.
macro_rules! with_matrix {
    ($matrix:expr, $values:ident, $dim:ident => $run:expr) => {
        match $matrix {
            $crate::elements::Matrix::F32($values, $dim) => $run,
            $crate::elements::Matrix::F16($values, $dim) => $run,
            $crate::elements::Matrix::BF16($values, $dim) => $run,
            $crate::elements::Matrix::I8($values, $dim) => $run,
            $crate::elements::Matrix::U8($values, $dim) => $run,
            $crate::elements::Matrix::Bits($values, $dim) => $run,
        }
    };
}
pub(crate) use with_matrix;

impl Matrix {
    /// Copies vectors that lie apart, such as `&[Vec<f32>]`, `[rows]` of `[dim]` each.
    ///
    /// # Errors
    /// [`Error::Argument`] for no vectors, vectors of different lengths, or empty ones; [`Error::OutOfMemory`].
    ///
    /// ```
    /// let matrix = nearfield::Matrix::from_rows(&[vec![1.0f32, 2.0], vec![3.0, 4.0]])?;
    /// assert_eq!((matrix.rows(), matrix.dim()), (2, 2));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn from_rows<T: Element>(rows: &[impl AsRef<[T]>]) -> Result<Self> {
        let dim = rows.first().map_or(0, |row| row.as_ref().len());
        if dim == 0 {
            return Err(Error::argument("rows", "vectors of at least one element", "none"));
        }
        if let Some(row) = rows.iter().position(|row| row.as_ref().len() != dim) {
            let given = format!("{} in row {row}", rows[row].as_ref().len());
            return Err(Error::argument("rows", format!("vectors of {dim} elements, as the first"), given));
        }
        let mut values: Vec<T> = memory::with_room(rows.len().saturating_mul(dim))?;
        rows.iter().for_each(|row| values.extend_from_slice(row.as_ref()));
        Ok(Self::of(values, dim))
    }

    /// No vectors yet, with memory for `rows` of them.
    ///
    /// # Errors
    /// [`Error::Argument`] for dim 0; [`Error::OutOfMemory`].
    pub fn with_room(kind: ElementKind, rows: usize, dim: usize) -> Result<Self> {
        if dim == 0 {
            return Err(Error::argument("dim", "at least 1", dim));
        }
        with_type!(kind, T => Ok(Self::of::<T>(memory::with_room(rows.saturating_mul(dim))?, dim)))
    }

    /// Elements of any type.
    pub(crate) fn of<T: Element>(values: Vec<T>, dim: usize) -> Self {
        match T::KIND {
            ElementKind::F32 => Self::F32(bytemuck::cast_vec(values), dim),
            ElementKind::F16 => Self::F16(bytemuck::cast_vec(values), dim),
            ElementKind::BF16 => Self::BF16(bytemuck::cast_vec(values), dim),
            ElementKind::I8 => Self::I8(bytemuck::cast_vec(values), dim),
            ElementKind::U8 => Self::U8(bytemuck::cast_vec(values), dim),
            ElementKind::Bits => Self::Bits(bytemuck::cast_vec(values), dim),
        }
    }

    /// Elements from their bytes, which need not be aligned.
    pub(crate) fn of_bytes(kind: ElementKind, bytes: &[u8], dim: usize) -> Result<Self> {
        fn values<T: Element>(bytes: &[u8]) -> Result<Vec<T>> {
            let mut values = memory::filled(bytes.len() / size_of::<T>(), T::zeroed())?;
            bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
            Ok(values)
        }
        with_type!(kind, T => Ok(Self::of(values::<T>(bytes)?, dim)))
    }

    /// Number of vectors; 0 for dim 0.
    pub fn rows(&self) -> usize {
        with_matrix!(self, values, dim => values.len().checked_div(*dim).unwrap_or(0))
    }

    /// Elements per vector.
    pub fn dim(&self) -> usize {
        with_matrix!(self, _values, dim => *dim)
    }

    /// The element type.
    pub fn kind(&self) -> ElementKind {
        fn of<T: Element>(_: &[T]) -> ElementKind {
            T::KIND
        }
        with_matrix!(self, values, _dim => of(values))
    }

    /// The same vectors with elements of this type, each the nearest ([`Element::nearest`]): every type widens to f32 exactly. Numbers of
    /// 65,520 and more become infinite in f16, which indexes refuse; integers end at the limits of their type.
    #[must_use]
    pub fn to_kind(self, kind: ElementKind) -> Self {
        if self.kind() == kind {
            return self;
        }
        with_type!(kind, T => with_matrix!(self, values, dim => {
            Self::of(values.into_iter().map(|value| T::nearest(value.widen())).collect(), dim)
        }))
    }

    /// The elements in f32, exactly.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Self::F32(values, _) => values,
            other => with_matrix!(other, values, _dim => values.into_iter().map(Element::widen).collect()),
        }
    }
}
