//! Vectors in the host's memory, of either element type.
//!
//! The public face takes a [`MatrixView`] of any [`Element`]. Below it the type is a value, so that what works on vectors is
//! compiled once, in this crate, and not again in every program.

use half::f16;

use crate::error::Result;
use crate::interrupt;
use crate::matrix::{Element, ElementKind, Matrix, MatrixView};
use crate::memory;

/// Borrowed vectors, `[rows, dim]` in C order, f32 or f16.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum HostVectors<'a> {
    /// f32 elements.
    F32(MatrixView<'a, f32>),
    /// f16 elements.
    F16(MatrixView<'a, f16>),
}

/// Runs an expression on the view inside a [`HostVectors`], whatever its element type.
macro_rules! with_view {
    ($vectors:expr, $view:ident => $run:expr) => {
        match $vectors {
            $crate::vectors::HostVectors::F32($view) => $run,
            $crate::vectors::HostVectors::F16($view) => $run,
        }
    };
}
pub(crate) use with_view;

impl<'a, T: Element> From<MatrixView<'a, T>> for HostVectors<'a> {
    fn from(view: MatrixView<'a, T>) -> Self {
        match T::KIND {
            ElementKind::F32 => Self::F32(view.cast()),
            ElementKind::F16 => Self::F16(view.cast()),
        }
    }
}

impl<'a> From<&'a Matrix> for HostVectors<'a> {
    /// # Panics
    /// When the dim is 0 or does not divide the number of elements.
    fn from(rows: &'a Matrix) -> Self {
        match rows {
            Matrix::F32(values, dim) => Self::F32(MatrixView::of_whole_rows(values, *dim)),
            Matrix::F16(values, dim) => Self::F16(MatrixView::of_whole_rows(values, *dim)),
        }
    }
}

impl<'a> HostVectors<'a> {
    /// How many vectors there are.
    pub fn rows(&self) -> usize {
        with_view!(self, view => view.rows())
    }

    /// Elements per vector.
    pub fn dim(&self) -> usize {
        with_view!(self, view => view.dim())
    }

    /// The element type.
    pub fn kind(&self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::F16(_) => ElementKind::F16,
        }
    }

    /// The vectors `start..end`, which must be within the rows.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::F32(view) => Self::F32(view.slice(range)),
            Self::F16(view) => Self::F16(view.slice(range)),
        }
    }

    /// Copies of some vectors, in the order of their numbers.
    pub(crate) fn chosen(&self, numbers: &[usize]) -> Result<Matrix> {
        fn copied<T: Element>(view: MatrixView<'_, T>, numbers: &[usize]) -> Result<Vec<T>> {
            let mut values = memory::with_room(numbers.len() * view.dim())?;
            for numbers in numbers.chunks((interrupt::WORK / view.dim()).max(1)) {
                interrupt::check()?;
                numbers.iter().for_each(|&number| values.extend_from_slice(view.row(number)));
            }
            Ok(values)
        }
        with_view!(self, view => Ok(Matrix::of(copied(*view, numbers)?, view.dim())))
    }

    /// All elements as they lie in memory.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        with_view!(self, view => bytemuck::cast_slice(view.values()))
    }

    /// All elements in f32, exactly.
    pub(crate) fn to_f32(self) -> Vec<f32> {
        with_view!(self, view => view.values().iter().map(|x| x.widen()).collect())
    }
}
