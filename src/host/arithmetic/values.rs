//! Borrowed f32 or f16 values. The element type is data here, so code that takes these is compiled once.

use std::ops::Range;

use half::f16;

use crate::host::arithmetic::widen::widen;
use crate::matrix::{Element, ElementKind, MatrixView};

/// Values of either element type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HostValues<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
}

impl<'a, T: Element> From<&'a [T]> for HostValues<'a> {
    fn from(values: &'a [T]) -> Self {
        match T::KIND {
            ElementKind::F32 => Self::F32(bytemuck::cast_slice(values)),
            ElementKind::F16 => Self::F16(bytemuck::cast_slice(values)),
        }
    }
}

impl<'a> HostValues<'a> {
    #[inline]
    pub(crate) fn kind(self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::F16(_) => ElementKind::F16,
        }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
        }
    }

    #[inline]
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::F32(values) => Self::F32(&values[range]),
            Self::F16(values) => Self::F16(&values[range]),
        }
    }

    /// The values in f32: f32 ones as they lie, f16 ones widened into the start of `scratch`, which is at least as long.
    #[inline]
    pub(crate) fn widened<'s>(self, scratch: &'s mut [f32]) -> &'s [f32]
    where
        'a: 's,
    {
        match self {
            Self::F32(values) => values,
            Self::F16(values) => {
                let wide = &mut scratch[..values.len()];
                widen(values, wide);
                wide
            }
        }
    }

    /// [`widened`](Self::widened) with scratch memory that grows as needed.
    pub(crate) fn widened_in<'s>(self, scratch: &'s mut Vec<f32>) -> &'s [f32]
    where
        'a: 's,
    {
        if let Self::F16(values) = self {
            scratch.resize(values.len(), 0.0);
        }
        self.widened(scratch)
    }
}

/// Vectors of either element type, `[rows, dim]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostVectors<'a> {
    values: HostValues<'a>,
    dim: usize,
}

impl<'a, T: Element> From<MatrixView<'a, T>> for HostVectors<'a> {
    fn from(view: MatrixView<'a, T>) -> Self {
        Self { values: view.values().into(), dim: view.dim() }
    }
}

impl<'a> HostVectors<'a> {
    pub(crate) fn values(self) -> HostValues<'a> {
        self.values
    }

    pub(crate) fn dim(self) -> usize {
        self.dim
    }

    pub(crate) fn rows(self) -> usize {
        self.values.len() / self.dim
    }

    pub(crate) fn row(self, row: usize) -> HostValues<'a> {
        self.values.slice(row * self.dim..(row + 1) * self.dim)
    }

    /// The vectors `range.start..range.end`.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        Self { values: self.values.slice(range.start * self.dim..range.end * self.dim), dim: self.dim }
    }
}
