//! Borrowed f32 or f16 values. The element type is data here, so code that takes these is compiled once.

use std::ops::Range;

use half::f16;

use crate::host::arithmetic::widen::widen;
use crate::matrix::{Element, ElementKind};
use crate::vectors::HostVectors;

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

    /// The values as they lie in memory.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F16(values) => bytemuck::cast_slice(values),
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

impl<'a> HostVectors<'a> {
    /// All elements, row after row.
    pub(crate) fn values(self) -> HostValues<'a> {
        match self {
            Self::F32(view) => HostValues::F32(view.values()),
            Self::F16(view) => HostValues::F16(view.values()),
        }
    }

    /// The elements of one row.
    pub(crate) fn row(self, row: usize) -> HostValues<'a> {
        self.values().slice(row * self.dim()..(row + 1) * self.dim())
    }
}
