//! Borrowed values of any element type. The type is data here, so code that takes these is compiled once, in this crate, and not again in
//! every program.

use std::ops::Range;

use half::{bf16, f16};

use crate::elements::{Element, ElementKind, PackedBits, with_type};

/// Borrowed values of any element type, one after another.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Elements<'a> {
    /// f32 values.
    F32(&'a [f32]),
    /// f16 values.
    F16(&'a [f16]),
    /// bf16 values.
    BF16(&'a [bf16]),
    /// i8 values.
    I8(&'a [i8]),
    /// u8 values.
    U8(&'a [u8]),
    /// Bytes of eight bits.
    Bits(&'a [PackedBits]),
}

/// Runs an expression on the slice inside [`Elements`], whatever its type.
macro_rules! with_elements {
    ($elements:expr, $values:ident => $run:expr) => {
        match $elements {
            $crate::elements::Elements::F32($values) => $run,
            $crate::elements::Elements::F16($values) => $run,
            $crate::elements::Elements::BF16($values) => $run,
            $crate::elements::Elements::I8($values) => $run,
            $crate::elements::Elements::U8($values) => $run,
            $crate::elements::Elements::Bits($values) => $run,
        }
    };
}
pub(crate) use with_elements;

impl<'a, T: Element> From<&'a [T]> for Elements<'a> {
    fn from(values: &'a [T]) -> Self {
        match T::KIND {
            ElementKind::F32 => Self::F32(bytemuck::cast_slice(values)),
            ElementKind::F16 => Self::F16(bytemuck::cast_slice(values)),
            ElementKind::BF16 => Self::BF16(bytemuck::cast_slice(values)),
            ElementKind::I8 => Self::I8(bytemuck::cast_slice(values)),
            ElementKind::U8 => Self::U8(bytemuck::cast_slice(values)),
            ElementKind::Bits => Self::Bits(bytemuck::cast_slice(values)),
        }
    }
}

impl<'a> Elements<'a> {
    /// The values that bytes are, little endian; none where these are not aligned.
    pub(crate) fn of_bytes(kind: ElementKind, bytes: &'a [u8]) -> Option<Self> {
        with_type!(kind, T => bytemuck::try_cast_slice::<_, T>(bytes).ok().map(Self::from))
    }

    #[inline]
    pub(crate) fn kind(self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::F16(_) => ElementKind::F16,
            Self::BF16(_) => ElementKind::BF16,
            Self::I8(_) => ElementKind::I8,
            Self::U8(_) => ElementKind::U8,
            Self::Bits(_) => ElementKind::Bits,
        }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        with_elements!(self, values => values.len())
    }

    /// The values as they lie in memory.
    pub(crate) fn bytes(self) -> &'a [u8] {
        with_elements!(self, values => bytemuck::cast_slice(values))
    }

    #[inline]
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        with_elements!(self, values => values[range].into())
    }

    /// The values in f32: f32 ones as they lie, others widened into the start of `scratch`, which is at least as long.
    #[inline]
    pub(crate) fn widened<'s>(self, scratch: &'s mut [f32]) -> &'s [f32]
    where
        'a: 's,
    {
        if let Self::F32(values) = self {
            return values;
        }
        let wide = &mut scratch[..self.len()];
        self.widen_into(wide);
        wide
    }

    /// [`widened`](Self::widened) with scratch memory that grows as needed.
    pub(crate) fn widened_in<'s>(self, scratch: &'s mut Vec<f32>) -> &'s [f32]
    where
        'a: 's,
    {
        if !self.kind().is_wide() {
            scratch.resize(self.len(), 0.0);
        }
        self.widened(scratch)
    }

    /// Copies the values to a place as long, in f32.
    pub(crate) fn widen_into(self, wide: &mut [f32]) {
        with_elements!(self, values => Element::widen_all(values, wide));
    }
}
